package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/topo"
)

// Toggle is an ethtool feature of the interfaces of one role, on or off:
// "underlay:tx-udp_tnl-segmentation=off".
type Toggle struct {
	Role, Feature string
	On            bool
}

// Roles are the interfaces of a path, named as in Environment.Offloads.
func Roles() []string { return []string{"client", "access", "underlay", "server"} }

// UnmarshalText reads "ROLE:FEATURE=on" or "=off".
func (t *Toggle) UnmarshalText(text []byte) error {
	key, value, okValue := strings.Cut(string(text), "=")
	role, feature, okFeature := strings.Cut(key, ":")
	if !okValue || !okFeature || feature == "" || (value != "on" && value != "off") {
		return fmt.Errorf("%q is not ROLE:FEATURE=on or =off, such as underlay:tx-udp_tnl-segmentation=off", text)
	}
	if !slices.Contains(Roles(), role) {
		return fmt.Errorf("%q: unknown role %q; choose from %s", text, role, strings.Join(Roles(), ", "))
	}
	*t = Toggle{Role: role, Feature: feature, On: value == "on"}
	return nil
}

// String is what UnmarshalText reads.
func (t Toggle) String() string {
	value := "off"
	if t.On {
		value = "on"
	}
	return t.Role + ":" + t.Feature + "=" + value
}

// CheckToggles says what is wrong with several.
func CheckToggles(toggles []Toggle) error {
	for i, t := range toggles {
		if slices.ContainsFunc(toggles[:i], func(o Toggle) bool { return o.Role == t.Role && o.Feature == t.Feature }) {
			return fmt.Errorf("--offload: %s:%s is named twice", t.Role, t.Feature)
		}
	}
	return nil
}

// SetFeatures applies the toggles of the roles given to both sides of n.
func SetFeatures(n *topo.TwoHosts, toggles []Toggle, roles ...string) error {
	var errs []error
	for _, role := range roles {
		want := map[string]bool{}
		for _, t := range toggles {
			if t.Role == role {
				want[t.Feature] = t.On
			}
		}
		if len(want) == 0 {
			continue
		}
		for _, at := range interfaces(n, role) {
			_, err := at.Host.SetFeatures(at.Name, want)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// HostInterface is an interface of a host.
type HostInterface struct {
	Host *topo.Host
	Name string
}

// interfaces are those of a role in the standard topology.
func interfaces(n *topo.TwoHosts, role string) []HostInterface {
	switch role {
	case "client":
		return []HostInterface{{n.Client, topo.EndName}}
	case "server":
		return []HostInterface{{n.Server, topo.EndName}}
	case "access":
		return []HostInterface{{n.A, topo.AccessName}, {n.B, topo.AccessName}}
	}
	return []HostInterface{{n.A, topo.UnderlayName}, {n.B, topo.UnderlayName}}
}
