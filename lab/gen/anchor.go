package gen

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// attachment holds a program attached to an interface that nobody uses. The kernel
// makes a direct call to a program while it is attached somewhere; without that
// every test run makes one and takes it away again, which is 25 ms of waiting.
type attachment struct {
	tap  int
	link link.Link
}

// newAttachment makes a tap device in a network namespace without a name. Both are
// gone when the file is closed.
func newAttachment(program *ebpf.Program) (*attachment, error) {
	a := &attachment{tap: -1}
	err := elsewhere(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		return a.attach(program)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep the generator attached to a device: %w", err), a.Close())
	}
	return a, nil
}

func (a *attachment) attach(program *ebpf.Program) error {
	const name = "gen"
	var err error
	if a.tap, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(a.tap, unix.TUNSETIFF, request); err != nil {
		return fmt.Errorf("make a tap device: %w", err)
	}
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("tap device %s: %w", name, err)
	}
	a.link, err = link.AttachXDP(link.XDPOptions{Program: program, Interface: dev.Index, Flags: link.XDPDriverMode})
	return err
}

// Close removes the device.
func (a *attachment) Close() error {
	var errs []error
	if a.link != nil {
		errs = append(errs, a.link.Close())
	}
	if a.tap >= 0 {
		errs = append(errs, unix.Close(a.tap))
	}
	return errors.Join(errs...)
}
