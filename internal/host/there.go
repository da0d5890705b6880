package host

import (
	"runtime"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
)

// socketIn opens a netlink socket in a namespace. A thread that is there does not enter it, which takes CAP_SYS_ADMIN.
func socketIn(ns netns.NsHandle, open func(at netns.NsHandle) (*nl.NetlinkSocket, error)) (*nl.NetlinkSocket, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		return nil, err
	}
	defer here.Close()
	if here.Equal(ns) {
		return open(netns.None())
	}
	return open(ns)
}
