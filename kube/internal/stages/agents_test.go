package stages

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/selvage/selvage/kube/internal/containers"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/test/tier"
)

const version = "of-the-test"

func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	agent.Run(os.Args[1:], version, nil)
	os.Exit(m.Run())
}

// container has the agent as its main process, which is this test's program, and begins when somebody attaches.
type container struct{ ended chan error }

func (c container) AttachContainer(ctx context.Context, _, _, name string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	if name != "stages" {
		return errors.New("no such container")
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", Command(0, time.Minute)[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = in, out, errs, time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+os.Getenv("AGENT_TMPDIR"))
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // its input has no end before that of the connection
		err = nil
	}
	c.ended <- err
	return err
}

// attachable is an API server with one container.
func attachable(t *testing.T) (*rest.Config, container) {
	t.Helper()
	c := container{make(chan error, 1)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/attach") {
			http.NotFound(w, r)
			return
		}
		remotecommand.ServeAttach(w, r, c, "p", "", r.URL.Query().Get("container"), &remotecommand.Options{Stdin: true, Stdout: true, Stderr: true}, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, c
}

// The lab's agent is asked over what attaches to its container; at the end it has ended, and left nothing.
func TestAttach(t *testing.T) {
	tier.Slow(t)
	t.Setenv("AGENT_TMPDIR", t.TempDir())
	config, c := attachable(t)
	s, err := Attach(t.Context(), config, containers.Container{Namespace: "s", Pod: "p", Container: "stages"}, "gateway's node n1", version)
	if err != nil {
		t.Fatal(err)
	}
	a := Agents{OfGateway: s, OfNode: s}
	figures := Run(t.Context(), []Stage{{Node, OfNode, OfGateway, netip.MustParseAddr("127.0.0.1")}}, Options{Rounds: 1, Slice: 200 * time.Millisecond, Port: 15300, LossRate: 1e6}, a.Instrument, noProgress)
	if f := figures[0]; len(f.Errors) > 0 || f.Throughput[1] <= 0 || f.RTT[1] <= 0 || f.Sent == 0 || f.Peers[0].Seen.String() != "127.0.0.1" {
		t.Errorf("%+v", f)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(os.Getenv("AGENT_TMPDIR"), "*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// Another version, and a container that is not there, are errors that say what to do.
func TestAttachErrors(t *testing.T) {
	tier.Slow(t)
	config, c := attachable(t)
	_, err := Attach(t.Context(), config, containers.Container{Namespace: "s", Pod: "p", Container: "stages"}, "pod s/p", "another")
	if err == nil || !strings.Contains(err.Error(), "pod s/p (container stages of pod s/p): its image has version of-the-test of the lab, this plugin is another: name the image of this version by --image") {
		t.Error(err)
	}
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
	_, err = Attach(t.Context(), config, containers.Container{Namespace: "s", Pod: "p", Container: "none"}, "pod s/p", version)
	if err == nil || !strings.Contains(err.Error(), "no such container") {
		t.Error(err)
	}
}
