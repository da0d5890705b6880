package chart

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/test/apiserver"
)

const (
	folder    = "../../chart/selvage"
	namespace = "selvage-system"
	release   = "egress"
	node      = "n1"
)

// server is that of all tests of the package; the chart is installed, and has a pod of an agent on a node.
var (
	server *apiserver.Server
	admin  client.Client
	pod    = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: namespace},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: release + "-agent", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if testing.Short() { // then every test skips
		return m.Run()
	}
	ctrl.SetLogger(logr.Discard())
	if err := start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Close()
	return m.Run()
}

func start(ctx context.Context) (err error) {
	if server, err = apiserver.Start(ctx); err != nil {
		return err
	}
	if _, err = upgrade(ctx); err != nil {
		return err
	}
	scheme, err := controller.Scheme()
	if err != nil {
		return err
	}
	if admin, err = client.New(server.Admin(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24"}}}
	if err := admin.Create(ctx, n); err != nil {
		return err
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	if err := admin.Status().Update(ctx, n); err != nil {
		return err
	}
	return admin.Create(ctx, pod)
}

// upgrade installs the chart, or another version of it, with values.
func upgrade(ctx context.Context, values ...string) (string, error) {
	argv := []string{"upgrade", "--install", release, folder, "--namespace", namespace, "--create-namespace", "--reset-values"}
	for _, v := range values {
		argv = append(argv, "--set-json", v)
	}
	return server.Run(ctx, "helm", argv...)
}
