package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
)

// Change is a setting of a machine for the time of a session: IFACE:FEATURE=on or off (an offload,
// by ethtool -k's kernel name), IFACE:mtu=BYTES, IFACE:SETTING=VALUE of its adapter, or a sysctl of
// the network, net.KEY=VALUE.
type Change struct {
	Interface, Feature string
	On                 bool
	MTU                int // bytes; of the interface, which has no feature then

	Setting string // of the adapter, one of Settings

	Sysctl string // the name with dots; a slash stands for a dot in a word of it
	Value  string // of a sysctl or a setting
}

// MarshalText writes what UnmarshalText reads.
func (c Change) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what String writes.
func (c *Change) UnmarshalText(text []byte) error {
	key, value, found := strings.Cut(string(text), "=")
	wrong := fmt.Errorf("%q is neither IFACE:FEATURE=on or =off, such as eth0:tx-checksum-ip-generic=off, nor IFACE:mtu=BYTES nor net.KEY=VALUE", text)
	if !found || value == "" {
		return wrong
	}
	if strings.HasPrefix(key, "net.") {
		if *c = (Change{Sysctl: key, Value: value}); !strings.HasPrefix(c.sysctlPath(), "/proc/sys/net/") {
			return wrong
		}
		return nil
	}
	iface, what, found := strings.Cut(key, ":")
	if !found || iface == "" || what == "" || strings.ContainsAny(iface, "/ ") {
		return wrong
	}
	return c.ofInterface(iface, what, value, wrong)
}

// ofInterface reads what of an interface is to get a value.
func (c *Change) ofInterface(iface, what, value string, wrong error) error {
	switch {
	case what == "mtu":
		bytes, err := strconv.Atoi(value)
		if err != nil || bytes < leastMTU || bytes > mostMTU {
			return fmt.Errorf("%s:mtu=%s is no MTU from %d to %d bytes", iface, value, leastMTU, mostMTU)
		}
		*c = Change{Interface: iface, MTU: bytes}
	case slices.Contains(Settings(), what):
		*c = Change{Interface: iface, Setting: what, Value: value}
		_, err := parseSetting(what, value)
		return err
	case value == onOff(true) || value == onOff(false):
		*c = Change{Interface: iface, Feature: what, On: value == onOff(true)}
	default:
		return wrong
	}
	return nil
}

// String is what UnmarshalText reads.
func (c Change) String() string {
	switch {
	case c.Sysctl != "":
		return c.Sysctl + "=" + c.Value
	case c.Setting != "":
		return c.Interface + ":" + c.Setting + "=" + c.Value
	case c.MTU != 0:
		return fmt.Sprintf("%s:mtu=%d", c.Interface, c.MTU)
	case c.On:
		return c.Interface + ":" + c.Feature + "=on"
	}
	return c.Interface + ":" + c.Feature + "=off"
}

