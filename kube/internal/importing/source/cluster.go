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

// resources are those that are asked for.
var resources = []schema.GroupVersionResource{
	{Group: "egressgateway.spidernet.io", Version: "v1beta1", Resource: "egressgateways"},
	{Group: "egressgateway.spidernet.io", Version: "v1beta1", Resource: "egresspolicies"},
	{Group: "egressgateway.spidernet.io", Version: "v1beta1", Resource: "egressclusterpolicies"},
	{Group: "egressgateway.spidernet.io", Version: "v1beta1", Resource: "egressclusterinfos"},
	{Group: "cilium.io", Version: "v2", Resource: "ciliumegressgatewaypolicies"},
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
		objects, err := pages(ctx, client.Resource(r))
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
		all = append(all, objects...)
	}
	return all, nil
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
