package cni_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/internal/cni"
	"github.com/selvage/selvage/kube/internal/hold"
	"github.com/selvage/selvage/kube/internal/steer"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/testlab"
	"github.com/selvage/selvage/test/tier"
)

const prev = `{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}],"ips":[{"address":"10.244.1.7/24","interface":0},{"address":"fd02::7/64","interface":0}],"dns":{},"more":"is kept"}`

// node is where a plugin is called; what it knows of policies is selects.
type node struct {
	t      *testing.T
	socket string
	files  hold.Files
	out    bytes.Buffer
	err    bytes.Buffer
	host   *topo.Host
}

var selects = hold.Selects{
	Namespaces: map[string]string{"shop": hold.Drop, "lax": hold.Node, "free": hold.Free}, Others: hold.Free,
	Rule: 90, Table: 7789, Cluster: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t, socket: filepath.Join(dir, "s"), files: hold.Files{Folder: filepath.Join(dir, "state")}}
	if err := n.files.WriteSelects(selects); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) args(namespace string) *skel.CmdArgs {
	return &skel.CmdArgs{
		ContainerID: "c1", Netns: "/run/netns/none", IfName: "eth0", Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=" + namespace + ";K8S_POD_NAME=web-1;K8S_POD_UID=u1;K8S_POD_INFRA_CONTAINER_ID=c1",
		StdinData: []byte(n.config("1.0.0", prev)),
	}
}

func (n *node) config(version, prev string) string {
	return fmt.Sprintf(`{"cniVersion":%q,"name":"pods","type":"selvage-egress","socket":%q,"state":%q,"prevResult":%s}`, version, n.socket, n.files.Folder, prev)
}

// add calls the plugin, in the namespace of the host if there is one, and is how long it took.
func (n *node) add(args *skel.CmdArgs) (took time.Duration, err error) {
	n.out.Reset()
	n.err.Reset()
	began := time.Now()
	call := func() error { return cni.Plugin{Out: &n.out, Err: &n.err}.Add(args) }
	if n.host != nil {
		err = n.host.Do(call)
	} else {
		err = call()
	}
	return time.Since(began), err
}

// passes fails the test unless the pod starts with the result of the plugins before.
func (n *node) passes(args *skel.CmdArgs) time.Duration {
	n.t.Helper()
	took, err := n.add(args)
	if err != nil {
		n.t.Fatal(err)
	}
	if got := strings.TrimSpace(n.out.String()); got != prev {
		n.t.Errorf("its result is %s", got)
	}
	return took
}

// agent answers questions as said.
func (n *node) agent(answer func(context.Context, hold.Attachment) hold.Answer) {
	n.t.Helper()
	ctx, stop := context.WithCancel(n.t.Context())
	done := make(chan error)
	go func() { done <- hold.Serve(ctx, n.socket, answer) }()
	n.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			n.t.Error(err)
		}
	})
	must(n.t, await.That(n.t.Context(), "the agent's socket is there", func() error {
		i, err := os.Stat(n.socket)
		if err == nil && i.Mode().Perm() != 0o600 {
			err = fmt.Errorf("mode %v", i.Mode())
		}
		return err
	}))
}

// What the agent answers decides; it is asked about the pod of the arguments, with the addresses of the result.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, state := range []string{hold.Unselected, hold.Programmed} {
		n := newNode(t)
		var asked hold.Attachment
		n.agent(func(_ context.Context, a hold.Attachment) hold.Answer { asked = a; return hold.Answer{State: state} })
		n.passes(n.args("shop"))
		text, _ := json.Marshal(asked)
		if want := `{"id":"c1","namespace":"shop","name":"web-1","uid":"u1","addresses":["10.244.1.7","fd02::7"]}`; string(text) != want {
			t.Errorf("asked about %s", text)
		}
		if n.err.Len() > 0 {
			t.Errorf("it says %s", &n.err)
		}
	}
}

// Pods of namespaces that no policy is about do not wait for an agent, which would not answer, and neither do those of a node that
// has no agent, nor what is no pod.
func TestNotConcerned(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.agent(func(context.Context, hold.Attachment) hold.Answer { t.Error("it asks"); return hold.Answer{} })
	n.passes(n.args("free"))
	n.passes(n.args("unheard-of"))
	none := n.args("shop")
	none.Args = ""
	n.passes(none)
	if err := n.files.Remove(); err != nil {
		t.Fatal(err)
	}
	n.passes(n.args("shop"))
	if n.err.Len() > 0 {
		t.Errorf("it says %s", &n.err)
	}
}

