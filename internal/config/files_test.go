package config

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// written makes a file and gives its path.
func written(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is no regular file is refused at once: nobody may be there to write to a pipe.
func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, want := range map[string]string{
		pipe:        pipe + " is a pipe, not a regular file",
		dir:         dir + " is a directory, not a regular file",
		"/dev/zero": "/dev/zero is a device, not a regular file",
		socket:      "no such device or address",
	} {
		if _, err := Load(path); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		edge := written(t, dir, "edge.yaml", under+"  firewall: {include: ["+path+"]}\n", 0o600)
		if _, err := Load(edge); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("included: got %v, want %s", err, want)
		}
	}
}

// What is included is bounded as a whole, too.
func TestIncludesAreBounded(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for _, name := range []string{"a", "b", "c"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(maxFileSize/2 - 1); err != nil {
			t.Fatal(err)
		}
		f.Close()
		names = append(names, name)
	}
	_, err := Load(written(t, dir, "edge.yaml", under+"  firewall: {include: ["+strings.Join(names, ", ")+"]}\n", 0o600))
	if want := "spec.firewall.include[2]: " + filepath.Join(dir, "c") + ": it is beyond the limit of 64 MiB for all included files; include less"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %.300v, want %s", err, want)
	}
}
