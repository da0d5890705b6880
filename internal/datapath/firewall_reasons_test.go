package datapath

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// firewallDrop is packets between stations; the last one is dropped for the reason that
// the case is named after, the others pass.
type firewallDrop struct {
	reason  string
	what    string
	packets []func(t *testing.T) (stand, []byte)
}

// packetOf is a packet as queryOf reads it, changed.
func packetOf(words string, change ...func([]byte) []byte) func(t *testing.T) (stand, []byte) {
	return func(t *testing.T) (stand, []byte) {
		from, frame := queryOf(t, words)
		for _, c := range change {
			frame = c(frame)
		}
		return from, frame
	}
}

// plain is a frame of alice for bob in pkttest's words.
func plain(words string) func(t *testing.T) (stand, []byte) {
	return func(*testing.T) (stand, []byte) { return stands[0], pkttest.Frame(alice, bob, words) }
}

// piece is one of the fragments of a packet, cut at size bytes.
func piece(n, size int) func([]byte) []byte {
	return func(frame []byte) []byte { return pkttest.Fragments(frame, 9, size)[n] }
}

// grown is a TCP segment with some data.
func grown([]byte) []byte { return pkttest.Frame(alice, bob, numberedSYN+" 40") }

func headers(kinds ...uint8) func([]byte) []byte {
	return func(frame []byte) []byte { return pkttest.WithExtensions(frame, kinds...) }
}

// errorOf is carol's ICMP error to alice about a packet, whatever that is.
func errorOf(words string, change ...func([]byte) []byte) func(t *testing.T) (stand, []byte) {
	return func(t *testing.T) (stand, []byte) {
		_, about := packetOf(words, change...)(t)
		family, kind := 0, uint8(3)
		if about[12] == 0x86 {
			family, kind = 1, 1
		}
		return stands[1], pkttest.ErrorAbout(carol, alice, stands[1].addrs[family], stands[0].addrs[family], kind, 1, about, 600)
	}
}

const numberedSYN = "tcp 10.0.1.10:1000 > 10.0.1.11:80 syn seq 7"

var firewallDrops = []firewallDrop{
	{"denied", "by a rule", []func(*testing.T) (stand, []byte){packetOf("alice > bob tcp 22")}},
	{"denied", "by a rule, IPv6 and a protocol without ports", []func(*testing.T) (stand, []byte){packetOf("alice > bob gre6")}},
	{"denied", "behind six extension headers", []func(*testing.T) (stand, []byte){packetOf("alice > bob tcp6 22", headers(0, 43, 60, 43, 60, 60))}},
	{"denied", "an atomic fragment", []func(*testing.T) (stand, []byte){packetOf("alice > bob tcp6 22", func(b []byte) []byte { return pkttest.Atomic(b, 5) })}},
	{"out-of-state", "an ACK of no connection", []func(*testing.T) (stand, []byte){plain("tcp 10.0.1.10:1000 > 10.0.1.11:80 ack")}},
	{"out-of-state", "a reply to no echo", []func(*testing.T) (stand, []byte){packetOf("alice > bob icmp 0")}},
	{"out-of-state", "a reply to one's own echo", []func(*testing.T) (stand, []byte){packetOf("alice > bob icmp 8"), packetOf("alice > bob icmp 0")}},
	{"out-of-window", "a reset", []func(*testing.T) (stand, []byte){plain(numberedSYN), plain("tcp 10.0.1.10:1000 > 10.0.1.11:80 rst seq 77777")}},
	{"tcp-flags", "none", []func(*testing.T) (stand, []byte){plain("tcp 10.0.1.10:1000 > 10.0.1.11:80 none")}},
	{"tcp-flags", "SYN and FIN", []func(*testing.T) (stand, []byte){plain("tcp 10.0.1.10:1000 > 10.0.1.11:80 syn+fin")}},
	{"unrelated", "an error about nothing that was sent", []func(*testing.T) (stand, []byte){errorOf("alice > carol udp 53")}},
	{"unrelated", "an error about another port", []func(*testing.T) (stand, []byte){packetOf("alice > carol udp 53"), errorOf("alice > carol udp 54")}},
	{"unrelated", "an error about a packet of somebody else", []func(*testing.T) (stand, []byte){packetOf("dave > carol udp 53"), errorOf("dave > carol udp 53")}},
	{"unrelated", "an error about an error", []func(*testing.T) (stand, []byte){packetOf("alice > carol udp 53"), errorOf("alice > carol icmp 3/1")}},
	{"unrelated", "an error about a later fragment", []func(*testing.T) (stand, []byte){packetOf("alice > carol udp 53"), errorOf("alice > carol udp 53", piece(1, 16))}},
	{"unrelated", "an error about IPv6, another port", []func(*testing.T) (stand, []byte){packetOf("alice > carol tcp6 80"), errorOf("alice > carol tcp6 81")}},
	{"unrelated", "an error that quotes too little", []func(*testing.T) (stand, []byte){packetOf("alice > carol udp 53"), func(t *testing.T) (stand, []byte) {
		_, about := packetOf("alice > carol udp 53")(t)
		return stands[1], pkttest.ErrorAbout(carol, alice, stands[1].addrs[0], stands[0].addrs[0], 3, 1, about, 27)
	}}},
	{"fragment-no-first", "a later one alone", []func(*testing.T) (stand, []byte){packetOf("alice > bob udp 53", piece(1, 16))}},
	{"fragment-no-first", "a later one of another datagram", []func(*testing.T) (stand, []byte){packetOf("alice > bob udp 53", piece(0, 16)), func(t *testing.T) (stand, []byte) {
		from, frame := queryOf(t, "alice > bob udp 53")
		return from, pkttest.Fragments(frame, 10, 16)[1]
	}}},
	{"fragment-no-first", "a later one the other way", []func(*testing.T) (stand, []byte){packetOf("alice > carol udp6 53", piece(0, 16)), packetOf("carol > alice udp6 53", piece(1, 16))}},
	{"fragment-tiny", "TCP's header is cut", []func(*testing.T) (stand, []byte){packetOf("alice > bob tcp 80", piece(0, 16))}},
	{"fragment-tiny", "a later one reaches into TCP's header", []func(*testing.T) (stand, []byte){packetOf("alice > bob tcp 80", piece(1, 8))}},
	{"fragment-tiny", "IPv6", []func(*testing.T) (stand, []byte){packetOf("alice > bob tcp6 80", piece(0, 16))}},
	{"fragment-tiny", "after a first fragment of a connection that is being opened", []func(*testing.T) (stand, []byte){
		packetOf("alice > bob tcp6 80", piece(0, 24)), packetOf("alice > bob tcp6 80", piece(0, 8)),
	}},
	{"fragment-no-first", "after a first fragment of a connection that is being opened", []func(*testing.T) (stand, []byte){
		packetOf("alice > bob tcp 80", grown, piece(0, 24)), packetOf("alice > bob udp 99", piece(1, 16)),
	}},
	{"denied", "behind the same headers as a connection that is being opened", []func(*testing.T) (stand, []byte){
		packetOf("alice > bob tcp6 80", headers(0, 43)), packetOf("alice > bob tcp6 22", headers(0, 43)),
	}},
	{"ipv6-ext-headers", "seven extension headers", []func(*testing.T) (stand, []byte){packetOf("alice > bob tcp6 80", headers(0, 43, 60, 43, 60, 60, 60))}},
	{"ipv6-ext-headers", "one that is longer than the packet", []func(*testing.T) (stand, []byte){packetOf("alice > bob udp6 80", headers(0, 60, 60), func(b []byte) []byte {
		return changed(b, etherLen+ipv6Len+17, 40)
	})}},
}

