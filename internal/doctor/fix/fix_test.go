package fix

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{
		"eth0": "eth0", "net.ipv4.tcp_rmem=4096 131072": "'net.ipv4.tcp_rmem=4096 131072'", "": "''", "$(reboot)": "'$(reboot)'",
		"it's": `'it'\''s'`, "a\nreboot": "'a?reboot'", "~": "'~'", "-rf": "-rf", "ff,00000000": "ff,00000000",
	} {
		if got := Quote(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	const want = `ip link set dev 'a b;$(x)?' mtu 1500  # a`
	if got := Line("ip link set dev %s mtu %d  # %s", "a b;$(x)\xff", 1500, "a"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Whatever is in a word, the shell sees one word and runs nothing of it.
func FuzzQuote(f *testing.F) {
	for _, text := range []string{"eth0", "a b", "'; echo no; '", "`id`", "$HOME", "\\", "\x00\n", "é*?[a]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := exec.Command("sh", "-c", "set -- "+Quote(text)+`; printf '%s %s' $# "$1"`).Output()
		if want := "1 " + printable(text); err != nil || string(out) != want {
			t.Errorf("%q: sh has %q, %v", text, out, err)
		}
	})
}

// run writes a script and runs it.
func run(t *testing.T, s Script, args ...string) (output string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.sh")
	if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if linter, missing := exec.LookPath("shellcheck"); missing == nil {
		if out, err := exec.Command(linter, file).CombinedOutput(); err != nil {
			t.Errorf("shellcheck: %v\n%s\n%s", err, out, s)
		}
	}
	out, err := exec.Command("sh", append([]string{file}, args...)...).CombinedOutput()
	return string(out), err
}

// script sets two files, makes one, and has what must not be run.
func script(t *testing.T) (s Script, dir string) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	file := filepath.Join(dir, "a file")
	if err := os.WriteFile(file, []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	made, carried := filepath.Join(dir, "made; touch x"), filepath.Join(dir, "carried")
	twice := Fix{Do: Write("f f", file), Undo: Write("1", file)}
	return Script{
		Place: "ssh:a\nreboot", Host: host, Taken: "2026-01-02T03:04:05Z", Carriers: []string{"eth0"},
		Fixes: []Fix{
			twice,
			{Interface: "eth1", Do: Run("touch", made), Undo: Run("rm", made)},
			{Interface: "eth0", Do: Run("touch", carried), Undo: Run("rm", carried)},
			twice,
		},
		ByHand: []string{"mtu: touch " + carried + "\ntouch " + carried},
	}, dir
}

func content(t *testing.T, dir string) (text string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text += e.Name() + "=" + strings.TrimSpace(string(data)) + " "
	}
	return text
}

func TestScript(t *testing.T) {
	s, dir := script(t)
	before := content(t, dir)
	if out, err := run(t, s); err == nil || content(t, dir) != before {
		t.Errorf("without a word it does something: %v\n%s", err, out)
	}
	out, err := run(t, s, "apply")
	if got := content(t, dir); err != nil || got != "a file=f f made; touch x= " {
		t.Errorf("apply: %v, %s\n%s", err, got, out)
	}
	if n := strings.Count(out, "+ echo"); n != 1 {
		t.Errorf("what is proposed twice is done %d times:\n%s", n, out)
	}
	if out, err := run(t, s, "revert"); err != nil || content(t, dir) != before {
		t.Errorf("revert: %v, %s\n%s", err, content(t, dir), out)
	}
	if out, err := run(t, s, "revert"); err == nil { // the file is gone
		t.Errorf("a command that fails is no failure:\n%s", out)
	}
	if !strings.Contains(s.String(), "# Left out, as it may cut the SSH session:\n#   touch "+filepath.Join(dir, "carried")) {
		t.Errorf("it does not say what it leaves out:\n%s", s)
	}
}

func TestScriptElsewhere(t *testing.T) {
	s, dir := script(t)
	before := content(t, dir)
	s.Host = "another host; true"
	if out, err := run(t, s, "apply"); err == nil || content(t, dir) != before || !strings.Contains(out, "this is not another host; true: nothing was changed") {
		t.Errorf("at another host: %v\n%s", err, out)
	}
	s.Fixes = nil
	if out, err := run(t, s, "revert"); err == nil {
		t.Errorf("an empty script at another host: %s", out)
	}
}
