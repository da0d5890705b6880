package kernel

import "testing"

func TestSourceOf(t *testing.T) {
	const mounts = `22 1 0:21 / / rw - ext4 /dev/vda rw
23 22 0:22 / /sys rw,relatime shared:7 - sysfs sysfs rw
40 23 0:40 / /sys/fs/bpf rw - bpf bpf rw,mode=700
41 23 0:41 / /sys/fs/bpf rw - bpf selvage rw,mode=700
42 22 0:42 / /mnt/bpf rw - bpf host rw
`
	for path, want := range map[string]string{
		"/sys/fs/bpf/selvage": "selvage", // the one that was mounted last hides the other
		"/mnt/bpf":            "host", "/mnt/bpf/x": "host",
		"/mnt/bpfs": "", "/sys/fs": "", "/": "",
	} {
		if got := sourceOf(mounts, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
