package doctor

import (
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/host"
)

// Answers of ovs-vsctl 3.5, with shorter identifiers.
const (
	ovsBridges = `{"data":[["br-under",["set",[["uuid","p1"],["uuid","p2"]]]],["br-int",["set",[["uuid","p3"],["uuid","p4"]]]],["br-far",["uuid","p5"]]],"headings":["name","ports"]}`
	ovsPorts   = `{"data":[[["uuid","p1"],"eth0",["uuid","i1"]],[["uuid","p2"],"br-under",["uuid","i2"]],[["uuid","p3"],"tunnel0",["uuid","i3"]],[["uuid","p4"],"br-int",["uuid","i4"]],[["uuid","p5"],"br-far",["set",[["uuid","i5"],["uuid","i6"]]]]],"headings":["_uuid","name","interfaces"]}`
	ovsLinks   = `{"data":[[["uuid","i1"],"eth0","",["map",[]],2,"02:00:00:00:00:01"],[["uuid","i2"],"br-under","internal",["map",[]],7,"02:00:00:00:00:01"],[["uuid","i3"],"tunnel0","geneve",["map",[["csum","true"],["key","100"],["remote_ip","192.0.2.2"]]],0,"aa:00:00:00:00:01"],[["uuid","i4"],"br-int","internal",["map",[]],8,"02:00:00:00:00:08"],[["uuid","i5"],"br-far","internal",["map",[]],["set",[]],["set",[]]],[["uuid","i6"],"tunnel9","vxlan",["map",[["remote_ip","flow"]]],0,["set",[]]]],"headings":["_uuid","name","type","options","ifindex","mac_in_use"]}`
)

func TestVswitch(t *testing.T) {
	w := newWorld(t)
	w.ovs.tables = map[string][]Row{}
	for table, text := range map[string]string{"Bridge": ovsBridges, "Port": ovsPorts, "Interface": ovsLinks} {
		rows, err := parseTable([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		w.ovs.tables[table] = rows
	}
	for index, name := range map[int]string{7: "br-under", 8: "br-int"} {
		l := Link{}
		l.Name, l.Index, l.Kind, l.MTU, l.Up = name, index, "tun", 1600, true
		l.MAC[0], l.MAC[5] = 2, byte(index)
		if name == "br-under" {
			l.MAC[5] = 1
		}
		w.inv.Links = append(w.inv.Links, l)
	}
	for i := range w.inv.Tunnels[0].Paths {
		w.inv.Tunnels[0].Paths[i].Interface = "br-under"
	}
	inv, err := w.read("")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(inv.Tunnels, func(t Tunnel) bool { return t.Source == fromOVS })
	if i < 0 {
		t.Fatalf("no tunnel of Open vSwitch in %+v", inv.Tunnels)
	}
	yes := true
	want := Tunnel{
		Name: "tunnel0", Source: fromOVS, Bridge: "br-int", Up: true, Ports: []string{},
		Tunnel: host.Tunnel{Encapsulation: "geneve", VNI: 100, Port: 6081, Checksum: &yes, Remotes: []netip.Addr{netip.MustParseAddr("192.0.2.2")}},
		Paths:  []Path{{Remote: netip.MustParseAddr("192.0.2.2"), Reachable: true, Interface: "br-under", MTU: 1600, Hops: []string{"br-under", "eth0"}}},
	}
	if diff := cmp.Diff(want, inv.Tunnels[i], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("tunnel (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(inv.Unknown, func(u Unknown) bool { return u.What == "Open vSwitch" }) {
		t.Errorf("nothing is said of br-far, which is in another network namespace: %+v", inv.Unknown)
	}
}

func TestVsctlWithoutOpenVSwitch(t *testing.T) {
	rows, err := vsctl{filepath.Join(t.TempDir(), "db.sock"), time.Second}.List(t.Context(), "Bridge", "name")
	if rows != nil || err != nil {
		t.Errorf("%v, %v", rows, err)
	}
}

// A database that accepts and never answers does not hold the doctor up.
func TestVsctlIsBounded(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "db.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	start := time.Now()
	if _, err := (vsctl{socket, time.Second}).List(t.Context(), "Bridge", "name"); err == nil {
		t.Error("it answered")
	}
	if took := time.Since(start); took > 3*vsctlTimeout {
		t.Errorf("it took %s", took)
	}
}

func TestParseTable(t *testing.T) {
	if _, err := parseTable([]byte("ovs-vsctl: no")); err == nil {
		t.Error("an answer that is not JSON was accepted")
	}
}
