package config

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

const liveBase = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  remotes: [{name: b, addresses: [192.0.2.2, 198.51.100.2]}]
  segments:
  - {name: blue, vni: 100, remotes: [b], gateway: {router: r, addresses: [10.0.0.254/24]}}
  - {name: red, vni: 200, remotes: [192.0.2.9]}
  routers: [{name: r}]
  ports:
  - {name: p0, interface: veth0, segment: blue}
  portPatterns:
  - {interfaces: "tap*", segment: blue, labels: {tier: web}, most: 2}
  - {interfaces: "vnet*", alias: optional, segment: red, allowed: {macs: ["02:00:00:00:00:99"]}}
  firewall:
    groups:
    - {name: pods, live: true}
    - {name: fixed, members: [10.1.0.0/16]}
    - {name: tiers, live: true, members: [{labels: {tier: web}}]}
    sections:
    - name: s
      rules:
      - {name: r1, action: allow, from: [pods]}
      - {name: r2, action: drop, appliedTo: [tiers]}
`

func baseOf(t testing.TB, text string) *Base {
	t.Helper()
	_, read, err := Source{Path: "a.yaml", Files: []File{{"a.yaml", []byte(text)}}}.Read()
	if err != nil {
		t.Fatal(err)
	}
	return read.Base()
}

// object reads "port {…}".
func object(t testing.TB, text string) Object {
	t.Helper()
	kind, json, _ := strings.Cut(text, " ")
	o, err := ParseObject(Kind(kind), []byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func objects(t testing.TB, texts ...string) (list []Object) {
	for _, text := range texts {
		list = append(list, object(t, text))
	}
	return list
}

// Each kind of object is in the configuration as if it stood in the file.
func TestLiveIsAsInTheFile(t *testing.T) {
	got, err := baseOf(t, liveBase).With(objects(t,
		`port {"name": "p1", "interface": "tap1", "segment": "green", "allowed": {"macs": ["02:00:00:00:00:01"]}, "labels": {"tier": "db"}}`,
		`segment {"name": "green", "vni": 300, "remotes": ["c"]}`,
		`remote {"name": "c", "addresses": ["192.0.2.3"], "segments": ["blue"]}`,
		`remote {"name": "192.0.2.4", "segments": ["blue"]}`,
		`fdb {"segment": "green", "mac": "02:00:00:00:00:05", "port": "p1"}`,
		`neighbour {"segment": "blue", "address": "10.0.0.5", "mac": "02:00:00:00:00:05"}`,
		`group {"name": "more", "members": ["10.9.0.0/16"]}`,
	))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(
		"remotes: [{name: b, addresses: [192.0.2.2, 198.51.100.2]}]", "remotes: [{name: b, addresses: [192.0.2.2, 198.51.100.2]}, {name: c, addresses: [192.0.2.3]}]",
		"remotes: [b], gateway", `remotes: [b, 192.0.2.4, c], neighbours: [{address: 10.0.0.5, mac: "02:00:00:00:00:05"}], gateway`,
		"  routers:", "  - {name: green, vni: 300, remotes: [c], fdb: [{mac: \"02:00:00:00:00:05\", port: p1}]}\n  routers:",
		"  portPatterns:", "  - {name: p1, interface: tap1, segment: green, allowed: {macs: [\"02:00:00:00:00:01\"]}, labels: {tier: db}}\n  portPatterns:",
		"    sections:", "    - {name: more, members: [10.9.0.0/16]}\n    sections:",
	).Replace(liveBase)
	want, err := Parse("a.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got.Ports[1].Origin != overlay.OriginLive || got.Ports[0].Origin != "" {
		t.Errorf("origins %q, %q", got.Ports[0].Origin, got.Ports[1].Origin)
	}
	got.Ports[1].Origin = ""
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// What does not fit is refused with both places named, and changes nothing of what it is added to.
func TestLiveErrors(t *testing.T) {
	b := baseOf(t, liveBase)
	before, err := b.With(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		objects []string
		want    string
	}{
		"name of the file":      {[]string{`port {"name": "p0", "interface": "tap1", "segment": "blue"}`}, `live port p0: name: port "p0" already exists (spec.ports[0].name, a.yaml line 12); names are unique`},
		"interface of the file": {[]string{`port {"name": "p1", "interface": "veth0", "segment": "blue"}`}, `live port p1: interface: interface "veth0" is already used (spec.ports[0].interface, a.yaml line 12); an interface, or one of its VLANs, can be only one port, uplink or underlay`},
		"interface twice":       {[]string{`port {"name": "p1", "interface": "x", "segment": "blue"}`, `port {"name": "p2", "interface": "x", "segment": "blue"}`}, `live port p2: interface: interface "x" is already used (live port p1); an interface, or one of its VLANs, can be only one port, uplink or underlay`},
		"no segment":            {[]string{`port {"name": "p1", "interface": "x", "segment": "bleu"}`}, `live port p1: segment: there is no segment "bleu"; did you mean "blue"?`},
		"neither":               {[]string{`port {"name": "p1", "interface": "x"}`}, `live port p1: segment: is missing; add it: name of the segment that the port belongs to, or vlans`},
		"VNI":                   {[]string{`segment {"name": "g", "vni": 100}`}, `live segment g: vni: VNI 100 on UDP port 4789 is taken (spec.segments[0].vni, a.yaml line 8); choose another vni or udpPort, or make them one segment`},
		"address of a remote":   {[]string{`remote {"name": "c", "addresses": ["198.51.100.2"]}`}, `live remote c: addresses[0]: 198.51.100.2 is already a remote's address (spec.remotes[0].addresses[1], a.yaml line 6); keep one`},
		"remote twice":          {[]string{`remote {"name": "192.0.2.9", "segments": ["red"]}`}, `live remote 192.0.2.9: remote 192.0.2.9 is already listed (spec.segments[1].remotes[0], a.yaml line 9); keep one`},
		"remote alone":          {[]string{`remote {"name": "192.0.2.9"}`}, `live remote 192.0.2.9: segments: is missing; give the segments that the edge is in, or give it a name, by which live objects may refer to it`},
		"entry of no segment":   {[]string{`fdb {"segment": "rde", "mac": "02:00:00:00:00:05", "port": "p0"}`}, `live fdb rde/02:00:00:00:00:05: segment: there is no segment "rde"; did you mean "red"?`},
		"port elsewhere":        {[]string{`fdb {"segment": "red", "mac": "02:00:00:00:00:05", "port": "p0"}`}, `live fdb red/02:00:00:00:00:05: port: port "p0" is in segment "blue", not "red"; move the entry to that segment`},
		"the gateway":           {[]string{`neighbour {"segment": "blue", "address": "10.0.0.254", "mac": "02:00:00:00:00:05"}`}, `live neighbour blue/10.0.0.254: address: 10.0.0.254 is the gateway's own address; list hosts only`},
		"group of the file":     {[]string{`group {"name": "fixed", "members": ["10.0.0.1"]}`}, `live group fixed: name: group "fixed" stands in a.yaml line 19, and is not live; add live: true to it there, and reload the file`},
		"no such group":         {[]string{`group {"name": "pods", "members": ["fxied"]}`}, `live group pods: members[0]: there is no group "fxied"; did you mean "fixed"?`},
		"itself":                {[]string{`group {"name": "pods", "members": ["pods"]}`}, `live group pods: members[0]: the group contains itself: pods > pods (live) > pods; remove one of these`},
		"applied to addresses":  {[]string{`group {"name": "tiers", "members": ["10.0.0.1"]}`}, `live group tiers: members: group "tiers" has addresses, but a rule of the file is applied to it, to ports; name ports, labels or segments`},
	} {
		if _, err := b.With(objects(t, c.objects...)); err == nil || err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, c.want)
		}
	}
	if after, err := b.With(nil); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the base is another: %v", err)
	}
	if again, err := Parse("a.yaml", []byte(liveBase)); err != nil || !reflect.DeepEqual(before, again) {
		t.Errorf("the base is not the file: %v", err)
	}
}

