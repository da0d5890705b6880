// Package namespace identifies network namespaces, and has threads enter one.
//
// Its one invariant: a cookie is of one namespace until the next boot, which an inode number is
// not. A thread that entered a namespace is no other goroutine's any more: lock it for good.
package namespace

import "golang.org/x/sys/unix"

// Cookie identifies the calling thread's network namespace until the next boot, or is 0 where
// the kernel has no cookies.
func Cookie() uint64 {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return cookie
}
