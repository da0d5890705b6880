package offload

import (
	"encoding/binary"
	"testing"

	"github.com/selvage/selvage/internal/checksum"
)

// filled is a frame of one packet as it looks when its checksum is filled in.
func filled(p pattern, s shape, burst, first uint32) []byte {
	b := p.frame(make([]byte, snapLength), s, burst, first)
	start, offset := binary.NativeEndian.Uint16(b[6:]), binary.NativeEndian.Uint16(b[8:])
	f := b[vnetHeader:]
	binary.BigEndian.PutUint16(f[start+offset:], checksum.Of(f[start:]))
	return f
}

func TestFrames(t *testing.T) {
	for _, unit := range []int{leastUnit, 1350, 8850, largest / 2} {
		p := newPattern(42, unit)
		for _, s := range shapes {
			f := filled(p, s, 7, 100)
			u, ok := p.check(f, true)
			if want := (units{7, 100, uint32(p.units(s))}); !ok || u != want {
				t.Fatalf("unit %d, shape %+v: %+v, %v, want %+v", unit, s, u, ok, want)
			}
			if len(f) > 65535-ipv6Header {
				t.Fatalf("unit %d, shape %+v: %d bytes do not fit an IP packet with tunnel headers", unit, s, len(f))
			}
		}
	}
}

// TestDamagedFrames has every single byte changed, and every length cut: nothing passes.
func TestDamagedFrames(t *testing.T) {
	p := newPattern(42, leastUnit)
	for _, s := range []shape{{}, {six: true}, {udp: true}, {six: true, udp: true}} {
		f := filled(p, s, 7, 100)
		for i := range f {
			f[i] ^= 0x10
			if _, ok := p.check(f, true); ok {
				t.Errorf("shape %+v: byte %d is wrong, and nobody noticed", s, i)
			}
			f[i] ^= 0x10
			if _, ok := p.check(f[:i], true); ok {
				t.Errorf("shape %+v: cut to %d bytes, and nobody noticed", s, i)
			}
		}
	}
}

func FuzzCheck(f *testing.F) {
	p := newPattern(42, leastUnit)
	for _, s := range shapes {
		f.Add(filled(p, s, 7, 100))
	}
	f.Fuzz(func(_ *testing.T, b []byte) { p.check(b, true); unwrap(b, false, true); unwrap(b, true, true) })
}

func TestMessages(t *testing.T) {
	m := message{Kind: kindStopped, Session: 1, Token: 2, VNI: 3, Port: 4, Unit: 5, Burst: 6, Units: 7, tally: tally{Seen: 8, Nanos: 9}}
	b := m.encode()
	if len(b) != messageSize {
		t.Fatalf("%d bytes, not %d: an answer would be larger than its question", len(b), messageSize)
	}
	m.Magic, m.Version = magic, version
	if got, err := decode(b); err != nil || got != m {
		t.Errorf("decoded %+v, %v, want %+v", got, err, m)
	}
	for name, change := range map[string]func([]byte) []byte{
		"short":   func(b []byte) []byte { return b[:len(b)-1] },
		"long":    func(b []byte) []byte { return append(b, 0) },
		"magic":   func(b []byte) []byte { b[0]++; return b },
		"version": func(b []byte) []byte { b[4]++; return b },
		"kind":    func(b []byte) []byte { b[5] = kinds; return b },
	} {
		if _, err := decode(change(m.encode())); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
