package agent

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
)

// Settings of an adapter, beside its features.
const (
	RxRing     = "rx-ring"     // frames
	TxRing     = "tx-ring"     // frames
	RxUsecs    = "rx-usecs"    // µs from a frame to its interrupt
	AdaptiveRx = "adaptive-rx" // on or off: the driver chooses these
	UDPHash4   = "udp4-hash"   // what RSS hashes of UDP over IPv4: addresses or ports, which has both
	UDPHash6   = "udp6-hash"
	Pauses     = "pause" // frames of flow control: autoneg, rx and tx that are on, joined by +, or off
)

// Values of UDPHash4 and UDPHash6.
const (
	HashAddresses = "addresses"
	HashPorts     = "ports"
)

// Settings are all of them.
func Settings() []string {
	return []string{RxRing, TxRing, RxUsecs, AdaptiveRx, UDPHash4, UDPHash6, Pauses}
}

// Adapter is what of an interface can be changed.
type Adapter struct {
	Driver   string             `json:"driver"`
	Features map[string]bool    `json:"features"` // in force, of those that can be changed
	Settings map[string]Setting `json:"settings"`
	// Missing are the settings that it does not have, and why.
	Missing map[string]string `json:"missing"`
}

// Setting is how one is. Most is of rings.
type Setting struct {
	Value string `json:"value"`
	Most  string `json:"most,omitempty"`
}

// adapter is what ethtool.Tool does.
type adapter interface {
	Ring(name string) (ethtool.Ring, error)
	SetRing(name string, rx, tx uint32) error
	Coalesce(name string) (ethtool.Coalesce, error)
	SetCoalesce(name string, c ethtool.Coalesce) error
	RSSFields(name string, flow uint32) (uint64, error)
	SetRSSFields(name string, flow uint32, fields uint64) error
	Pause(name string) (ethtool.Pause, error)
	SetPause(name string, p ethtool.Pause) error
}

func adapterOf(iface string) (a Adapter, err error) {
	tool, err := ethtool.Open()
	if err != nil {
		return a, err
	}
	defer tool.Close()
	a.Driver, _ = tool.DriverName(iface) // some have no name
	if _, a.Features, err = features(iface); err != nil {
		return a, err
	}
	a.Settings, a.Missing = map[string]Setting{}, map[string]string{}
	for _, setting := range Settings() {
		s, err := readSetting(tool, iface, setting)
		if err != nil {
			a.Missing[setting] = err.Error()
			continue
		}
		a.Settings[setting] = s
	}
	return a, nil
}

func lookSetting(iface, setting string) (Setting, error) {
	tool, err := ethtool.Open()
	if err != nil {
		return Setting{}, err
	}
	defer tool.Close()
	s, err := readSetting(tool, iface, setting)
	return s, named(iface, setting, err)
}

func makeSetting(iface, setting, value string) error {
	tool, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer tool.Close()
	return writeSetting(tool, iface, setting, value)
}

// parseSetting checks a value. Those of words have no number.
func parseSetting(setting, value string) (number uint32, err error) {
	words := []string{"on", "off"}
	switch setting {
	case RxRing, TxRing, RxUsecs:
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n == 0 && setting != RxUsecs {
			return 0, fmt.Errorf("%s=%s: it takes a number", setting, value)
		}
		return uint32(n), nil
	case UDPHash4, UDPHash6:
		words = []string{HashAddresses, HashPorts}
	case Pauses:
		_, err := parsePause(value)
		return 0, err
	}
	if value != words[0] && value != words[1] {
		return 0, fmt.Errorf("%s=%s: it takes %s or %s", setting, value, words[0], words[1])
	}
	return 0, nil
}

func flowOf(setting string) uint32 {
	if setting == UDPHash6 {
		return ethtool.UDPv6
	}
	return ethtool.UDPv4
}

