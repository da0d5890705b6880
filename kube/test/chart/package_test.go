package chart

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/tier"
)

// A version with build metadata is neither a label nor a tag as it is: the API server takes what is made of it.
func TestPackageOfBuild(t *testing.T) {
	tier.Slow(t)
	dir := t.TempDir()
	for _, argv := range [][]string{
		{"helm", "package", folder, "--destination", dir, "--version", "0.9.0-dev.3+gabc", "--app-version", "0.9.0-dev.3+gabc"},
		{"helm", "upgrade", "--install", release, dir + "/selvage-0.9.0-dev.3+gabc.tgz", "--namespace", namespace},
	} {
		if _, err := server.Run(t.Context(), argv[0], argv[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	out, err := server.Run(t.Context(), "kubectl", "-n", namespace, "get", "deployment", release+"-controller", "-o", "jsonpath={.metadata.labels.helm\\.sh/chart} {.spec.template.spec.containers[0].image}")
	if want := "selvage-0.9.0-dev.3_gabc ghcr.io/selvage/selvage-kube:0.9.0-dev.3-gabc"; err != nil || out != want {
		t.Errorf("it is %s %v, want %s", out, err, want)
	}
	if _, err := upgrade(t.Context()); err != nil {
		t.Error(err)
	}
}

// The chart of a release is what helm package makes of the folder, and takes the images of that release.
func TestPackage(t *testing.T) {
	tier.Slow(t)
	const version, tag = "0.9.0~dev.3+gabc", "0.9.0-dev.3-gabc"
	dir := t.TempDir()
	run := func(in, name string, argv ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, argv...)
		cmd.Dir = in
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(argv, " "), err, out)
		}
		return string(out)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	run(root+"/deploy/packages/build", "go", "run", ".", "-root", root, "-out", dir, "-version", version, "-epoch", "1700000000", "-only", "chart")
	file := dir + "/selvage-" + tag + ".tgz"
	helm := func(argv ...string) string {
		t.Helper()
		out, err := server.Run(t.Context(), "helm", argv...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	helm("lint", file)
	rendered := helm("template", release, file, "--namespace", namespace)
	images := map[string]int{}
	for line := range strings.Lines(rendered) {
		if _, image, ok := strings.Cut(line, "image: "); ok {
			images[strings.TrimSpace(image)]++
		}
	}
	if len(images) != 2 || images[`"ghcr.io/selvage/selvage:`+tag+`"`] != 1 || images[`"ghcr.io/selvage/selvage-kube:`+tag+`"`] != 4 {
		t.Errorf("images: %v", images)
	}
	if n := strings.Count(rendered, "helm.sh/hook: test"); n != 6 {
		t.Errorf("%d hooks of the test", n)
	}
	helms := t.TempDir()
	helm("package", folder, "--destination", helms, "--version", tag, "--app-version", tag)
	for _, at := range []string{dir, helms} {
		run(at, "tar", "-xzf", at+"/selvage-"+tag+".tgz")
	}
	run(dir, "diff", "-r", "--exclude=Chart.yaml", dir+"/selvage", helms+"/selvage")
	if ours, theirs := helm("show", "chart", file), helm("show", "chart", helms+"/selvage-"+tag+".tgz"); ours != theirs {
		t.Errorf("the chart says\n%sand as Helm packages it\n%s", ours, theirs)
	}
}
