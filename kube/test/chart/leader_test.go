package chart

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/test/apiserver"
	"github.com/selvage/selvage/test/tier"
)

// A controller that is killed amid its work has given nothing that the next one gives to others or takes back.
func TestLeaderChange(t *testing.T) {
	tier.Slow(t)
	ctx, program := t.Context(), build(t)
	ownLease(t)
	config, _ := as(t, "controller", nil)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := apiserver.WriteKubeconfig(file, config); err != nil {
		t.Fatal(err)
	}
	start := func() (kill func()) {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), program, "controller", "--lease-namespace="+namespace)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() } // or it was before
		t.Cleanup(kill)
		return kill
	}
	fact := func(what string, try func() error) {
		t.Helper()
		if err := await.Within(ctx, 2*patience, what, try); err != nil {
			t.Fatal(err)
		}
	}
	kill := start()
	fact("the first controller leads", func() error {
		return admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: controller.Lease}, &coordinationv1.Lease{})
	})
	start()
	create(t, &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: "many"}, Spec: v1alpha1.EgressGatewaySpec{
		Addresses: []v1alpha1.AddressRange{"203.0.113.0/24"}, Uplink: v1alpha1.Uplink{Interface: "eth1", NextHops: []string{"203.0.113.1"}},
	}})
	const policies = 60
	given := map[string]string{}
	read := func() (addresses map[string]string, err error) {
		var list v1alpha1.EgressPolicyList
		if err := admin.List(ctx, &list, client.InNamespace("default")); err != nil {
			return nil, err
		}
		addresses = map[string]string{}
		for _, p := range list.Items {
			for _, a := range p.Status.Addresses {
				if other := addresses[a]; other != "" {
					t.Errorf("%s is that of %s and %s", a, other, p.Name)
				}
				addresses[a] = p.Name
			}
		}
		return addresses, nil
	}
	for i := range policies {
		create(t, &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i)}, Spec: v1alpha1.EgressPolicySpec{Gateway: "many"}})
		if i == policies/2 {
			fact("the first controller gives addresses", func() (err error) {
				if given, err = read(); err == nil && len(given) == 0 {
					err = fmt.Errorf("it gave none")
				}
				return err
			})
			kill()
		}
	}
	fact("the second controller gives the rest", func() error {
		now, err := read()
		if err == nil && len(now) < policies {
			err = fmt.Errorf("%d of %d have addresses", len(now), policies)
		}
		for a, name := range given {
			if now[a] != name {
				t.Errorf("%s was that of %s, and is now that of %q", a, name, now[a])
			}
		}
		return err
	})
}