// readSetting is how a setting is.
func readSetting(a adapter, iface, setting string) (s Setting, err error) {
	switch setting {
	case RxRing, TxRing:
		var r ethtool.Ring
		r, err = a.Ring(iface)
		now, most := r.RxPending, r.RxMaxPending
		if setting == TxRing {
			now, most = r.TxPending, r.TxMaxPending
		}
		if err == nil && now == 0 {
			err = unix.EOPNOTSUPP
		}
		s = Setting{Value: fmt.Sprint(now), Most: fmt.Sprint(most)}
	case RxUsecs, AdaptiveRx:
		var c ethtool.Coalesce
		c, err = a.Coalesce(iface)
		s.Value = fmt.Sprint(c.RxCoalesceUsecs)
		if setting == AdaptiveRx {
			s.Value = onOff(c.UseAdaptiveRxCoalesce != 0)
		}
	case Pauses:
		var p ethtool.Pause
		p, err = a.Pause(iface)
		s.Value = PauseValue(p.Autoneg != 0, p.RxPause != 0, p.TxPause != 0)
	case UDPHash4, UDPHash6:
		var fields uint64
		fields, err = a.RSSFields(iface, flowOf(setting))
		switch fields {
		case ethtool.HashSource | ethtool.HashDestination:
			s.Value = HashAddresses
		case ethtool.HashSource | ethtool.HashDestination | ethtool.HashPorts:
			s.Value = HashPorts
		default:
			if err == nil {
				err = fmt.Errorf("it hashes other fields (%#x)", fields)
			}
		}
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = errors.New("the driver has no such setting")
	}
	return s, err
}

// named says what an error is of.
func named(iface, setting string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of %s: %w", setting, iface, err)
}

// writeSetting changes a setting that is another, and looks whether it has.
func writeSetting(a adapter, iface, setting, value string) error {
	number, err := parseSetting(setting, value)
	if err != nil {
		return err
	}
	was, err := readSetting(a, iface, setting)
	if err != nil || isSame(setting, was.Value, value) {
		return named(iface, setting, err)
	}
	if err := putSetting(a, iface, setting, value, number); err != nil {
		return fmt.Errorf("%s:%s=%s: the driver refuses it: %w", iface, setting, value, err)
	}
	now, err := readSetting(a, iface, setting)
	if err == nil && !isSame(setting, now.Value, value) {
		return fmt.Errorf("%s:%s=%s: the driver made it %s", iface, setting, value, now.Value)
	}
	return named(iface, setting, err)
}

// isSame says whether two values are one setting. With autonegotiation the link's ends agree on who pauses, once it is up.
func isSame(setting, a, b string) bool {
	negotiated := func(value string) bool { return setting == Pauses && strings.HasPrefix(value, pauseWords[0]) }
	return a == b || negotiated(a) && negotiated(b)
}

func putSetting(a adapter, iface, setting, value string, number uint32) error {
	switch setting {
	case RxRing, TxRing:
		r, err := a.Ring(iface)
		if err != nil {
			return err
		}
		if setting == RxRing {
			r.RxPending = number
		} else {
			r.TxPending = number
		}
		return a.SetRing(iface, r.RxPending, r.TxPending)
	case RxUsecs, AdaptiveRx:
		c, err := a.Coalesce(iface)
		if err != nil {
			return err
		}
		if setting == RxUsecs {
			c.RxCoalesceUsecs = number
		} else if c.UseAdaptiveRxCoalesce = 0; value == "on" {
			c.UseAdaptiveRxCoalesce = 1
		}
		return a.SetCoalesce(iface, c)
	case Pauses:
		p, err := parsePause(value)
		if err != nil {
			return err
		}
		return a.SetPause(iface, p)
	}
	fields := uint64(ethtool.HashSource | ethtool.HashDestination)
	if value == HashPorts {
		fields |= ethtool.HashPorts
	}
	return a.SetRSSFields(iface, flowOf(setting), fields)
}

// pauseWords are the parts of a flow control, as ethtool -A calls them.
var pauseWords = [...]string{"autoneg", "rx", "tx"}

// PauseValue is that of Pauses, of what is on.
func PauseValue(autoneg, rx, tx bool) string {
	var on []string
	for i, part := range [...]bool{autoneg, rx, tx} {
		if part {
			on = append(on, pauseWords[i])
		}
	}
	return cmp.Or(strings.Join(on, "+"), "off")
}

func parsePause(value string) (p ethtool.Pause, err error) {
	if value == "off" {
		return p, nil
	}
	for word := range strings.SplitSeq(value, "+") {
		switch word {
		case pauseWords[0]:
			p.Autoneg = 1
		case pauseWords[1]:
			p.RxPause = 1
		case pauseWords[2]:
			p.TxPause = 1
		default:
			return p, fmt.Errorf("%s=%s: it takes off, or some of autoneg, rx and tx with + between", Pauses, value)
		}
	}
	return p, nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
