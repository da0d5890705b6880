package datapath

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/test/pkttest"
)

// A conversation is a recording (NAME.pcap) and a table (NAME.txt) with a line for each
// of its packets:
//
//	> syn+ack 40     | opening     | SYN_RECV
//
// which end sent it (a's are >), what it is, the state that a strict firewall has the
// connection in after it, with the reason when it is dropped, and the state that the
// kernel's connection tracking has after the same packets, with "invalid" when it would
// drop the packet. They were recorded between two of the kernel's own TCP stacks; a
// comment in the table says how.

const (
	sideB = 1
)

func conversationFile(name, ext string) string {
	return filepath.Join("testdata", "conversations", name+ext)
}

// conversations are the names of the recordings, each of which has its table.
func conversations(t *testing.T) (names []string) {
	t.Helper()
	tables, err := filepath.Glob(conversationFile("*", ".txt"))
	must(t, err)
	for _, table := range tables {
		names = append(names, strings.TrimSuffix(filepath.Base(table), ".txt"))
	}
	if len(names) < 40 {
		t.Fatalf("only %d recordings", len(names))
	}
	return names
}

// exchange is a line of a table with its packet.
type exchange struct {
	side         int
	words        string
	edge, kernel string
	frame        []byte
	segment      pkttest.Segment
}

func exchangesOf(t *testing.T, name string) (list []exchange) {
	t.Helper()
	frames, err := pkttest.ReadPcap(conversationFile(name, ".pcap"))
	must(t, err)
	for _, frame := range frames {
		e := exchange{frame: frame}
		var ok bool
		if e.segment, ok = pkttest.TCPOf(frame); !ok {
			t.Fatalf("%s: a packet that is not TCP", name)
		}
		if slices.Equal(frame[6:12], hardware(bob)) {
			e.side = sideB
		}
		e.words = string("><"[e.side]) + " " + e.segment.String()
		list = append(list, e)
	}
	return list
}

// conversation is what exchangesOf gives with its table.
func conversation(t *testing.T, name string) []exchange {
	t.Helper()
	list := exchangesOf(t, name)
	b, err := os.ReadFile(conversationFile(name, ".txt"))
	must(t, err)
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if lines = slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, "#") }); len(lines) != len(list) {
		t.Fatalf("%s: %d lines for %d packets", name, len(lines), len(list))
	}
	for i, line := range lines {
		columns := strings.Split(line, "|")
		if len(columns) != 3 || strings.TrimSpace(columns[0]) != list[i].words {
			t.Fatalf("%s: line %d is %q, the packet is %q", name, i+1, line, list[i].words)
		}
		list[i].edge, list[i].kernel = strings.TrimSpace(columns[1]), strings.TrimSpace(columns[2])
	}
	return list
}

// after is what a table says of a packet: the state, and the reason of a drop.
func after(state, why string) string {
	if state == "" {
		state = "none"
	}
	if why != "" {
		return state + ", " + why
	}
	return state
}

// openFirewall lets everything pass that is in order.
func openFirewall(strict bool) overlay.Firewall {
	return overlay.Firewall{
		Default: overlay.Allow, NonIP: overlay.Allow, Strict: strict, Timeouts: overlay.DefaultTimeouts,
		Sizes: overlay.ConnectionSizes{Connections: 4096, HalfOpen: 4096},
	}
}

// referenceStates are what the reference makes of a conversation, packet by packet, with
// alice at a port and bob beyond a tunnel.
func referenceStates(list []exchange, strict bool) (states []string) {
	r := newReference(openFirewall(strict), []policy.Place{{Name: "p0", Port: "p0", Segment: "blue"}})
	for _, e := range list {
		by := itinerary{fromSegment: "blue", toSegment: "blue", from: "p0"}
		way := overlay.Out
		if e.side == sideB {
			by.from, by.to, way = "", "p0", overlay.In
		}
		why := r.offer(e.frame, by)
		states = append(states, after(r.state(keyOf(readPacket(e.frame), "p0", way)), why))
	}
	return states
}

func TestReferenceFollowsConversations(t *testing.T) {
	for _, name := range conversations(t) {
		t.Run(name, func(t *testing.T) {
			list := conversation(t, name)
			for i, state := range referenceStates(list, true) {
				if state != list[i].edge {
					t.Errorf("packet %d, %q: the reference has %q, the table %q", i+1, list[i].words, state, list[i].edge)
				}
			}
		})
	}
}

// vantage is where the ends of a conversation are: at a port, or beyond the first remote.
type vantage struct {
	name string
	at   [2]string // port of each end, "" beyond the tunnel
}

var vantages = []vantage{
	{"opened from a port", [2]string{"p0", ""}},
	{"opened to a port", [2]string{"", "p0"}},
	{"between two ports", [2]string{"p0", "p1"}},
}

