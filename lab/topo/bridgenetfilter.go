package topo

import (
	"errors"
	"fmt"
	"io/fs"
)

// BridgeNetfilter says whether the bridges of a host pass their frames to
// iptables, ip6tables and arptables. The kernel's module br_netfilter does it, in
// every new namespace unless told otherwise, at a cost for each frame. Hosts do not,
// whether it is loaded or not, unless a bed asks for it.
type BridgeNetfilter string

// The choices; "" is BridgeNetfilterOff.
const (
	BridgeNetfilterDefault BridgeNetfilter = "default" // as in a namespace that nobody changed: on where br_netfilter is loaded
	BridgeNetfilterOn      BridgeNetfilter = "on"      // an error without br_netfilter
	BridgeNetfilterOff     BridgeNetfilter = "off"
)

// BridgeNetfilterSysctls are the sysctls of a host that BridgeNetfilter sets. They
// are there only while br_netfilter is loaded.
func BridgeNetfilterSysctls() []string {
	return []string{
		"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables", "net.bridge.bridge-nf-call-arptables",
	}
}

func (b BridgeNetfilter) check() error {
	switch b {
	case BridgeNetfilterDefault, BridgeNetfilterOn, BridgeNetfilterOff:
		return nil
	}
	return fmt.Errorf("bridge netfilter %q: choose default, on or off", string(b))
}

// SetBridgeNetfilter makes the choice in force for all bridges of h.
func (h *Host) SetBridgeNetfilter(b BridgeNetfilter) error {
	value := "1"
	if b == BridgeNetfilterOff {
		value = "0"
	}
	for _, key := range BridgeNetfilterSysctls() {
		err := h.SysctlSet(key, value)
		switch missing := errors.Is(err, fs.ErrNotExist); {
		case missing && b != BridgeNetfilterOn: // no bridge asks netfilter
		case missing:
			return fmt.Errorf("bridge netfilter on %s: %w: load the kernel's module br_netfilter (modprobe br_netfilter)", h.Name, err)
		case err != nil:
			return fmt.Errorf("bridge netfilter %s on %s: %w", b, h.Name, err)
		}
	}
	return nil
}
