package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// Versions follow each other as their commits do, by dpkg's order and by rpm's, before and behind a release.
func TestVersions(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	for _, file := range []string{"scripts/version.sh", "internal/program/VERSION"} {
		copyFile(t, filepath.Join(root, file), filepath.Join(repo, file))
	}
	next := func(version string) {
		if err := os.WriteFile(repo+"/internal/program/VERSION", []byte(version+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		outputIn(t, repo, []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"}, "git",
			append([]string{"-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgSign=false"}, args...)...)
	}
	commit := func() { git("add", "-A"); git("commit", "-qm", "a change", "--allow-empty") }
	version := func() string { return strings.TrimSpace(output(t, repo+"/scripts/version.sh")) }

	next("0.2.0")
	if got := version(); got != "0.2.0~dev" {
		t.Errorf("without a repository: %s", got)
	}
	git("init", "-q")
	var versions []string
	see := func(prefix string) {
		t.Helper()
		v := version()
		if !strings.HasPrefix(v, prefix) {
			t.Errorf("%s, want %s…", v, prefix)
		}
		versions = append(versions, v)
	}
	commit()
	see("0.2.0~dev.1+g")
	for range 9 {
		commit()
	}
	see("0.2.0~dev.10+g")
	next("0.2.0-x") // a file that differs
	if got := version(); !strings.HasSuffix(got, ".dirty") {
		t.Errorf("of a tree that differs: %s", got)
	}
	next("0.2.0")
	git("tag", "v0.2.0")
	see("0.2.0")
	commit()
	see("0.2.0+dev.1.g")
	commit()
	see("0.2.0+dev.2.g")
	next("0.3.0")
	commit()
	see("0.3.0~dev.3+g")
	git("tag", "v0.3.0")
	see("0.3.0")
	sorted(t, versions)
}

// sorted checks that each version is before the next for dpkg and rpm, where they are.
func sorted(t *testing.T, versions []string) {
	t.Helper()
	for i, v := range versions[1:] {
		before := versions[i]
		if _, err := exec.LookPath("dpkg"); err == nil {
			output(t, "dpkg", "--compare-versions", before, "lt", v)
		}
		if _, err := exec.LookPath("rpm"); err == nil {
			if got := output(t, "rpm", "--eval", "%{lua:print(rpm.vercmp('"+before+"','"+v+"'))}"); strings.TrimSpace(got) != "-1" {
				t.Errorf("rpm: %s against %s: %s", before, v, got)
			}
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, info.Mode()); err != nil {
		t.Fatal(err)
	}
}

// The notes of a release are its section, as GitHub shows it.
func TestReleaseNotes(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "CHANGELOG.md")
	const changes = `# Changes

## Unreleased

- Not this.

## 0.2.0 (2026-12-01)

### Added

- One thing that goes on
  in another line, [how](docs/guide/install.md#upgrade).
- Another, [elsewhere](https://example.org/a).

A paragraph
of two lines.

| before | now |
|---|---|

` + "```sh\na\nb\n```" + `

## 0.1.0

- Nor this.
`
	const want = `### Added

- One thing that goes on in another line, [how](https://github.com/selvage/selvage/blob/v0.2.0/docs/guide/install.md#upgrade).
- Another, [elsewhere](https://example.org/a).

A paragraph of two lines.

| before | now |
|---|---|

` + "```sh\na\nb\n```\n"
	if err := os.WriteFile(file, []byte(changes), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := output(t, root+"/scripts/release-notes.sh", "0.2.0", file); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	if said, err := exec.CommandContext(t.Context(), root+"/scripts/release-notes.sh", "0.2", file).CombinedOutput(); err == nil || !strings.Contains(string(said), `no section "## 0.2"`) {
		t.Errorf("of a version that is not there: %v, %s", err, said)
	}
	// The project's own file has the release that the source names, or what is to be it.
	next, err := os.ReadFile(root + "/internal/program/VERSION")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(root + "/CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	section := strings.TrimSpace(string(next))
	if !strings.Contains(string(own), "\n## "+section) {
		section = "Unreleased"
	}
	output(t, root+"/scripts/release-notes.sh", section)
}
