package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/selvage/selvage/internal/overlay"
)

// portPattern makes ports of interfaces that match, as they come and go.
type portPattern struct {
	Interfaces interfaceGlob `json:"interfaces" jsonschema_description:"names of interfaces, as in tap* or vnet*: each becomes a port of its name"`
	Alias      string        `json:"alias,omitempty" jsonschema:"default=required,enum=required,enum=optional,enum=ignored" jsonschema_description:"whether the alias of an interface says what its port is, as in selvage segment=blue mac=02:00:00:00:00:01 address=10.0.0.5: required makes no port without one, optional makes one by the pattern alone, ignored does not read it"`
	Most       uint32        `json:"most,omitempty" jsonschema:"default=1024,minimum=1,maximum=16384" jsonschema_description:"so many ports at most" hint:"1024 is usual"`
	Segment    objectName    `json:"segment,omitempty" jsonschema_description:"segment of untagged frames, where the alias names none"`
	VLANs      []portVLAN    `json:"vlans,omitempty" jsonschema_description:"802.1Q VLANs and their segments, where the alias names none"`
	Allowed    *allowed      `json:"allowed,omitempty" jsonschema_description:"who may send, where the alias names neither MAC nor IP addresses; anybody when left out"`
	RA         string        `json:"ra,omitempty" jsonschema:"default=drop,enum=drop,enum=allow" jsonschema_description:"as of a port"`
	DHCP       string        `json:"dhcp,omitempty" jsonschema:"default=client,enum=client,enum=server" jsonschema_description:"as of a port"`
	Labels     labels        `json:"labels,omitempty" jsonschema_description:"as of a port, besides those of the alias"`
	Limits     *ownLimits    `json:"limits,omitempty" jsonschema_description:"as of a port"`
}

// interfaceGlob is a pattern of names of interfaces.
type interfaceGlob string

