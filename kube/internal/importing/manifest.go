package importing

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/json"
)

// Object is a manifest as it was read.
type Object struct {
	Source string // where it was read: a file, or the cluster
	JSON   []byte
}

// heading is what of every object is the same.
type heading struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
}

// String is how notes name the object.
func (h heading) String() string {
	if h.Metadata.Namespace != "" {
		return h.Kind + " " + h.Metadata.Namespace + "/" + h.Metadata.Name
	}
	return h.Kind + " " + h.Metadata.Name
}

// group is that of the API version.
func (h heading) group() string {
	group, _, _ := strings.Cut(h.APIVersion, "/")
	return group
}

// manifest is an object with the fields that its project gives it.
type manifest[Spec, Status any] struct {
	heading `json:",inline"`
	Spec    Spec   `json:"spec"`
	Status  Status `json:"status"`
}

// none is a status of which nothing is read.
type none struct{}

// decode reads an object, and notes fields that are unknown. Of an object that cannot be read, or that has no name, the
// note says so, and it returns false.
func decode[Spec, Status any](i *importer, h heading, o Object) (m manifest[Spec, Status], ok bool) {
	if err := json.UnmarshalCaseSensitivePreserveInts(o.JSON, &m); err != nil {
		i.lost(h.String(), "", nil, fmt.Sprintf("%s: %v", o.Source, err), "correct it")
		return m, false
	}
	var raw map[string]any
	if err := json.UnmarshalCaseSensitivePreserveInts(o.JSON, &raw); err != nil {
		return m, false
	}
	delete(raw, "status") // the other project's controller wrote it
	for _, u := range unknown(raw, reflect.TypeOf(m), "") {
		i.lost(h.String(), strings.TrimPrefix(u.path, "spec."), u.value, "the field is unknown", "look whether it changes which packets leave, or how")
	}
	return m, i.identity(h)
}

// identity looks at names, and notes what of the metadata is left.
func (i *importer) identity(h heading) bool {
	switch errs := append(validation.IsDNS1123Subdomain(h.Metadata.Name), namespaceErrors(h.Metadata.Namespace)...); {
	case len(errs) > 0:
		i.lost(h.String(), "", nil, "its name is not valid: "+errs[0], "give it a name as Kubernetes wants it")
		return false
	case h.Metadata.DeletionTimestamp != nil:
		i.lost(h.String(), "", nil, "it is being deleted", "")
		return false
	}
	for _, m := range []struct {
		field string
		have  map[string]string
	}{{"metadata.labels", h.Metadata.Labels}, {"metadata.annotations", h.Metadata.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(m.have)) {
			if key != "kubectl.kubernetes.io/last-applied-configuration" {
				i.lost(h.String(), m.field, key+": "+m.have[key], "it may be of a tool that owns the object", "add it where your tools want it")
			}
		}
	}
	for _, owner := range h.Metadata.OwnerReferences {
		i.lost(h.String(), "metadata.ownerReferences", owner.Kind+" "+owner.Name, "it makes this object", "have it make the new one")
	}
	return true
}

func namespaceErrors(namespace string) []string {
	if namespace == "" {
		return nil
	}
	return validation.IsDNS1123Label(namespace)
}

// field is one that a type does not have.
type field struct {
	path  string
	value any
}

// unknown finds the fields of a value that its type does not have, in the order of their names.
func unknown(value any, t reflect.Type, path string) (found []field) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := value.(type) {
	case map[string]any:
		if t.Kind() != reflect.Struct || t == reflect.TypeFor[metav1.ObjectMeta]() {
			return nil // a map of labels; a value of another type is an error already
		}
		known := fieldsOf(t)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := strings.TrimPrefix(path+"."+name, ".")
			if f, is := known[name]; is {
				found = append(found, unknown(v[name], f, below)...)
			} else if v[name] != nil {
				found = append(found, field{below, v[name]})
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for n, e := range v {
			found = append(found, unknown(e, t.Elem(), fmt.Sprintf("%s[%d]", path, n))...)
		}
	}
	return found
}

// fieldsOf are the types of a struct's fields by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for n := range t.NumField() {
		f := t.Field(n)
		if f.Anonymous {
			maps.Copy(all, fieldsOf(f.Type))
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all[cmp.Or(name, f.Name)] = f.Type
	}
	return all
}
