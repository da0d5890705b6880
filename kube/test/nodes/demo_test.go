package nodes

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
)

// demoDir is where `make demo-kube` wants the report; a test writes it too, and throws it away.
const demoDir = "SELVAGE_KUBE_DEMO"

// demoConnections are open while a gateway is killed.
const demoConnections = 100

// story is what happened, for the terminal and the report.
type story struct {
	began time.Time
	shows bool
	Steps []step
}

type step struct {
	At               time.Duration
	Text, Said       string // what was done, and what a command said
	Command, Comment string
}

// tell notes a step.
func (s *story) tell(st step) {
	st.At = time.Since(s.began).Round(100 * time.Millisecond)
	s.Steps = append(s.Steps, st)
	if !s.shows {
		return
	}
	fmt.Printf("%6.1f s  %s\n", st.At.Seconds(), cmp.Or(st.Text, "$ "+st.Command))
	for line := range strings.Lines(st.Said) {
		fmt.Print("          ", line)
	}
}

// demo is a cluster and its story.
type demo struct {
	*managed
	story
}

// kubectl tells what it says, without the names that the lab gave to nodes.
func (d *demo) kubectl(argv ...string) string {
	said := aligned(strings.ReplaceAll(d.managed.kubectl(argv...), strings.TrimSuffix(dut.EdgeName(d.Hosts[0]), d.Hosts[0].Name), ""))
	shown := slices.Clone(argv)
	for i, a := range shown {
		shown[i] = strings.TrimPrefix(a, "../../")
	}
	d.tell(step{Command: "kubectl " + strings.Join(shown, " "), Said: said})
	return said
}

