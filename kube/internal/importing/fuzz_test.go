package importing_test

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/json"

	"github.com/selvage/selvage/kube/internal/importing"
	"github.com/selvage/selvage/kube/internal/importing/source"
)

// leaf is a value of a spec and where it is.
type leaf struct {
	path  string
	value any
}

func leaves(value any, path string) (all []leaf) {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			all = append(all, leaves(below, strings.TrimPrefix(path+"."+name, "."))...)
		}
	case []any:
		for n, below := range v {
			all = append(all, leaves(below, fmt.Sprintf("%s[%d]", path, n))...)
		}
	case nil, bool, string, int64, float64:
		if v != nil && v != false && v != 0.0 && v != int64(0) && v != "" {
			all = append(all, leaf{path, v})
		}
	}
	return all
}

// read is the kinds whose fields are all accounted for.
var read = map[string]bool{
	"egressgateway.spidernet.io/v1beta1 EgressGateway": true, "egressgateway.spidernet.io/v1beta1 EgressPolicy": true,
	"egressgateway.spidernet.io/v1beta1 EgressClusterPolicy": true, "egressgateway.spidernet.io/v1beta1 EgressClusterInfo": true,
	"cilium.io/v2 CiliumEgressGatewayPolicy": true,
}

// unaccounted are the values of an object that are neither in the output nor in a note.
func unaccounted(o importing.Object, r importing.Result, out string) (missing []leaf) {
	var object struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
		Spec any `json:"spec"`
	}
	if json.UnmarshalCaseSensitivePreserveInts(o.JSON, &object) != nil || !read[object.APIVersion+" "+object.Kind] {
		return nil
	}
	if slices.ContainsFunc(r.Notes, func(n importing.Note) bool { return n.Object == o.Source }) {
		return nil // its heading cannot be read, which the note says
	}
	name := object.Metadata.Name
	if object.Kind == "EgressPolicy" && object.Metadata.Namespace == "" {
		object.Metadata.Namespace = "default"
	}
	if object.Metadata.Namespace != "" {
		name = object.Metadata.Namespace + "/" + name
	}
	name = object.Kind + " " + name
	for _, l := range leaves(object.Spec, "") {
		if !carried(l, r, out) && !noted(l, name, r.Notes) {
			missing = append(missing, l)
		}
	}
	return missing
}

func noted(l leaf, object string, notes []importing.Note) bool {
	return slices.ContainsFunc(notes, func(n importing.Note) bool {
		if strings.Contains(n.Reason, "one policy with") && (n.Object == object || strings.Contains(n.Reason, object)) {
			return true
		}
		return n.Object == object && (n.Field == "" && n.Kind == importing.NotCarried ||
			n.Field != "" && (strings.HasPrefix(l.path, n.Field) || strings.HasPrefix(n.Field, l.path)) ||
			strings.Contains(n.String(), fmt.Sprint(l.value)))
	})
}

// ciliumLabels are labels, or the beginnings of labels, of Cilium, and what they become.
var ciliumLabels = map[string]string{
	"io.kubernetes.pod.namespace": "kubernetes.io/metadata.name", "io.cilium.k8s.namespace.labels.": "key: ",
	"io.cilium.k8s.policy.serviceaccount": "serviceAccounts:", "k8s:": "key: ", "k8s.": "key: ", "any:": "key: ",
}

func carried(l leaf, r importing.Result, out string) bool {
	s, is := l.value.(string)
	if n, number := l.value.(int64); number {
		return strings.Contains(out, fmt.Sprintf(": %d\n", n))
	}
	if !is || s == "default" && strings.HasSuffix(l.path, "allocatorPolicy") || strings.TrimSpace(s) == "" {
		return is
	}
	for prefix, becomes := range ciliumLabels {
		if name, is := strings.CutPrefix(s, prefix); is {
			s = becomes + name
			break
		}
	}
	if strings.Contains(out, strings.TrimSpace(s)) {
		return true
	}
	first, _, _ := strings.Cut(strings.TrimSpace(s), "-")
	a, err := netip.ParseAddr(first)
	if p, notNetwork := netip.ParsePrefix(strings.TrimSpace(s)); notNetwork == nil {
		a = p.Masked().Addr()
	} else if err != nil {
		return false
	}
	return strings.Contains(out, a.String()) || inRange(a, r)
}

