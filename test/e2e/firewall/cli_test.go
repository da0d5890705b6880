package firewall

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/test/e2e/harness"
)

// watched is a policy whose every line shows in a command.
var watched = policy{options: "default: drop, strict: true", rules: []string{
	"name: ssh, action: allow, services: [tcp/22], comment: for administrators",
	"name: web, action: allow, direction: out, services: [tcp/7001, icmp/8, icmpv6/128], log: true",
	"name: on-trial, action: log-only, services: [udp/7003]",
	"name: web-again, action: drop, direction: out, services: [tcp/7001]",
	"name: answers, action: allow, services: [udp/7001-7003]",
	"name: noise, action: reject, services: [tcp/7004], log: true",
}}

// commands are what a user types at edge1 about its firewall, while guests talk.
func commands(n *policed) {
	n.T.Helper()
	n.Serve(n.red3, harness.PortAllowed, harness.PortRejected)
	conn := n.connect(n.red1, n.red3, 4, harness.PortAllowed)
	gets(n.Hub.Network, n.red2, "udp", n.red3, harness.PortRejected, harness.Answered)
	gets(n.Hub.Network, n.red2, "tcp", n.red3, harness.PortDroppedOut, harness.Refused)
	gets(n.Hub.Network, n.red3, "tcp", n.red1, harness.PortAllowed, harness.Silent)
	n.Prints([]string{"rules", "-o", "wide"}, "ORDER SECTION RULE ACTION CONNECTIONS PACKETS BYTES LAST-HIT NOTES MATCHES",
		"1 test ssh allow 0 0 0B - UNUSED both, from any to any, tcp/22", "2 test web allow,log 1 ", "3 test on-trial log-only 2 2 ",
		"5 test answers allow 2 4 ", "6 test noise reject,log 2 2 ", "7 default edge drop ")
	n.Prints([]string{"rules", "--unused", "-o", "wide"}, "1 test ssh allow 0")
	n.Prints([]string{"rules", "--shadowed", "-o", "wide"}, "4 test web-again drop 0 0 0B - UNUSED, SHADOWED BY test/web")
	n.Prints([]string{"sessions", "-o", "wide"}, "PORT DIRECTION PROTO SOURCE DESTINATION STATE AGE IDLE ORIG-PACKETS ORIG-BYTES REPLY-PACKETS REPLY-BYTES RULE PATH WHY",
		"p1 out tcp 10.0.0.1:", " 10.0.0.3:7001 established ", " test/web fast -", "p2 out udp [fd00::2]:", " [fd00::3]:7003 replied ", "test/answers fast -", "3 of 3 ")
	n.Prints([]string{"sessions", "--port", "p2", "--proto", "udp", "--addr", "10.0.0.0/24", "-o", "wide"}, "p2 out udp 10.0.0.2:", "1 of 1 ")
	n.Prints([]string{"sessions", "--top", "sources"}, "10.0.0.1 1 33.33 % 0 ", "3 of 3 connections match")
	n.Prints([]string{"sessions", "--stats"}, "7 rules, default drop, out of state: dropped", "Alarm: none", " 131072 ", "conntrack-answered 3 ")
	n.Prints([]string{"trace", "--port", "p1", "tcp 10.0.0.1:1000 > 10.0.0.3:7001 syn"}, "firewall out: rule test/web says allow", "verdict: sent")
	n.Prints([]string{"trace", "--port", "p1", "tcp 10.0.0.1:1000 > 10.0.0.3:7005 syn"}, "firewall out: rule default/edge says drop", "denied")
	harness.DocumentOf(n.Network, n.Asks, []string{"rules", "-o", "wide"}, func(rules []api.RuleInfo) bool {
		return len(rules) == 7 && rules[0].Unused && rules[1].Connections == 1 && rules[1].Log && rules[3].ShadowedBy == "test/web" && rules[6].Section == "default"
	})
	harness.DocumentOf(n.Network, n.Asks, []string{"sessions", "--proto", "tcp"}, func(list api.SessionList) bool {
		return list.Matched == 1 && list.Total == 3 && list.Sessions[0].Src == n.red1.Addr(4) && list.Sessions[0].DstPort == harness.PortAllowed && list.Sessions[0].Answered
	})
	n.whatIf(func() error { return harness.ExchangeLine(conn, harness.Patience) })
	n.logged("verdict=reject section=test rule=noise", "verdict=log-only section=test rule=on-trial", "verdict=allow section=test rule=web")
}

// whatIf is the fact that a policy which has not been loaded says whom it would cut, and
// cuts nobody.
func (n *policed) whatIf(works func() error) {
	n.T.Helper()
	next := watched
	next.rules = append([]string{"name: no-web, action: drop, services: [tcp/7001]"}, next.rules...)
	file := filepath.Join(n.Topo.Dir, "next.yaml")
	n.Must(os.WriteFile(file, []byte(n.Yaml(1, policedSpec(next, "p1", "p2"))), 0o644))
	n.Prints([]string{"rules", "--what-if", file}, "test/no-web", "10.0.0.1")
	n.Once("nothing has happened", works)
	n.Once("no rule is new", func() error {
		if err := hasRule(n.Hub.Network, "edge1", "no-web"); err == nil {
			return errors.New("it is in force")
		}
		return nil
	})
}

// logged is the fact that the edge has written lines with these words.
func (n *policed) logged(lines ...string) {
	n.T.Helper()
	for _, line := range lines {
		n.Fact("the log has "+line, func() error {
			log, err := os.ReadFile(filepath.Join(n.Topo.Dir, n.Edges["edge1"].Name+".log"))
			if err == nil && !strings.Contains(string(log), line) {
				err = errors.New(harness.Tail(string(log), 30))
			}
			return err
		})
	}
}
