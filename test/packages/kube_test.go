package packages

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/tier"
)

// unpacked is an image's root file system. All of it is root's.
func unpacked(t *testing.T, archive, arch string) string {
	t.Helper()
	dir := t.TempDir()
	output(t, "skopeo", "copy", "-q", "--override-arch", arch, "oci-archive:"+archive, "dir:"+dir+"/image")
	text, err := os.ReadFile(dir + "/image/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Layers []struct{ Digest string } }
	if err := json.Unmarshal(text, &manifest); err != nil || len(manifest.Layers) == 0 {
		t.Fatalf("%d layers, %v", len(manifest.Layers), err)
	}
	files := dir + "/root"
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, l := range manifest.Layers {
		layer := dir + "/image/" + strings.TrimPrefix(l.Digest, "sha256:")
		for line := range strings.Lines(output(t, "tar", "--numeric-owner", "-tvzf", layer)) {
			if !strings.Contains(line, " 0/0 ") {
				t.Errorf("%s for %s: it is not root's: %s", archive, arch, line)
			}
		}
		output(t, "tar", "-xpzf", layer, "-C", files)
	}
	return files
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkLibraries checks that each program and library is for the architecture, and finds its loader and what it is linked to in the image.
func checkLibraries(t *testing.T, files, arch string) {
	t.Helper()
	there := func(name, library string) {
		if _, err := os.Stat(filepath.Join(files, library)); err != nil {
			t.Errorf("%s for %s: %v", name, arch, err)
		}
	}
	count := 0
	err := filepath.WalkDir(files+"/usr", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := elf.Open(path)
		if err != nil {
			return nil // it is no program
		}
		defer f.Close()
		count++
		if f.Machine != machines[arch] {
			t.Errorf("%s is for %s, in the image for %s", path, f.Machine, arch)
		}
		libraries, err := f.ImportedLibraries()
		for _, library := range libraries {
			there(path, filepath.Join("usr/lib", map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[arch], library))
		}
		if s := f.Section(".interp"); s != nil {
			loader, err := s.Data()
			if err != nil {
				return err
			}
			there(path, strings.TrimRight(string(loader), "\x00"))
		}
		return err
	})
	if err != nil || count < 10 {
		t.Errorf("%d programs and libraries, %v", count, err)
	}
}

// checkDebian checks that an image tells scanners which packages of Debian it has files of, with their licences, and that the SBOM has the same.
func checkDebian(t *testing.T, files, bill, arch string) {
	t.Helper()
	text, err := os.ReadFile(bill)
	if err != nil {
		t.Fatal(err)
	}
	status, err := filepath.Glob(files + "/var/lib/dpkg/status.d/*")
	if err != nil || len(status) < 10 {
		t.Errorf("%d packages, %v", len(status), err)
	}
	for _, file := range status {
		name := filepath.Base(file)
		version := output(t, "awk", `$1 == "Version:" { v = $2 } $1 == "Architecture:" { a = $2 } END { printf "%s %s", v, a }`, file)
		version, of, _ := strings.Cut(version, " ")
		if of != arch {
			t.Errorf("%s is for %s, in the image for %s", name, of, arch)
		}
		if _, err := os.Stat(files + "/usr/share/doc/" + name + "/copyright"); err != nil {
			t.Error(err)
		}
		if escaped := strings.NewReplacer(":", "%3A", "+", "%2B").Replace(version); !strings.Contains(string(text), `"pkg:deb/debian/`+name+"@"+escaped+"?arch="+arch+`"`) {
			t.Errorf("%s has no %s %s", bill, name, version)
		}
	}
	if n := strings.Count(string(text), `"purl": "pkg:deb/`); n != len(status) {
		t.Errorf("%s has %d packages of Debian, the image %d", bill, n, len(status))
	}
}

const rules = "table inet selvage_egress {\n\tset pods1 {\n\t\ttype ipv4_addr\n\t\telements = { 10.244.1.2 }\n\t}\n\n\tchain prerouting {\n" +
	"\t\ttype filter hook prerouting priority dstnat + 1; policy accept;\n\t\tfib daddr type local return\n" +
	"\t\tip saddr @pods1 meta mark set meta mark | 0x00002000 return comment \"shop/web\"\n\t}\n}\n"

// runKube runs what the chart runs of the image, as it runs it: the controller's program as nobody without rights, the agent's nft as root with
// CAP_NET_ADMIN in the network of a node, both with a root file system that is read-only. Then the same without an engine.
func runKube(t *testing.T, archive, files, version string) {
	p := newPodman(t)
	image := p.load(archive)
	run := append([]string{"run", "--rm", "-i", "--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges"}, limits...)
	as := func(args ...string) []string { return append(append([]string{}, run...), args...) }
	said := p.must(as("--user", "65532:65532", "--network", "none", "--entrypoint", `["selvage-kube"]`, image, "--version")...)
	if !strings.HasPrefix(said, "selvage-kube "+version+" (commit ") {
		t.Errorf("it says %s, and should be %s", said, version)
	}
	if said := p.must(as("--network", "none", image, "agent", "--help")...); !strings.Contains(said, "--cluster-cidr") {
		t.Error(said)
	}
	name := fmt.Sprintf("oci-kube-%d", os.Getpid())
	output(t, "ip", "netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	agent := as("--cap-add", "NET_ADMIN", "--network", "host", "--entrypoint", `["nft"]`, image)
	inContainer := append([]string{"--net=/run/netns/" + name}, p.command(agent...).Args...)
	inRoot := []string{"--net=/run/netns/" + name, "chroot", files, "/usr/sbin/nft"}
	for how, nft := range map[string][]string{"in a container": inContainer, "in its root": inRoot} {
		ask := func(stdin string, args ...string) string {
			cmd := exec.CommandContext(t.Context(), "nsenter", append(append([]string{}, nft...), args...)...)
			cmd.Stdin = strings.NewReader(stdin)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("nft %s %s: %v\n%s", strings.Join(args, " "), how, err, out)
			}
			return string(out)
		}
		if got := ask("", "--version"); !strings.HasPrefix(got, "nftables v1.") {
			t.Errorf("%s: %s", how, got)
		}
		ask("table inet selvage_egress\ndelete table inet selvage_egress\n"+rules, "-f", "-")
		if got := ask("", "-s", "list", "table", "inet", "selvage_egress"); got != rules {
			t.Errorf("%s:\n%s\nwant:\n%s", how, got, rules)
		}
	}
}

// importImages has containerd import what a node needs. The images are called what the chart calls them.
func importImages(t *testing.T, out string) {
	tier.Root(t)
	needs(t, "containerd", "packages")
	dir := t.TempDir()
	config := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n", dir+"/root", dir+"/state", dir+"/socket")
	if err := os.WriteFile(dir+"/config.toml", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	daemon := exec.Command("containerd", "--config", dir+"/config.toml")
	daemon.Stdout, daemon.Stderr = &said, &said
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(os.Interrupt)
		_ = daemon.Wait() // how it ends does not matter
		if t.Failed() {
			t.Logf("containerd: %s", said.String())
		}
	})
	ctr := []string{"--address", dir + "/socket", "--namespace", "k8s.io"}
	err := await.Within(t.Context(), time.Minute, "containerd answers", func() error {
		return exec.CommandContext(t.Context(), "ctr", append(ctr, "version")...).Run()
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"selvage", "selvage-kube"} {
		archive := the(t, out+"/"+program+"_*_oci.tar")
		output(t, "ctr", append(ctr, "images", "import", archive)...)
		tag := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(archive), program+"_"), "_oci.tar")
		if got, want := output(t, "ctr", append(ctr, "images", "ls")...), "ghcr.io/selvage/"+program+":"+tag+" "; !strings.Contains(got, want) {
			t.Errorf("there is no %s:\n%s", want, got)
		}
	}
}

