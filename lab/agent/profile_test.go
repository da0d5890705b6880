package agent

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/cores"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/test/tier"
)

// A name may have anything in it; a worker's changes with its work.
func TestParseProcess(t *testing.T) {
	const rest = " S 7 1 1 0 -1 4194304 1 2 3 4 50 60 70 80 20 0 1 0 12345 1 1"
	for line, want := range map[string]processTime{
		"42 (a) b) c" + ")" + rest:       {name: "a) b) c", parent: 7, ticks: 110, children: 150, started: 12345},
		"42 (kworker/0:1-events)" + rest: {name: "kworker", parent: 7, ticks: 110, children: 150, started: 12345},
	} {
		if got, ok := parseProcess(line); !ok || got != want {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
	for _, line := range []string{"", "42", "42 (x", "42 (x) S", "42 (x) S a 1 1 0 -1 4194304 1 2 3 4 50 60 70 80 20 0 1 0 12345 1 1"} {
		if got, ok := parseProcess(line); ok {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

// Time before counts for nobody: not that of a process that had the PID, nor of children that were there already.
func TestProcessesSince(t *testing.T) {
	then := map[int]processTime{1: {name: "a", ticks: 100, started: 1}, 2: {name: "b", ticks: 900, started: 2}, 3: {name: "c", ticks: 5, started: 3}}
	now := map[int]processTime{
		1: {name: "a2", ticks: 150, children: 9000, started: 1}, 2: {name: "b", ticks: 10, started: 20}, 3: {name: "c", ticks: 5, started: 3},
		os.Getpid(): {name: "x", ticks: 100, children: 200, started: 4}, 9: {name: "exe", parent: os.Getpid(), ticks: 25, started: 9},
	}
	want := []result.ProcessTime{{Name: "instrument", Seconds: 3.25}, {Name: "a2", Seconds: 0.5}, {Name: "b", Seconds: 0.1}}
	if diff := cmp.Diff(want, processesSince(now, then)); diff != "" {
		t.Error(diff)
	}
}

// Only what grew is told, by the counter.
func TestDropsSince(t *testing.T) {
	then := []result.Drop{{Stage: StageQdisc, Where: "eth0 fq", Counter: "dropped", Packets: 7}, {Stage: StageNIC, Where: "eth0", Counter: "rx_missed_errors", Packets: 1}}
	now := []result.Drop{
		{Stage: StageQdisc, Where: "eth0 fq", Counter: "dropped", Packets: 9}, {Stage: StageNIC, Where: "eth0", Counter: "rx_missed_errors", Packets: 1},
		{Stage: StageTunnel, Where: "vx0", Counter: "tx_dropped", Packets: 3},
	}
	w := Watched{Counters: Counters{
		Drops: dropsSince(now, then), Softnet: []Softnet{{Processed: 9}, {Dropped: 4}}, Protocols: map[string]int64{"Udp.RcvbufErrors": 5, "Tcp.OutSegs": 8},
	}}
	want := []result.Drop{
		{Stage: StageQdisc, Where: "eth0 fq", Counter: "dropped", Packets: 2}, {Stage: StageTunnel, Where: "vx0", Counter: "tx_dropped", Packets: 3},
		{Stage: StageSoftnet, Where: "core 1", Counter: "dropped", Packets: 4}, {Stage: StageProtocol, Counter: "Udp.RcvbufErrors", Packets: 5},
	}
	if diff := cmp.Diff(want, w.Lost()); diff != "" {
		t.Error(diff)
	}
	if _, _, err := readDrops(); err != nil {
		t.Error(err)
	}
}

func TestReadSymbols(t *testing.T) {
	name := t.TempDir() + "/kallsyms"
	if err := os.WriteFile(name, []byte("ffffffff81000010 T b\nffffffff81000000 t a\nffffffff82000000 D data\nffffffffc0000000 t bpf_prog_x\t[bpf]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	symbols, err := readSymbols(name)
	want := []symbol{{0xffffffff81000000, "a"}, {0xffffffff81000010, "b"}, {0xffffffffc0000000, "bpf_prog_x"}}
	if err != nil || !slices.Equal(symbols, want) {
		t.Errorf("%+v, %v", symbols, err)
	}
	if err := os.WriteFile(name, []byte("0000000000000000 T b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSymbols(name); err == nil {
		t.Error("hidden addresses are no error")
	}
}

// A process that may use one core samples all that are on.
func TestSamplerCores(t *testing.T) {
	tier.Root(t)
	const oneCore = "SELVAGE_TEST_ONE_CORE"
	if os.Getenv(oneCore) == "" {
		child := exec.Command("taskset", "-c", strconv.Itoa(cores.Usable()[0]), os.Args[0], "-test.run=^TestSamplerCores$")
		child.Env = append(os.Environ(), oneCore+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	online, err := cores.Online()
	if err != nil {
		t.Fatal(err)
	}
	s, err := startSampler(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if len(s.rings) != len(online) || len(cores.Usable()) != 1 {
		t.Errorf("%d rings of cores %v, usable %v", len(s.rings), online, cores.Usable())
	}
}
