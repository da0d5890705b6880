package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/selvage/selvage/internal/overlay"
)

// anything is how a rule says that it does not look at something.
const anything = "any"

const memberHint = `write an address, a network like 10.0.0.0/24, a range like 10.0.0.5-10.0.0.9, a MAC address, the name of a group, or {segment: …}, {port: …}, {labels: …}`

// groupMember is what groups consist of and rules match: a word, or one field of its form. A
// memberChecker makes a member of the model of the form.
type groupMember struct {
	located
	model   overlay.Member
	any     bool
	written *memberForm
}

func (m *groupMember) form() any {
	m.written = &memberForm{}
	return m.written
}

func (m *groupMember) parse(text string) *problem {
	switch mac, isMAC := parseMAC(text); {
	case text == anything:
		m.any = true
	case isMAC:
		if mac.Multicast() && mac != (overlay.MAC{255, 255, 255, 255, 255, 255}) {
			return &problem{fmt.Sprintf("%s is a group address", text), "use the address of an interface, or ff:ff:ff:ff:ff:ff for broadcasts"}
		}
		m.model.MAC = &mac
	case isName(text) && !strings.Contains(text, "/"):
		m.model.Group = text
	case strings.Contains(text, "-"):
		return m.parseRange(text)
	case strings.Contains(text, "/"):
		var n network
		p := n.parse(text)
		m.model.Prefix = n.Prefix
		return p
	case text != "" && strings.Trim(text, "0123456789abcdefABCDEF.:") == "":
		addr, p := parsePlace(text)
		if p == nil {
			m.model.Prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		return p
	default:
		return &problem{fmt.Sprintf("%q is not an address, network, range, MAC address or group", text), memberHint}
	}
	return nil
}

func (m *groupMember) parseRange(text string) *problem {
	from, to, _ := strings.Cut(text, "-")
	first, p := parsePlace(strings.TrimSpace(from))
	if p != nil {
		return p
	}
	last, p := parsePlace(strings.TrimSpace(to))
	switch {
	case p != nil:
		return p
	case first.Is4() != last.Is4():
		return &problem{fmt.Sprintf("%s begins with %s and ends with %s", text, family(first), family(last)), "make it two ranges, one a family"}
	case last.Less(first):
		return &problem{fmt.Sprintf("%s ends before it begins", text), fmt.Sprintf("write it %s-%s", last, first)}
	}
	m.model.Range = overlay.AddrRange{First: first, Last: last}
	return nil
}

// parsePlace reads an address that packets may have, whoever it belongs to.
func parsePlace(text string) (netip.Addr, *problem) {
	addr, p := parseAddress(text)
	switch {
	case p != nil:
		return addr, &problem{fmt.Sprintf("%q is not an IP address", text), memberHint}
	case addr.Is4In6():
		return addr, &problem{fmt.Sprintf("%s is an IPv4 address in IPv6 form", text), fmt.Sprintf("write it as %s", addr.Unmap())}
	case addr.Zone() != "":
		return addr, &problem{fmt.Sprintf("%s names an interface of this host", text), "leave out the % and what follows"}
	}
	return addr, nil
}

// parseMAC reads a MAC address in any usual notation; of the many words that are none
// only a few have the length of one.
func parseMAC(text string) (overlay.MAC, bool) {
	if len(text) != len("00:00:00:00:00:00") && len(text) != len("0000.0000.0000") {
		return overlay.MAC{}, false
	}
	mac, err := overlay.ParseMAC(text)
	return mac, err == nil
}

// JSONSchema is called by the reflector.
func (groupMember) JSONSchema() *jsonschema.Schema {
	form := formSchema[memberForm]()
	one := uint64(1)
	form.MinProperties, form.MaxProperties = &one, &one
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "string", Pattern: `^[0-9A-Fa-f.:/]+( *- *[0-9A-Fa-f.:]+)*$|` + objectNamePattern.String()}, form,
	}}
}

// formSchema is the schema of the mapping that may stand instead of a word.
func formSchema[T any]() *jsonschema.Schema {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true}
	s := r.Reflect(new(T))
	s.Version = "" // of a document, which this is not
	return s
}

// isName reports whether text fits objectNamePattern, which is slow to ask a hundred
// thousand times.
func isName(text string) bool {
	return len(text) <= 63 && text != "" && isLetter(text[0]) && isWords(text)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isWords(text string) bool {
	for i := range len(text) {
		if c := text[i]; c != '.' && !isWord(rune(c)) {
			return false
		}
	}
	return true
}

// ownName is the name of a group, service or section.
type ownName struct {
	located
	text string
}

func (n *ownName) parse(text string) *problem {
	_, isMAC := parseMAC(text)
	switch {
	case !isName(text):
		return (*objectName)(&n.text).parse(text)
	case text == anything, isMAC:
		return &problem{fmt.Sprintf("%q means something else in a rule", text), "choose another name"}
	}
	n.text = text
	return nil
}

// JSONSchema is called by the reflector.
func (ownName) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: objectNamePattern.String()}
}

// ruleName may be a number too: other firewalls count theirs.
type ruleName struct {
	located
	text string
}

func (n *ruleName) parse(text string) *problem {
	if text == "" || len(text) > 63 || !isWords(text) || !isLetter(text[0]) && !isDigit(text[0]) {
		return &problem{fmt.Sprintf("%q is not a name", text), `begin with a letter or digit, then up to 62 letters, digits, "_", "." and "-"`}
	}
	n.text = text
	return nil
}

// JSONSchema is called by the reflector.
func (ruleName) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`}
}
