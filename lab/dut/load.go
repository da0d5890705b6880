package dut

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/checksum"
	"github.com/selvage/selvage/lab/topo"
)

// Load is what edges carry besides what is measured.
type Load struct {
	Flows  int           // entries of the flow cache at each edge, an even number, of at most MostLoadFlows
	FDB    int           // static FDB entries behind the other edge
	Scrape time.Duration // how often each edge's metrics are read over HTTP
}

// MostLoadFlows has a UDP port each, there and back.
const MostLoadFlows = 2 * (65536 - firstLoadPort)

const firstLoadPort = 1024

// Words are for reports.
func (l Load) Words() string {
	return fmt.Sprintf("%d flows, %d FDB entries, metrics read each %s", l.Flows, l.FDB, l.Scrape)
}

// loadListener is where the metrics are, in each host's own namespace.
const loadListener = "127.0.0.1:9469"

// writeHTTP writes what the edge's spec needs for the scrapes.
func (l *Load) writeHTTP(b *strings.Builder) {
	if l != nil {
		fmt.Fprintf(b, "  http: {metrics: %q}\n", loadListener)
	}
}

// writeFDB writes the entries of a segment. The addresses are nobody's.
func (l *Load) writeFDB(b *strings.Builder, remote netip.Addr) {
	if l == nil || l.FDB == 0 {
		return
	}
	b.WriteString("      fdb:\n")
	for i := range l.FDB {
		fmt.Fprintf(b, "        - {mac: \"02:01:00:00:%02x:%02x\", remote: %q}\n", i>>8&0xff, i&0xff, remote)
	}
}

// apply fills the flow caches of the edges of a network that is up and starts the scrapes, which stop ends.
func (l *Load) apply(ctx context.Context, n *topo.TwoHosts, edges map[*topo.Host]*Edge) (stop func(context.Context) error, err error) {
	if err := errors.Join(l.send(n.Client, 0), l.send(n.Server, 1)); err != nil {
		return nil, err
	}
	for _, e := range edges {
		err := await.That(ctx, fmt.Sprintf("%d flows at edge %s", l.Flows, e.Name), func() error {
			used, err := e.flows(ctx)
			if err == nil && used < l.Flows {
				err = fmt.Errorf("there are %d", used)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	s := &scraper{}
	ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for host, e := range edges {
		s.wait.Go(func() { s.scrape(ctx, host, e, l.Scrape) })
	}
	return s.stop, nil
}

// flows is how many entries the flow cache of an edge has.
func (e *Edge) flows(ctx context.Context) (int, error) {
	var status struct {
		Flows struct {
			Used int `json:"used"`
		} `json:"flows"`
	}
	err := e.Document(ctx, "/v1/status", &status)
	return status.Flows.Used, err
}

// loadAddrs are of networks for benchmarks (RFC 2544 appendix C.2.2) and of nobody: the ends drop what they receive.
var loadAddrs = [2][4]byte{{198, 18, 0, 1}, {198, 18, 0, 2}}

// send sends a datagram of each flow from an end, the client's for side 0, through its interface.
func (l *Load) send(from *topo.Host, side int) error {
	index, err := from.Index(topo.EndName)
	if err != nil {
		return err
	}
	return from.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index}); err != nil {
			return os.NewSyscallError("bind", err)
		}
		frame := loadFrame(side)
		for i := range l.Flows / 2 {
			binary.BigEndian.PutUint16(frame[34+2*side:], uint16(firstLoadPort+i))
			if _, err := unix.Write(fd, frame); err != nil && !errors.Is(err, unix.ENOBUFS) {
				return os.NewSyscallError("write", err)
			}
		}
		return nil
	})
}

// loadFrame is a datagram of 60 bytes from one end to the other, between a port of the flow's own at the client and
// port 9 at the server.
func loadFrame(side int) []byte {
	ends := [2]net.HardwareAddr{topo.ClientMAC, topo.ServerMAC}
	f := make([]byte, 60)
	copy(f, ends[1-side])
	copy(f[6:], ends[side])
	f[12], f[14], f[22], f[23] = 0x08, 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(f[16:], 46)
	copy(f[26:], loadAddrs[side][:])
	copy(f[30:], loadAddrs[1-side][:])
	binary.BigEndian.PutUint16(f[24:], checksum.Of(f[14:34]))
	binary.BigEndian.PutUint16(f[36-2*side:], topo.DiscardPort)
	binary.BigEndian.PutUint16(f[38:], 26)
	return f
}

// scraper reads the metrics of edges, as Prometheus does.
type scraper struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu  sync.Mutex
	err error
}

// stop ends it, and says why a scrape failed.
func (s *scraper) stop(context.Context) error {
	s.cancel()
	s.wait.Wait()
	return s.err
}

func (s *scraper) scrape(ctx context.Context, host *topo.Host, e *Edge, every time.Duration) {
	client := http.Client{Timeout: every, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
			err = host.Do(func() error {
				conn, err = new(net.Dialer).DialContext(ctx, network, addr)
				return err
			})
			return conn, err
		},
	}}
	defer client.CloseIdleConnections()
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		if err := scrapeOnce(ctx, &client); err != nil && ctx.Err() == nil {
			s.mu.Lock()
			s.err = cmp.Or(s.err, fmt.Errorf("metrics of edge %s: %w", e.Name, err))
			s.mu.Unlock()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

func scrapeOnce(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loadListener+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