// Every reason of the firewall stops what it is about, with the flow cache and without.
func TestFirewallReasons(t *testing.T) {
	fw := openFirewall(true)
	fw.Rules = []overlay.Rule{ruleOf(1, "drop both svc tcp/22,gre")}
	for name, cached := range map[string]bool{"cache on": true, "cache off": false} {
		w := firewallWorld(t, fw, func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cached })
		for _, c := range firewallDrops {
			t.Run(name+"/"+c.reason+"/"+c.what, func(t *testing.T) {
				w.forgetConnections(t)
				for i, packet := range c.packets {
					from, frame := packet(t)
					want := ""
					if i == len(c.packets)-1 {
						want = c.reason
					}
					if why, _ := w.verdictFrom(t, from, frame); why != want {
						pkttest.Errorf(t, []pkttest.Named{{Name: "packet", Bytes: frame}}, "packet %d: %q, want %q", i+1, why, want)
					}
				}
			})
		}
	}
}

// Neighbour discovery passes a firewall that lets nothing else through, and so do other frames than IP's unless nonIP says drop.
func TestOtherThanIP(t *testing.T) {
	t.Parallel()
	for _, nonIP := range []overlay.Verdict{overlay.Allow, overlay.Drop} {
		fw := openFirewall(true)
		fw.Default, fw.NonIP = overlay.Drop, nonIP
		w := firewallWorld(t, fw)
		for words, ip := range map[string]bool{
			"arp 10.0.1.10 ? 10.0.1.11": false, "ns 2001:db8:1::a ? 2001:db8:1::b": false, "raw 0x88b5 46": true, "lldp": true,
		} {
			want := ""
			if ip && nonIP == overlay.Drop {
				want = "non-ip"
			}
			dst := bob
			if strings.HasPrefix(words, "ns") { // of its target's group
				dst = "33:33:ff:00:00:0b"
			}
			drops, _ := w.counted(t, func() { w.offer(t, "p0", pkttest.Frame(alice, dst, words)) })
			if want == "" && len(drops) > 0 || want != "" && drops[want] != 1 {
				t.Errorf("nonIP %s: %q: drops %v, want %q", nonIP, words, drops, want)
			}
			if want != "" {
				continue
			}
			in := w.fromRemote(padded(pkttest.Frame(bob, alice, words)))
			if drops, _ := w.counted(t, func() { w.offer(t, "u0", in) }); drops["non-ip"] > 0 || drops["denied"] > 0 {
				t.Errorf("nonIP %s: %q to the port: drops %v", nonIP, words, drops)
			}
		}
	}
}

// Without a policy nothing passes a port that has a firewall.
func TestNoPolicy(t *testing.T) {
	w := firewallWorld(t, openFirewall(true))
	must(t, w.dp.prog.objs.Policy.Delete(uint32(0)))
	for _, words := range []string{"alice > bob tcp 80", "bob > alice udp6 53"} {
		from, frame := queryOf(t, words)
		if why, _ := w.verdictFrom(t, from, frame); why != "no-policy" {
			t.Errorf("%s: %q", words, why)
		}
	}
}
