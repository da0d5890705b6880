package packages

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/tier"
)

// release is a directory with all that make packages makes, of a clone, built twice.
func release(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("SELVAGE_TEST_RELEASE"); dir != "" {
		return dir // one that is there already
	}
	needs(t, "lintian", "packages")
	out := t.TempDir()
	outputIn(t, "", []string{"KEEP=" + out}, root+"/scripts/dist-check.sh")
	return out
}

// The packages of a commit are the same, built twice in clones of other names; skopeo reads the images, podman
// runs an edge from one, and what the chart runs from another; the SBOMs name what the programs are linked from, with licences.
func TestRelease(t *testing.T) {
	tier.Long(t, holds)
	needs(t, "skopeo", "packages")
	out := release(t)
	for _, arch := range []string{"amd64", "arm64"} {
		for program, linked := range map[string]string{"selvage": "cilium/ebpf", "selvage-lab": "cilium/ebpf", "selvage-kube": "vishvananda/netlink"} {
			from := "oci-archive:" + the(t, out+"/"+program+"_*_oci.tar")
			said := output(t, "skopeo", "inspect", "--override-arch", arch, from) + output(t, "skopeo", "inspect", "--config", "--override-arch", arch, from)
			said = strings.Join(strings.Fields(said), "")
			for _, want := range []string{`"Architecture":"` + arch + `"`, `"org.opencontainers.image.title":"` + program + `"`, `"Entrypoint":["/usr/bin/` + program + `"]`} {
				if !strings.Contains(said, want) {
					t.Errorf("%s for %s has no %s:\n%s", program, arch, want, said)
				}
			}
			checkBill(t, the(t, out+"/"+program+"_*_"+arch+".cdx.json"), arch, linked)
		}
	}
	outputIn(t, out, nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	output(t, "skopeo", "copy", "-q", "--all", "oci-archive:"+the(t, out+"/selvage_*_oci.tar"), "dir:"+t.TempDir())
	t.Run("Container", func(t *testing.T) { runContainer(t, the(t, out+"/selvage_*_oci.tar")) })
	t.Run("Containerd", func(t *testing.T) { importImages(t, out) })
	t.Run("Kube", func(t *testing.T) { checkKube(t, out) })
	t.Run("Chart", func(t *testing.T) { checkChart(t, out) })
	t.Run("LabContainer", func(t *testing.T) { runLabContainer(t, the(t, out+"/selvage-lab_*_oci.tar")) })
}

// checkBill checks that an SBOM has the program's modules, one of them by name, each with a licence, and Go's library.
func checkBill(t *testing.T, path, arch, linked string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Components []struct {
			PURL     string
			Evidence struct{ Licenses []any }
		}
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	if bill.BOMFormat != "CycloneDX" || len(bill.Components) < 20 {
		t.Errorf("%s: %s of %d components", path, bill.BOMFormat, len(bill.Components))
	}
	found := ""
	for _, c := range bill.Components {
		found += c.PURL + "\n"
		if len(c.Evidence.Licenses) == 0 && !strings.Contains(c.PURL, "golang/std@") {
			t.Errorf("%s: %s has no licence", path, c.PURL)
		}
	}
	for _, want := range []string{"pkg:golang/github.com/" + linked + "@v", "pkg:golang/github.com/alecthomas/kong@v", "pkg:golang/std@", "goarch=" + arch + "&"} {
		if !strings.Contains(found, want) {
			t.Errorf("%s has no %s", path, want)
		}
	}
}

// podman runs it with storage of its own.
type podman struct {
	t    *testing.T
	args []string
}

func newPodman(t *testing.T) podman {
	t.Helper()
	tier.Root(t)
	needs(t, "podman", "packages")
	needs(t, "runc", "packages")
	dir := t.TempDir()
	p := podman{t, []string{"--root", dir + "/storage", "--runroot", dir + "/run", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"}}
	return p
}

func (p podman) command(args ...string) *exec.Cmd {
	return exec.Command("podman", append(append([]string{}, p.args...), args...)...)
}

func (p podman) must(args ...string) string {
	p.t.Helper()
	out, err := p.command(args...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// load takes an archive; its image is named as the archive says.
func (p podman) load(archive string) (image string) {
	p.t.Helper()
	said := p.must("load", "--input", archive)
	_, image, ok := strings.Cut(strings.TrimSpace(said), "Loaded image: ")
	if !ok {
		p.t.Fatal(said)
	}
	return image
}

// limits are what podman asks by default and a test machine may refuse.
var limits = []string{"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"}

// An edge in a container of the image works as one of the host; its data path outlives the container, and
// another container removes it.
//
//	netns ── p0 ═ p1 (port)      u0 ═ u1 (underlay)
func runContainer(t *testing.T, archive string) {
	p := newPodman(t)
	image := p.load(archive)
	if !strings.HasPrefix(image, "ghcr.io/selvage/selvage:") {
		t.Errorf("the image is called %s", image)
	}
	name := fmt.Sprintf("oci-%d", os.Getpid())
	output(t, "ip", "netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	in := []string{"netns", "exec", name}
	for _, link := range []string{"p", "u"} {
		output(t, "ip", append(in, "ip", "link", "add", link+"0", "type", "veth", "peer", "name", link+"1")...)
		output(t, "ip", append(in, "ip", "link", "set", link+"0", "up")...)
		output(t, "ip", append(in, "ip", "link", "set", link+"1", "up")...)
	}
	output(t, "ip", append(in, "ip", "address", "add", "192.0.2.1/24", "dev", "u0")...)
	dir := t.TempDir()
	for _, d := range []string{"etc", "run", "state"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := "apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: " + name + "}\nspec:\n  underlay: {interfaces: [u0], tep: 192.0.2.1}\n" +
		"  segments: [{name: blue, vni: 100, remotes: [192.0.2.2]}]\n  ports: [{name: p0, interface: p0, segment: blue}]\n"
	if err := os.WriteFile(dir+"/etc/a.yaml", []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []string {
		all := append([]string{"run", "--privileged", "--network", "host", "-v", "/sys/fs/bpf:/sys/fs/bpf", "-v", dir + "/run:/run/selvage",
			"-v", dir + "/state:/var/lib/selvage", "-v", dir + "/etc:/etc/selvage:ro"}, limits...)
		return append(all, args...)
	}
	inNetns := func(args ...string) *exec.Cmd { // not ip netns exec: with its /sys there are no cgroups
		return exec.Command("nsenter", append([]string{"--net=/run/netns/" + name}, p.command(args...).Args...)...)
	}
	if out, err := inNetns(run("-d", "--name", name, image, "edge", "-c", "/etc/selvage/a.yaml")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		_ = p.command("rm", "-f", "-t", "5", name).Run()
		_ = inNetns(run("--rm", image, "remove", name)...).Run()
	})
	err := await.Within(t.Context(), 60*time.Second, "the edge in the container answers", func() error {
		out, err := p.command("exec", name, "/usr/bin/selvage", "ports").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "blue") {
			return fmt.Errorf("status %w: %s", cmp.Or(err, errNoSegment), out)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, p.must("logs", name))
	}
	pins := "/sys/fs/bpf/selvage/" + name
	p.must("stop", "-t", "20", name)
	if _, err := os.Stat(pins); err != nil {
		t.Errorf("the data path after the container: %v", err)
	}
	if out, err := inNetns(run("--rm", image, "remove", name)...).CombinedOutput(); err != nil {
		t.Errorf("remove: %v\n%s", err, out)
	}
	if _, err := os.Stat(pins); err == nil {
		t.Errorf("%s is left", pins)
	}
}

func runLabContainer(t *testing.T, archive string) {
	p := newPodman(t)
	image := p.load(archive)
	if got := p.must(append(append([]string{"run", "--rm", "--network", "none"}, limits...), image, "--version")...); !strings.HasPrefix(got, "selvage-lab 0.") {
		t.Error(got)
	}
}

var errNoSegment = errors.New("no port in segment blue")
