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

// Kubelet stands in for what of one the API server asks when somebody executes a command in a container of its node, or attaches to one.
// It is on loopback, as the API server is, and serves whoever asks.
type Kubelet struct {
	// Attach is the main process of a container, which begins when somebody attaches to it. There is none where it is nil.
	Attach func(ctx context.Context, namespace, pod, container string, stdin io.Reader, stdout, stderr io.Writer) error

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

// ServeHTTP serves /exec/NAMESPACE/POD/CONTAINER, and the same of attach.
func (k *Kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) != 4 || parts[0] != "exec" && (parts[0] != "attach" || k.Attach == nil) {
		http.NotFound(w, r)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if parts[0] == "attach" {
		remotecommand.ServeAttach(w, r, attacher{k, parts[1]}, parts[2], "", parts[3], options, streamMost, streamMost, remotecommand.SupportedStreamingProtocols)
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

// attacher attaches to containers of a namespace.
type attacher struct {
	*Kubelet
	namespace string
}

// AttachContainer implements remotecommand.Attacher.
func (a attacher) AttachContainer(ctx context.Context, pod, _, container string, in io.Reader, out, err io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	return a.Attach(ctx, a.namespace, pod, container, in, out, err)
}
