package importing_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

const crds = "../../chart/selvage/crds"

// kind is what the API server does with objects of a kind before it stores them.
type kind struct {
	structural *schema.Structural
	openapi    validation.SchemaValidator
	cel        *cel.Validator
}

// kinds are those of the chart.
var kinds = sync.OnceValues(func() (map[string]kind, error) {
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil {
		return nil, err
	}
	all := map[string]kind{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(text, &crd); err != nil {
			return nil, err
		}
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return nil, err
		}
		s, err := schema.NewStructural(&props)
		if err != nil {
			return nil, err
		}
		openapi, _, err := validation.NewSchemaValidator(&props)
		if err != nil {
			return nil, err
		}
		all[crd.Spec.Names.Kind] = kind{s, openapi, cel.NewValidator(s, true, celconfig.PerCallLimit)}
	}
	return all, nil
})

// refused is why the API server would refuse an object, or would store less than it has.
func refused(t testing.TB, doc string) (why []string) {
	t.Helper()
	all, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	var o map[string]any
	if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
		return []string{err.Error()}
	}
	k, is := all[o["kind"].(string)]
	if !is || o["apiVersion"] != "selvage.dev/v1alpha1" {
		return []string{"there is no such kind"}
	}
	o = runtime.DeepCopyJSON(jsonNumbers(t, o))
	defaulting.Default(o, k.structural)
	for _, path := range pruning.PruneWithOptions(runtime.DeepCopyJSON(o), k.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		why = append(why, path+" is unknown")
	}
	errs := validation.ValidateCustomResource(nil, o, k.openapi)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.structural, o)...)
	more, _ := k.cel.Validate(context.Background(), field.NewPath(""), k.structural, o, nil, celconfig.RuntimeCELCostBudget)
	for _, err := range append(errs, more...) {
		why = append(why, err.Error())
	}
	return why
}

// documents are those of an output.
func documents(out string) (all []string) {
	for doc := range strings.SplitSeq(out, "---\n") {
		if strings.TrimSpace(doc) != "" {
			all = append(all, doc)
		}
	}
	return all
}

// TestRefused shows that the check itself refuses what the API server does.
func TestRefused(t *testing.T) {
	const gateway = `
apiVersion: selvage.dev/v1alpha1
kind: EgressGateway
metadata: {name: g}
spec:
  nodes: {}
  addresses: [ADDRESS]
  uplink: {interface: eth1, nextHops: [192.0.2.1]}
`
	for _, c := range []struct {
		address string
		good    bool
	}{{"192.0.2.1", true}, {"192.0.2.1-192.0.2.9", true}, {"192.0.2.0/29", true}, {"2001:db8::-2001:db8::f", true}, {"::ffff:192.0.2.1", false}, {"name", false}, {"192.0.2.1, 192.0.2.1", false}} {
		why := refused(t, strings.Replace(gateway, "ADDRESS", c.address, 1))
		if (len(why) == 0) != c.good {
			t.Errorf("%s: %v", c.address, why)
		}
	}
	if why := refused(t, gateway+"  more: 1\n"); len(why) == 0 {
		t.Error("an unknown field is taken")
	}
}
