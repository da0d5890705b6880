package ports

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/gen"
)

// Encap is the tunnel at the side of --tx.
type Encap struct {
	Encapsulation overlay.Encapsulation
	VNI           overlay.VNI
	Remote        netip.Addr // the device's TEP
}

// UnmarshalText reads ENCAP:VNI@TEP.
func (e *Encap) UnmarshalText(text []byte) error {
	name, rest, _ := strings.Cut(string(text), ":")
	number, remote, _ := strings.Cut(rest, "@")
	vni, errVNI := strconv.ParseUint(number, 10, 24)
	addr, errAddr := netip.ParseAddr(remote)
	e.Encapsulation, e.VNI, e.Remote = overlay.Encapsulation(name), overlay.VNI(vni), addr
	switch e.Encapsulation {
	case overlay.VXLAN, overlay.Geneve, overlay.NVGRE:
		if errVNI == nil && errAddr == nil {
			return nil
		}
	}
	return fmt.Errorf("%q is not vxlan:VNI@TEP, geneve:VNI@TEP or nvgre:VSID@TEP with the device's tunnel endpoint, such as vxlan:100@192.0.2.1", text)
}

// Options are Geneve's in hexadecimal digits.
type Options []byte

// UnmarshalText reads hexadecimal digits.
func (o *Options) UnmarshalText(text []byte) (err error) {
	*o, err = hex.DecodeString(string(text))
	return err
}

// innerMAC is the source of frames in the tunnel.
func innerMAC() net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0x0f, 2} }

// tunnel is what is around the frames that leave --tx from an address there; nil is none.
func (c *Command) tunnel(from netip.Addr) *gen.Tunnel {
	if c.Encap.Encapsulation == "" {
		return nil
	}
	to, _ := net.ParseMAC(c.EncapMAC) // Check has read it
	return &gen.Tunnel{
		Encapsulation: c.Encap.Encapsulation, Local: from, Remote: c.Encap.Remote, VNI: c.Encap.VNI, Options: c.EncapOptions, SrcMAC: innerMAC(), DstMAC: to,
	}
}

// overhead is what a tunnel adds to a frame.
func (c *Command) overhead() int {
	if c.Encap.Encapsulation == "" {
		return 0
	}
	return c.Encap.Encapsulation.Overhead(c.Encap.Remote) + len(c.EncapOptions)
}

// checkEncap sees that a tunnel has what it needs.
func (c *Command) checkEncap() error {
	switch {
	case c.Encap.Encapsulation == "" && (c.EncapMAC != "" || len(c.EncapOptions) > 0):
		return errors.New("--encap-mac, --encap-options: there is no --encap")
	case c.Encap.Encapsulation == "":
		return nil
	case c.L2:
		return errors.New("--encap: the device ends the tunnel, so it is no --l2")
	case !c.TxNet.IsValid():
		return errors.New("--encap: name the network behind the tunnel with --tx-net")
	case len(c.TxAddress) == 0:
		return nil // which is an error elsewhere
	}
	if mac, err := net.ParseMAC(c.EncapMAC); err != nil || len(mac) != 6 {
		return fmt.Errorf("--encap-mac: %q is no MAC address: give that of the device's router inside the tunnel", c.EncapMAC)
	}
	if err := c.tunnel(c.TxAddress[0].Addr()).Check(); err != nil {
		return fmt.Errorf("--encap, --encap-options: %w", err)
	}
	return nil
}