// sysctlPath is the file of a sysctl: as sysctl(8) has it, a slash stands for a dot in a name.
func (c Change) sysctlPath() string {
	swapped := strings.Map(func(r rune) rune {
		switch r {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return r
	}, c.Sysctl)
	return filepath.Join("/proc/sys", filepath.Clean("/"+swapped))
}

// allowed refuses what would touch the interface that carries the session.
func (c Change) allowed(carriers []string) error {
	name := c.Interface
	if words := strings.Split(c.sysctlPath(), "/"); c.Sysctl != "" && len(words) > 7 && (words[5] == "conf" || words[5] == "neigh") {
		name = words[6] // /proc/sys/net/ipv4/conf/NAME/KEY
		if name == "all" && len(carriers) > 0 {
			return fmt.Errorf("%s is of all interfaces, of which %s carries this SSH session: name one", c, carriers[0])
		}
	}
	if name != "" && slices.Contains(carriers, name) {
		return fmt.Errorf("%s: %s carries this SSH session, and a mistake would cut it: reach the machine by another interface", c, name)
	}
	return nil
}

// undo is how something was before a change.
type undo struct {
	Change Change `json:"change,omitzero"`
	Old    string `json:"old,omitempty"` // of a sysctl or a setting

	OldMTU    int             `json:"old_mtu,omitempty"`
	Index     int             `json:"index,omitempty"` // tells the interface from a later one of its name
	Requested map[string]bool `json:"requested,omitempty"`
	Active    map[string]bool `json:"active,omitempty"`

	// Off is the command that undoes a Switch; Change has nothing then.
	Off string `json:"off,omitempty"`
}

// name is what was changed.
func (u undo) name() string {
	if u.Off != "" {
		return "command " + u.Off
	}
	return u.Change.String()
}

// covers says whether undoing u undoes what o would.
func (u undo) covers(o undo) bool {
	return u.Off == o.Off && u.Change.Sysctl == o.Change.Sysctl && u.Change.Interface == o.Change.Interface && u.Index == o.Index &&
		u.Change.Setting == o.Change.Setting && (u.Change.MTU == 0) == (o.Change.MTU == 0)
}

// String is for people.
func (u undo) String() string {
	if u.Change.Sysctl != "" || u.Change.Setting != "" {
		return fmt.Sprintf("%s (is %s)", u.Change, u.Old)
	}
	if u.Change.MTU != 0 {
		return fmt.Sprintf("%s (is %d)", u.Change, u.OldMTU)
	}
	was := "off"
	if u.Active[u.Change.Feature] {
		was = "on"
	}
	return fmt.Sprintf("%s (is %s)", u.Change, was)
}

// look is how things are before a change, which has to be possible.
func (c Change) look() (undo, error) {
	u := undo{Change: c}
	if c.Sysctl != "" {
		data, err := os.ReadFile(c.sysctlPath())
		u.Old = strings.TrimSpace(string(data))
		return u, err
	}
	dev, err := net.InterfaceByName(c.Interface)
	if err != nil {
		return u, fmt.Errorf("interface %s: %w", c.Interface, err)
	}
	u.Index = dev.Index
	if c.Setting != "" {
		s, err := lookSetting(c.Interface, c.Setting)
		u.Old = s.Value
		return u, err
	}
	if c.MTU != 0 {
		u.OldMTU = dev.MTU
		return u, nil
	}
	if u.Requested, u.Active, err = features(c.Interface); err != nil {
		return u, err
	}
	if _, can := u.Requested[c.Feature]; !can {
		return u, fmt.Errorf("%s: %s has no such feature that can be changed; see ethtool -k %s", c, c.Interface, c.Interface)
	}
	return u, nil
}

// make changes it, and looks whether it has.
func (c Change) make() error {
	if c.Sysctl != "" {
		return os.WriteFile(c.sysctlPath(), []byte(c.Value), 0)
	}
	if c.Setting != "" {
		return makeSetting(c.Interface, c.Setting, c.Value)
	}
	if c.MTU != 0 {
		return setMTU(c.Interface, c.MTU)
	}
	if err := setFeatures(c.Interface, map[string]bool{c.Feature: c.On}); err != nil {
		return err
	}
	_, active, err := features(c.Interface)
	if err == nil && active[c.Feature] != c.On {
		return fmt.Errorf("%s: the driver leaves it as it is", c)
	}
	return err
}

// restore sets it as it was, and looks whether it is. An interface that is gone needs nothing.
func (u undo) restore() error {
	switch {
	case u.Off != "":
		return runCommand(context.Background(), (*exec.Cmd).Start, u.Off)
	case u.Change.Sysctl != "":
		return u.restoreSysctl()
	}
	dev, err := net.InterfaceByName(u.Change.Interface)
	if err != nil || dev.Index != u.Index {
		return nil
	}
	if u.Change.Setting != "" {
		return makeSetting(u.Change.Interface, u.Change.Setting, u.Old)
	}
	if u.Change.MTU == 0 {
		return u.restoreFeatures()
	}
	if dev.MTU == u.OldMTU {
		return nil
	}
	return setMTU(u.Change.Interface, u.OldMTU)
}

func (u undo) restoreSysctl() error {
	now, err := u.Change.look()
	if err == nil && now.Old != u.Old { // a change that was not allowed needs no undo, which is not either
		err = os.WriteFile(u.Change.sysctlPath(), []byte(u.Old), 0)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (u undo) restoreFeatures() error {
	requested, active, err := features(u.Change.Interface)
	if err != nil || maps.Equal(requested, u.Requested) && maps.Equal(active, u.Active) {
		return err
	}
	if err := setFeatures(u.Change.Interface, u.Requested); err != nil {
		return fmt.Errorf("offloads of %s: %w", u.Change.Interface, err)
	}
	_, active, err = features(u.Change.Interface)
	if err != nil {
		return err
	}
	for _, feature := range slices.Sorted(maps.Keys(u.Active)) {
		if active[feature] != u.Active[feature] {
			return fmt.Errorf("offloads of %s: %s stays %t", u.Change.Interface, feature, active[feature])
		}
	}
	return nil
}

// features are those of an interface that can be changed: what is asked for, and what is in force.
func features(iface string) (requested, active map[string]bool, err error) {
	tool, err := ethtool.Open()
	if err != nil {
		return nil, nil, err
	}
	defer tool.Close()
	states, err := tool.FeaturesWithState(iface)
	if err != nil {
		return nil, nil, fmt.Errorf("offloads of %s: %w", iface, err)
	}
	requested, active = map[string]bool{}, map[string]bool{}
	for name, s := range states {
		if s.Available && !s.NeverChanged {
			requested[name], active[name] = s.Requested, s.Active
		}
	}
	return requested, active, nil
}

// MTUs that may be asked for: below the least of IPv6 (RFC 8200 section 5) the kernel removes an
// interface's IPv6 addresses, which no later MTU brings back.
const leastMTU, mostMTU = 1280, 65535

func setMTU(iface string, bytes int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("MTU of %s: %w", iface, err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(iface)
	if err == nil {
		request.SetUint32(uint32(bytes))
		err = unix.IoctlIfreq(fd, unix.SIOCSIFMTU, request)
	}
	if err != nil {
		return fmt.Errorf("MTU %d of %s: %w", bytes, iface, err)
	}
	return nil
}

func setFeatures(iface string, want map[string]bool) error {
	tool, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.Change(iface, want)
}