// Where all policies say whenNoGateway: Node, a pod starts without an agent: at once, or after 2 s where one is silent.
func TestByNode(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	if took := n.passes(n.args("lax")); took > hold.Patience/2 {
		t.Errorf("it took %s without an agent", took)
	}
	if !strings.Contains(n.err.String(), "leaves by its node") {
		t.Errorf("it says %q", &n.err)
	}
	l, err := net.Listen("unix", n.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if took := n.passes(n.args("lax")); took < hold.Patience || took > 3*hold.Patience {
		t.Errorf("it took %s with an agent that is silent", took)
	}
}

// A pod that a policy may select is held without an agent, until it goes. Others that have its address then are not.
func TestHeld(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	for name, agent := range map[string]func(n *node){
		"none": func(*node) {},
		"failed": func(n *node) {
			n.agent(func(context.Context, hold.Attachment) hold.Answer {
				return hold.Answer{State: hold.Failed, Message: "no"}
			})
		},
		"rubbish": func(n *node) {
			n.agent(func(context.Context, hold.Attachment) hold.Answer { return hold.Answer{State: "rubbish"} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			h, err := testlab.New(t).Host("node")
			if err != nil {
				t.Fatal(err)
			}
			n.host = h
			agent(n)
			held := func(want int) {
				t.Helper()
				err := h.Do(func() error {
					list, err := steer.Steerer{Config: steer.Config{Rule: 90, Table: 7789}}.Held()
					if len(list) != want {
						t.Errorf("held are %v", list)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
			n.passes(n.args("shop"))
			held(2)
			if !strings.Contains(n.err.String(), "reaches the cluster only") {
				t.Errorf("it says %q", &n.err)
			}
			other := n.args("free")
			other.ContainerID = "c2"
			n.passes(other)
			held(0)
			n.passes(n.args("shop"))
			held(2)
			del := n.args("shop")
			for range 2 {
				if err := h.Do(func() error { return cni.Plugin{Out: &n.out, Err: &n.err}.Del(del) }); err != nil {
					t.Error(err)
				}
				held(0)
			}
			if ids, err := n.files.List(); err != nil || len(ids) > 0 {
				t.Errorf("files of %v, %v", ids, err)
			}
		})
	}
}

// A deletion never fails, whatever it is given.
func TestDel(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	if err := os.MkdirAll(filepath.Join(n.files.Folder, "held"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.files.Folder, "held", "broken.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", "[]", `{"state":1}`, `{"state":"/dev/null"}`, n.config("1.0.0", "null"), n.config("9.0.0", `"x"`)} {
		for _, id := range []string{"c1", "broken", "../selects", strings.Repeat("x", 300)} {
			args := &skel.CmdArgs{ContainerID: id, Args: "=;=", StdinData: []byte(text)}
			if err := (cni.Plugin{Out: &n.out, Err: &n.err}).Del(args); err != nil {
				t.Errorf("%q, %q: %v", text, id, err)
			}
		}
	}
	if !n.files.Installed() {
		t.Error("there is no file of what policies select any more")
	}
}

// What cannot be understood is an error of CNI, and nobody is asked.
func TestRefused(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.agent(func(context.Context, hold.Attachment) hold.Answer { t.Error("it asks"); return hold.Answer{} })
	long := `{"cniVersion":"1.0.0","ips":[` + strings.TrimSuffix(strings.Repeat(`{"address":"10.0.0.1/8"},`, 17), ",") + `]}`
	for what, change := range map[string]func(a *skel.CmdArgs){
		"its configuration": func(a *skel.CmdArgs) { a.StdinData = []byte("{") },
		"no prevResult":     func(a *skel.CmdArgs) { a.StdinData = []byte(n.config("1.0.0", "null")) },
		"prevResult": func(a *skel.CmdArgs) {
			a.StdinData = []byte(n.config("1.0.0", `{"cniVersion":"1.0.0","ips":[{"address":"x"}]}`))
		},
		"unsupported CNI":     func(a *skel.CmdArgs) { a.StdinData = []byte(n.config("7.0.0", prev)) },
		"17 addresses":        func(a *skel.CmdArgs) { a.StdinData = []byte(n.config("1.0.0", long)) },
		"CNI_ARGS":            func(a *skel.CmdArgs) { a.Args = "K8S_POD_NAMESPACE" },
		"none of Kubernetes":  func(a *skel.CmdArgs) { a.Args = "K8S_POD_NAMESPACE=shop" },
		"id \"../x\"":         func(a *skel.CmdArgs) { a.ContainerID = "../x" },
		"none of Kubernetes ": func(a *skel.CmdArgs) { a.Args = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=" + strings.Repeat("x", 5000) },
	} {
		args := n.args("shop")
		change(args)
		_, err := n.add(args)
		if err == nil {
			t.Errorf("%s: the pod starts", what)
		}
		if text := fmt.Sprintf("%+v", err); !strings.Contains(text, strings.TrimSpace(what)) {
			t.Errorf("%s: %s", what, text)
		}
		if n.out.Len() > 0 {
			t.Errorf("%s: it has a result: %s", what, &n.out)
		}
	}
}

// All versions of CNI that have lists are spoken, with results of theirs.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, version := range cni.Versions {
		n := newNode(t)
		var asked hold.Attachment
		n.agent(func(_ context.Context, a hold.Attachment) hold.Answer {
			asked = a
			return hold.Answer{State: hold.Programmed}
		})
		args := n.args("shop")
		args.StdinData = []byte(n.config(version, fmt.Sprintf(`{"cniVersion":%q,"ips":[{"version":"4","address":"10.244.1.7/24"}]}`, version)))
		if _, err := n.add(args); err != nil || len(asked.Addresses) != 1 || !strings.Contains(n.out.String(), version) {
			t.Errorf("%s: %v, %v, %s", version, err, asked, &n.out)
		}
	}
}
