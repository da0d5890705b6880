// Package edges runs commands of the edges of a cluster's nodes, in the containers that the chart has for them, as kubectl exec does.
package edges

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/internal/stream"
)

// What the chart calls them.
const (
	edgeContainer  = "edge"
	agentContainer = "agent"
)

// labels are those of the pods of the chart's DaemonSet.
var labels = client.MatchingLabels{"app.kubernetes.io/name": "selvage", "app.kubernetes.io/component": "agent"}

// Edges are those of a release of the chart.
type Edges struct {
	config *rest.Config
	pods   []corev1.Pod
}

// Find finds them, in a namespace, or in the one that has them where that is "". There may be none.
func Find(ctx context.Context, config *rest.Config, r client.Reader, namespace string) (Edges, error) {
	e := Edges{config: config}
	var list corev1.PodList
	if err := r.List(ctx, &list, client.InNamespace(namespace), labels); err != nil {
		return e, fmt.Errorf("find the pods of Selvage's agents (--selvage-namespace says where they are): %w", err)
	}
	for _, p := range list.Items {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && p.DeletionTimestamp == nil {
			e.pods = append(e.pods, p)
		}
	}
	for _, p := range e.pods {
		if p.Namespace != e.pods[0].Namespace {
			return e, fmt.Errorf("there are agents of Selvage in namespaces %s and %s: name one by --selvage-namespace", e.pods[0].Namespace, p.Namespace)
		}
	}
	return e, nil
}

// On is the pod of a node's edge.
func (e Edges) On(node string) (*corev1.Pod, error) {
	i := slices.IndexFunc(e.pods, func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	if i < 0 {
		return nil, fmt.Errorf("node %s: no pod of Selvage's agent is there (looked for the labels of the chart; --selvage-namespace says where)", node)
	}
	return &e.pods[i], nil
}

// Networks are those of the cluster that the agents are given; none where they find them.
func (e Edges) Networks() (list []netip.Prefix, err error) {
	for _, text := range e.arguments("--cluster-cidr") {
		for part := range strings.SplitSeq(text, ",") {
			p, err := netip.ParsePrefix(part)
			if err != nil {
				return nil, fmt.Errorf("--cluster-cidr of pod %s: %w", e.pods[0].Name, err)
			}
			list = append(list, p.Masked())
		}
	}
	return list, nil
}

// arguments are the values of a flag of the agents, which all have the same.
func (e Edges) arguments(flag string) (values []string) {
	if len(e.pods) == 0 {
		return nil
	}
	for _, c := range e.pods[0].Spec.Containers {
		if c.Name != agentContainer {
			continue
		}
		for i, a := range c.Args {
			if value, has := strings.CutPrefix(a, flag+"="); has {
				values = append(values, value)
			} else if a == flag && i+1 < len(c.Args) {
				values = append(values, c.Args[i+1])
			}
		}
	}
	return values
}

// Release is what pods beside those of the release need.
type Release struct {
	Namespace   string
	Image       string // of the edges
	PullSecrets []corev1.LocalObjectReference
}

// Release is that of the chart; ok is false where no agent is there.
func (e Edges) Release() (r Release, ok bool) {
	for _, p := range e.pods {
		for _, c := range p.Spec.Containers {
			if c.Name == edgeContainer {
				return Release{p.Namespace, c.Image, p.Spec.ImagePullSecrets}, true
			}
		}
	}
	return r, false
}

// Ask runs a command of selvage at a node's edge, and is what it says.
func (e Edges) Ask(ctx context.Context, node string, argv ...string) ([]byte, error) {
	pod, err := e.On(node)
	if err != nil {
		return nil, err
	}
	argv = append([]string{"selvage"}, append(argv, "--edge", plan.EdgeName(node))...)
	out, err := e.run(ctx, pod, argv)
	if err != nil {
		return nil, fmt.Errorf("node %s: run %s in pod %s/%s: %w", node, argv[1], pod.Namespace, pod.Name, err)
	}
	return out, nil
}

// run runs a command in the container of an edge.
func (e Edges) run(ctx context.Context, pod *corev1.Pod, argv []string) ([]byte, error) {
	executor, err := stream.Executor(e.config, pod.Namespace, pod.Name, "exec", &corev1.PodExecOptions{Container: edgeContainer, Command: argv, Stdout: true, Stderr: true})
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &said}); err != nil {
		if text := strings.TrimSpace(said.String()); text != "" {
			err = errors.New(text)
		}
		return nil, err
	}
	return out.Bytes(), nil
}