// checkKube checks the image of selvage-kube and its SBOM.
func checkKube(t *testing.T, out string) {
	tier.Root(t)
	archive := the(t, out+"/selvage-kube_*_oci.tar")
	for _, arch := range []string{"amd64", "arm64"} {
		bill := the(t, out+"/selvage-kube_*_"+arch+".cdx.json")
		files := unpacked(t, archive, arch)
		checkLibraries(t, files, arch)
		checkDebian(t, files, bill, arch)
		if arch == runtime.GOARCH {
			version, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(bill), "selvage-kube_"), "_")
			runKube(t, archive, files, version)
		}
	}
}

// checkChart checks that the chart is the folder's, of the version of the images that it names.
func checkChart(t *testing.T, out string) {
	tag := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(the(t, out+"/selvage-kube_*_oci.tar")), "selvage-kube_"), "_oci.tar")
	dir, folder := t.TempDir(), root+"/kube/chart/selvage"
	output(t, "tar", "-xzf", out+"/selvage-"+tag+".tgz", "-C", dir)
	number, err := os.ReadFile(root + "/internal/program/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	was := strings.TrimSpace(string(number))
	text, err := os.ReadFile(folder + "/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(text), "\nversion: "+was+"\n", "\nversion: \""+tag+"\"\n", 1)
	want = strings.Replace(want, "\nappVersion: \""+was+"\"\n", "\nappVersion: \""+tag+"\"\n", 1)
	got, err := os.ReadFile(dir + "/selvage/Chart.yaml")
	if err != nil || string(got) != want {
		t.Errorf("%v:\n%s\nwant:\n%s", err, got, want)
	}
	output(t, "diff", "-r", "--exclude=Chart.yaml", folder, dir+"/selvage")
}

// What builds packages takes no other ones of Debian than those that are pinned. Its module is its own, and so are its tests.
func TestPins(t *testing.T) {
	t.Parallel()
	output(t, "go", "-C", root+"/deploy/packages/build", "test", ".")
}
