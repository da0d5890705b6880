package prove

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// assembly is a classic BPF program whose jumps go to labels.
type assembly struct {
	code   []unix.SockFilter
	labels map[string]int
	jumps  map[int]string
}

func (a *assembly) label(name string) { a.labels[name] = len(a.code) }

func (a *assembly) do(code uint16, k uint32) {
	a.code = append(a.code, unix.SockFilter{Code: code, K: k})
}

// equal goes to a label where the accumulator is k.
func (a *assembly) equal(k uint32, to string) {
	a.jumps[len(a.code)] = to
	a.do(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k)
}

func (a *assembly) jump(to string) {
	a.jumps[len(a.code)] = to
	a.do(unix.BPF_JMP|unix.BPF_JA, 0)
}

// link fills the jumps in; all of them go forward.
func (a *assembly) link() []unix.SockFilter {
	for at, to := range a.jumps {
		distance := a.labels[to] - at - 1
		if a.code[at].Code == unix.BPF_JMP|unix.BPF_JA {
			a.code[at].K = uint32(distance)
		} else {
			a.code[at].Jt = uint8(distance)
		}
	}
	return a.code
}

const (
	loadHalf, loadByte           = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	indexWord                    = unix.BPF_LD | unix.BPF_W | unix.BPF_IND
	indexHalf, indexByte         = unix.BPF_LD | unix.BPF_H | unix.BPF_IND, unix.BPF_LD | unix.BPF_B | unix.BPF_IND
	add, toX, fromX              = unix.BPF_ALU | unix.BPF_ADD | unix.BPF_K, unix.BPF_MISC | unix.BPF_TAX, unix.BPF_MISC | unix.BPF_TXA
	result                       = unix.BPF_RET | unix.BPF_K
	accepted, rejected, snapshot = "accepted", "rejected", 1 << 16
)

// filterFor lets what may be an answer pass: ICMP, and of tunnels what is inner ICMP or for
// the MAC address of who asks. The rest, which is what hosts send each other, the reader of
// the socket would drown in.
func filterFor(mac overlay.MAC, tunnels map[uint16]overlay.Encapsulation) []unix.SockFilter {
	a := &assembly{labels: make(map[string]int), jumps: make(map[int]string)}
	a.do(loadHalf, etherLen-2)
	a.equal(unix.ETH_P_IPV6, "six")
	a.equal(unix.ETH_P_IP, "four")
	a.jump(rejected)
	a.label("six") // the index is the IP header's length
	a.do(unix.BPF_LDX|unix.BPF_IMM, ipv6Len)
	a.do(loadByte, etherLen+6)
	a.jump("protocol")
	a.label("four")
	a.do(unix.BPF_LDX|unix.BPF_B|unix.BPF_MSH, etherLen)
	a.do(loadByte, etherLen+9)
	a.label("protocol")
	a.equal(unix.IPPROTO_ICMP, accepted)
	a.equal(unix.IPPROTO_ICMPV6, accepted)
	a.equal(unix.IPPROTO_GRE, "inner")
	a.equal(unix.IPPROTO_UDP, "udp")
	a.jump(rejected)
	a.label("udp")
	a.do(indexHalf, etherLen+2)
	for port, how := range tunnels {
		if how != overlay.NVGRE {
			a.equal(uint32(port), string(how))
		}
	}
	a.jump(rejected)
	a.label(string(overlay.Geneve))
	a.do(indexByte, etherLen+udpLen)
	a.do(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0x3f)
	a.do(unix.BPF_ALU|unix.BPF_LSH|unix.BPF_K, 2)
	a.do(unix.BPF_ALU|unix.BPF_ADD|unix.BPF_X, 0)
	a.jump("behind")
	a.label(string(overlay.VXLAN))
	a.do(fromX, 0)
	a.label("behind")
	a.do(add, udpLen)
	a.do(toX, 0)
	a.label("inner")
	a.inner(mac, etherLen+tunnelLen)
	return a.link()
}

// inner looks at the frame at an offset from the index.
func (a *assembly) inner(mac overlay.MAC, at uint32) {
	a.do(indexWord, at+2)
	a.equal(binary.BigEndian.Uint32(mac[2:]), accepted)
	a.do(indexHalf, at+12)
	a.equal(unix.ETH_P_IP, "inner four")
	a.equal(unix.ETH_P_IPV6, "inner six")
	a.jump(rejected)
	a.label("inner four")
	a.do(indexByte, at+etherLen+9)
	a.equal(unix.IPPROTO_ICMP, accepted)
	a.jump(rejected)
	a.label("inner six")
	a.do(indexByte, at+etherLen+6)
	a.equal(unix.IPPROTO_ICMPV6, accepted)
	a.label(rejected)
	a.do(result, 0)
	a.label(accepted)
	a.do(result, snapshot)
}