// A cluster as its users have it: Helm, kubectl, the examples of the guide; a gateway is killed, connections go on, and the status tells.
func TestDemo(t *testing.T) {
	dir := cmp.Or(os.Getenv(demoDir), t.TempDir())
	d := &demo{story: story{began: time.Now(), shows: os.Getenv(demoDir) != ""}}
	d.tell(step{Text: "start an API server with etcd, four nodes, and install the chart by Helm"})
	d.managed = newManaged(t)
	defer d.dump()
	d.tell(step{Text: "an edge, its agent, and the controller run, as the chart's service accounts"})
	d.label()
	d.kubectl("apply", "-f", "../../examples/egress.yaml")
	if os.Getenv(demoDir) == "" { // other tests run beside this one
		g := &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
		d.Must(d.c.Patch(d.Ctx, g, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"liveness":{"interval":"100ms","multiplier":20}}}`))))
	}
	d.programmed(2, "4/4")
	d.serving(3, 4)
	for _, family := range []int{4, 6} {
		d.leaves(d.web1, "tcp", outsideOf(family), egressOf(family))
	}
	d.leaves(d.db1, "tcp", harness.Outside4, d.Tep(1))
	d.tell(step{Text: fmt.Sprintf("seen outside: pod web1 comes from %s and %s, pod db1, which no policy selects, from its node's address %s", egress4, egress6, d.Tep(1))})
	d.kubectl("get", "egressgateways,egresspolicies", "-A")
	r := d.failover()
	d.kubectl("get", "egressgateways", "out")
	d.kubectl("get", "egressgateways", "out", "-o", columns("NODE", ".status.lastFailover.node", "CHANGE", ".status.lastFailover.change", "SEEN", ".status.lastFailover.seen",
		"WRITTEN_US", ".status.lastFailover.writtenMicroseconds", "REPORTED_BY", ".status.lastFailover.reportedBy"))
	d.kubectl("get", "events", "-A", "--field-selector", "involvedObject.kind=EgressGateway", "-o", columns("REASON", ".reason", "OBJECT", ".involvedObject.name", "MESSAGE", ".message"))
	d.leaves(d.web1, "tcp", harness.Outside4, egress4)
	r.Steps, r.Took = d.Steps, time.Since(d.began).Round(time.Second)
	file := filepath.Join(dir, "report.html")
	d.Must(r.write(file))
	d.tell(step{Text: "report: " + file})
}

// aligned has columns, which three blanks are between, be as wide as they need to be.
func aligned(table string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprint(w, strings.ReplaceAll(regexp.MustCompile(` *(   +|\n)`).ReplaceAllStringFunc(table, func(gap string) string {
		if strings.HasSuffix(gap, "\n") {
			return "\n"
		}
		return "\t"
	}), "\t\n", "\n")) // a Builder does not fail
	w.Flush()
	return b.String()
}

// columns are kubectl's, of names and fields.
func columns(list ...string) string {
	var all []string
	for pair := range slices.Chunk(list, 2) {
		all = append(all, pair[0]+":"+pair[1])
	}
	return "custom-columns=" + strings.Join(all, ",")
}

// failover kills the gateway that serves, with the API server stopped, under connections and a probe.
func (d *demo) failover() *report {
	d.Serve(harness.Guest{Host: d.out}, harness.PortFree)
	open := d.connections(d.web1, demoConnections)
	d.echo()
	p := d.probe()
	wait(500 * time.Millisecond)
	d.server.StopAPI()
	d.tell(step{Text: "stop the API server"})
	killed := time.Now()
	d.kill(3)
	d.tell(step{Text: "kill gateway edge3: its process and its links", Comment: "kill"})
	d.serving(4)
	wait(500 * time.Millisecond)
	r := &report{Kill: killed, Connections: demoConnections, Kept: open(), Answers: p.end()}
	r.measure()
	d.tell(step{Text: fmt.Sprintf("%d of %d TCP connections go on; the longest time without an answer was %.0f ms", r.Kept, r.Connections, r.Gap.Seconds()*1000)})
	if r.Lost == r.Sent || r.Gap == 0 {
		d.T.Errorf("no answer came: %d sent", r.Sent)
	}
	if r.Kept != r.Connections {
		d.T.Errorf("%d of %d connections go on", r.Kept, r.Connections)
	}
	d.returns("the gateway's status tells of it", func() error {
		g := &v1alpha1.EgressGateway{}
		err := d.c.Get(d.Ctx, client.ObjectKey{Name: "out"}, g)
		if err == nil && (g.Status.Serving != "1/2" || g.Status.LastFailover == nil) {
			err = fmt.Errorf("%+v", g.Status)
		}
		return err
	})
	d.tell(step{Text: "start the API server again: the status tells of what happened without it"})
	return r
}

// connections are TCP connections of a pod that both gateways know; the function is how many still exchange a line.
func (b *cluster) connections(from harness.Guest, count int) (alive func() int) {
	b.T.Helper()
	conns := make([]net.Conn, count)
	for i := range conns {
		c, err := harness.DialTCP(from.Host, netip.AddrPortFrom(harness.Outside4, harness.PortFree).String())
		b.Must(err)
		b.T.Cleanup(func() { c.Close() })
		b.Must(harness.ExchangeLine(c, harness.Patience))
		conns[i] = c
	}
	b.Fact("the other gateway knows the connections", func() error {
		list, err := b.Ask(b.Hosts[3].Name).Egress().NATSessions(b.Ctx, api.ConnectionQuery{})
		known := map[uint16]bool{}
		for _, s := range list.Sessions {
			known[s.InsidePort] = known[s.InsidePort] || s.Inside == from.Addr(4)
		}
		for _, c := range conns {
			if err == nil && !known[c.LocalAddr().(*net.TCPAddr).AddrPort().Port()] {
				err = fmt.Errorf("not %s, of %d", c.LocalAddr(), list.Total)
			}
		}
		return err
	})
	return func() (kept int) {
		results := make([]error, len(conns))
		var all sync.WaitGroup
		for i, c := range conns {
			all.Go(func() { results[i] = harness.ExchangeLine(c, harness.Patience) })
		}
		all.Wait()
		for _, err := range results {
			if err == nil {
				kept++
			}
		}
		return kept
	}
}

// answer is a datagram that came back.
type answer struct {
	Sent time.Time
	Took time.Duration // 0 when it did not
}

// prober sends datagrams from web1 at a steady pace and notes which come back.
type prober struct {
	answers []answer
	mu      sync.Mutex
	stop    chan struct{}
	ended   sync.WaitGroup
}

var probed = netip.AddrPortFrom(harness.Outside4, harness.PortAllowed).String()

const (
	probeEach = 2 * time.Millisecond
	probeLate = time.Second // after which an answer counts as lost
)

// echo answers probes, from the address that was asked.
func (b *cluster) echo() {
	b.T.Helper()
	b.Must(b.out.Do(func() error {
		l, err := net.ListenPacket("udp", probed)
		if err == nil {
			b.T.Cleanup(func() { l.Close() })
			go harness.EchoDatagrams(l)
		}
		return err
	}))
}

// probe sends until its end is called.
func (b *cluster) probe() *prober {
	b.T.Helper()
	p := &prober{stop: make(chan struct{})}
	var conn net.Conn
	b.Must(b.web1.Do(func() (err error) {
		conn, err = net.Dial("udp", probed)
		return err
	}))
	p.ended.Go(func() { p.send(conn) })
	p.ended.Go(func() { p.receive(conn) })
	return p
}

func (p *prober) send(conn net.Conn) {
	defer conn.Close()
	tick := time.NewTicker(probeEach)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			wait(probeLate)
			return
		case <-tick.C:
		}
		p.mu.Lock()
		number := len(p.answers)
		p.answers = append(p.answers, answer{Sent: time.Now()})
		p.mu.Unlock()
		_, _ = fmt.Fprintf(conn, "%d", number) // what is refused has no answer
	}
}

func (p *prober) receive(conn net.Conn) {
	b := make([]byte, 64)
	for {
		size, err := conn.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		var number int
		if _, err := fmt.Sscanf(string(b[:size]), "%d", &number); err != nil {
			continue // ICMP said something
		}
		p.mu.Lock()
		p.answers[number].Took = time.Since(p.answers[number].Sent)
		p.mu.Unlock()
	}
}

// end stops it.
func (p *prober) end() []answer {
	close(p.stop)
	p.ended.Wait()
	return p.answers
}

// gap is the longest time between two datagrams that were answered, by when they were sent, and how many were not.
func gap(answers []answer) (longest time.Duration, lost int) {
	for i, last := 0, 0; i < len(answers); i++ {
		if a := answers[i]; a.Took == 0 {
			lost++
		} else {
			longest, last = max(longest, a.Sent.Sub(answers[last].Sent)), i
		}
	}
	return longest, lost
}

// report is what the page shows.
type report struct {
	Steps             []step
	Took              time.Duration
	Kill              time.Time
	Connections, Kept int
	Answers           []answer
	Sent, Lost        int
	Gap               time.Duration
}

func (r *report) measure() {
	r.Sent = len(r.Answers)
	r.Gap, r.Lost = gap(r.Answers)
}

//go:embed report.html
var page string

// point is an answer in the chart.
type point struct{ X, Y float64 }

// Chart is answers around the kill: a pixel is 2 ms across; up, 20 µs to 20 ms, logarithmic.
func (r *report) Chart() (points []point) {
	for _, a := range r.Answers {
		x := float64(a.Sent.Sub(r.Kill).Milliseconds())
		if a.Took == 0 || x < -chartBefore || x > chartAfter {
			continue
		}
		points = append(points, point{X: (x + chartBefore) / chartScale, Y: height(a.Took)})
	}
	return points
}

// Ticks are lines of the chart.
func (*report) Ticks() map[string]float64 {
	return map[string]float64{
		"0.05 ms": 160, "0.5 ms": height(500 * time.Microsecond), "5 ms": height(5 * time.Millisecond), "50 ms": height(50 * time.Millisecond),
	}
}

const (
	chartBefore, chartAfter, chartScale = 300, 900, 1.5 // ms, ms, ms a pixel
)

// height is from the top of a chart of 160 pixels, which begins at 0.05 ms and ends at 50 ms.
func height(took time.Duration) float64 {
	ms := max(0.05, min(50, float64(took.Microseconds())/1000))
	decades := 0.0
	for v := 0.05; v*10 <= ms; v *= 10 {
		decades++
		ms /= 10
	}
	return 160 - (decades+(ms/0.05-1)/9)*160/3
}

// write makes the page.
func (r *report) write(file string) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"ms":      func(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000) },
		"seconds": func(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) },
	}).Parse(page)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(t.Execute(f, r), f.Close())
}