// What an object alone has wrong is said as of a file.
func TestObjectErrors(t *testing.T) {
	for text, want := range map[string]string{
		`port {"name": "p1", "interfase": "x"}`:               `live port p1: interfase: unknown field; did you mean "interface"?`,
		`port {"name": "p1", "interface": "x", "segment": 7}`: `live port p1: segment: must be a string, is an integer; put it in quotes`,
		`port []`:                         `live port: must be a mapping, is a list; fields here: name, interface, segment, vlans, allowed, ra, dhcp, labels, limits`,
		`port {`:                          `live port: not JSON; write one JSON object`,
		`prot {}`:                         `live object: there is no kind "prot"; did you mean "port"?`,
		`segment {"name": "g", "vni": 0}`: `live segment g: vni: 0 is outside 1 to 16777215; a VNI has 24 bits, is the same on every edge of the segment, and 0 is not used`,
		`fdb {"segment": "blue", "mac": "01:00:5e:00:00:01", "port": "p0"}`: `live fdb: mac: 01:00:5e:00:00:01 is a group address; the lowest bit of the first byte must be 0`,
	} {
		kind, json, _ := strings.Cut(text, " ")
		_, err := ParseObject(Kind(kind), []byte(json))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// The order in which objects come does not matter.
func TestLiveOrder(t *testing.T) {
	b := baseOf(t, liveBase)
	list := objects(t, `port {"name": "p1", "interface": "x1", "segment": "g"}`, `port {"name": "p2", "interface": "x2", "segment": "blue"}`, `segment {"name": "g", "vni": 300}`,
		`remote {"name": "c", "addresses": ["192.0.2.3"], "segments": ["g", "red"]}`, `remote {"name": "192.0.2.8", "segments": ["red"]}`, `group {"name": "pods", "members": ["10.0.0.1", {"port": "p2"}]}`)
	want, err := b.With(list)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if got, err := b.With(list); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%+v\n%+v", err, got, want)
		}
	}
}

