// Package stream opens streams to containers by the API server, as kubectl exec and kubectl attach do.
package stream

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/selvage/selvage/internal/tail"
)

// Executor streams to and from a container, by a WebSocket, or SPDY where somebody on the way knows only that. subresource is exec or
// attach, of which options are.
func Executor(config *rest.Config, namespace, pod, subresource string, options runtime.Object) (remotecommand.Executor, error) {
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	url := c.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource(subresource).VersionedParams(options, scheme.ParameterCodec).URL()
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", url)
	if err != nil {
		return nil, err
	}
	socket, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// leaveMost is how long a container may take to end when its input has ended.
const leaveMost = 10 * time.Second

// Connection is attached to a container's main process: what it writes is read from Out, and what is written to In it reads.
type Connection struct {
	In  io.WriteCloser
	Out io.Reader

	errors tail.Buffer
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// Attach connects to the main process of a container. The connection ends with the process, or by Wait, and not with a context, so that a
// caller that is interrupted can leave in order.
func Attach(config *rest.Config, namespace, pod, container string) (*Connection, error) {
	executor, err := Executor(config, namespace, pod, "attach", &corev1.PodAttachOptions{Container: container, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, fmt.Errorf("attach to container %s of pod %s/%s: %w", container, namespace, pod, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in, inEnd := io.Pipe()
	outEnd, out := io.Pipe()
	c := &Connection{In: inEnd, Out: outEnd, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		c.err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: &c.errors})
		out.Close()
		inEnd.Close() // what is read ends, and writing fails
	}()
	return c, nil
}

// Kill ends the connection at once, and may be called again.
func (c *Connection) Kill() { c.cancel() }

// Wait ends the input, waits for the end of the process, and says why the connection failed. It may be called again.
func (c *Connection) Wait() error {
	c.In.Close()
	timer := time.AfterFunc(leaveMost, c.cancel)
	defer timer.Stop()
	<-c.ended
	return c.err
}

// Said is the end of what the process wrote to standard error.
func (c *Connection) Said() string { return c.errors.String() }
