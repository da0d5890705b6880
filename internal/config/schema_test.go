package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/selvage/selvage/internal/overlay"
)

// Schema and parser agree: every example, which the parser takes
// (TestExamples), is valid by the schema, and together the examples show every
// field that the schema knows.
func TestSchemaAgreesWithExamples(t *testing.T) {
	schema := readSchema(t)
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	shown := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range validate(schema, decodeYAML(t, text), "", shown) {
			t.Errorf("%s: %s", file, p)
		}
	}
	for _, path := range schemaFields(schema, "") {
		// The fields of the segments of routers and policies are those of any other. No file with a secret is among the examples.
		same := strings.NewReplacer("spec.routers.l3.", "spec.segments.", "spec.egress.policies.", "spec.segments.",
			"spec.segments.limits.", "spec.limits.segment.", "spec.ports.limits.", "spec.limits.port.",
			"neighbours.passwordFile", "neighbours.password", "replication.keyFile", "replication.key").Replace(path)
		if !shown[path] && !shown[same] {
			t.Errorf("no example shows %s", path)
		}
	}
}

// What is wrong in itself, rather than compared with another field, the schema
// refuses as the parser does.
func TestSchemaRefuses(t *testing.T) {
	schema := readSchema(t)
	for _, text := range []string{
		header,
		under + "  colour: red\n",
		under + "  fdb: {size: 1}\n",
		under + "  fdb: {ageing: 300}\n",
		under + "  fdb: {ageing: never}\n",
		under + "  segments: [{name: blue}]\n",
		under + "  segments: [{name: blue, vni: 0}]\n",
		under + "  segments: [{name: blue, vni: \"1\"}]\n",
		under + "  segments: [{name: blue, vni: 16777216}]\n",
		under + "  segments: [{name: blue, vni: 1, encapsulation: gre}]\n",
		under + "  segments: [{name: blue, vni: 1, outer: {dscp: 64}}]\n",
		under + "  segments: [{name: blue, vni: 1, outer: {ttl: 0}}]\n",
		under + "  segments: [{name: blue, vni: 1, outer: {ttl: some}}]\n",
		under + "  segments: [{name: blue, vni: 1, options: xyz}]\n",
		under + "  segments: [{name: blue, vni: 1, gateway: {router: r}}]\n",
		under + "  segments: [{name: blue, vni: 1, gateway: {router: r, addresses: [10.0.0.1]}}]\n",
		under + "  routers: [{name: r, l3: {vni: 1}}]\n",
		under + "  routers: [{name: r, routes: [{prefix: 10.0.0.0/8, type: nowhere}]}]\n",
		under + "  routers: [{name: r, routes: [{prefix: 10.0.0.0/8, via: [{remote: 192.0.2.2}]}]}]\n",
		under + "  routers: [{name: r, uplinks: [{name: w, interface: eth1, vlan: 4095, addresses: [10.0.0.1/24]}]}]\n",
		under + "  ports: [{name: p0, interface: v, vlans: [{vlan: 0, segment: blue}]}]\n",
		under + "  ports: [{name: p0, interface: v, segment: blue, allowed: {macs: []}}]\n",
		under + "  segments: [{name: blue, vni: 1, fdb: [{mac: \"02:00:00:00:00:01\"}]}]\n",
		under + "  segments: [{name: blue, vni: 1, fdb: [{mac: \"02:00\", port: p0}]}]\n",
		under + "  ports: [{name: p0, interface: a/b, segment: blue}]\n",
		"apiVersion: v1\nkind: Edge\nmetadata: {name: a}\n" + under[len(header):],
		header + "spec:\n  underlay: {interfaces: [], tep: 192.0.2.1}\n",
		header + "spec:\n  underlay: {interfaces: [eth0]}\n",
		header + "spec:\n  underlay: {teps: [{name: a, address: 192.0.2.1}]}\n",
		header + "spec:\n  underlay: {teps: [], teaming: flow}\n",
		header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1, teaming: lacp}\n",
		header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1, bfd: {interval: fast}}\n",
		header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1, bfd: {multiplier: 1}}\n",
		header + "spec:\n  underlay: {interfaces: [eth0], tep: 192.0.2.1, bfd: {hops: 256}}\n",
		under + "  transit: {mode: xdp}\n",
		under + "  remotes: [{name: b}]\n",
		under + "  remotes: [{name: b, addresses: []}]\n",
		under + "  segments: [{name: blue, vni: 1, teps: []}]\n",
		under + "  firewall: {default: deny}\n",
		under + "  firewall: {connections: 1}\n",
		under + "  firewall: {timeouts: {udp: 30}}\n",
		under + "  firewall: {groups: [{name: g, members: []}]}\n",
		under + "  firewall: {groups: [{name: g, members: [\"a b\"]}]}\n",
		under + "  firewall: {groups: [{name: g, members: [7]}]}\n",
		under + "  firewall: {groups: [{name: g, members: [{}]}]}\n",
		under + "  firewall: {groups: [{name: g, members: [{prot: p0}]}]}\n",
		under + "  firewall: {groups: [{name: g, members: [{labels: {a: 1}}]}]}\n",
		under + "  firewall: {groups: [{name: g, members: [{labels: {}}]}]}\n",
		under + "  firewall: {services: [{name: w, members: [tcp/http]}]}\n",
		under + "  firewall: {services: [{name: w, members: [{ports: [80]}]}]}\n",
		under + "  firewall: {services: [{name: w, members: [{protocol: tcp, ports: [http]}]}]}\n",
		under + "  firewall: {sections: [{name: s, rules: [{name: r}]}]}\n",
		under + "  firewall: {sections: [{name: s, rules: [{name: a/b, action: drop}]}]}\n",
		under + "  firewall: {sections: [{name: s, rules: [{name: r, action: drop, from: []}]}]}\n",
		under + "  egress: {sessions: 1}\n",
		under + "  egress: {timeouts: {udp: 30}}\n",
		under + "  egress: {log: {rate: 0}}\n",
		under + "  egress: {gateways: [{name: g, members: []}]}\n",
		under + "  egress: {gateways: [{name: g, members: [7]}]}\n",
		under + "  egress: {gateways: [{name: g, members: [a], mode: both}]}\n",
		under + "  egress: {gateways: [{name: g, members: [a], replication: {port: 0}}]}\n",
		under + "  egress: {policies: [{name: p}]}\n",
		under + "  egress: {policies: [{name: p, router: r, vni: 1, gateways: g, pool: []}]}\n",
		under + "  egress: {policies: [{name: p, router: r, vni: 1, gateways: g, pool: [10.0.0.0/24]}]}\n",
		under + "  egress: {policies: [{name: p, router: r, vni: 1, gateways: g, pool: [10.0.0.9], spread: evenly}]}\n",
		under + "  egress: {policies: [{name: p, router: r, vni: 1, gateways: g, pool: [10.0.0.9], ports: all}]}\n",
		under + "  routers: [{name: r, uplinks: [{name: w, interface: eth1, addresses: [10.0.0.1/24], nat: {masquerade: 1}}]}]\n",
		under + "  routers: [{name: r, uplinks: [{name: w, interface: eth1, addresses: [10.0.0.1/24], nat: {portForwards: [{protocol: tcp, port: 80}]}}]}]\n",
		under + "  routers: [{name: r, uplinks: [{name: w, interface: eth1, addresses: [10.0.0.1/24], nat: {portForwards: [{protocol: icmp, port: 80, to: 10.1.0.1}]}}]}]\n",
		under + "  bgp: {as: 65000}\n",
		under + "  bgp: {as: 65000, neighbours: []}\n",
		under + "  bgp: {as: 0, neighbours: [{name: a, address: 192.0.2.9}]}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9}], listen: [here]}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9}], routeTargets: auto}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9, families: [vpnv4]}]}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9, advertise: [all]}]}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9, timers: {hold: 9}}]}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9, ttlSecurity: 255}]}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9}], policies: [{name: p, statements: []}]}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9}], policies: [{name: p, statements: [{communities: [some]}]}]}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9}], policies: [{name: p, statements: [{prefixes: [{prefix: 10.0.0.0/8, min: 129}]}]}]}\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9}]}\n  segments: [{name: blue, vni: 1, evpn: {rd: x}}]\n",
		under + "  bgp: {as: 65000, neighbours: [{name: a, address: 192.0.2.9}]}\n  segments: [{name: blue, vni: 1, evpn: {import: []}}]\n",
	} {
		if problems := validate(schema, decodeYAML(t, []byte(text)), "", map[string]bool{}); len(problems) == 0 {
			t.Errorf("the schema takes\n%s", text)
		}
		if _, err := Parse("f", []byte(text)); err == nil {
			t.Errorf("the parser takes\n%s", text)
		}
	}
}

