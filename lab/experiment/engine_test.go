package experiment

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
)

func TestCounters(t *testing.T) {
	const snmp = "Ip: Forwarding InHdrErrors\nIp: 2 1\nTcp: MaxConn InCsumErrors\nTcp: -1 3\n\nTcpExt: TCPDSACKRecv\nTcpExt: 7\n"
	const snmp6 = "Ip6InHdrErrors                  \t4\nUdp6InCsumErrors\t0\n"
	then, now := Counters{}, Counters{}
	for _, file := range []string{snmp, snmp6} {
		if err := errors.Join(then.add([]byte(file)), now.add([]byte(file)), now.add([]byte(file))); err != nil {
			t.Fatal(err)
		}
	}
	sum, rose := now.Since(then, damaged()...)
	if got := strings.Join(rose, " "); sum != 8 || got != "TcpInCsumErrors +3 IpInHdrErrors +1 Ip6InHdrErrors +4" {
		t.Errorf("%d: %s", sum, got)
	}
	if sum, _ := now.Since(then, DSACKsReceived); sum != 7 {
		t.Errorf("%d DSACKs, want 7", sum)
	}
	for _, bad := range []string{"Ip: A B\nIp: 1\n", "Ip: A\n", "A x\n"} {
		if err := (Counters{}).add([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestRunDir(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "results")
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600))
	for _, want := range []string{"20260304T040607Z-ab", "20260304T040607Z-ab-2"} {
		dir, err := newRunDir(root, "ab", now)
		if err != nil || dir != filepath.Join(root, want) {
			t.Errorf("%s, %v, want %s", dir, err, want)
		}
	}
}

func TestWriteFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	write := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, _ = io.WriteString(w, text)
			return err
		}
	}
	if err := WriteFile(name, write("good", nil)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name, write("half", errors.New("full"))); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("%v, want an error that names the file", err)
	}
	if got, _ := os.ReadFile(name); string(got) != "good" {
		t.Errorf("the file became %q", got)
	}
	if left, _ := os.ReadDir(filepath.Dir(name)); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

func TestConcludeInterrupted(t *testing.T) {
	r := result.Result{Parameters: result.Parameters{interrupted: result.Words("round 2 of 5")}}
	e := Experiment{
		Summarise: func(result.Result) []result.Row { return nil },
		Verdict:   func(result.Result) result.Verdict { return result.Verdict{Headline: "it is fast"} },
	}
	Conclude(e, &r)
	if !r.Verdict.Refused || !strings.Contains(r.Verdict.String(), "interrupted in round 2 of 5") {
		t.Errorf("%+v", r.Verdict)
	}
}

func TestProgressLines(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, 10)
	s := Step{Round: 2, CaseName: "udp", Target: "plain"}
	p.Begin(s.String(), 95*time.Second)
	p.Ended("udp 185 128 kpps", 94*time.Second)
	p.Begin(s.String(), time.Second)
	p.Ended(Failure(result.Sample{Case: "udp", Error: "no\nanswer"}), 400*time.Millisecond)
	p.Close()
	want := " 1/10  round 2: udp of plain: udp 185 128 kpps (1 min 34 s left)\n" +
		" 2/10  round 2: udp of plain: FAILED: no answer (0 s left)\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestPace(t *testing.T) {
	p := new(Pace)
	steps := []Step{{Planned: 10 * time.Second}, {Planned: 2 * time.Second}, {Planned: time.Second}}
	p.Took(steps[0], 11*time.Second)
	p.Took(steps[1], 5*time.Second)
	if got, want := p.Left(steps[2:]), 3*time.Second; got != want { // 1 s and 2 s besides, as seen
		t.Errorf("left %s, want %s", got, want)
	}
	if got := p.Left(nil); got != 0 {
		t.Errorf("nothing takes %s", got)
	}
}
