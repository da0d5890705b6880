package attacker

import (
	"slices"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/selvage/selvage/internal/checksum"
	"github.com/selvage/selvage/lab/experiment/attack/network"
)

// sees says whether a filter of these clauses passes a frame, by another interpreter than the kernel's.
func sees(t *testing.T, clauses []clause, frame []byte) bool {
	t.Helper()
	raw, err := compile(clauses)
	if err != nil {
		t.Fatal(err)
	}
	var program []bpf.Instruction
	for _, r := range raw {
		program = append(program, bpf.RawInstruction{Op: r.Code, Jt: r.Jt, Jf: r.Jf, K: r.K}.Disassemble())
	}
	machine, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	n, err := machine.Run(frame)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// delivered are frames as a data path without any defence would deliver them to victims, by attack: most
// are as they are sent, those in tunnels without it.
func delivered(t *testing.T, a Attack, b testbed) (frames [][]byte) {
	t.Helper()
	if a.Routes {
		return [][]byte{b.fromStranger(1, etherIPv4, ipv4(header4{src: network.TEP(1, 4), dst: network.TEP(network.Stranger, 4), proto: protoUDP}, udp(1, portVXLAN, nil)))}
	}
	for i := range 64 {
		for _, from := range a.streams(b) {
			frame := slices.Clone(from.frame(i))
			switch a.Name {
			case "tunnel-in-tunnel":
				frame = frame[14+20+8+8:]
			case "forged-tep":
				frame = frame[map[bool]int{true: 14 + 20 + 16, false: 14 + 40 + 16}[frame[12] == 8]:]
			case "bfd-forgery": // an answer has the addresses of the question the other way round
				src, dst := slices.Clone(frame[26:30]), slices.Clone(frame[30:34])
				copy(frame[26:], dst)
				copy(frame[30:], src)
			}
			frames = append(frames, frame)
		}
	}
	return frames
}

// Captures that see nothing prove nothing: each sees the attack that it is for, and nothing of what
// honest guests say.
func TestCapturesSeeTheAttack(t *testing.T) {
	b := newTestbed(network.OnPaper())
	honest := [][]byte{
		ether(b.same2.MAC, b.same1.MAC, etherIPv4, honestIPv4(ipv4(header4{src: b.same1.V4, dst: b.same2.V4, proto: protoTCP}, make([]byte, 20)))),
		arp(broadcast(), b.same1.MAC, 1, b.same1.MAC, b.same1.V4, make([]byte, 6), b.same2.V4),
		arp(broadcast(), b.attacker.MAC, 1, b.attacker.MAC, b.attacker.V4, make([]byte, 6), b.loose.V4),
	}
	for _, a := range All() {
		seen := 0
		for _, at := range a.crossed(b) {
			for _, frame := range delivered(t, a, b) {
				if sees(t, at.clauses, frame) {
					seen++
				}
			}
			for i, frame := range honest {
				toAttackers := slices.Contains(at.roles, network.RoleAttacker) // who must see no honest unicast
				if i == 2 && a.Name != "arp-nd-spoof" || toAttackers {
					continue
				}
				if a.Name != "nat-exhaustion" && sees(t, at.clauses, frame) {
					t.Errorf("%s: honest frame %d counts as crossed at %v", a.Name, i, at.roles)
				}
			}
		}
		if seen == 0 {
			t.Errorf("%s: no capture would see it", a.Name)
		}
	}
}

// honestIPv4 takes the mark out of a packet.
func honestIPv4(packet []byte) []byte {
	packet[1] = 0
	return packet
}

// Unicast between honest guests is seen where an attacker gets it.
func TestLeakedUnicast(t *testing.T) {
	b := newTestbed(network.OnPaper())
	frame := ether(b.same2.MAC, b.same1.MAC, etherExperiment, nil)
	if !sees(t, toHonest(0), frame) || sees(t, toHonest(1), frame) || sees(t, toHonest(0), ether(broadcast(), b.same1.MAC, etherExperiment, nil)) {
		t.Error("toHonest is not what it says")
	}
}

// Frames are of the least size, checksums hold, and no two floods repeat within a run.
func TestFrames(t *testing.T) {
	b := newTestbed(network.OnPaper())
	for _, a := range All() {
		if a.Routes {
			continue
		}
		if a.Rate <= 0 || a.Most <= 0 || a.Most > 60*a.Rate {
			t.Errorf("%s: %d frames at %d a second are not bounded", a.Name, a.Most, a.Rate)
		}
		for _, from := range a.streams(b) {
			for i := range 200 {
				frame := from.frame(i)
				if len(frame) < 60 || len(frame) > 1464 {
					t.Fatalf("%s: a frame of %d bytes", a.Name, len(frame))
				}
				if frame[12] == 8 && frame[13] == 0 && checksum.Of(frame[14:34]) != 0 {
					t.Fatalf("%s: header checksum of frame %d", a.Name, i)
				}
			}
		}
	}
	flood := macFlood(b)[0].frame
	if first := slices.Clone(flood(1)); slices.Equal(first, flood(2)) || first[6] != 6 || first[7] != 0xa7 {
		t.Errorf("MAC addresses of the flood: % x", first[6:12])
	}
}

func TestFind(t *testing.T) {
	if len(All()) != 16 || len(Quick()) != 5 {
		t.Errorf("%d attacks, %d of them quick", len(All()), len(Quick()))
	}
	for _, name := range append(Names(), Quick()...) {
		if _, ok := Find(name); !ok {
			t.Errorf("there is no %s", name)
		}
	}
	if _, ok := Find("moon"); ok {
		t.Error("there is an attack moon")
	}
}
