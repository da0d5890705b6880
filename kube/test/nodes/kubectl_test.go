package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/internal/why"
	"github.com/selvage/selvage/kube/test/apiserver"
	"github.com/selvage/selvage/kube/test/guide"
	"github.com/selvage/selvage/lab/dut"
)

// plugin is that of kubectl, for a user with the rights that the guide names.
type plugin struct {
	*managed
	kubeconfig string
}

// buildPlugin begins to build it; the function is the folder, when it is there.
func buildPlugin(t *testing.T) (folder func() string) {
	t.Helper()
	dir, built := t.TempDir(), make(chan error, 1)
	// Of the version that the lab's agents of the test have, which is the test's own: without a commit.
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "kubectl-selvage"), "../../cmd/kubectl-selvage")
	go func() {
		out, err := build.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build kubectl-selvage: %w\n%s", err, out)
		}
		built <- err
	}()
	return func() string {
		if err := <-built; err != nil {
			t.Fatal(err)
		}
		return dir
	}
}

func (b *managed) plugin(folder string) *plugin {
	b.T.Helper()
	b.server.Plugins = folder
	b.kubectl("apply", "-f", "../../examples/kubectl-selvage.yaml")
	const user = "user"
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: release + "-" + user, Namespace: namespace}}
	b.Must(b.c.Create(b.Ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: subjects[0].Name, Namespace: namespace}}))
	b.Must(b.c.Create(b.Ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "kubectl-selvage-why", APIGroup: rbacv1.GroupName},
	}))
	b.Must(b.c.Create(b.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: namespace}, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "kubectl-selvage-trace", APIGroup: rbacv1.GroupName},
	}))
	b.Must(b.c.Create(b.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user + "-stages", Namespace: namespace}, Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "kubectl-selvage-stages", APIGroup: rbacv1.GroupName},
	}))
	file := filepath.Join(b.T.TempDir(), user)
	b.Must(apiserver.WriteKubeconfig(file, b.as(user, nil)))
	return &plugin{b, file}
}

// says is what kubectl selvage says, with the names of the guide for nodes, and its exit status.
func (p *plugin) says(argv ...string) (said string, status int) {
	p.T.Helper()
	out, err := p.server.Run(p.Ctx, "kubectl", append(append([]string{"selvage"}, argv...), "-n", "shop", "--kubeconfig", p.kubeconfig)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		p.Must(err)
	}
	out = strings.ReplaceAll(out, strings.TrimSuffix(dut.EdgeName(p.Hosts[0]), p.Hosts[0].Name), "")
	return strings.NewReplacer("edge1", "node1", "edge2", "node2", "edge3", "gw1", "edge4", "gw2").Replace(out), status
}

// expect has it say all of these, with an exit status.
func (p *plugin) expect(t *testing.T, status int, argv []string, words ...string) {
	t.Helper()
	said, got := p.says(argv...)
	t.Logf("kubectl selvage %s: status %d\n%s", strings.Join(argv, " "), got, said)
	if got != status {
		t.Errorf("status %d, want %d", got, status)
	}
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("it does not say %q", word)
		}
	}
}

// asked is of pods with and without a policy.
func (p *plugin) asked(t *testing.T) {
	p.expect(t, 0, []string{"why", "db1", "203.0.113.1"}, "pod shop/db1, to 203.0.113.1, leaves as its node node1, by the CNI plugin's own masquerade: no policy selects it")
	p.expect(t, 0, []string{"why", "web1", "10.96.0.10"}, "goes as itself: 10.96.0.0/16 is a network of the cluster")
	p.expect(t, 0, []string{"why", "pod/web1"}, "pod shop/web1 leaves as")
	p.expect(t, 0, []string{"trace", "pods/web2", "2001:db8:cafe::1"}, "it leaves as 2001:db8:51::20\n")
	p.expect(t, 0, []string{"trace", "db1", "203.0.113.1:443"}, "no policy selects it\nthe packet does not come to an edge\n")
	p.expect(t, 2, []string{"trace", "web1", "203.0.113.1", "--proto", "udp"}, "udp needs a port")
	p.expect(t, 1, []string{"why", "nobody"}, `pods "nobody" not found`)
	shown := 0
	for _, c := range guide.Commands(t, "../../../docs/guide/kubernetes.md") {
		if argv, is := strings.CutPrefix(c.Line, "kubectl selvage "); is && !strings.HasPrefix(argv, "stages ") { // which TestKubectlStages runs
			shown++
			said, _ := p.says(strings.Fields(argv)...)
			guide.InOrder(t, c.Line, c.Shown, said)
		}
	}
	if shown != 2 {
		t.Errorf("the guide shows %d commands", shown)
	}
	said, _ := p.says("why", "web1", "-o", "json")
	var a why.Answer
	if err := json.Unmarshal([]byte(said), &a); err != nil || a.Way != why.ByGateway || len(a.Problems) > 0 {
		t.Errorf("%v\n%s", err, said)
	}
}

// killed is after the end of a gateway.
func (p *plugin) killed(t *testing.T) {
	p.Fact("kubectl selvage why says who has the address", func() error {
		if said, status := p.says("why", "web1"); status != 0 || !strings.Contains(said, "gw1 serving>gone at") || !strings.Contains(said, "1 of 2 nodes serve") {
			return fmt.Errorf("status %d\n%s", status, said)
		}
		return nil
	})
	p.expect(t, 0, []string{"why", "web1", "203.0.113.1"}, "leaves as 198.51.100.20", "  gw1", "Gone, has none of the addresses", "Serving, has 198.51.100.20")
	p.expect(t, 0, []string{"trace", "web1", "203.0.113.1:443", "--proto", "udp", "--sport", "5000"}, "edge of node gw2\n", "it leaves as 198.51.100.20\n")
}
