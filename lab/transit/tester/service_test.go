package tester

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/neighbour"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// asked is what a service answers, decoded as the agent's controller has it.
func asked[A any](t *testing.T, s agent.Service, what string, body any) (answer A, err error) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Answer(t.Context(), what, data)
	if err != nil {
		return answer, err
	}
	if data, err = json.Marshal(got); err == nil {
		err = json.Unmarshal(data, &answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return answer, nil
}

// veth is a pair in a host of its own, and a service with both ends.
func veth(t *testing.T, limits agent.Limits) (agent.Service, []topo.Port) {
	t.Helper()
	tier.Root(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	t.Cleanup(cancel)
	lab, err := topo.New(ctx, "tester-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	host, err := lab.Host("host")
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.Link(ctx, topo.LinkEnd{Host: host, Name: "a"}, topo.LinkEnd{Host: host, Name: "b"}, 1500); err != nil {
		t.Fatal(err)
	}
	s := Service(limits)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"a", "b"} {
			if p, err := topo.ReadPort(host.Namespace, name); err != nil || p.Program != 0 {
				t.Errorf("left at %s: %+v (%v)", name, p, err)
			}
		}
	})
	o, err := asked[[]topo.Port](t, s, askOpen, []Name{{host.Namespace, "a"}, {host.Namespace, "b"}})
	if err != nil {
		t.Fatal(err)
	}
	return s, o
}

// A load ends at the limit that was agreed to, and is no faster, whatever it asks for; what goes on then counts.
func TestLimits(t *testing.T) {
	const limit, most = 100 * time.Millisecond, 84 * 8 * 20_000 // bits a second: 20,000 frames
	s, o := veth(t, agent.Limits{Time: limit, Rate: most})
	a, b := o[0], o[1]
	sink, err := asked[handle](t, s, askSink, sinkRequest{At: []int{b.Index}, Options: gen.SinkOptions{Latency: true}})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := asked[handle](t, s, askSender, SenderOptions{Ports: []gen.Port{{Ifindex: a.Index, SrcMAC: a.MAC, DstMAC: b.MAC}}, Stream: gen.Stream{Frame: 64}, Cores: []int{runtime.NumCPU() - 1}})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = asked[runAnswer](t, s, askRun, runRequest{ID: sender.ID, Load: gen.Load{Rate: 1000, Duration: time.Hour}})
	if took := time.Since(began); err == nil || took < limit {
		t.Errorf("an hour's load ended after %s: %v", took, err)
	}
	next := uint16(2)
	if _, err := asked[struct{}](t, s, askReset, handle{ID: sink.ID, Next: next}); err != nil {
		t.Fatal(err)
	}
	run, err := asked[runAnswer](t, s, askRun, runRequest{ID: sender.ID, Load: gen.Load{Rate: 10_000, Frames: 100}})
	if err != nil || run.Sent.Run != next || run.Next != next+1 || run.Sent.Offered != 100 {
		t.Errorf("a run within the limit: %+v (%v)", run, err)
	}
	got, err := asked[readAnswer](t, s, askRead, handle{ID: sink.ID})
	if err != nil || got.Report.Frames != run.Sent.Frames || len(got.Histogram) == 0 {
		t.Errorf("%d of %d frames arrived, %d buckets (%v)", got.Report.Frames, run.Sent.Frames, len(got.Histogram), err)
	}
	run, err = asked[runAnswer](t, s, askRun, runRequest{ID: sender.ID, Load: gen.Load{Duration: limit / 2}})
	if err != nil || run.Sent.Offered != 1000 {
		t.Errorf("as fast as it goes for %s, %d frames are offered of 1000 that were agreed to (%v)", limit/2, run.Sent.Offered, err)
	}
	if _, err := asked[struct{}](t, s, askStop, sender); err != nil {
		t.Errorf("stop where nothing runs: %v", err)
	}
}

// What a controller asks for beyond what there is has an answer, and nothing is kept beyond the bound.
func TestBounds(t *testing.T) {
	if _, err := asked[struct{}](t, Service(agent.Limits{}), askRead, handle{ID: 1}); err == nil || !strings.Contains(err.Error(), "no ports") {
		t.Errorf("before any port: %v", err)
	}
	s, o := veth(t, agent.Limits{Time: time.Second})
	for what, c := range map[string]struct {
		body any
		want string
	}{
		"nonsense":  {nil, `no request "nonsense"`},
		askOpen:     {[]Name{{Name: "lo"}}, "the ports of one side"},
		askRead:     {handle{ID: 7}, "no instrument 7"},
		askRun:      {runRequest{ID: 7}, "no instrument 7"},
		askClose:    {handle{ID: 7}, "no instrument 7"},
		askAnswer:   {[]neighbour.Options{{}}, "at 1 of 2 ports"},
		askAnnounce: {Question{Port: -1}, "port -1 of 0"},
		askResolve:  {Question{Port: 1 << 20}, "port 1048576 of 0"},
		askSink:     {"x", "request sink"},
	} {
		if _, err := asked[any](t, s, what, c.body); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
	sink, err := asked[handle](t, s, askSink, sinkRequest{At: []int{o[1].Index}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := asked[any](t, s, askRun, runRequest{ID: sink.ID}); err == nil || !strings.Contains(err.Error(), "no generator") {
		t.Errorf("a sink that sends: %v", err)
	}
	of := s.(*service)
	closed := 0
	for len(of.opened) < mostOpened {
		if _, err := of.keep(&opened{close: func() error { closed++; return nil }}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := of.keep(&opened{close: func() error { closed++; return nil }}, 0); err == nil || closed != 1 {
		t.Errorf("one too many: %v, %d were closed", err, closed)
	}
}
