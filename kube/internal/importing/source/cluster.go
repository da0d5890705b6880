package source

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/selvage/selvage/kube/internal/importing"
)

// resource is one that is asked for: the first version that the cluster has.
type resource struct {
	group, name string
	versions    []string
}

var resources = []resource{
	{"egressgateway.spidernet.io", "egressgateways", []string{"v1beta1"}},
	{"egressgateway.spidernet.io", "egresspolicies", []string{"v1beta1"}},
	{"egressgateway.spidernet.io", "egressclusterpolicies", []string{"v1beta1"}},
	{"egressgateway.spidernet.io", "egressclusterinfos", []string{"v1beta1"}},
	{"crd.antrea.io", "externalippools", []string{"v1beta1", "v1alpha2"}},
	{"crd.antrea.io", "egresses", []string{"v1beta1", "v1alpha2"}},
	{"cilium.io", "ciliumegressgatewaypolicies", []string{"v2"}},
	{"k8s.ovn.org", "egressips", []string{"v1"}},
}

// pageSize is how many objects the API server sends at a time.
const pageSize = 500

// Cluster lists the egress objects of a cluster. A kind that it does not have is none.
func Cluster(ctx context.Context, config *rest.Config) (all []importing.Object, err error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the cluster: %w", err)
	}
	for _, r := range resources {
		objects, err := r.list(ctx, client)
		if err != nil {
			return nil, fmt.Errorf("list %s.%s: %w", r.name, r.group, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

func (r resource) list(ctx context.Context, client dynamic.Interface) ([]importing.Object, error) {
	for _, version := range r.versions {
		objects, err := pages(ctx, client.Resource(schema.GroupVersionResource{Group: r.group, Version: version, Resource: r.name}))
		if !apierrors.IsNotFound(err) {
			return objects, err
		}
	}
	return nil, nil
}

func pages(ctx context.Context, of dynamic.ResourceInterface) (all []importing.Object, err error) {
	for from := ""; ; {
		list, err := of.List(ctx, metav1.ListOptions{Limit: pageSize, Continue: from})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			out, err := json.Marshal(o.Object)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
			}
			all = append(all, importing.Object{Source: "the cluster", JSON: out})
		}
		if from = list.GetContinue(); from == "" {
			return all, nil
		}
	}
}
