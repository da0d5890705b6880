package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"github.com/selvage/selvage/internal/overlay"
)

// scalar is a value that is written as one word. The same type also gives its
// JSON Schema, so that both stay together.
type scalar interface {
	// parse returns nil or what is wrong with text.
	parse(text string) *problem
}

// integral is a scalar that may also be written as an integer.
type integral interface{ integral() }

type problem struct{ message, hint string }

// A DNS label (RFC 1123 section 2.1), lower case.
var labelPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

type label string

func (l *label) parse(text string) *problem {
	if !labelPattern.MatchString(text) {
		return &problem{fmt.Sprintf("%q is not a DNS label", text),
			`use 1 to 63 of a-z, 0-9 and "-", with no "-" at either end: it names a socket and a directory`}
	}
	*l = label(text)
	return nil
}

// JSONSchema is called by the reflector.
func (label) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: labelPattern.String()}
}

// Names begin with a letter so that no command mistakes one for an address.
var objectNamePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)

type objectName string

func (n *objectName) parse(text string) *problem {
	if !objectNamePattern.MatchString(text) {
		return &problem{fmt.Sprintf("%q is not a name", text), `begin with a letter, then up to 62 letters, digits, "_", "." and "-"`}
	}
	*n = objectName(text)
	return nil
}

// JSONSchema is called by the reflector.
func (objectName) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: objectNamePattern.String()}
}

// What Linux takes (dev_valid_name in net/core/dev.c), less "%", which makes a
// template of a name, and control characters.
var interfacePattern = regexp.MustCompile(`^[^/:%\s\x00-\x1f\x7f]{1,15}$`)

type interfaceName string

func (n *interfaceName) parse(text string) *problem {
	switch {
	case len(text) > 15: // bytes, where the pattern counts characters
		return &problem{fmt.Sprintf("%q is too long for an interface name", text), "Linux takes up to 15 bytes; of one with a longer altname, ip link show dev ALTNAME says the name"}
	case text == ".", text == "..", !interfacePattern.MatchString(text):
		return &problem{fmt.Sprintf("%q is not an interface name", text), `no spaces, "/", ":" or "%"; see ip link`}
	}
	*n = interfaceName(text)
	return nil
}

// JSONSchema is called by the reflector.
func (interfaceName) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: interfacePattern.String()}
}

// address is that of a tunnel endpoint: unicast, without a zone.
type address struct{ netip.Addr }

func (a *address) parse(text string) *problem {
	addr, p := parseAddress(text)
	if p != nil {
		return p
	}
	p = checkHost(text, addr.WithZone(""), "use the unicast address of a tunnel endpoint")
	switch {
	case p != nil:
		return p
	case addr.Is6() && addr.IsLinkLocalUnicast(), addr.Zone() != "":
		return &problem{fmt.Sprintf("%s is valid on one link only", text), "use a global or unique local address"}
	}
	a.Addr = addr
	return nil
}

// JSONSchema is called by the reflector.
func (address) JSONSchema() *jsonschema.Schema { return addressSchema() }

type macAddress struct{ overlay.MAC }

func (m *macAddress) parse(text string) *problem {
	mac, err := overlay.ParseMAC(text)
	switch {
	case err != nil:
		return &problem{fmt.Sprintf("%q is not a 48-bit MAC address", text), `write it like "02:00:00:00:00:01"`}
	case mac.Multicast():
		return &problem{fmt.Sprintf("%s is a group address", text), "the lowest bit of the first byte must be 0; groups are flooded to all remotes anyway"}
	case mac == overlay.MAC{}:
		return &problem{fmt.Sprintf("%s is not a host's address", text), "use the address of an interface; see ip link"}
	}
	m.MAC = mac
	return nil
}

// JSONSchema is called by the reflector.
func (macAddress) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string",
		Pattern: `^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$` +
			`|^([0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}$` +
			`|^([0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}$`,
	}
}

// maxAgeing is the upper bound of IEEE 802.1Q table 8-8.
const maxAgeing = 1_000_000 * time.Second

type duration time.Duration

func (*duration) integral() {}

func (d *duration) parse(text string) *problem {
	value, p := parseDuration(text, "s", "300s or 5m; 0 means forever")
	switch {
	case p != nil:
		return p
	case value != 0 && (value < time.Second || value > maxAgeing):
		return &problem{fmt.Sprintf("%s is outside 1s to 1000000s", text), "0 means forever, 300s is usual"}
	}
	*d = duration(value)
	return nil
}

// parseDuration reads any duration; unit is the one that a bare number most likely lacks.
func parseDuration(text, unit, like string) (time.Duration, *problem) {
	value, err := time.ParseDuration(text)
	if err == nil {
		return value, nil
	}
	hint := "write it like " + like
	if text != "" && strings.Trim(text, "0123456789") == "" {
		hint = "add the unit: " + text + unit
	}
	return 0, &problem{fmt.Sprintf("%q is not a duration", text), hint}
}

// JSONSchema is called by the reflector.
func (duration) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$|^0$`},
		{Type: "integer", Enum: []any{0}},
	}}
}
