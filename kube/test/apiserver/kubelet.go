package apiserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// Kubelet stands in for what of one the API server asks when somebody executes a command in a container of its node. It is on loopback,
// as the API server is, and serves whoever asks.
type Kubelet struct {
	server *httptest.Server
	run    func(ctx context.Context, container string, argv []string, stdout, stderr io.Writer) error
}

// NewKubelet runs commands by a function; an *exec.ExitError of it is a command's own failure.
func NewKubelet(run func(ctx context.Context, container string, argv []string, stdout, stderr io.Writer) error) *Kubelet {
	k := &Kubelet{run: run}
	k.server = httptest.NewTLSServer(k)
	return k
}

// Close ends it.
func (k *Kubelet) Close() { k.server.Close() }

// Describe has the status of a node say where it is. The API server tries a node's host name first; agents take no network of it.
func (k *Kubelet) Describe(s *corev1.NodeStatus) {
	s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "localhost"})
	s.DaemonEndpoints.KubeletEndpoint.Port = int32(k.server.Listener.Addr().(*net.TCPAddr).Port)
}

// streamMost is how long a client may take to make its streams, and be idle.
const streamMost = time.Minute

// ServeHTTP serves /exec/NAMESPACE/POD/CONTAINER.
func (k *Kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 4 || parts[0] != "exec" {
		http.NotFound(w, r)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, k, parts[2], "", parts[3], r.URL.Query()["command"], options, streamMost, streamMost, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer implements remotecommand.Executor.
func (k *Kubelet) ExecInContainer(
	ctx context.Context, _, _, container string, argv []string, _ io.Reader, out, err io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	failed := k.run(ctx, container, argv, out, err)
	var status *exec.ExitError
	if errors.As(failed, &status) {
		return utilexec.CodeExitError{Err: failed, Code: status.ExitCode()}
	}
	return failed
}
