package edges

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// agent is a pod of the chart on a node.
func agent(namespace, node string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent-" + node, Labels: labels},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
			{Name: edgeContainer, Args: []string{"--cluster-cidr=192.0.2.0/24"}}, {Name: agentContainer, Args: args},
		}},
	}
}

func TestFind(t *testing.T) {
	ended, other := agent("selvage-system", "n2"), agent("shop", "n2")
	ended.Status.Phase = corev1.PodFailed
	other.Labels = map[string]string{"app.kubernetes.io/name": "selvage", "app.kubernetes.io/component": "controller"}
	for _, c := range []struct {
		name, namespace, node, pod, err string
		pods                            []client.Object
	}{
		{"one release", "", "n1", "selvage-system/agent-n1", "", []client.Object{agent("selvage-system", "n1"), agent("selvage-system", "n3"), other}},
		{"none", "", "n1", "", "node n1: no pod of Selvage's agent is there", nil},
		{"one that has ended", "", "n2", "", "node n2: no pod", []client.Object{agent("selvage-system", "n1"), ended, other}},
		{"two releases", "", "n1", "", "in namespaces a and b: name one by --selvage-namespace", []client.Object{agent("a", "n1"), agent("b", "n1")}},
		{"two releases, one named", "b", "n1", "b/agent-n1", "", []client.Object{agent("a", "n1"), agent("b", "n1")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := Find(t.Context(), &rest.Config{}, fake.NewClientBuilder().WithObjects(c.pods...).Build(), c.namespace)
			var pod *corev1.Pod
			if err == nil {
				pod, err = e.On(c.node)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil || pod.Namespace+"/"+pod.Name != c.pod {
				t.Errorf("%+v %v", pod, err)
			}
		})
	}
}

// Networks are those of the agent's flags, in each form that the flag has.
func TestNetworks(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "[] <nil>"},
		{[]string{"--file=x", "--cluster-cidr=10.0.0.0/8,fd00::/48", "--cluster-cidr", "192.0.2.1/24", "--mtu=1400"}, "[10.0.0.0/8 fd00::/48 192.0.2.0/24] <nil>"},
		{[]string{"--cluster-cidr=x"}, `[] --cluster-cidr of pod agent-n1: netip.ParsePrefix("x"): no '/'`},
	} {
		list, err := Edges{pods: []corev1.Pod{*agent("s", "n1", c.args...)}}.Networks()
		if got := fmt.Sprint(list, " ", err); got != c.want {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
}

// container answers commands, as the container of an edge does.
type container struct{}

func (container) ExecInContainer(
	_ context.Context, _, _, name string, argv []string, _ io.Reader, out, err io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if argv[1] == "fail" {
		fmt.Fprintln(err, "selvage: the edge does not answer")
		return utilexec.CodeExitError{Err: errors.New("exit status 1"), Code: 1}
	}
	_, failed := fmt.Fprintf(out, "%s: %s", name, strings.Join(argv, " "))
	return failed
}

// Where somebody on the way knows no WebSocket, SPDY is used; what a command says of its failure is the error.
func TestAsk(t *testing.T) {
	sockets := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/selvage-system/pods/agent-n1/exec" {
			http.NotFound(w, r)
			return
		}
		if r.Header.Get("Upgrade") == "websocket" {
			sockets++
			http.Error(w, "no such protocol", http.StatusBadRequest)
			return
		}
		v := r.URL.Query()
		remotecommand.ServeExec(w, r, container{}, "", "", v.Get("container"), v["command"], &remotecommand.Options{Stdout: true, Stderr: true}, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	}))
	defer server.Close()
	e := Edges{config: &rest.Config{Host: server.URL}, pods: []corev1.Pod{*agent("selvage-system", "n1"), *agent("selvage-system", "n2")}}
	out, err := e.Ask(t.Context(), "n1", "trace", "icmp a > b")
	if want := "edge: selvage trace icmp a > b --edge n1"; err != nil || string(out) != want || sockets != 1 {
		t.Errorf("%q, %v, %d WebSockets were tried; want %s", out, err, sockets, want)
	}
	if _, err := e.Ask(t.Context(), "n1", "fail"); err == nil || err.Error() != "node n1: run fail in pod selvage-system/agent-n1: selvage: the edge does not answer" {
		t.Errorf("%v", err)
	}
	if _, err := e.Ask(t.Context(), "n2", "trace"); err == nil || !strings.Contains(err.Error(), "not find the requested resource") && !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
}
