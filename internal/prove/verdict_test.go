package prove

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

func TestClassify(t *testing.T) {
	path := func(answered int, dead ...uint16) PathFinding {
		return PathFinding{Ways: answered + len(dead), Answered: answered, Dead: dead}
	}
	pinged := func(p PathFinding, small, large Ping) PathFinding {
		p.Ping, p.LargePing = small, large
		return p
	}
	one, none := TargetFinding{Asked: 1, Answered: 1}, TargetFinding{Asked: 8}
	two := Target{Addr: netip.MustParseAddr("10.0.0.3")}
	edge, host := Target{Ask: Echo, Near: true}, Target{Addr: host4, MAC: hostMAC, From: near}
	for _, tt := range []struct {
		name    string
		targets []Target
		finding Finding
		known   Known
		state   State
		words   string // of cause and cure, "" where nothing is to be said
	}{
		{"all well", []Target{host, edge}, Finding{Paths: []PathFinding{path(8)}, Targets: []TargetFinding{one, none}, SizeTried: true, Fits: true}, Known{}, Proven, ""},
		{"no way", []Target{host}, Finding{}, Known{NoWay: "no route", NoWayFix: "add it"}, Broken, "no route; add it"},
		{"black hole", []Target{host}, Finding{Paths: []PathFinding{pinged(PathFinding{Ways: 8}, Answers, Answers)}, Targets: []TargetFinding{none}},
			Known{Hosts: 3, Alive: true}, Broken, "although BGP says that 3 hosts are there and BFD, which is not tunnelled, is up; look for a filter of UDP port 4789"},
		{"black hole of one of ours", []Target{edge}, Finding{Paths: []PathFinding{pinged(PathFinding{Ways: 8}, Answers, Answers)}, Targets: []TargetFinding{none}},
			Known{Ours: true}, Broken, "answers a plain ping"},
		{"dead underlay", []Target{edge}, Finding{Paths: []PathFinding{pinged(PathFinding{Ways: 8}, Silent, Silent)}, Targets: []TargetFinding{none}},
			Known{}, Broken, "neither tunnels nor plain pings"},
		{"refused", []Target{host}, Finding{Paths: []PathFinding{{Ways: 8, Refusal: "192.0.2.2 says: port unreachable"}}, Targets: []TargetFinding{none}},
			Known{}, Broken, "192.0.2.2 says: port unreachable; see that the edge"},
		{"nobody known", []Target{edge}, Finding{Paths: []PathFinding{pinged(PathFinding{Ways: 8}, Answers, Answers)}, Targets: []TargetFinding{none}},
			Known{}, Unprovable, "no host is known there"},
		{"a dead way", []Target{host}, Finding{Paths: []PathFinding{path(7, 50001)}, Targets: []TargetFinding{one}}, Known{}, Partial, "1 of 8 ways"},
		{"a dead path", []Target{host}, Finding{Paths: []PathFinding{path(8), path(0, 1, 2)}, Targets: []TargetFinding{one}}, Known{}, Partial, "the path 192.0.2.1 to 192.0.2.2 is dead"},
		{"too large for the underlay", []Target{host}, Finding{Paths: []PathFinding{pinged(path(8), Answers, Silent)}, Targets: []TargetFinding{one}, SizeTried: true, Passed: 1350},
			Known{}, Partial, "1350 do; a plain ping of  that large is lost too; raise the MTU of the underlay on the way, or lower that of this host's underlay interface to 1400"},
		{"too large for tunnels", []Target{host}, Finding{Paths: []PathFinding{pinged(path(8), Answers, Answers)}, Targets: []TargetFinding{one}, SizeTried: true},
			Known{}, Partial, "a filter of large or fragmented UDP packets"},
		{"a dead host", []Target{host, two}, Finding{Paths: []PathFinding{path(8)}, Targets: []TargetFinding{none, one}}, Known{}, Proven, "does not lead to 10.0.0.2"},
		{"dead hosts", []Target{host, two, edge}, Finding{Paths: []PathFinding{path(8)}, Targets: []TargetFinding{none, none, one}}, Known{}, Partial, "no host behind it: 10.0.0.2, 10.0.0.3"},
		{"another router MAC", []Target{host, edge}, Finding{Paths: []PathFinding{path(8)}, Targets: []TargetFinding{none, one}}, Known{Routed: true}, Broken,
			"does not answer for 10.0.0.2; see that its router MAC is 02:00:00:00:00:02, that it has a way back to 192.0.2.1"},
		{"no prefix there", []Target{host}, Finding{Paths: []PathFinding{path(8)}, Targets: []TargetFinding{{Answered: 1, Refused: true, Answer: "no route says 10.9.9.9"}}}, Known{Routed: true}, Broken,
			"no way on: 10.0.0.2 (no route says 10.9.9.9)"},
		{"one prefix of two", []Target{host, two}, Finding{Paths: []PathFinding{path(8)}, Targets: []TargetFinding{one, none}}, Known{Routed: true}, Partial, "does not answer for 10.0.0.3"},
		{"no address to ask from", []Target{edge}, Finding{Paths: []PathFinding{path(8)}, Targets: []TargetFinding{one}}, Known{Routed: true}, Unprovable, "spec.routers[].loopbacks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tunnel := Tunnel{VNI: 100, Header: overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}, Remotes: []netip.Addr{far}, Targets: tt.targets, Size: 1450}
			for range tt.finding.Paths {
				tunnel.Paths = append(tunnel.Paths, Path{Pair: overlay.Pair{Local: near, Remote: far}})
			}
			v := Classify(tunnel, tt.finding, tt.known)
			if words := strings.Trim(v.Cause+"; "+v.Fix, "; "); v.State != tt.state || !strings.Contains(words, tt.words) || tt.words == "" && words != "" {
				t.Errorf("%s: %q; want %s: %q", v.State, words, tt.state, tt.words)
			}
		})
	}
}
