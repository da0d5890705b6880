package packages

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/tier"
)

const older, newer = "0.2.0~test1", "0.2.0~test2"

// holds is what make test has of packages; .ci/run makes all of them.
const holds = "TestManualPages, TestVersions"

// distribution makes the packages of this machine's architecture, as of a version.
func distribution(t *testing.T, dir, version string) {
	t.Helper()
	outputIn(t, "", []string{"OUT=" + dir, "VERSION=" + version}, root+"/scripts/dist.sh", runtime.GOARCH)
}

// the is the one file of a pattern.
func the(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// In a fresh Debian the debs install by apt, upgrade, go back, and leave what operators wrote when they go.
func TestDebian(t *testing.T) {
	tier.Long(t, holds)
	tier.Root(t)
	needs(t, "mmdebstrap", "packages")
	needs(t, "lintian", "packages")
	dir, debian := t.TempDir(), filepath.Join(t.TempDir(), "debian")
	for _, version := range []string{older, newer} {
		distribution(t, dir, version)
	}
	debs, err := filepath.Glob(dir + "/*.deb")
	if err != nil || len(debs) != 4 {
		t.Fatalf("%v, %v", debs, err)
	}
	if said := output(t, "lintian", append([]string{"--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"}, debs...)...); strings.TrimSpace(said) != "" {
		t.Errorf("lintian: %s", said)
	}
	output(t, "mmdebstrap", "--quiet", "--variant=minbase", "--include=man-db,bash-completion", "--customize-hook=copy-in "+strings.Join(debs, " ")+" /root",
		"--skip=cleanup/apt", "bookworm", debian)
	in := func(script string) string {
		return output(t, "unshare", "--mount", "--pid", "--fork", "--mount-proc="+debian+"/proc", "chroot", debian, "sh", "-ec", "export DEBIAN_FRONTEND=noninteractive; cd /root; "+script)
	}
	install := func(version string) {
		in("apt install -y -q --no-install-recommends --allow-downgrades ./selvage_" + version + "_*.deb ./selvage-lab_" + version + "_*.deb")
		if got := in("selvage --version; selvage lab --version; dpkg-query -W -f '${Version} ' selvage selvage-lab"); strings.Count(got, version) != 4 {
			t.Errorf("after the installation of %s: %s", version, got)
		}
	}
	install(older)
	in("selvage check /etc/selvage/example.yaml /usr/share/doc/selvage/examples/*.yaml && selvage lab size --help")
	in("dpkg --verify selvage selvage-lab; test -x /usr/bin/selvage-lab; bash -n /usr/share/bash-completion/completions/selvage-lab")
	in("cp /etc/selvage/example.yaml /etc/selvage/a.yaml; echo '# mine' >>/etc/selvage/example.yaml; mkdir -p /var/lib/selvage/a; selvage check /etc/selvage/a.yaml")
	install(newer)
	install(older)
	in("grep -q '# mine' /etc/selvage/example.yaml && test -e /etc/selvage/a.yaml")
	in("apt remove -y -q selvage && test -e /etc/selvage/example.yaml && test -e /var/lib/selvage/a && ! test -e /usr/bin/selvage-lab")
	in("apt purge -y -q selvage && test -e /etc/selvage/a.yaml && ! test -e /etc/selvage/example.yaml && ! test -e /var/lib/selvage")
	if left := in("find / -xdev -path /proc -prune -o -name '*selvage*' -print | grep -v -e ^/root/ -e ^/var/log -e ^/var/cache || true"); strings.TrimSpace(left) != "/etc/selvage" {
		t.Errorf("the purge left:\n%s", left)
	}
}

// rpm takes the rpms, and they have in them what they say.
func TestRPM(t *testing.T) {
	tier.Long(t, holds)
	tier.Root(t)
	needs(t, "rpm", "packages")
	dir, base := t.TempDir(), t.TempDir()
	for _, version := range []string{older, newer} {
		distribution(t, dir, version)
	}
	// Scripts need the system that they are for: what they do is in test/boot, their arguments of rpm are in postinst.
	rpm := func(args ...string) string {
		return output(t, "rpm", append([]string{"--root", base, "--dbpath", "/var/lib/rpm"}, args...)...)
	}
	rpm("--initdb")
	rpm("-i", "--noscripts", "--nosignature", the(t, dir+"/selvage-"+older+"-1.*.rpm"), the(t, dir+"/selvage-lab-"+older+"-1.*.rpm"))
	if got := output(t, base+"/usr/bin/selvage", "--version"); !strings.HasPrefix(got, "selvage "+older+" ") {
		t.Error(got)
	}
	if wrong := rpm("-V", "--nodeps", "selvage", "selvage-lab"); wrong != "" {
		t.Errorf("rpm -V: %s", wrong)
	}
	config := base + "/etc/selvage/example.yaml"
	if got := strings.TrimSpace(rpm("-qc", "selvage")); got != "/etc/selvage/example.yaml" {
		t.Errorf("configuration files: %s", got)
	}
	if err := os.WriteFile(config, []byte("# mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	rpm("-U", "--noscripts", "--nosignature", the(t, dir+"/selvage-"+newer+"-1.*.rpm"), the(t, dir+"/selvage-lab-"+newer+"-1.*.rpm"))
	if kept, err := os.ReadFile(config); err != nil || string(kept) != "# mine\n" {
		t.Errorf("a changed configuration after an upgrade: %q, %v", kept, err)
	}
	if got := strings.Fields(rpm("-q", "--qf", "%{VERSION} ", "selvage", "selvage-lab")); len(got) != 2 || got[0] != newer || got[1] != newer {
		t.Errorf("installed: %v", got)
	}
	rpm("-e", "--noscripts", "selvage-lab", "selvage")
	if _, err := os.Stat(base + "/usr/bin/selvage"); err == nil {
		t.Error("the program is still there")
	}
}

// go install takes both programs from the module as proxies serve it: all that is embedded is in it.
func TestGoInstall(t *testing.T) {
	tier.Long(t, holds)
	const version = "v0.2.0"
	proxy, bin, cache := t.TempDir(), t.TempDir(), t.TempDir()
	modules := strings.TrimSpace(output(t, "go", "env", "GOMODCACHE"))
	output(t, "go", "-C", root+"/deploy/packages/build", "run", "./proxy", "-root", absolute(t, root), "-version", version, "-out", proxy)
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + modules + "/cache/download," + strings.TrimSpace(output(t, "go", "env", "GOPROXY")),
		"GONOSUMDB=github.com/selvage/selvage", "GOBIN=" + bin, "GOMODCACHE=" + cache, "GOFLAGS=-trimpath -modcacherw", "CGO_ENABLED=0", "GOWORK=off",
	}
	for _, program := range []string{"selvage", "selvage-lab"} {
		outputIn(t, t.TempDir(), env, "go", "install", "github.com/selvage/selvage/cmd/"+program+"@"+version)
		if got := output(t, bin+"/"+program, "--version"); !strings.HasPrefix(got, program+" 0.2.0 (") {
			t.Errorf("%s says %s", program, got)
		}
	}
	// The lab finds the program of edges beside it, of the same build; what is embedded is there.
	output(t, bin+"/selvage", "lab", "--version")
	output(t, bin+"/selvage", "check", root+"/examples/host-a.yaml")
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