// Where some do not fit, the others are in force; where there are too many together, the last are left out.
func TestSettle(t *testing.T) {
	b := baseOf(t, liveBase)
	edge, kept, left := b.Settle(objects(t, `port {"name": "p0", "interface": "x", "segment": "blue"}`, `port {"name": "p1", "interface": "y", "segment": "blue"}`,
		`fdb {"segment": "gone", "mac": "02:00:00:00:00:05", "port": "p1"}`))
	if len(edge.Ports) != 2 || len(kept) != 1 || left["live port p0"] == nil || left["live fdb gone/02:00:00:00:00:05"] == nil || len(left) != 2 {
		t.Errorf("%d ports, kept %v, left %v", len(edge.Ports), kept, left)
	}
	small := baseOf(t, strings.Replace(liveBase, "  remotes:", "  tables: {segmentMembers: 16}\n  remotes:", 1))
	var many []Object
	for _, c := range "abcdefghijklmnopqrstuvwxyz" {
		many = append(many, object(t, `port {"name": "x`+string(c)+`", "interface": "y`+string(c)+`", "segment": "red"}`))
	}
	edge, kept, left = small.Settle(many)
	if len(kept)+len(left) != len(many) || len(kept) < 8 || len(kept) > 15 || len(edge.Ports) != 1+len(kept) || left["live port xz"] == nil {
		t.Errorf("%d ports, kept %d, left %d", len(edge.Ports), len(kept), len(left))
	}
}