func TestSchemaDefaults(t *testing.T) {
	schema := readSchema(t)
	for path, want := range map[string]any{
		"spec.flowCache.enabled": true, "spec.flowCache.size": 262144.0,
		"spec.tables.vports": 8192.0, "spec.tables.routes": 262144.0, "spec.fdb.size": 65536.0, "spec.fdb.ageing": "300s",
		"spec.segments.encapsulation": "vxlan", "spec.segments.udpChecksum": false, "spec.underlay.probeMTU": true,
		"spec.segments.suppress": true, "spec.segments.clampMSS": true, "spec.segments.vlanTransparent": false, "spec.segments.wire": false,
		"spec.segments.outer.dscp": 0.0, "spec.segments.outer.ttl": 64.0, "spec.segments.outer.df": "set",
		"spec.routers.l3.encapsulation": "vxlan", "spec.routers.l3.outer.ttl": 64.0,
		"spec.segments.gateway.mac": overlay.AnycastMAC.String(), "spec.routers.routes.type": "unicast",
		"spec.routers.uplinks.vlan": 0.0, "spec.routers.uplinks.rpf": "inside", "spec.underlay.teaming": "flow", "spec.transit.mode": "auto",
		"spec.firewall.default": "allow", "spec.firewall.connections": 131072.0, "spec.firewall.sections.rules.direction": "both",
		"spec.firewall.timeouts.established": "2h4m", "spec.firewall.timeouts.closed": "10s",
		"spec.egress.sessions": 262144.0, "spec.egress.timeouts.udp": "2m", "spec.egress.log.enabled": false, "spec.egress.log.rate": 100.0,
		"spec.egress.gateways.mode": "active-standby", "spec.egress.policies.addressPooling": "paired", "spec.egress.timeouts.dns": "30s",
		"spec.egress.policies.mapping": "address-and-port-dependent", "spec.egress.policies.filtering": "address-and-port-dependent",
		"spec.egress.policies.ports": "1024-65535", "spec.routers.uplinks.nat.ports": "1024-65535", "spec.routers.uplinks.nat.masquerade": false,
		"spec.bgp.neighbours.port": 179.0, "spec.bgp.neighbours.timers.hold": "9s", "spec.bgp.neighbours.maximumPrefixes": 0.0,
		"spec.bgp.gracefulRestart.time": "120s", "spec.bgp.gracefulRestart.stale": "1h", "spec.bgp.autoRouteTargets": "vni",
		"spec.bgp.duplicates.moves": 5.0, "spec.bgp.duplicates.within": "180s", "spec.bgp.duplicates.freeze": 0.0,
		"spec.underlay.bfd.interval": "50ms", "spec.underlay.bfd.multiplier": 3.0, "spec.underlay.bfd.hops": "auto",
	} {
		found := false
		eachField(schema, "", func(at string, field map[string]any) {
			if at == path {
				found = true
				if field["default"] != want {
					t.Errorf("%s: default %v, want %v", path, field["default"], want)
				}
			}
		})
		if !found {
			t.Errorf("the schema has no %s", path)
		}
	}
	eachField(schema, "", func(at string, field map[string]any) {
		if field["description"] == nil {
			t.Errorf("%s has no description", at)
		}
	})
}

