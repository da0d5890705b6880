package harness

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
)

const trunkPicture = `
              switch
          e1 /      \ e2
        edge1        edge2
      t0 | trunk    a0 | b0 | n0
        rack          a2   b2   n2
   VLAN 10 (a), VLAN 20 (b), untagged (n)
   10.0.0.7    10.1.0.7      10.2.0.7, all of rack's are in the hands of the test`

// TrunkSpec is a configuration with a port for each tag of a trunk.
const TrunkSpec = `
  segments:
  - {name: a, vni: 100, remotes: REMOTES, gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}}
  - {name: b, vni: 200, encapsulation: geneve, remotes: REMOTES, gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}}
  - {name: n, vni: 300, encapsulation: nvgre, remotes: REMOTES}
  routers:
  - name: tenant
  ports:
`

// Parts of configurations with trunks.
const (
	TrunkPorts = `
  - {name: t0, interface: t0, segment: n, vlans: [{vlan: 10, segment: a}, {vlan: 20, segment: b}]}
`
	AccessPorts = `
  - {name: a0, interface: a0, segment: a}
  - {name: b0, interface: b0, segment: b}
  - {name: n0, interface: n0, segment: n}
`
)

// Lane is one VLAN of a trunk.
type Lane struct {
	Tag  string // in words, "" for none
	Far  Guest  // behind the other edge
	Rack Guest  // what the test plays; it has no host
}

// RackMAC is the one address of rack in every VLAN.
var RackMAC = net.HardwareAddr{2, 0, 0, 0, 9, 7}

// NewTrunk is both hosts and what is behind edge2; nothing runs.
func NewTrunk(t *testing.T) (*Hub, []Lane) {
	t.Helper()
	n := NewUnderlay(t, trunkPicture, 2, 4)
	var lanes []Lane
	for subnet, tag := range []string{"vlan 10 ", "vlan 20 ", ""} {
		name := string("abn"[subnet])
		lanes = append(lanes, Lane{tag, n.Guest(name+"2", subnet, 2, n.Hosts[1], name+"0", 1430), Guest{nil, subnet, 7}})
	}
	return n, lanes
}

// TagFrame puts the tags that the words name into a frame: "svlan 5 vlan 7 ".
func TagFrame(frame []byte, words string) []byte {
	var tags []byte
	f := strings.Fields(words)
	for i := 0; i+1 < len(f); i += 2 {
		tpid := map[string]uint16{"vlan": 0x8100, "svlan": 0x88a8}[f[i]]
		var vid uint16
		if _, err := fmt.Sscan(f[i+1], &vid); err != nil {
			panic(err)
		}
		tags = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(tags, tpid), vid)
	}
	return append(append(append([]byte{}, frame[:12]...), tags...), frame[12:]...)
}
