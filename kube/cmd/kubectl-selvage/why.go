package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/edges"
	"github.com/selvage/selvage/kube/internal/networks"
	"github.com/selvage/selvage/kube/internal/why"
)

// question is what all commands are asked.
type question struct {
	commandline.Cluster
	Namespace        string `short:"n" placeholder:"NAMESPACE" help:"Namespace of the pod; that of the context when left out."`
	SelvageNamespace string `placeholder:"NAMESPACE" help:"Namespace of Selvage's release; the one that has its agents when left out."`
	Output           string `short:"o" enum:"text,json" default:"text" help:"Print text or JSON: ${enum}."`
	Pod              string `arg:"" help:"Name of the pod, or pod/NAME."`
}

// AfterApply takes the form that kubectl's own commands print and take.
func (q *question) AfterApply() error {
	if kind, name, is := strings.Cut(q.Pod, "/"); is {
		if !slices.Contains([]string{"pod", "pods", "po"}, kind) || name == "" {
			return fmt.Errorf("%s is no pod: write the name of one, or pod/NAME", q.Pod)
		}
		q.Pod = name
	}
	return nil
}

type whyCmd struct {
	question
	Destination string `arg:"" optional:"" name:"destination" help:"Address outside the cluster; when left out, the policy that is asked first counts."`
}

// Run says why.
func (c *whyCmd) Run(ctx context.Context, s *commandline.Streams) error {
	var to netip.Addr
	if c.Destination != "" {
		var err error
		if to, err = netip.ParseAddr(c.Destination); err != nil || to.Zone() != "" {
			return commandline.UsageError{Err: fmt.Errorf("destination %q is no address of IPv4 or IPv6", c.Destination)}
		}
	}
	k, err := c.connect(ctx, to.IsValid())
	if err != nil {
		return err
	}
	o, err := k.objects(ctx, to.Unmap())
	if err != nil {
		return err
	}
	a := why.Explain(o, to.Unmap())
	if c.Output == "json" {
		err = writeJSON(s.Out, a)
	} else {
		err = a.Text(s.Out)
	}
	if err == nil && len(a.Problems) > 0 {
		err = commandline.ErrPrinted
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// cluster is one that is asked about a pod.
type cluster struct {
	question
	config *rest.Config
	client client.Client
	edges  edges.Edges // none where nobody asks for a destination
}

func (q question) connect(ctx context.Context, agents bool) (*cluster, error) {
	config, namespace, err := q.Config()
	if err != nil {
		return nil, err
	}
	if q.Namespace == "" {
		q.Namespace = namespace
	}
	scheme, err := controller.Scheme()
	if err != nil {
		return nil, err
	}
	k := &cluster{question: q, config: config}
	if k.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	if agents {
		k.edges, err = edges.Find(ctx, config, k.client, q.SelvageNamespace)
	}
	return k, err
}

// objects are those about the pod, and with a destination the networks of the cluster.
func (k *cluster) objects(ctx context.Context, to netip.Addr) (o why.Objects, err error) {
	if err := k.client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Pod}, &o.Pod); err != nil {
		return o, fmt.Errorf("pod %s/%s: %w", k.Namespace, k.Pod, err)
	}
	if err := k.client.Get(ctx, client.ObjectKey{Name: k.Namespace}, &o.Namespace); err != nil {
		return o, fmt.Errorf("namespace %s: %w", k.Namespace, err)
	}
	var (
		own      = client.InNamespace(k.Namespace)
		pods     corev1.PodList
		policies v1alpha1.EgressPolicyList
		cluster  v1alpha1.ClusterEgressPolicyList
		gateways v1alpha1.EgressGatewayList
		nodes    v1alpha1.EgressNodeList
	)
	for _, l := range []struct {
		list client.ObjectList
		of   []client.ListOption
	}{
		{&pods, []client.ListOption{own, client.MatchingFields{"spec.nodeName": o.Pod.Spec.NodeName}}}, {&policies, []client.ListOption{own}},
		{&cluster, nil}, {&gateways, nil}, {&nodes, nil},
	} {
		if err := k.client.List(ctx, l.list, l.of...); meta.IsNoMatchError(err) {
			return o, fmt.Errorf("the cluster does not have Selvage's kinds: is its chart installed? %w", err)
		} else if err != nil {
			return o, fmt.Errorf("list %T: %w", l.list, err)
		}
	}
	o.Pods, o.Policies, o.ClusterPolicies, o.Gateways, o.Nodes = pods.Items, policies.Items, cluster.Items, gateways.Items, nodes.Items
	if to.IsValid() {
		o.Cluster, err = k.networks(ctx)
	}
	return o, err
}

// networks are those of the cluster as agents have them.
func (k *cluster) networks(ctx context.Context) ([]netip.Prefix, error) {
	given, err := k.edges.Networks()
	if err != nil || len(given) > 0 {
		return given, err
	}
	nodes, err := k.nodes(ctx)
	if err != nil {
		return nil, err
	}
	found, err := networks.New(k.client.RESTMapper(), k.client).Find(ctx, nodes)
	if errors.Is(err, networks.ErrUnknown) { // the policy's nodes say so
		err = nil
	}
	return found, err
}

func (k *cluster) nodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := k.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}
