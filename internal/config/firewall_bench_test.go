package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// generated is a policy as a program writes it: groups of addresses, and rules between
// groups and networks.
func generated(rules int, asJSON bool) string {
	var groups, list []string
	for i := range 1 + rules/20 {
		groups = append(groups, fmt.Sprintf(`{"name": "g%d", "members": ["10.%d.%d.0/28", "10.%d.%d.32-10.%d.%d.40"]}`,
			i, i>>8&255, i&255, i>>8&255, i&255, i>>8&255, i&255))
	}
	for i := range rules {
		list = append(list, fmt.Sprintf(`{"name": "rule-%d", "action": "allow", "from": ["g%d"], "to": ["172.%d.%d.%d/28"], "services": ["tcp/%d", "udp/%d"]}`,
			i, i/20, 16+i>>12&15, i>>4&255, i<<4&240, 1024+i%60000, 1024+i%60000))
	}
	if asJSON {
		return `{"groups": [` + strings.Join(groups, ",\n") + `], "sections": [{"name": "all", "rules": [` + strings.Join(list, ",\n") + "]}]}\n"
	}
	return "groups:\n- " + strings.Join(groups, "\n- ") + "\nsections:\n- name: all\n  rules:\n  - " + strings.Join(list, "\n  - ") + "\n"
}

// A changed policy is read while the edge runs: 10,000 rules have to be in force within a
// second, of which reading them is a part.
func BenchmarkPolicy(b *testing.B) {
	edge := []byte(under + "  firewall: {include: [policy]}\n")
	for _, c := range []struct {
		name  string
		rules int
		json  bool
	}{{"json", 1000, true}, {"json", 10000, true}, {"json", 100000, true}, {"yaml", 1000, false}, {"yaml", 10000, false}} {
		policy := []byte(generated(c.rules, c.json))
		b.Run(fmt.Sprintf("%s/%d", c.name, c.rules), func(b *testing.B) {
			b.ReportAllocs()
			file := filepath.Join(b.TempDir(), "policy")
			if err := os.WriteFile(file, policy, 0o600); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				got, err := parse("f", edge, 0, filesBeside(file))
				if err != nil || len(got.Firewall.Rules) != c.rules {
					b.Fatal(len(got.Firewall.Rules), err)
				}
			}
		})
	}
}