func readSchema(t *testing.T) map[string]any {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// decodeYAML returns what a JSON Schema validator would be given.
func decodeYAML(t *testing.T, text []byte) any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(asJSON, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// eachField calls visit for every property below schema; lists do not show in paths.
func eachField(schema map[string]any, path string, visit func(string, map[string]any)) {
	if items, ok := schema["items"].(map[string]any); ok {
		eachField(items, path, visit)
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, field := range properties {
		at := string(appendName([]byte(path), name))
		visit(at, field.(map[string]any))
		eachField(field.(map[string]any), at, visit)
	}
}

func schemaFields(schema map[string]any, path string) (paths []string) {
	eachField(schema, path, func(at string, _ map[string]any) { paths = append(paths, at) })
	slices.Sort(paths)
	return paths
}

// validate is the part of JSON Schema that Schema uses.
func validate(schema map[string]any, v any, path string, shown map[string]bool) (problems []string) {
	add := func(format string, args ...any) {
		problems = append(problems, path+": "+fmt.Sprintf(format, args...))
	}
	shown[path] = true
	if want, ok := schema["type"]; ok && !hasType(v, want.(string)) {
		add("is %T, want %v", v, want)
		return problems
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		add("%v is none of %v", v, enum)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		branches, _ := schema[key].([]any)
		good := slices.ContainsFunc(branches, func(b any) bool {
			return len(validate(b.(map[string]any), v, path, map[string]bool{})) == 0
		})
		if branches != nil && !good {
			add("fits no branch of %s", key)
		}
	}
	switch v := v.(type) {
	case string:
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v) {
			add("%q does not match %s", v, pattern)
		}
	case float64:
		least, limited := schema["minimum"].(float64)
		if most, _ := schema["maximum"].(float64); limited && (v < least || v > most) {
			add("%v is out of range", v)
		}
	case []any:
		if least, ok := schema["minItems"].(float64); ok && len(v) < int(least) {
			add("too few items")
		}
		items, ok := schema["items"].(map[string]any)
		for _, item := range v {
			if ok {
				problems = append(problems, validate(items, item, path, shown)...)
			}
		}
	case map[string]any:
		problems = append(problems, validateObject(schema, v, path, shown)...)
	}
	return problems
}

func validateObject(schema, v map[string]any, path string, shown map[string]bool) (problems []string) {
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range v {
		if field, ok := properties[name].(map[string]any); ok {
			problems = append(problems, validate(field, value, string(appendName([]byte(path), name)), shown)...)
		} else if schema["additionalProperties"] == false {
			problems = append(problems, string(appendName([]byte(path), name))+": unknown")
		} else if field, ok := schema["additionalProperties"].(map[string]any); ok {
			problems = append(problems, validate(field, value, string(appendName([]byte(path), name)), shown)...)
		}
	}
	least, _ := schema["minProperties"].(float64)
	if most, limited := schema["maxProperties"].(float64); len(v) < int(least) || limited && len(v) > int(most) {
		problems = append(problems, fmt.Sprintf("%s: %d fields", path, len(v)))
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			problems = append(problems, string(appendName([]byte(path), name.(string)))+": missing")
		}
	}
	return problems
}

func hasType(v any, want string) bool {
	switch v := v.(type) {
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case float64:
		return want == "number" || want == "integer" && v == float64(int64(v))
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	}
	return false
}
