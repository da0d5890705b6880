// Package boot tests Selvage as an operator runs it: packages, installed on Debian, and edges as units of systemd. The
// whole life of a host is that of a container on this kernel, its beginning that of a virtual machine with Debian's own too.
//
// Its one invariant: the other end of every tunnel is the kernel's vxlan device, which is not ours. It is in make
// test-long alone.
package boot
