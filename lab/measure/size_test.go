package measure

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// The search finds every limit, also none and nothing, within the steps that a
// bisection needs.
func TestBisection(t *testing.T) {
	for limit, want := range map[int]int{1500: 1500, 9000: 1500, 1450: 1450, 1499: 1499, 577: 577, 576: 576, 575: 0, 0: 0} {
		b := bisection{least: 576, most: 1500}
		tries := 0
		for size := b.next(); size > 0; size = b.next() {
			if tries++; tries > 13 {
				t.Fatalf("limit %d: no end: %+v", limit, b)
			}
			b.tried(size, size <= limit)
		}
		if b.passes != want {
			t.Errorf("limit %d: found %d, want %d", limit, b.passes, want)
		}
	}
}

func TestReportedMTU(t *testing.T) {
	message := func(level, kind int32, data []byte) []byte {
		b := make([]byte, unix.CmsgSpace(len(data)))
		binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(len(data))))
		binary.NativeEndian.PutUint32(b[8:], uint32(level))
		binary.NativeEndian.PutUint32(b[12:], uint32(kind))
		copy(b[unix.CmsgLen(0):], data)
		return b
	}
	extended := func(number unix.Errno, origin byte, info uint32) []byte {
		data := make([]byte, 16)
		binary.NativeEndian.PutUint32(data, uint32(number))
		data[4] = origin
		binary.NativeEndian.PutUint32(data[8:], info)
		return data
	}
	for name, c := range map[string]struct {
		control []byte
		want    int
	}{
		"ICMP too big":        {message(unix.SOL_IP, unix.IP_RECVERR, extended(unix.EMSGSIZE, unix.SO_EE_ORIGIN_ICMP, 1450)), 1450},
		"ICMPv6 too big":      {message(unix.SOL_IPV6, unix.IPV6_RECVERR, extended(unix.EMSGSIZE, unix.SO_EE_ORIGIN_ICMP6, 1430)), 1430},
		"of this host itself": {message(unix.SOL_IP, unix.IP_RECVERR, extended(unix.EMSGSIZE, unix.SO_EE_ORIGIN_LOCAL, 1500)), 0},
		"unreachable":         {message(unix.SOL_IP, unix.IP_RECVERR, extended(unix.ECONNREFUSED, unix.SO_EE_ORIGIN_ICMP, 0)), 0},
		"cut":                 {message(unix.SOL_IP, unix.IP_RECVERR, make([]byte, 8)), 0},
		"nothing":             {nil, 0},
	} {
		if got := reportedMTU(c.control); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
