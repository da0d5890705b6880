package dut

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
)

// Where an edge puts what it shares with other programs, by its name.
const (
	edgeSockets = "/run/selvage"
	edgePins    = "/sys/fs/bpf/selvage"
)

// EdgeDirs are where an edge puts its sockets, and its pins; empty ones are the defaults, which
// all edges of the machine share.
type EdgeDirs struct{ Runtime, Pins string }

// OwnEdgeDirs are directories of this lab alone, which go with it. There edges may have names
// that others have too.
func OwnEdgeDirs(l *topo.Lab) (EdgeDirs, error) {
	dirs := EdgeDirs{Runtime: filepath.Join(l.Dir, "run"), Pins: filepath.Join(edgePins, "lab-"+l.ID)}
	return dirs, l.Owns(dirs.Pins)
}

// StateDir is where edges of this lab keep their revisions.
func StateDir(l *topo.Lab) string { return filepath.Join(l.Dir, "state") }

// args are flags of selvage edge.
func (d EdgeDirs) args() (args []string) {
	if d.Runtime != "" {
		args = append(args, "--runtime-dir", d.Runtime)
	}
	if d.Pins != "" {
		args = append(args, "--pin-root", d.Pins)
	}
	return args
}

// Edge is a running `selvage edge`.
type Edge struct {
	Name    string
	Config  string // the file
	Socket  string // of its API
	Command *topo.Command

	pins string
}

// EdgeName is a name for an edge on the host that no other lab uses.
func EdgeName(h *topo.Host) string { return "lab-" + h.Lab().ID + "-" + strings.ToLower(h.Name) }

// StartEdge runs an edge of that name with a configuration on the host and waits until its API answers. An empty
// binary is EdgeProgram. env is added to its environment. The lab removes its files and pins, however it ends.
func StartEdge(ctx context.Context, h *topo.Host, binary, name, config string, env ...string) (*Edge, error) {
	return StartEdgeIn(ctx, h, EdgeDirs{}, binary, name, config, env...)
}

// StartEdgeIn is StartEdge with other directories.
func StartEdgeIn(ctx context.Context, h *topo.Host, dirs EdgeDirs, binary, name, config string, env ...string) (*Edge, error) {
	var err error
	if binary == "" {
		if binary, err = EdgeProgram(); err != nil {
			return nil, fmt.Errorf("edge %s: %w", name, err)
		}
	}
	runtime := cmp.Or(dirs.Runtime, edgeSockets)
	e := &Edge{
		Name:   name,
		Config: filepath.Join(h.Lab().Dir, name+".yaml"),
		Socket: api.SocketPath(runtime, name),
		pins:   filepath.Join(cmp.Or(dirs.Pins, edgePins), name),
	}
	for _, path := range append(api.RuntimeFiles(runtime, name), filepath.Join(runtime, name+".lock"), e.pins) {
		if err := h.Lab().Owns(path); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(e.Config, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configuration of edge %s: %w", name, err)
	}
	// Stop ends it, not ctx, so that on Ctrl-C too it removes what it added.
	argv := append([]string{binary, "edge", "-c", e.Config}, dirs.args()...)
	e.Command = h.Command(context.WithoutCancel(ctx), argv...)
	// By its environment: a release that removes at any end knows no flag for it.
	e.Command.Log, e.Command.Env = filepath.Join(h.Lab().Dir, name+".log"), append([]string{"SELVAGE_REMOVE_AT_EXIT=true", "SELVAGE_STATE_DIR=" + StateDir(h.Lab())}, env...)
	if err := e.Command.Start(); err != nil {
		return nil, err
	}
	running, cancel := e.Command.WhileRunning(ctx)
	defer cancel()
	err = await.That(running, "the API of edge "+name, func() error {
		_, err := e.Get(running, "/v1/status")
		return err
	})
	if err != nil {
		e.Command.Kill()
		return nil, fmt.Errorf("%w; its log: %s", err, e.Command.Tail())
	}
	return e, nil
}

// Get asks the edge's API for a document: "/v1/status", "/v1/flows", …
func (e *Edge) Get(ctx context.Context, path string) ([]byte, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", e.Socket)
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://edge"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("edge %s: %w", e.Name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("edge %s: %w", e.Name, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("edge %s: %s: %s", e.Name, response.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

// Document reads one of the API's documents.
func (e *Edge) Document(ctx context.Context, path string, into any) error {
	body, err := e.Get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("edge %s: %s: %w", e.Name, path, err)
	}
	return nil
}

// Stop ends the edge with SIGTERM, upon which it removes all that it added.
func (e *Edge) Stop(ctx context.Context) error { return e.Command.Stop(ctx) }

// Kill ends the edge with SIGKILL: its data path goes on forwarding.
func (e *Edge) Kill() { e.Command.Kill() }

// RemovePins removes an edge's programs and maps, which then nothing but its process holds: nothing
// of it goes on when that has ended.
func (e *Edge) RemovePins() error {
	if err := os.RemoveAll(e.pins); err != nil {
		return fmt.Errorf("data path of edge %s: %w", e.Name, err)
	}
	return nil
}

// Reload has the edge read its configuration again.
func (e *Edge) Reload() error {
	select {
	case <-e.Command.Done():
		return errors.Join(fmt.Errorf("edge %s ended", e.Name), e.Command.Wait())
	default:
		return syscall.Kill(e.Command.PID(), syscall.SIGHUP)
	}
}

// TEPs are the other tunnel endpoints to which an edge has a way.
func (e *Edge) TEPs(ctx context.Context) (known []netip.Addr, err error) {
	var list []struct {
		Addr  netip.Addr `json:"address"`
		State string     `json:"state"`
	}
	err = e.Document(ctx, "/v1/teps", &list)
	for _, t := range list {
		if t.State == "resolved" {
			known = append(known, t.Addr)
		}
	}
	return known, err
}

// PathState is a path as an edge tells of it.
type PathState struct {
	State string  `json:"state"`
	Age   float64 `json:"state_s"`
}

// PathStates are the paths of an edge to all remotes.
func (e *Edge) PathStates(ctx context.Context) ([]PathState, error) {
	var teps []struct {
		Paths []PathState `json:"paths"`
	}
	if err := e.Document(ctx, "/v1/teps", &teps); err != nil {
		return nil, err
	}
	var all []PathState
	for _, tep := range teps {
		all = append(all, tep.Paths...)
	}
	return all, nil
}

// PathsUp wants so many paths, all of them up.
func (e *Edge) PathsUp(ctx context.Context, want int) error {
	all, err := e.PathStates(ctx)
	if err != nil {
		return err
	}
	up := len(slices.DeleteFunc(slices.Clone(all), func(p PathState) bool { return p.State != "up" }))
	if up != want || len(all) != want {
		return fmt.Errorf("%d of %d paths of edge %s are up, want %d", up, len(all), e.Name, want)
	}
	return nil
}

// FlowCacheUse is what an edge says of its flow cache.
type FlowCacheUse struct {
	Hits   uint64 `json:"flow_hits"`
	Misses uint64 `json:"flow_misses"`
}

// FlowCache reads the hits and misses of the edge's flow cache.
func (e *Edge) FlowCache(ctx context.Context) (FlowCacheUse, error) {
	var use FlowCacheUse
	return use, e.Document(ctx, "/v1/status", &use)
}
