package doctor

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
)

// adapters asks the kernel by ethtool's ioctls, of which none here changes
// anything or needs root.
type adapters struct {
	tool   *ethtool.Tool
	socket int // for what the library cannot ask
}

func openAdapters() (*adapters, error) {
	tool, err := ethtool.Open()
	if err != nil {
		return nil, fmt.Errorf("open ethtool: %w", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tool.Close()
		return nil, fmt.Errorf("open ethtool: %w", err)
	}
	return &adapters{tool, socket}, nil
}

func (a *adapters) close() {
	a.tool.Close()
	_ = unix.Close(a.socket)
}

// NIC reads what the interface has; what it refuses to tell is Missing.
func (a *adapters) NIC(name string) NIC {
	var n NIC
	if d, err := a.tool.DriverInfo(name); n.told("driver", err) {
		n.Driver, n.Version, n.Firmware, n.Bus = d.Driver, d.Version, strings.TrimSpace(d.FwVersion), d.BusInfo
	}
	if mbps, err := a.tool.Speed(name); n.told("speed", err) && mbps != unknownSpeed && mbps != unknownSpeed16 {
		n.Mbps = int(mbps)
	}
	if features, err := a.tool.FeaturesWithState(name); n.told("offloads", err) {
		n.Features = make(map[string]Feature, len(features))
		for feature, s := range features {
			n.Features[feature] = Feature{On: s.Active, Fixed: !s.Available || s.NeverChanged, Requested: s.Requested && !s.Active}
		}
	}
	if r, err := a.tool.Ring(name); n.told("ring sizes", err) {
		n.Ring = &Ring{Rx: int(r.RxPending), RxMax: int(r.RxMaxPending), Tx: int(r.TxPending), TxMax: int(r.TxMaxPending)}
	}
	if c, err := a.tool.Channels(name); n.told("queues", err) {
		n.Channels = &Channels{Combined: int(c.CombinedCount), CombinedMax: int(c.MaxCombined), Rx: int(c.RxCount), RxMax: int(c.MaxRx)}
	}
	if p, err := a.tool.Pause(name); n.told("pause frames", err) {
		n.Pause = &Pause{Autoneg: p.Autoneg != 0, Rx: p.RxPause != 0, Tx: p.TxPause != 0}
	}
	if c, err := a.tool.Coalesce(name); n.told("interrupt coalescing", err) {
		n.Coalesce = &Coalesce{Adaptive: c.UseAdaptiveRxCoalesce != 0, RxMicros: int(c.RxCoalesceUsecs)}
	}
	if stats, err := a.tool.Stats(name); n.told("counters of the driver", err) {
		n.Counters = losses(stats)
	}
	a.addHash(name, &n)
	return n
}

// addHash asks for the RSS hash, which only several queues need.
func (a *adapters) addHash(name string, n *NIC) {
	if n.Channels == nil {
		return
	}
	if queues, _ := n.Channels.Receive(); queues < 2 {
		return
	}
	if fields, err := a.hashed(name, udp4Flow); n.told("RSS hash of UDP over IPv4", err) {
		n.Hash4, n.HashPorts4 = fields, hashesPorts(fields)
	}
	if fields, err := a.hashed(name, udp6Flow); n.told("RSS hash of UDP over IPv6", err) {
		n.Hash6, n.HashPorts6 = fields, hashesPorts(fields)
	}
}

func hashesPorts(fields string) *bool {
	ports := strings.Contains(fields, "f") && strings.Contains(fields, "n")
	return &ports
}

// SPEED_UNKNOWN of ethtool.h, in the old and in the new request's width.
const unknownSpeed, unknownSpeed16 = 1<<32 - 1, 1<<16 - 1

// told reports success and else keeps the reason.
func (n *NIC) told(what string, err error) bool {
	if err == nil {
		return true
	}
	why := err.Error()
	if errors.Is(err, unix.EOPNOTSUPP) {
		why = "its driver does not report it"
		if n.Driver != "" {
			why = "the driver " + n.Driver + " does not report it"
		}
	}
	n.Missing = append(n.Missing, Unknown{What: what, Why: why})
	return false
}

var lossPattern = regexp.MustCompile(`(?i)drop|miss|discard|no_buf|nobuf|no_dma|out_of_buf|overflow|overrun|fifo|crc|pause|xon|xoff`)

// losses are the counters that tell of lost packets and flow control.
func losses(stats map[string]uint64) map[string]uint64 {
	found := map[string]uint64{}
	for name, n := range stats {
		if n > 0 && lossPattern.MatchString(name) {
			found[name] = n
		}
	}
	return found
}

// ETHTOOL_GRXFH of ethtool.h: its command, and two flow types.
const (
	getHash            = 0x29
	udp4Flow, udp6Flow = 0x02, 0x06
)

// hashFields are the bits of the answer (RXH_* of ethtool.h) from the second on, by the letters of ethtool -N: f and n
// are bytes 0 to 3 of the layer 4 header.
const hashFields = "mvtsdfn"

// rxnfc is struct ethtool_rxnfc; the kernel uses only the first three for GRXFH.
type rxnfc struct {
	command, flow uint32
	data          uint64
	_             [256]byte // the rest, with room to spare
}

// hashed are the fields of packets of a flow type that RSS takes into account, by ethtool's letters.
func (a *adapters) hashed(name string, flow uint32) (fields string, err error) {
	question := rxnfc{command: getHash, flow: flow}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // struct ifreq's union is larger than a pointer
	}{data: unsafe.Pointer(&question)}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(a.socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return "", errno
	}
	if question.data == 0 { // not even addresses, as virtio without RSS says
		return "", errors.New("not readable here: the adapter names no field that it hashes")
	}
	for i, letter := range hashFields {
		if question.data>>(i+1)&1 == 1 {
			fields += string(letter)
		}
	}
	return fields, nil
}