// Secrets are those that the base was read with.
func TestLiveReadsNoSecretAgain(t *testing.T) {
	dir := t.TempDir()
	secret, path := filepath.Join(dir, "secret"), filepath.Join(dir, "a.yaml")
	text := under + "  segments: [{name: blue, vni: 1}]\n  bgp:\n    as: 65001\n    routerID: 192.0.2.1\n    neighbours: [{name: n, address: 192.0.2.3, as: 65001, passwordFile: secret}]\n"
	for name, content := range map[string]string{secret: "first", path: text} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, source, err := LoadSource(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	edge, err := source.Base().With(objects(t, `port {"name": "p1", "interface": "x", "segment": "blue"}`))
	if err != nil || edge.BGP.Neighbours[0].Password != "first" {
		t.Errorf("%v", err)
	}
}

func TestAlias(t *testing.T) {
	b := baseOf(t, liveBase)
	for alias, want := range map[string]string{
		"selvage": `{"interface":"tap1","name":"tap1"}`,
		"selvage segment=red mac=02:00:00:00:00:01,02:00:00:00:00:02 address=10.0.0.1,fd00::/64 label=tier:db": `{"allowed":{"addresses":["10.0.0.1/32","fd00::/64"],"macs":["02:00:00:00:00:01","02:00:00:00:00:02"]},"interface":"tap1","labels":{"tier":"db"},"name":"tap1","segment":"red"}`,
		"selvage vlan=10:blue,20:red":     `{"interface":"tap1","name":"tap1","vlans":[{"segment":"blue","vlan":10},{"segment":"red","vlan":20}]}`,
		"selvage edge=a":                  `{"interface":"tap1","name":"tap1"}`,
		"":                                "",
		"uplink to rack 7":                "",
		"selvagesegment=blue":             "",
		"selvage edge=b segment=blue":     "",
		"selvage segmnt=red":              `unknown key "segmnt": did you mean "segment"?: mend it by ` + "`ip link set dev tap1 alias 'selvage …'`",
		"selvage segment=red segment=red": "segment is given twice: part values by commas: mend it",
		"selvage  segment=red":            "two spaces",
		"selvage segment=":                `"segment=" is not key=value`,
		"selvage segment":                 `"segment" is not key=value`,
		"selvage vlan=blue":               `vlan: "blue" is not VLAN:SEGMENT, as in 10:blue`,
		"selvage mac=1":                   `allowed.macs[0]: `,
		"selvage address=10.0.0.1/":       `allowed.addresses[0]: `,
		"selvage label=tier":              `label: "tier" is not NAME:VALUE`,
		"selvage mac=" + strings.Repeat("02:00:00:00:00:01,", 20): "it has ",
	} {
		a := b.Aliases(map[string]string{"tap1": alias}, nil, Aliased{})
		wrong := a.Wrong()["alias of interface tap1"]
		switch {
		case strings.HasPrefix(want, "{"):
			if len(a.Objects()) != 1 || string(a.Objects()[0].Text) != want {
				t.Errorf("%q: %v, %v", alias, a.Objects(), wrong)
			}
		case want == "":
			if len(a.Objects()) != 0 || wrong != nil {
				t.Errorf("%q: %v, %v", alias, a.Objects(), wrong)
			}
		case len(a.Objects()) != 0 || wrong == nil || !strings.HasPrefix(wrong.Error(), want):
			t.Errorf("%q: %v\ngot  %v\nwant %s", alias, a.Objects(), wrong, want)
		}
	}
}

// A pattern gives what an alias does not say, bounds how many there are, and takes nothing that is something already.
func TestPatterns(t *testing.T) {
	b := baseOf(t, liveBase)
	ask := func(found map[string]string, live []Object, before Aliased) (Aliased, overlay.Edge) {
		t.Helper()
		a := b.Aliases(found, live, before)
		edge, err := b.With(append(live, a.Objects()...))
		if err != nil {
			t.Fatal(err)
		}
		return a, edge
	}
	a, edge := ask(map[string]string{"tap1": "selvage", "vnet0": "", "vnet1": "selvage address=10.0.0.1", "tap2": "", "eth0": "selvage", "veth0": "selvage", "other": "selvage segment=blue"}, nil, Aliased{})
	var names []string
	for _, p := range edge.Ports[1:] {
		names = append(names, p.Name+" "+p.Segment+" "+p.Labels["tier"]+" "+string(p.Origin))
	}
	if got := strings.Join(names, ", "); got != "tap1 blue web alias, vnet0 red  alias, vnet1 red  alias" {
		t.Error(got)
	}
	if edge.Ports[2].Allowed.MACs[0].String() != "02:00:00:00:00:99" || len(edge.Ports[3].Allowed.MACs) != 0 || len(edge.Ports[3].Allowed.Addresses) != 1 {
		t.Errorf("allowed %+v, %+v", edge.Ports[2].Allowed, edge.Ports[3].Allowed)
	}
	// Two at most: those that are there stay.
	found := map[string]string{"tap1": "selvage", "tap3": "selvage"}
	a, _ = ask(found, nil, a)
	found["tap0"] = "selvage"
	a, edge = ask(found, nil, a)
	if len(edge.Ports) != 3 || edge.Ports[1].Name != "tap1" || edge.Ports[2].Name != "tap3" || a.Wrong()["alias of interface tap0"] == nil {
		t.Errorf("%+v, %v", edge.Ports, a.Wrong())
	}
	// A live port goes before.
	_, edge = ask(found, objects(t, `port {"name": "mine", "interface": "tap1", "segment": "red"}`), a)
	if len(edge.Ports) != 4 || edge.Ports[1].Name != "mine" || edge.Ports[2].Name != "tap0" {
		t.Errorf("%+v", edge.Ports)
	}
}

// Whatever an object is, it is refused or has a key, and fits or not without harm to what it is added to.
func FuzzObject(f *testing.F) {
	for _, s := range []string{`port {"name": "p1", "interface": "x", "segment": "blue"}`, `group {"name": "pods", "members": ["10.0.0.1", {"port": "p0"}]}`, `segment {"name": "g", "vni": 9, "remotes": ["b"]}`, `remote {"name": "c", "addresses": ["192.0.2.3"]}`} {
		f.Add(s)
	}
	b := baseOf(f, liveBase)
	before, _ := b.With(nil)
	f.Fuzz(func(t *testing.T, text string) {
		kind, json, _ := strings.Cut(text, " ")
		o, err := ParseObject(Kind(kind), []byte(json))
		if err != nil {
			if errs := (Errors{}); !errors.As(err, &errs) || len(errs) == 0 {
				t.Fatal(err)
			}
			return
		}
		if o.Key == "" {
			t.Fatal("no key")
		}
		if again, err := ParseObject(o.Kind, o.Text); err != nil || again.Key != o.Key {
			t.Fatalf("what is kept is not read again: %v", err)
		}
		_, _ = b.With([]Object{o})
		if after, err := b.With(nil); err != nil || !reflect.DeepEqual(before, after) {
			t.Fatal("the base is another")
		}
	})
}

func FuzzAlias(f *testing.F) {
	for _, s := range []string{"selvage", "selvage segment=red mac=02:00:00:00:00:01 address=10.0.0.1", "selvage vlan=10:blue,20:red", "selvage label=a:b edge=a"} {
		f.Add("tap1", s)
	}
	b := baseOf(f, liveBase)
	f.Fuzz(func(t *testing.T, name, alias string) {
		a := b.Aliases(map[string]string{name: alias}, nil, Aliased{})
		if len(a.Objects())+len(a.Wrong()) > 1 {
			t.Fatal("one interface is several")
		}
		if !isAlias(alias) && strings.HasPrefix(name, "tap") && len(a.Objects())+len(a.Wrong()) > 0 {
			t.Fatal("an alias for others makes a port")
		}
		edge, _, left := b.Settle(a.Objects())
		if len(edge.Ports)+len(left) != 1+len(a.Objects()) {
			t.Fatalf("%d ports, left %v", len(edge.Ports), left)
		}
	})
}