func (g *interfaceGlob) parse(text string) *problem {
	const hint = `write a name with * or ? in it, as in tap*`
	literal := strings.NewReplacer("*", "", "?", "").Replace(text)
	switch {
	case literal == text:
		return &problem{fmt.Sprintf("%q matches one interface", text), hint + "; one interface is for spec.ports"}
	case literal == "":
		return &problem{fmt.Sprintf("%q matches all interfaces, also those of the host", text), hint}
	case len(literal) > 15, !interfacePattern.MatchString(literal), strings.ContainsAny(literal, `[]\`):
		return &problem{fmt.Sprintf("%q is not a pattern of interface names", text), hint}
	}
	*g = interfaceGlob(text)
	return nil
}

// JSONSchema is called by the reflector.
func (interfaceGlob) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^[^/: %\[\]]*[*?][^/: %\[\]]*$`}
}

func (p portPattern) model() overlay.PortPattern { return overlay.PortPattern(p.Interfaces) }

// portPatternChecker checks what patterns refer to.
type portPatternChecker struct {
	file     *fileErrors
	doc      *document
	declared declared
}

func (c portPatternChecker) check() {
	segments, complete := c.declared.segmentNames()
	exists := func(path string, name objectName) {
		if name != "" && complete && !slices.Contains(segments, string(name)) {
			c.file.problem(path, fmt.Sprintf("there is no segment %q", name), suggest(string(name), segments, "segments"))
		}
	}
	globs := unique[interfaceGlob]{}
	for i, p := range c.doc.Spec.PortPatterns {
		at := fmt.Sprintf("spec.portPatterns[%d]", i)
		globs.add(c.file, p.Interfaces, "", at+".interfaces", fmt.Sprintf("there is already a pattern %s", p.Interfaces), "keep one")
		exists(at+".segment", p.Segment)
		for j, v := range p.VLANs {
			exists(fmt.Sprintf("%s.vlans[%d].segment", at, j), v.Segment)
		}
		if p.Allowed != nil && len(p.Allowed.MACs)+len(p.Allowed.Addresses) == 0 && !c.file.failedIn(at+".allowed", "macs", "addresses") {
			c.file.problem(at+".allowed", "neither macs nor addresses are given", "add those that may send, or remove the line")
		}
		if p.Alias != "required" && p.Segment == "" && len(p.VLANs) == 0 && !c.file.failedIn(at, "segment", "vlans", "alias") {
			c.file.problem(at+".segment", "is missing", "add it: a port without an alias is in that segment")
		}
	}
}

// aliasWord begins an alias that is meant for an edge. maxAlias is what the kernel takes, in bytes.
const (
	aliasWord = "selvage"
	maxAlias  = 256
)

// aliasKeys are what an alias may say.
var aliasKeys = []string{"segment", "vlan", "mac", "address", "label", "edge"}

// isAlias reports whether the alias of an interface is meant for edges.
func isAlias(alias string) bool {
	word, _, _ := strings.Cut(alias, " ")
	return word == aliasWord
}

// parseAlias reads what the alias of an interface says of its port: the words
//
//	selvage key=value …
//
// parted by single spaces. segment, mac, address and edge may be given once; lists are parted by commas, as in
// vlan=10:blue,20:red and label=tier:web. mine is whether it is meant for the edge of that name.
func parseAlias(alias, edge string) (object map[string]any, mine bool, err error) {
	if len(alias) > maxAlias {
		return nil, true, fmt.Errorf("it has %d bytes, at most %d", len(alias), maxAlias)
	}
	if !isAlias(alias) {
		return nil, false, nil
	}
	words := strings.Split(alias, " ")
	object, mine = map[string]any{}, true
	given, allowed := map[string]bool{}, map[string]any{}
	for _, word := range words[1:] {
		key, value, ok := strings.Cut(word, "=")
		switch {
		case word == "":
			return nil, true, errors.New("two spaces, or one at its end: part the words by one space")
		case !ok || value == "":
			return nil, true, fmt.Errorf("%q is not key=value", word)
		case !slices.Contains(aliasKeys, key):
			return nil, true, fmt.Errorf("unknown key %q: %s", key, suggest(key, aliasKeys, "keys"))
		case given[key]:
			return nil, true, fmt.Errorf("%s is given twice: part values by commas", key)
		}
		given[key] = true
		if key == "edge" {
			mine = mine && value == edge
			continue
		}
		if err := aliasField(object, allowed, key, value); err != nil {
			return nil, true, err
		}
	}
	if len(allowed) > 0 {
		object["allowed"] = allowed
	}
	return object, mine, nil
}

// aliasField notes what one word says.
func aliasField(object, allowed map[string]any, key, value string) error {
	list := strings.Split(value, ",")
	switch key {
	case "segment":
		object["segment"] = value
	case "mac":
		allowed["macs"] = list
	case "address":
		allowed["addresses"] = Networks(list)
	case "vlan":
		vlans := []map[string]any{}
		for _, one := range list {
			number, segment, ok := strings.Cut(one, ":")
			n, err := strconv.ParseUint(number, 10, 16)
			if !ok || err != nil {
				return fmt.Errorf("vlan: %q is not VLAN:SEGMENT, as in 10:blue", one)
			}
			vlans = append(vlans, map[string]any{"vlan": n, "segment": segment})
		}
		object["vlans"] = vlans
	case "label":
		words := map[string]string{}
		for _, one := range list {
			name, word, ok := strings.Cut(one, ":")
			if _, twice := words[name]; !ok || twice {
				return fmt.Errorf("label: %q is not NAME:VALUE, each name once", one)
			}
			words[name] = word
		}
		object["labels"] = words
	}
	return nil
}

// Networks lets each address stand for the network that it is alone.
func Networks(list []string) []string {
	out := make([]string, len(list))
	for i, a := range list {
		switch out[i] = a; {
		case strings.Contains(a, "/"):
		case strings.Contains(a, ":"):
			out[i] = a + "/128"
		default:
			out[i] = a + "/32"
		}
	}
	return out
}

// Aliased are the ports that patterns make of interfaces. The zero value has none.
type Aliased struct {
	objects []Object
	wrong   map[string]error // interfaces that are no port, by label
	found   map[string]string
	base    *Base
	parsed  map[string]Object // by interface and alias
}

// Objects are the ports, by name.
func (a Aliased) Objects() []Object { return a.objects }

// Wrong is what keeps interfaces from being ports, by the labels of these.
func (a Aliased) Wrong() map[string]error { return a.wrong }

// Found are the aliases of the interfaces, by their names.
func (a Aliased) Found() map[string]string { return a.found }

// Aliases are the ports that the patterns of b make of the interfaces that were found, with their aliases. An interface
// that the file or a live object has is none of them. Those of before stay where there are too many.
func (b *Base) Aliases(found map[string]string, live []Object, before Aliased) Aliased {
	a := Aliased{wrong: map[string]error{}, found: found, base: b, parsed: map[string]Object{}}
	taken := b.taken(live)
	was := map[string]bool{}
	for _, o := range before.objects {
		was[o.Key] = true
	}
	names := slices.Sorted(maps.Keys(found))
	slices.SortStableFunc(names, func(x, y string) int { return asNumber(was[y]) - asNumber(was[x]) })
	count := make([]int, len(b.doc.Spec.PortPatterns))
	for _, name := range names {
		i := slices.IndexFunc(b.doc.Spec.PortPatterns, func(p portPattern) bool { return Matches(string(p.Interfaces), name) })
		if i < 0 || taken[name] {
			continue
		}
		p := b.doc.Spec.PortPatterns[i]
		o, is, err := p.port(b, name, found[name], before)
		if is && err == nil && count[i] == int(p.Most) {
			err = fmt.Errorf("pattern %s has %d ports already, the most that it may have: raise spec.portPatterns[%d].most", p.Interfaces, p.Most, i)
		}
		switch {
		case err != nil:
			a.wrong[Object{Key: name, Alias: true}.Label()] = err
		case is:
			count[i]++
			a.parsed[name+"\x00"+found[name]] = o
			a.objects = append(a.objects, o)
		}
	}
	slices.SortFunc(a.objects, func(x, y Object) int { return strings.Compare(x.Key, y.Key) })
	return a
}

// Matches reports whether a pattern of the configuration has an interface.
func Matches(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// taken are interfaces that are something already.
func (b *Base) taken(live []Object) map[string]bool {
	taken := map[string]bool{}
	for _, name := range b.edge.Underlay.Interfaces {
		taken[name] = true
	}
	for _, p := range b.doc.Spec.Ports {
		taken[string(p.Interface)] = true
	}
	for _, r := range b.doc.Spec.Routers {
		for _, u := range r.Uplinks {
			taken[string(u.Interface)] = true
		}
	}
	for _, o := range live {
		if p, ok := o.value.(*port); ok {
			taken[string(p.Interface)] = true
		}
	}
	return taken
}

// port is that of an interface, and whether it is to have one.
func (p portPattern) port(b *Base, name, alias string, before Aliased) (Object, bool, error) {
	if o, ok := before.parsed[name+"\x00"+alias]; ok && before.base == b {
		return o, true, nil
	}
	fields := map[string]any{}
	if p.Alias != "ignored" {
		said, mine, err := parseAlias(alias, b.edge.Name)
		switch {
		case err != nil:
			return Object{}, true, fmt.Errorf("%w: mend it by `ip link set dev %s alias 'selvage …'`", err, name)
		case said == nil && p.Alias == "required", said != nil && !mine:
			return Object{}, false, nil
		case said != nil:
			fields = said
		}
	}
	fields["name"], fields["interface"] = name, name
	text, err := json.Marshal(fields)
	if err != nil {
		return Object{}, true, err
	}
	o, err := ParseObject(KindPort, text)
	if err != nil {
		var errs Errors
		if errors.As(err, &errs) {
			err = fmt.Errorf("%s: %s; %s", errs[0].Path, errs[0].Message, errs[0].Hint)
		}
		return o, true, err
	}
	o = o.Aliased()
	p.fill(o)
	return o, true, nil
}

// fill gives a port what its alias does not say.
func (p portPattern) fill(o Object) {
	v := o.value.(*port)
	at := Position{File: o.Label()}
	if v.Segment == "" && len(v.VLANs) == 0 {
		v.Segment, v.VLANs = p.Segment, p.VLANs
		if p.Segment != "" {
			o.seen["segment"] = at
		}
		if len(p.VLANs) > 0 {
			o.seen["vlans"] = at
		}
	}
	if v.Allowed == nil {
		v.Allowed = p.Allowed
	}
	v.RA, v.DHCP, v.Limits = p.RA, p.DHCP, p.Limits
	if len(p.Labels) > 0 {
		all := maps.Clone(p.Labels)
		maps.Copy(all, v.Labels)
		v.Labels = all
	}
}
