// Package cni is the CNI plugin that keeps new pods from leaving by their node before their policy is in force. It stands last
// in the list of plugins of a node, changes nothing of what those before it made, and asks the node's agent.
//
// Its one invariant: a pod that no policy may select is neither held nor delayed, whatever state the agent is in; and one that a
// policy selects has no packet leave the cluster by its node before its policy says so. decisions/0029 says why so.
package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/selvage/selvage/kube/internal/hold"
	"github.com/selvage/selvage/kube/internal/steer"
)

// Name is the plugin's type, and that of its file.
const Name = "selvage-egress"

// Versions of CNI that it speaks.
var Versions = []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

// config is the plugin's entry in a list; a list of a runtime's has only the type.
type config struct {
	types.PluginConf
	Socket string          `json:"socket,omitempty"`
	State  string          `json:"state,omitempty"`
	Prev   json.RawMessage `json:"prevResult,omitempty"`
}

// podArgs are what runtimes of Kubernetes say of the pod.
type podArgs struct {
	types.CommonArgs
	K8S_POD_NAMESPACE, K8S_POD_NAME, K8S_POD_UID types.UnmarshallableString //nolint:staticcheck // the names that CNI_ARGS has
}

// Plugin is one call of it.
type Plugin struct {
	Out, Err io.Writer // the result; lines for the runtime's log
}

// Main is the program: what CNI asks for is in the environment and on standard input.
func Main() {
	p := Plugin{os.Stdout, os.Stderr}
	nothing := func(*skel.CmdArgs) error { return nil }
	// A status that depends on the agent would let no pod start at all, so it is always good.
	skel.PluginMainFuncs(skel.CNIFuncs{Add: p.Add, Del: p.Del, Check: nothing, GC: nothing, Status: nothing}, version.PluginSupports(Versions...), "CNI plugin "+Name)
}

// Add lets a pod start when its policy is in force, or its packets are held.
func (p Plugin) Add(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	a, err := attachment(args, c)
	if err != nil {
		return err
	}
	if a.Namespace != "" { // else it is none of Kubernetes
		if err := p.admit(c, a); err != nil {
			return types.NewError(types.ErrTryAgainLater, fmt.Sprintf("%s: pod %s/%s", Name, a.Namespace, a.Name), err.Error())
		}
	}
	if _, err := fmt.Fprintln(p.Out, string(c.Prev)); err != nil {
		return types.NewError(types.ErrIOFailure, Name, err.Error())
	}
	return nil
}

// parse reads a configuration with the result of the plugins before.
func parse(text []byte) (c config, err error) {
	if err := json.Unmarshal(text, &c); err != nil {
		return c, types.NewError(types.ErrDecodingFailure, Name+": its configuration", err.Error())
	}
	if len(c.Prev) == 0 || string(c.Prev) == "null" {
		return c, types.NewError(types.ErrInvalidNetworkConfig, Name+": there is no prevResult", "it has to come after a plugin that gives addresses")
	}
	if c.Socket == "" {
		c.Socket = hold.Socket
	}
	if c.State == "" {
		c.State = hold.State
	}
	return c, nil
}

// attachment is the pod of a call, without a namespace where the caller is not Kubernetes.
func attachment(args *skel.CmdArgs, c config) (a hold.Attachment, err error) {
	pod := podArgs{}
	pod.IgnoreUnknown = true
	if err := types.LoadArgs(args.Args, &pod); err != nil {
		return a, types.NewError(types.ErrInvalidEnvironmentVariables, Name+": CNI_ARGS", err.Error())
	}
	prev, err := version.NewResult(c.CNIVersion, c.Prev)
	if err != nil {
		return a, types.NewError(types.ErrDecodingFailure, Name+": prevResult", err.Error())
	}
	result, err := types100.NewResultFromResult(prev)
	if err != nil {
		return a, types.NewError(types.ErrDecodingFailure, Name+": prevResult", err.Error())
	}
	a = hold.Attachment{ID: args.ContainerID, Namespace: string(pod.K8S_POD_NAMESPACE), Name: string(pod.K8S_POD_NAME), UID: string(pod.K8S_POD_UID)}
	for _, ip := range result.IPs {
		if address, ok := netip.AddrFromSlice(ip.Address.IP); ok && address.Unmap().IsGlobalUnicast() {
			a.Addresses = append(a.Addresses, address.Unmap())
		}
	}
	if a.Namespace == "" || len(a.Addresses) == 0 { // without addresses nothing leaves
		return hold.Attachment{}, nil
	}
	if err := a.Check(); err != nil {
		return a, types.NewError(types.ErrInvalidEnvironmentVariables, Name, err.Error())
	}
	return a, nil
}

