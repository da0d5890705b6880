package places

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// User is one of a machine's beside root, who logs in with the testbed's key.
type User struct {
	Name, Password string
	Sudoers        string // lines of its sudoers file, such as "op ALL=(ALL) ALL"
}

// AddUser has a machine, and no other, know a user: files of its own are mounted over those in /etc.
func (b *Testbed) AddUser(ctx context.Context, m *Machine, u User) error {
	hash, err := exec.CommandContext(ctx, "openssl", "passwd", "-6", u.Password).Output()
	if err != nil {
		return fmt.Errorf("hash a password: %w", err)
	}
	const id = 54321
	files := map[string]string{
		"/etc/passwd":     fmt.Sprintf("%s:x:%d:%d::/tmp:/bin/sh\n", u.Name, id, id),
		"/etc/group":      fmt.Sprintf("%s:x:%d:\n", u.Name, id),
		"/etc/shadow":     fmt.Sprintf("%s:%s:19000:0:99999:7:::\n", u.Name, strings.TrimSpace(string(hash))),
		"/etc/pam.d/sudo": "auth required pam_unix.so\naccount required pam_unix.so\nsession required pam_permit.so\n",
		"/etc/sudoers":    "Defaults !fqdn\nroot ALL=(ALL) ALL\n" + u.Sudoers + "\n",
	}
	for path, text := range files {
		if path != "/etc/sudoers" && path != "/etc/pam.d/sudo" {
			was, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(was) + text
		}
		name := m.Host.Name + "-" + filepath.Base(path)
		mode := map[bool]os.FileMode{true: 0o440, false: 0o644}[path == "/etc/sudoers" || path == "/etc/shadow"]
		if err := os.WriteFile(filepath.Join(b.Dir, name), []byte(text), mode); err != nil {
			return err
		}
		mount := exec.CommandContext(ctx, "nsenter", "--mount", "--target", strconv.Itoa(m.sshd.PID()), "mount", "--bind", "/mnt/"+name, path)
		if out, err := mount.CombinedOutput(); err != nil {
			return fmt.Errorf("mount over %s: %w: %s", path, err, out)
		}
	}
	return os.Chmod(b.Dir, 0o755) // the user's keys are there
}
