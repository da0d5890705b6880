package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each renaming once, in both styles of YAML, among comments and quotes.
const inPreviousVersion = `# kept: liveness: announce: bindings:
apiVersion: "selvage.dev/v1alpha1" # the version
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1, liveness: {}}
  remotes:
  - {name: b, addresses: [192.0.2.2]}
  segments:
  - {name: blue, vni: 1, keepTags: true, evpn: {}, tooBigFrom: ["2001:db8::1"], gateway: {router: r, addresses: [10.0.0.254/24]}}
  routers:
  - name: r
    l3: {vni: 100, mac: "02:00:00:00:01:01", evpn: {announce: [connected]}}
    uplinks:
    - name: wan
      interface: eth1
      addresses: [198.51.100.2/24]
      nat: {forwards: [{protocol: tcp, port: 80, to: 10.0.0.5}]}
  egress:
    bindings: 4096   # é, then a field of one line
    gateways:
    - {name: gws, members: [a, b]}
    policies:
    - {name: out, router: r, vni: 200, gateways: gws, uplink: wan, pool: [198.51.100.10], spread: 'connection', mapping: endpoint-independent, filtering: endpoint-dependent}
  bgp:
    as: 65000
    routerID: 192.0.2.1
    routeTargets: vni
    neighbours:
    - {name: rr, address: 192.0.2.9, as: 65001, liveness: true, families: [evpn], multihop: 3}
    - {name: isp, address: 198.51.100.1, as: 65002, uplink: wan, families: [ipv4], announce: [connected]}
`

const inThisVersion = `# kept: liveness: announce: bindings:
apiVersion: "selvage.dev/v1alpha2" # the version
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1, bfd: {}}
  remotes:
  - {name: b, addresses: [192.0.2.2]}
  segments:
  - {name: blue, vni: 1, vlanTransparent: true, evpn: {}, icmpSources: ["2001:db8::1"], gateway: {router: r, addresses: [10.0.0.254/24]}}
  routers:
  - name: r
    l3: {vni: 100, mac: "02:00:00:00:01:01", evpn: {advertise: [connected]}}
    uplinks:
    - name: wan
      interface: eth1
      addresses: [198.51.100.2/24]
      nat: {portForwards: [{protocol: tcp, port: 80, to: 10.0.0.5}]}
  egress:
    sessions: 4096   # é, then a field of one line
    gateways:
    - {name: gws, members: [a, b]}
    policies:
    - {name: out, router: r, vni: 200, gateways: gws, uplink: wan, pool: [198.51.100.10], addressPooling: 'arbitrary', mapping: endpoint-independent, filtering: address-and-port-dependent}
  bgp:
    as: 65000
    routerID: 192.0.2.1
    autoRouteTargets: vni
    neighbours:
    - {name: rr, address: 192.0.2.9, as: 65001, bfd: true, families: [evpn], ebgpMultihop: 3}
    - {name: isp, address: 198.51.100.1, as: 65002, uplink: wan, families: [ipv4], advertise: [connected]}
`

func TestConvert(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edge.yaml")
	for name, text := range map[string]string{"previous": inPreviousVersion, "this": inThisVersion, "anchors are the YAML parser's": "%YAML 1.2\n---\n" + inPreviousVersion} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Convert(file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(inThisVersion, string(got[strings.Index(string(got), "# kept"):])); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	got, err := Downgrade("edge.yaml", []byte(inThisVersion))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inPreviousVersion, string(got)); diff != "" {
		t.Errorf("downgraded:\n%s", diff)
	}
}

// Every renaming is in the files above, so that none is untried.
func TestConvertTriesEveryRenaming(t *testing.T) {
	for _, r := range renamings {
		_, name := cutLast(r.path)
		if !strings.Contains(inThisVersion, name+":") || r.previous != "" && !strings.Contains(inPreviousVersion, r.previous+":") {
			t.Errorf("%s is not in the test's files", r.path)
		}
	}
}

// A file of v1alpha1 goes on to be read, with the positions that it has.
func TestPreviousVersionIsRead(t *testing.T) {
	now, err := Parse("f", []byte(inThisVersion))
	if err != nil {
		t.Fatal(err)
	}
	before, err := Parse("f", []byte(inPreviousVersion))
	if err != nil {
		t.Fatal(err)
	}
	if before.APIVersion != PreviousVersion || now.APIVersion != Version {
		t.Errorf("versions %q and %q", before.APIVersion, now.APIVersion)
	}
	before.APIVersion = now.APIVersion
	if !reflect.DeepEqual(before, now) {
		t.Errorf("got %+v, want %+v", before, now)
	}

	_, err = Parse("f", []byte(strings.Replace(inPreviousVersion, "bindings: 4096", "bindings: 1", 1)))
	if want := "f:20:15: spec.egress.sessions: 1 is outside"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestConvertRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edge.yaml")
	for text, want := range map[string]string{
		strings.Replace(inPreviousVersion, "kind: Edge", "kind: Node", 1):              "kind",
		strings.Replace(inPreviousVersion, "liveness: {}", "liveness: {}, bfd: {}", 1): "twice",
		"spec: [": "not YAML",
		strings.Replace(inPreviousVersion, "\n    bindings", "\n    \"bin\\u0064ings\"", 1): "by hand",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Convert(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q; converted to\n%s", err, want, got)
		}
	}
	if _, err := Convert(file + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v of a file that is not there", err)
	}
}

// A field of v1alpha1 in a file of v1alpha2 is called what it is, wherever it stands.
func TestPreviousNames(t *testing.T) {
	for _, r := range renamings {
		if r.previous == "" {
			continue
		}
		_, name := cutLast(r.path)
		text := strings.Replace(inThisVersion, name+":", r.previous+":", 1)
		if strings.HasSuffix(r.path, "neighbours[].bfd") {
			text = strings.Replace(inThisVersion, "bfd: true", "liveness: true", 1)
		}
		if strings.HasSuffix(r.path, "neighbours[].advertise") {
			text = strings.Replace(inThisVersion, "[ipv4], advertise:", "[ipv4], announce:", 1)
		}
		_, err := Parse("f", []byte(text))
		if want := "." + r.previous + ": is a field of v1alpha1; its name is " + name + " since v1alpha2; selvage convert FILE"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// The limit of half-open connections was a field of the firewall.
func TestConvertMovesHalfOpenPerPort(t *testing.T) {
	const head = "apiVersion: selvage.dev/%s\nkind: Edge\nmetadata: {name: a}\nspec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1}\n"
	for was, want := range map[string]string{
		"  firewall: {halfOpen: 2048, halfOpenPerPort: 512, strict: true}\n": "  limits: {port: {halfOpen: 512}}\n  firewall: {halfOpen: 2048, strict: true}\n",
		"  firewall: {halfOpenPerPort: 0}\n":                                 "  limits: {port: {halfOpen: 0}}\n  firewall: {}\n",
		"  firewall:\n    halfOpenPerPort: 512 # few\n    strict: true\n":    "  limits: {port: {halfOpen: 512}}\n  firewall:\n    # few\n    strict: true\n",
	} {
		file := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(head, "%s", "v1alpha1", 1)+was), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Convert(file)
		if err != nil {
			t.Errorf("%q: %v", was, err)
			continue
		}
		if diff := cmp.Diff(strings.Replace(head, "%s", "v1alpha2", 1)+want, string(got)); diff != "" {
			t.Error(diff)
		}
	}
}