// place puts the ends where the vantage has them.
func (v vantage) place(t *testing.T, w *world) {
	t.Helper()
	blue := w.segment("blue")
	blue.Static = nil
	for side, mac := range []string{alice, bob} {
		s := overlay.StaticMAC{MAC: macOf(mac), Port: v.at[side]}
		if s.Port == "" {
			s.Remote = w.family.remotes[0]
		}
		blue.Static = append(blue.Static, s)
	}
	w.apply(t)
}

// offerFrom sends a frame of one of the ends.
func (v vantage) offerFrom(t *testing.T, w *world, side int, frame []byte) (why string) {
	t.Helper()
	if v.at[side] == "" {
		why, _ = w.verdictOf(t, "u0", w.fromRemote(padded(frame)))
		return why
	}
	why, _ = w.verdictOf(t, v.at[side], frame)
	return why
}

// Real conversations leave the connections in the states of their tables, at every port that sees them, with the flow cache and without.
func TestConversations(t *testing.T) {
	t.Parallel()
	for name, cached := range map[string]bool{"cache on": true, "cache off": false} {
		t.Run(name, func(t *testing.T) {
			for rules, strict := range map[string]bool{"strict": true, "loose": false} {
				t.Run(rules, func(t *testing.T) {
					w := firewallWorld(t, openFirewall(strict), func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cached })
					for _, v := range vantages {
						t.Run(v.name, func(t *testing.T) {
							v.place(t, w)
							for _, name := range conversations(t) {
								t.Run(name, func(t *testing.T) { replayConversation(t, w, v, conversation(t, name), strict) })
							}
						})
					}
				})
			}
		})
	}
}

func replayConversation(t *testing.T, w *world, v vantage, list []exchange, strict bool) {
	t.Helper()
	w.forgetConnections(t)
	states := referenceStates(list, strict)
	for i, e := range list {
		want := states[i]
		if strict {
			want = e.edge
		}
		why := v.offerFrom(t, w, e.side, e.frame)
		for _, port := range v.at {
			if port == "" {
				continue
			}
			if got := after(onlyState(t, w, port), why); got != want {
				pkttest.Errorf(t, []pkttest.Named{{Name: "packet", Bytes: e.frame}}, "packet %d, %q, at %s: %q, want %q", i+1, e.words, port, got, want)
				return
			}
		}
	}
}

// onlyState is the state of the one connection that a port has, "" without one.
func onlyState(t *testing.T, w *world, port string) string {
	t.Helper()
	list := w.connectionsAt(t, port)
	if len(list) > 1 {
		t.Fatalf("%d connections at %s", len(list), port)
	}
	for _, c := range list {
		return tcpStateOf(c)
	}
	return ""
}

// kernelStates are the kernel's states that are the same as ours.
var kernelStates = map[string][]string{
	"none":        {"NONE"},
	"opening":     {"SYN_SENT", "SYN_RECV", "SYN_SENT2"},
	"established": {"ESTABLISHED"},
	"half-closed": {"FIN_WAIT", "CLOSE_WAIT", "LAST_ACK"},
	"time-wait":   {"LAST_ACK", "TIME_WAIT"},
	"closed":      {"CLOSE"},
}

// differences from the kernel's connection tracking that are meant, by conversation.
var differences = map[string]string{
	"refused":                "the kernel forgets a refused connection at once; we for the timeout of closed ones",
	"refused-ipv6":           "the same",
	"refused-wrongly":        "we let a reset acknowledge what a SYN with data (RFC 7413) may have had, the kernel looks at its size; the next SYN opens anew",
	"reset-behind":           "the kernel knows the window that was offered, we the largest that can have been: the reset passes and changes nothing",
	"reset-in-scaled-window": "the same",
	"simultaneous-open":      "the kernel waits for an ACK behind both SYN+ACKs, for us these have acknowledged both SYNs",
	"simultaneous-open-v6":   "the same",
	"syn-ack-in-established": "the kernel drops it, we let it pass without effect: its receiver challenges it (RFC 5961 section 4)",
}

// The tables agree with what the kernel's own tracking made of the same packets, code that we did not write, but for differences that are named.
func TestConversationsAgreeWithTheKernel(t *testing.T) {
	for _, name := range conversations(t) {
		differs := ""
		for i, e := range conversation(t, name) {
			state, reason, _ := strings.Cut(e.edge, ", ")
			kernel, invalid, _ := strings.Cut(e.kernel, " ")
			if !slices.Contains(kernelStates[state], kernel) || (reason != "") != (invalid != "") {
				differs = fmt.Sprintf("packet %d, %q: %q, the kernel has %q", i+1, e.words, e.edge, e.kernel)
				break
			}
		}
		if named := differences[name] != ""; named != (differs != "") {
			t.Errorf("%s: a difference is named: %t; %s", name, named, differs)
		}
	}
}