// inRange says whether an address is of a gateway, or a destination of a policy.
func inRange(a netip.Addr, r importing.Result) bool {
	for _, g := range r.Gateways {
		for _, s := range g.Spec.Addresses {
			first, last, is := strings.Cut(string(s), "-")
			if p, err := netip.ParsePrefix(string(s)); err == nil && p.Contains(a) {
				return true
			} else if is && a.Compare(netip.MustParseAddr(first)) >= 0 && a.Compare(netip.MustParseAddr(last)) <= 0 {
				return true
			}
		}
	}
	for _, p := range r.ClusterPolicies {
		for _, n := range slices.Concat(p.Spec.To, p.Spec.Except) {
			if netip.MustParsePrefix(string(n)).Contains(a) {
				return true
			}
		}
	}
	for _, p := range r.Policies {
		for _, n := range slices.Concat(p.Spec.To, p.Spec.Except) {
			if netip.MustParsePrefix(string(n)).Contains(a) {
				return true
			}
		}
	}
	return false
}

// variants are an object with each value of its spec replaced, and with one more field in each of its maps.
func variants(at any, with func()) {
	switch v := at.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			old := v[name]
			if _, is := old.(string); is {
				v[name] = "sentinel-value"
				with()
			}
			v[name] = old
			variants(old, with)
		}
		v["sentinelField"] = "sentinel-value"
		with()
		delete(v, "sentinelField")
	case []any:
		for n, old := range v {
			if _, is := old.(string); is {
				v[n] = "sentinel-value"
				with()
			}
			v[n] = old
			variants(old, with)
		}
	}
}

// TestEveryField replaces each value and adds a field everywhere: it is carried, or in a note.
func TestEveryField(t *testing.T) {
	objects, err := source.Files([]string{"testdata/spidernet/in", "testdata/cilium/in"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := given()
	o.Nodes, o.Addresses = all("egress=yes"), all("203.0.113.240-203.0.113.243")
	tried := 0
	for n := range objects {
		var object map[string]any
		if err := json.UnmarshalCaseSensitivePreserveInts(objects[n].JSON, &object); err != nil {
			t.Fatal(err)
		}
		variants(object["spec"], func() {
			tried++
			text, err := stdjson.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			changed := slices.Clone(objects)
			changed[n].JSON = text
			r, err := importing.Convert(changed, o)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			out, err := r.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if missing := unaccounted(changed[n], r, string(out)); len(missing) > 0 {
				t.Errorf("neither carried nor reported: %v of\n%s\n%s", missing, text, report(r))
			}
		})
	}
	if tried < 150 {
		t.Errorf("%d variants", tried)
	}
}

// FuzzConvert converts any manifests: it never panics, the API server takes all that is written, and each value of a
// spec is in the output or in a note about its object.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("testdata/*/in/*.yaml")
	if err != nil || len(files) < 3 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
		for doc := range strings.SplitSeq(string(text), "---\n") {
			f.Add(doc)
		}
	}
	const long = 1 << 12 // of which a run takes longer than is useful
	for _, c := range reasons {
		if len(c.in) < long {
			f.Add(c.in)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > long {
			return
		}
		objects, err := source.Read(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		o := given()
		o.Nodes, o.Addresses = all("egress=yes"), all("203.0.113.240-203.0.113.243")
		r, err := importing.Convert(objects, o)
		if err != nil {
			t.Fatalf("all is given, and yet: %v", err)
		}
		out, err := r.YAML()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range documents(string(out)) {
			if why := refused(t, doc); len(why) > 0 {
				t.Errorf("refused: %v:\n%s", why, doc)
			}
		}
		for _, object := range objects {
			if missing := unaccounted(object, r, string(out)); len(missing) > 0 {
				t.Errorf("neither carried nor reported: %v of\n%s\nin:\n%s\n%s", missing, object.JSON, out, report(r))
			}
		}
	})
}
