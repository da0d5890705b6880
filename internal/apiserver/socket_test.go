package apiserver

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestListenForGroup(t *testing.T) {
	own, err := user.LookupGroupId("0")
	if err != nil || os.Getuid() != 0 {
		t.Skip("only root gives files to a group")
	}
	path := filepath.Join(t.TempDir(), "a.sock")
	for group, mode := range map[string]os.FileMode{"": 0o600, own.Name: 0o660} {
		l, err := Listen(path, group)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode || info.Sys().(*syscall.Stat_t).Gid != 0 {
			t.Errorf("group %q: %v, %v", group, info, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Listen(path, "no-such-group"); err == nil || !strings.Contains(err.Error(), "no-such-group") {
		t.Errorf("a group that is not there: %v", err)
	}
}
