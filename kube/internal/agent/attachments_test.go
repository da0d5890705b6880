package agent

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/selvage/selvage/kube/internal/hold"
	"github.com/selvage/selvage/kube/internal/plan"
)

var first, second, third = netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00::3")

func podAt(name string, addresses ...netip.Addr) plan.Pod {
	return plan.Pod{Namespace: "shop", Name: name, Labels: labels.Set{"app": "web"}, Addresses: addresses, Phase: corev1.PodRunning}
}

func attachmentOf(pod plan.Pod, addresses ...netip.Addr) *attachment {
	return &attachment{Attachment: hold.Attachment{ID: pod.Name, Namespace: pod.Namespace, Name: pod.Name, Addresses: addresses}, pod: &pod, namespace: labels.Set{"egress": "yes"}, ready: make(chan struct{})}
}

// An attachment has the addresses of its sandbox and no others, and what another pod still says that it has is not that one's.
func TestInto(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pods []plan.Pod
		of   *attachment
		want map[string][]netip.Addr
	}{
		"without addresses":       {[]plan.Pod{podAt("a")}, attachmentOf(podAt("a"), first), map[string][]netip.Addr{"a": {first}}},
		"unknown to the cache":    {nil, attachmentOf(podAt("a"), first), map[string][]netip.Addr{"a": {first}}},
		"a sandbox made anew":     {[]plan.Pod{podAt("a", first, third)}, attachmentOf(podAt("a", first, third), second), map[string][]netip.Addr{"a": {second}}},
		"an address given again":  {[]plan.Pod{podAt("a", first, third), podAt("b")}, attachmentOf(podAt("b"), first), map[string][]netip.Addr{"a": {third}, "b": {first}}},
		"nothing to do with this": {[]plan.Pod{podAt("a", first)}, attachmentOf(podAt("b"), second), map[string][]netip.Addr{"a": {first}, "b": {second}}},
	} {
		in := plan.Input{Namespaces: map[string]labels.Set{}, Pods: c.pods}
		c.of.into(&in)
		if len(in.Pods) != len(c.want) {
			t.Errorf("%s: %d pods", name, len(in.Pods))
		}
		for _, p := range in.Pods {
			if !slices.Equal(p.Addresses, c.want[p.Name]) {
				t.Errorf("%s: %s has %v", name, p.Name, p.Addresses)
			}
		}
		if in.Namespaces["shop"]["egress"] != "yes" {
			t.Errorf("%s: labels of its namespace are %v", name, in.Namespaces["shop"])
		}
	}
	in := plan.Input{Namespaces: map[string]labels.Set{"shop": {"egress": "no"}}}
	attachmentOf(podAt("a"), first).into(&in)
	if in.Namespaces["shop"]["egress"] != "no" {
		t.Errorf("what the cache has of a namespace is %v", in.Namespaces["shop"])
	}
}

// A pod may start when its addresses are in all groups that the plan has them in, and packets are steered.
func TestHas(t *testing.T) {
	t.Parallel()
	p := plan.Plan{Groups: map[string][]netip.Addr{"one": {first, second}, "two": {second}}}
	all := map[string][]netip.Addr{"one": {first, second}, "two": {second}}
	for name, c := range map[string]struct {
		found Found
		of    netip.Addr
		want  bool
	}{
		"in force":           {Found{Steered: true, Members: all}, second, true},
		"of no group":        {Found{Steered: true}, third, true},
		"not steered":        {Found{Members: all}, second, false},
		"a group lacks it":   {Found{Steered: true, Members: map[string][]netip.Addr{"one": {first, second}}}, second, false},
		"another is lacking": {Found{Steered: true, Members: map[string][]netip.Addr{"one": {first}}}, first, true},
	} {
		if got := c.found.has(p, []netip.Addr{c.of}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Files are what counts: an attachment whose file is gone is none, and a file makes one. What cannot be read goes.
func TestRead(t *testing.T) {
	t.Parallel()
	r := newAttachments(t.TempDir())
	a, b := attachmentOf(podAt("a"), first), attachmentOf(podAt("b"), second)
	for _, one := range []*attachment{a, b} {
		if err := r.add(one); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.files.Drop("a"); err != nil {
		t.Fatal(err)
	}
	for _, of := range []*attachments{r, newAttachments(r.files.Folder)} {
		if err := of.read(); err != nil {
			t.Fatal(err)
		}
		list := of.all()
		if len(list) != 1 || list[0].Name != "b" || list[0].Addresses[0] != second {
			t.Errorf("%+v", list)
		}
	}
	in := plan.Input{Namespaces: map[string]labels.Set{}}
	if joined := newAttachments(t.TempDir()).join(&in); len(joined) != 0 {
		t.Errorf("%+v", joined)
	}
	for range hold.Most {
		c := attachmentOf(podAt("c"), first)
		c.ID = "c" + string(rune('a'+len(r.list)%26)) + string(rune('a'+len(r.list)/26))
		if err := r.add(c); err != nil {
			if again := r.add(b); again != nil {
				t.Errorf("one that has its place: %v", again)
			}
			return
		}
	}
	t.Error("there is no end of attachments")
}
