// Package chart has the kinds of the Helm chart beside it, to compare those of an API server with them: Helm installs kinds and never
// upgrades them.
package chart

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

//go:embed selvage/crds/*.yaml
var files embed.FS

// schema is what of a schema counts, in a CustomResourceDefinition and in OpenAPI.
type schema struct {
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Enum       []any             `json:"enum"`
}

// Older is an error where the API server lacks fields or values of the kinds of this version, which it drops or refuses. It takes no
// more rights than discovery does; newer kinds are right.
func Older(ctx context.Context, by *rest.Config) error {
	c, err := discovery.NewDiscoveryClientForConfig(by)
	if err != nil {
		return err
	}
	text, err := c.RESTClient().Get().AbsPath("/openapi/v3/apis/" + v1alpha1.GroupVersion.String()).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("kinds of the API server: %w", err)
	}
	var has struct {
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(text, &has); err != nil {
		return fmt.Errorf("kinds of the API server: %w", err)
	}
	kinds, err := own()
	if err != nil {
		return err
	}
	var lacks []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		lacks = append(lacks, lacking(kind, kinds[kind], has.Components.Schemas["dev.selvage."+v1alpha1.GroupVersion.Version+"."+kind])...)
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("the API server has older kinds, without %s: run helm show crds CHART | kubectl apply --server-side --force-conflicts -f -", strings.Join(lacks, ", "))
}

// own are the kinds of the chart.
func own() (map[string]schema, error) {
	list, err := files.ReadDir("selvage/crds")
	if err != nil {
		return nil, err
	}
	kinds := map[string]schema{}
	for _, f := range list {
		text, err := files.ReadFile("selvage/crds/" + f.Name())
		if err != nil {
			return nil, err
		}
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		for _, v := range crd.Spec.Versions {
			if v.Name == v1alpha1.GroupVersion.Version {
				kinds[crd.Spec.Names.Kind] = v.Schema.OpenAPIV3Schema
			}
		}
	}
	return kinds, nil
}

// lacking are the fields and values at a path that the other schema does not have.
func lacking(path string, own, other schema) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(own.Properties)) {
		at := path + "." + name
		if p, has := other.Properties[name]; has {
			list = append(list, lacking(at, own.Properties[name], p)...)
		} else {
			list = append(list, at)
		}
	}
	if own.Items != nil && other.Items != nil {
		list = append(list, lacking(path+"[]", *own.Items, *other.Items)...)
	}
	for _, value := range own.Enum {
		if !slices.Contains(other.Enum, value) {
			list = append(list, fmt.Sprintf("%s: %v", path, value))
		}
	}
	return list
}