// admit returns when the pod may start.
func (p Plugin) admit(c config, a hold.Attachment) error {
	files := hold.Files{Folder: c.State}
	selects, err := files.Selects()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there has been no agent on this node, or it is removed
	}
	if err != nil {
		p.say("%v", err) // whom policies select is not known, nor what is the cluster: only the agent can tell
		selects.Others = hold.Node
	}
	verdict, k := selects.Verdict(a.Namespace), steerer(selects)
	if verdict == hold.Free {
		return release(k, files, a.Addresses)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hold.Patience)
	defer cancel()
	answer, err := hold.Ask(ctx, c.Socket, a)
	switch {
	case err == nil && (answer.State == hold.Unselected || answer.State == hold.Programmed):
		return nil // it has released the addresses
	case err == nil:
		err = fmt.Errorf("the agent: %s", answer.Message)
	}
	if verdict == hold.Node {
		p.say("pod %s/%s starts without a policy, which may select it, in force: it leaves by its node meanwhile: %v", a.Namespace, a.Name, err)
		return release(k, files, a.Addresses)
	}
	p.say("pod %s/%s starts without a policy, which may select it, in force: it reaches the cluster only, until there is an agent: %v", a.Namespace, a.Name, err)
	return keep(k, files, a)
}

// keep holds a pod's packets. What another pod had of these addresses is over.
func keep(k steer.Steerer, files hold.Files, a hold.Attachment) error {
	if k.Table == 0 {
		return errors.New("there is no agent, and another program has what holds pods: kubectl describe egressnode says which")
	}
	if err := files.Put(a); err != nil {
		return err
	}
	if err := k.Hold(a.Addresses); err != nil {
		return errors.Join(err, k.Release(a.Addresses), files.Drop(a.ID))
	}
	if !files.Installed() { // not any more
		return errors.Join(k.RemoveHold(), files.Remove())
	}
	return nil
}

// release ends what is held of addresses that a pod had before.
func release(k steer.Steerer, files hold.Files, addresses []netip.Addr) error {
	if ids, err := files.List(); err != nil || len(ids) == 0 || k.Table == 0 {
		return nil //nolint:nilerr // nothing is held here
	}
	return k.Release(addresses)
}

func steerer(s hold.Selects) steer.Steerer {
	return steer.Steerer{Config: steer.Config{Rule: s.Rule, Table: s.Table, Cluster: s.Cluster}}
}

// Del ends what was held of the pod. It never fails: a pod has to be able to go.
func (p Plugin) Del(args *skel.CmdArgs) error {
	c := config{State: hold.State}
	if err := json.Unmarshal(args.StdinData, &c); err != nil {
		p.say("its configuration: %v", err)
		return nil
	}
	files := hold.Files{Folder: c.State}
	a, _, err := files.Get(args.ContainerID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	selects, unknown := files.Selects()
	if err = errors.Join(err, unknown); err == nil {
		err = steerer(selects).Release(a.Addresses)
	}
	if err = errors.Join(err, files.Drop(args.ContainerID)); err != nil {
		p.say("container %s: %v", args.ContainerID, err)
	}
	return nil
}

func (p Plugin) say(format string, args ...any) {
	fmt.Fprintf(p.Err, Name+": "+format+"\n", args...)
}
