package chart

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/selvage/selvage/internal/await"
	kinds "github.com/selvage/selvage/kube/chart"
	"github.com/selvage/selvage/test/tier"
)

// Kinds of an older version stay when the chart is upgraded. That is said, with what they lack, to an account without a right for it;
// what the message names mends it.
func TestOlderKinds(t *testing.T) {
	tier.Slow(t)
	config, _ := as(t, "controller", nil)
	if err := kinds.Older(t.Context(), config); err != nil {
		t.Error(err)
	}
	mend := older(t, "egressgateways", `{"op": "remove", "path": "%s/status/properties/nodes/items/properties/ownAddresses"}`,
		`{"op": "replace", "path": "%s/spec/properties/mode/enum", "value": ["ActiveStandby"]}`)
	_, err := upgrade(t.Context())
	said := kinds.Older(t.Context(), config)
	const want = "without EgressGateway.spec.mode: ActiveActive, EgressGateway.status.nodes[].ownAddresses: run helm show crds CHART | kubectl apply --server-side --force-conflicts -f -"
	if err != nil || said == nil || !strings.HasSuffix(said.Error(), want) {
		t.Errorf("%v; it says %v", err, said)
	}
	mend()
	if err := kinds.Older(t.Context(), config); err != nil {
		t.Error(err)
	}
}

// older has the API server's kind be changed, until mend does what the message says, or the test ends.
func older(t *testing.T, kind string, changes ...string) (mend func()) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	patch := strings.ReplaceAll("["+strings.Join(changes, ",")+"]", "%s", "/spec/versions/0/schema/openAPIV3Schema/properties")
	if _, err := server.Run(ctx, "kubectl", "patch", "crd", kind+".selvage.dev", "--type=json", "-p", patch); err != nil {
		t.Fatal(err)
	}
	said := func(is bool) { // the API server publishes a change later
		err := await.Within(ctx, patience, "what is published of the kinds", func() error {
			if err := kinds.Older(ctx, server.Admin()); (err != nil) != is {
				return errors.Join(errors.New("it is not the new one"), err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(t.TempDir(), "crds.yaml")
	mend = sync.OnceFunc(func() {
		text, err := server.Run(ctx, "helm", "show", "crds", folder)
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o600)
		}
		if err == nil {
			_, err = server.Run(ctx, "kubectl", "apply", "--server-side", "--force-conflicts", "-f", file)
		}
		if err != nil {
			t.Error(err)
		}
		said(false)
	})
	t.Cleanup(mend)
	said(true)
	return mend
}
