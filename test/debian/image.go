package debian

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Recipe is what a machine's root is made of.
type Recipe struct {
	Suite    string   // of Debian, as "trixie"
	Packages []string // besides what a machine needs to boot and be talked to
	Kernel   string   // of virtual machines, a package; "" is that for clouds
}

// basic are the packages of each machine, virtually those of virtual ones besides.
var (
	basic     = []string{"systemd-sysv", "dbus", "iproute2", "procps"}
	virtually = []string{"udev", "kmod", "qemu-guest-agent"}
)

// mirror is where packages come from; apt's own proxy settings count.
const mirror = "http://deb.debian.org/debian"

// recipeVersion changes with what is done besides, and diskSize is that of disks, of which nothing is used until it is written.
const recipeVersion, diskSize = "4", "3G"

// initramfs has those modules in the first file system that a virtual machine's disk needs: unpacking all takes an
// emulated processor longer than the rest of the boot.
const initramfs = `mkdir -p $1/etc/initramfs-tools/conf.d $1/etc/initramfs-tools/hooks
echo MODULES=list > $1/etc/initramfs-tools/conf.d/test
printf '#!/bin/sh\n[ "$1" != prereqs ] || exit 0\n. /usr/share/initramfs-tools/hook-functions\nmanual_add_modules virtio_pci virtio_blk ext4\n' > $1/etc/initramfs-tools/hooks/test
chmod 755 $1/etc/initramfs-tools/hooks/test`

// image is a disk with the kernel that is on it.
type image struct{ disk, kernel, initrd string }

// cacheDir is where images stay from one run to the next: outside the repository, and nothing else's.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = "/var/cache" // root without a home
	}
	dir = filepath.Join(dir, "selvage", "machines")
	return dir, os.MkdirAll(dir, 0o755)
}

// root is a directory with the root of a recipe, for containers.
func (r Recipe) root(ctx context.Context) (string, error) {
	dir, err := r.make(ctx, "root", slices.Concat(basic, r.Packages), func(string) error { return nil })
	return filepath.Join(dir, "root"), err
}

// disk is the image of a recipe, for virtual machines.
func (r Recipe) disk(ctx context.Context) (image, error) {
	kernel := r.Kernel
	if kernel == "" {
		kernel = "linux-image-cloud-amd64"
	}
	dir, err := r.make(ctx, "disk", slices.Concat(basic, virtually, []string{kernel}, r.Packages), func(root string) error { return toDisk(ctx, root) })
	return image{filepath.Join(dir, "disk"), filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "initrd")}, err
}

// make makes the directory of an image, unless it is there. Others wait meanwhile.
func (r Recipe) make(ctx context.Context, kind string, packages []string, finish func(root string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(slices.Concat([]string{recipeVersion, diskSize, kind}, packages), "\n")))
	dir := filepath.Join(cache, r.Suite+"-"+kind+"-"+hex.EncodeToString(sum[:6]))
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	work, err := os.MkdirTemp(cache, ".making-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil { // of a root too, which not only root reads
		return "", err
	}
	root := filepath.Join(work, "root")
	if err := r.bootstrap(ctx, root, packages); err != nil {
		return "", fmt.Errorf("root of Debian %s: %w", r.Suite, err)
	}
	if err := finish(root); err != nil {
		return "", fmt.Errorf("image of Debian %s: %w", r.Suite, err)
	}
	return dir, os.Rename(work, dir)
}

// bootstrap makes a root. Services of packages start when a test says so.
func (r Recipe) bootstrap(ctx context.Context, root string, packages []string) error {
	return run(ctx, "mmdebstrap", "--quiet", "--variant=minbase", "--include="+strings.Join(packages, ","),
		"--essential-hook=mkdir -p $1/etc/systemd/system-preset && printf 'enable qemu-guest-agent.service\ndisable *\n' > $1/etc/systemd/system-preset/00-test.preset",
		"--essential-hook="+initramfs,
		// A line of the journal for each question hides what matters, and costs more than the question.
		"--customize-hook=mkdir -p $1/etc/systemd/system/qemu-guest-agent.service.d && printf '[Service]\nLogLevelMax=warning\n' > $1/etc/systemd/system/qemu-guest-agent.service.d/quiet.conf",
		"--customize-hook=chroot $1 passwd -d root >/dev/null", "--customize-hook=chroot $1 systemctl preset-all --preset-mode=full >/dev/null 2>&1",
		"--customize-hook=echo vm > $1/etc/hostname", "--customize-hook=rm -rf $1/var/lib/apt/lists/* $1/usr/share/doc $1/usr/share/locale",
		r.Suite, root, "deb "+mirror+" "+r.Suite+" main")
}

// toDisk makes a disk of a root, and leaves the kernel beside it.
func toDisk(ctx context.Context, root string) error {
	into := filepath.Dir(root)
	for from, to := range map[string]string{"vmlinuz-*": "vmlinuz", "initrd.img-*": "initrd"} {
		found, err := filepath.Glob(filepath.Join(root, "boot", from))
		if err != nil || len(found) != 1 {
			return errors.Join(err, fmt.Errorf("%s: %v", from, found))
		}
		if err := os.Rename(found[0], filepath.Join(into, to)); err != nil {
			return err
		}
	}
	disk := filepath.Join(into, "disk")
	if err := run(ctx, "mke2fs", "-q", "-t", "ext4", "-F", "-d", root, disk, diskSize); err != nil {
		return err
	}
	return os.RemoveAll(root)
}

func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}
