package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/test/tier"
)

func TestChangeText(t *testing.T) {
	for text, want := range map[string]Change{
		"eth0:tx-checksum-ip-generic=off":           {Interface: "eth0", Feature: "tx-checksum-ip-generic"},
		"eth0.7:rx-gro=on":                          {Interface: "eth0.7", Feature: "rx-gro", On: true},
		"net.ipv4.tcp_rmem=4096 131072 33554432":    {Sysctl: "net.ipv4.tcp_rmem", Value: "4096 131072 33554432"},
		"net.ipv4.conf.eth0/7.forwarding=1":         {Sysctl: "net.ipv4.conf.eth0/7.forwarding", Value: "1"},
		"net.ipv4.tcp_congestion_control=reno":      {Sysctl: "net.ipv4.tcp_congestion_control", Value: "reno"},
		"eth0:tx-udp_tnl-csum-segmentation=off":     {Interface: "eth0", Feature: "tx-udp_tnl-csum-segmentation"},
		"net.ipv6.conf.eth0.accept_ra=0":            {Sysctl: "net.ipv6.conf.eth0.accept_ra", Value: "0"},
		"a-name-with-dashes:tx-gso-partial=on":      {Interface: "a-name-with-dashes", Feature: "tx-gso-partial", On: true},
		"net.netfilter.nf_conntrack_max=1":          {Sysctl: "net.netfilter.nf_conntrack_max", Value: "1"},
		"eth1:rx-ring=4096":                         {Interface: "eth1", Setting: RxRing, Value: "4096"},
		"eth1:udp6-hash=ports":                      {Interface: "eth1", Setting: UDPHash6, Value: HashPorts},
		"eth1:adaptive-rx=off":                      {Interface: "eth1", Setting: AdaptiveRx, Value: "off"},
		"x0:mtu=1400":                               {Interface: "x0", MTU: 1400},
		"net.core.somaxconn=4096":                   {Sysctl: "net.core.somaxconn", Value: "4096"},
		"eth0:tx-tcp-segmentation=on":               {Interface: "eth0", Feature: "tx-tcp-segmentation", On: true},
		"veth1234:tx-generic-segmentation=off":      {Interface: "veth1234", Feature: "tx-generic-segmentation"},
		"net.ipv4.neigh.eth0.base_reachable_time=1": {Sysctl: "net.ipv4.neigh.eth0.base_reachable_time", Value: "1"},
	} {
		var c Change
		if err := c.UnmarshalText([]byte(text)); err != nil || c != want || c.String() != text {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	for _, text := range []string{"", "eth0", "eth0=on", "eth0:=on", ":rx-gro=on", "eth0:rx-gro=yes", "kernel.panic=1", "net.=", "net..=1", "eth1:rx-ring=0", "eth1:udp4-hash=all"} {
		if err := new(Change).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}

// No sysctl leads out of /proc/sys/net.
func FuzzSysctlPath(f *testing.F) {
	f.Add("net.ipv4.conf.eth0/7.forwarding=1")
	f.Add("net./.kernel=1")
	f.Add("net.a/../../kernel=1")
	f.Fuzz(func(t *testing.T, text string) {
		var c Change
		if c.UnmarshalText([]byte(text)) == nil && c.Sysctl != "" && !strings.HasPrefix(c.sysctlPath(), "/proc/sys/net/") {
			t.Errorf("%q is %s", text, c.sysctlPath())
		}
	})
}

func TestAllowed(t *testing.T) {
	carriers := []string{"br0", "eth0.7", "eth0"}
	for text, want := range map[string]bool{
		"eth1:rx-gro=off": true, "eth1:rx-ring=64": true, "eth0:rx-ring=64": false, "eth1:mtu=1400": true, "eth0:mtu=1400": false, "eth0:rx-gro=off": false, "br0:rx-gro=off": false,
		"net.ipv4.conf.eth1.forwarding=1": true, "net.ipv4.conf.eth0/7.forwarding=1": false, "net.ipv6.neigh.br0.ucast_solicit=1": false,
		"net.ipv4.conf.all.forwarding=1": false, "net.ipv4.tcp_mtu_probing=1": true, "net.ipv4.conf.default.forwarding=1": true,
	} {
		var c Change
		if err := c.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := c.allowed(carriers); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A session over a VLAN of a bridge of a bond is carried by all of them.
func TestBelow(t *testing.T) {
	devices := []device{
		{index: 1, name: "lo"}, {index: 2, name: "eth0", master: 4}, {index: 3, name: "eth1", master: 4}, {index: 4, name: "bond0", master: 5},
		{index: 5, name: "br0"}, {index: 6, name: "br0.7", lower: 5}, {index: 7, name: "eth2"},
	}
	if got := below(6, devices); !slices.Equal(got, []string{"br0.7", "br0", "bond0", "eth0", "eth1"}) {
		t.Error(got)
	}
}

func TestCarriersOfNoSession(t *testing.T) {
	if got, err := carriers(""); err != nil || got != nil {
		t.Error(got, err)
	}
	if _, err := carriers("2001:db8::77:1 1 2001:db8::77:2 22"); err == nil {
		t.Error("nobody has that address")
	}
	if got, err := carriers("127.0.0.1 1 127.0.0.1 22"); err != nil || !slices.Equal(got, []string{"lo"}) {
		t.Error(got, err)
	}
}

func TestCounters(t *testing.T) {
	c, err := readCounters()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Softnet) == 0 || len(c.Interfaces) == 0 {
		t.Errorf("%+v", c)
	}
	for _, name := range []string{"Tcp.RetransSegs", "Udp.RcvbufErrors", "TcpExt.TCPTimeouts", "IpExt.InOctets"} {
		if _, ok := c.Protocols[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
	then := Counters{Softnet: []Softnet{{1, 2, 3}}, Interfaces: map[string]Traffic{"a": {RxBytes: 1}, "b": {}}, Protocols: map[string]int64{"x": 1, "y": 1}, Pauses: map[string]int64{"a": 2, "b": 1}}
	now := Counters{Softnet: []Softnet{{2, 4, 6}}, Interfaces: map[string]Traffic{"a": {RxBytes: 3}, "b": {}}, Protocols: map[string]int64{"x": 4, "y": 1}, Pauses: map[string]int64{"a": 5, "b": 1}}
	want := Counters{Softnet: []Softnet{{1, 2, 3}}, Interfaces: map[string]Traffic{"a": {RxBytes: 2}}, Protocols: map[string]int64{"x": 3}, Pauses: map[string]int64{"a": 3}}
	if diff := cmp.Diff(want, now.since(then)); diff != "" {
		t.Error(diff)
	}
}

func TestClock(t *testing.T) {
	// The agent's clock is 1000 ahead; 10 there, 5 at it, 30 back.
	c := clockOf(100, clockReading{Received: 1110, Sent: 1115}, 145)
	if c.Offset != 990 || c.Error != 20 {
		t.Errorf("%+v", c)
	}
	if true1 := time.Duration(1000); (c.Offset - true1).Abs() > c.Error {
		t.Errorf("%s is not within its error", c)
	}
	if d, err := (Clock{Offset: time.Millisecond, Error: time.Microsecond}).OneWay(2 * time.Millisecond); err != nil || d != time.Millisecond {
		t.Error(d, err)
	}
	if _, err := (Clock{Offset: time.Millisecond, Error: time.Millisecond}).OneWay(2 * time.Millisecond); err == nil {
		t.Error("a time as large as its error is no refusal")
	}
}

// Directories of others, of agents that are there, and of those that may come up are left alone.
func TestRestoreDead(t *testing.T) {
	root := t.TempDir()
	self, err := thisOwner()
	if err != nil {
		t.Fatal(err)
	}
	dead := self
	dead.Start++
	elsewhere, before := dead, dead
	elsewhere.Namespace++
	before.Boot = "before"
	for name, content := range map[string]struct {
		owner *owner
		guard string
		undos []undo
		mode  os.FileMode
	}{
		"alive":     {owner: &self, guard: "4194304"},
		"dead":      {owner: &dead, guard: "4194304"},
		"elsewhere": {owner: &elsewhere, guard: "4194304", undos: []undo{{Change: Change{Sysctl: "net.ipv4.none", Value: "1"}}}},
		"unchanged": {owner: &elsewhere, guard: "4194304"},
		"rebooted":  {owner: &before, guard: "4194304", undos: []undo{{Change: Change{Interface: "none", Feature: "x"}}}},
		"gone":      {owner: &dead, guard: "4194304", undos: []undo{{Change: Change{Sysctl: "net.ipv4.none", Value: "1"}}}},
		"young":     {},
		"open":      {owner: &dead, guard: "4194304", mode: 0o755},
	} {
		dir := filepath.Join(root, DirPrefix+name)
		mode := content.mode
		if mode == 0 {
			mode = 0o700
		}
		if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		if content.owner != nil {
			err = writeDurably(filepath.Join(dir, ownerFile), content.owner)
		}
		if content.guard != "" {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, guardFile), []byte(content.guard), 0o600))
		}
		if content.undos != nil {
			err = errors.Join(err, writeDurably(filepath.Join(dir, ledgerFile), content.undos))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	restored, err := RestoreDead(root)
	if err != nil {
		t.Error(err)
	}
	for i := range restored {
		restored[i] = strings.TrimPrefix(restored[i], filepath.Join(root, DirPrefix))
	}
	if want := []string{"dead", "gone", "rebooted", "unchanged"}; !slices.Equal(restored, want) {
		t.Errorf("restored %v, want %v", restored, want)
	}
	left, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || len(left) != 4 {
		t.Error(left, err)
	}
}

// Lines without a message, as those that sudo did not ask for, and heartbeats are nobody's.
func TestReceive(t *testing.T) {
	var got []string
	dog := newWatchdog(func() {})
	defer dog.stop()
	in := "\n\n{}\n{\"id\":1,\"op\":\"hello\"}\n\n{\"id\":2,\"op\":\"bye\"}\n"
	if err := receive(bufio.NewReader(strings.NewReader(in)), dog, func(m message) { got = append(got, m.Op) }); err != nil || !slices.Equal(got, []string{"hello", "bye"}) {
		t.Error(got, err)
	}
	if err := receive(bufio.NewReader(strings.NewReader("hello\n")), dog, func(message) {}); err == nil {
		t.Error("a line that is no message is no error")
	}
}

func TestLedgerText(t *testing.T) {
	want := []undo{{Change: Change{Interface: "eth0", Feature: "rx-gro"}, Index: 2, Requested: map[string]bool{"rx-gro": true}, Active: map[string]bool{"rx-gro": true}}, {Off: "true"}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got []undo
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Commands of a ledger that another user wrote are not run, and it stays.
func TestLedgerOfAnother(t *testing.T) {
	tier.Root(t)
	l := ledger{dir: t.TempDir()}
	ran := filepath.Join(l.dir, "ran")
	if err := l.note(undo{Off: "touch " + ran}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(l.path(), 65534, -1); err != nil {
		t.Fatal(err)
	}
	command := Command{Dir: l.dir, Undo: true}
	if err := command.Serve(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Error(err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it was run")
	}
	if err := os.Chown(l.path(), os.Geteuid(), -1); err != nil {
		t.Fatal(err)
	}
	if err := command.Serve(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.path()); err == nil {
		t.Error("the ledger is still there")
	}
}

// What was noted first is what counts.
func TestLedgerNotesOnce(t *testing.T) {
	l := ledger{dir: t.TempDir()}
	for _, u := range []undo{
		{Change: Change{Interface: "x", MTU: 1300}, Index: 2, OldMTU: 1450}, {Change: Change{Interface: "x", MTU: 1400}, Index: 2, OldMTU: 1300},
		{Change: Change{Interface: "x", Feature: "rx-gro"}, Index: 2}, {Change: Change{Interface: "x", Feature: "rx-lro"}, Index: 2},
		{Change: Change{Sysctl: "net.a"}, Old: "1"}, {Change: Change{Sysctl: "net.a"}, Old: "2"}, {Change: Change{Sysctl: "net.b"}, Old: "2"},
		{Off: "a"}, {Off: "a"}, {Off: "b"},
	} {
		if err := l.note(u); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.undos) != 6 || l.undos[0].OldMTU != 1450 || l.undos[2].Old != "1" {
		t.Errorf("%+v", l.undos)
	}
}
