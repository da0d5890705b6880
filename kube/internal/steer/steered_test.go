package steer_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/test/e2e/harness"
)

// What a node steers is read back, and a pod is found while its interface is there, by neighbours that the kernel has to ask anew.
func TestSteeredAndFound(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.setup()
	s.apply([]plan.Steer{{Policy: "shop/all", Pods: addrs("10.244.1.2", "fd02::2"), To: prefixes("198.51.100.0/24", "2001:db8::/32")}, {Policy: "shop/held", Pods: addrs("10.244.1.9"), Held: true}})
	s.must(s.node.Do(func() error {
		got, err := s.Steered(t.Context())
		if len(got) != 2 || !slices.Equal(got["shop/all"], addrs("10.244.1.2", "fd02::2")) || !slices.Equal(got["shop/held"], addrs("10.244.1.9")) {
			t.Errorf("steered: %v", got)
		}
		return err
	}))
	found := func(a netip.Addr, want bool) {
		t.Helper()
		is := !want
		for deadline := time.Now().Add(2 * harness.Patience); is != want && time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
			s.must(s.node.Do(func() (err error) { is, err = s.Finds(a); return err }))
		}
		if is != want {
			t.Errorf("%s is found: %t", a, is)
		}
	}
	for _, a := range all[0].Pods {
		found(a, true)
	}
	_, err := s.pod.Output(t.Context(), "ip", "link", "set", "eth0", "down")
	s.must(err)
	for _, a := range append(addrs("10.244.1.200", "198.51.100.1"), all[0].Pods...) {
		found(a, false)
	}
}
