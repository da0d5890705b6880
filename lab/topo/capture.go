package topo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/await"
)

// CaptureOptions narrow what is kept; zero keeps all.
type CaptureOptions struct {
	Snaplen int      // bytes of each packet
	Filter  []string // pcap-filter(7)
}

// Capture records both ends of every link that the lab has now, each into
// DIR/HOST-INTERFACE.pcap. stop ends it when all packets so far are written.
func (l *Lab) Capture(ctx context.Context, dir string, o CaptureOptions) (stop func() error, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("captures: %w", err)
	}
	var running []*Command
	stop = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
		defer cancel()
		var errs []error
		for _, c := range running {
			errs = append(errs, c.Stop(ctx))
		}
		return errors.Join(errs...)
	}
	for _, end := range l.ends() {
		c, err := end.Capture(ctx, dir, o)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("capture on %s: %w", end, err), stop())
		}
		running = append(running, c)
	}
	return stop, nil
}

func (l *Lab) ends() []LinkEnd {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ends []LinkEnd
	for _, k := range l.links {
		ends = append(ends, k.a, k.b)
	}
	return ends
}

// wholeBuffer is the kernel's buffer for whole packets, in KiB. In immediate mode each takes 64 KiB of it, so of the usual
// 2 MiB 32 packets are all that may come while tcpdump has no core.
const wholeBuffer = 16 << 10

// Capture records what passes one end of a link into DIR/HOST-INTERFACE.pcap, until the command is stopped.
func (e LinkEnd) Capture(ctx context.Context, dir string, o CaptureOptions) (*Command, error) {
	name := e.Host.Name + "-" + e.Name
	argv := []string{"tcpdump", "-i", e.Name, "-w", filepath.Join(dir, name+".pcap"), "-U", "-n", "-Z", "root", "--immediate-mode", "-s", strconv.Itoa(o.Snaplen)}
	if o.Snaplen == 0 {
		argv = append(argv, "-B", strconv.Itoa(wholeBuffer))
	}
	c := e.Host.Command(ctx, append(argv, o.Filter...)...)
	c.Log = filepath.Join(e.Host.lab.Dir, fmt.Sprintf("capture-%s-%d.log", name, time.Now().UnixNano()))
	if err := c.Start(); err != nil {
		return nil, err
	}
	running, cancel := c.WhileRunning(ctx)
	defer cancel()
	err := await.That(running, "tcpdump to listen", func() error {
		if output := c.Tail(); !strings.Contains(output, "listening on") {
			return errors.New("it says: " + output)
		}
		return nil
	})
	if err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}
