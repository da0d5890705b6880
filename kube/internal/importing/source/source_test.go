package source_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/selvage/selvage/kube/internal/importing"
	"github.com/selvage/selvage/kube/internal/importing/source"
)

func names(t *testing.T, all []importing.Object) string {
	t.Helper()
	var words []string
	for _, o := range all {
		var h struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := json.Unmarshal(o.JSON, &h); err != nil {
			t.Fatal(err)
		}
		words = append(words, h.Kind+"/"+h.Metadata.Name)
	}
	return strings.Join(words, " ")
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"documents", "kind: A\nmetadata: {name: a}\n---\n# nothing\n---\nkind: B\nmetadata: {name: b}\n", "A/a B/b"},
		{"JSON", `{"kind":"A","metadata":{"name":"a"}}`, "A/a"},
		{"list", "kind: AList\nitems: [{kind: A, metadata: {name: a}}, {kind: List, items: [{kind: B, metadata: {name: b}}]}]", "A/a B/b"},
		{"a kind that ends so", "kind: AllowList\nmetadata: {name: a}", "AllowList/a"},
		{"nothing", "", ""},
		{"no mapping", "- a", "error"},
		{"a key twice", "kind: A\nkind: B", "error"},
		{"no YAML", "a: b: c", "error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := source.Read(strings.NewReader(c.in), "file.yaml")
			switch {
			case c.want == "error":
				if err == nil || !strings.HasPrefix(err.Error(), "file.yaml") {
					t.Errorf("%v", err)
				}
			case err != nil, names(t, all) != c.want:
				t.Errorf("%s, %v; want %s", names(t, all), err, c.want)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b/x.yml": "kind: A\nmetadata: {name: in-b}", "a.yaml": "kind: A\nmetadata: {name: in-a}", "c.json": `{"kind":"A","metadata":{"name":"in-c"}}`, "README.md": "# no: YAML: at all", "named.txt": "kind: A\nmetadata: {name: named}"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := source.Files([]string{dir, "-", filepath.Join(dir, "named.txt")}, strings.NewReader("kind: A\nmetadata: {name: in-stdin}"))
	if want := "A/in-a A/in-b A/in-c A/in-stdin A/named"; err != nil || names(t, all) != want {
		t.Errorf("%s, %v; want %s", names(t, all), err, want)
	}
	if _, err := source.Files([]string{t.TempDir()}, nil); err == nil {
		t.Error("a directory without manifests is taken")
	}
	if _, err := source.Files([]string{filepath.Join(dir, "none")}, nil); err == nil {
		t.Error("a file that is not there is taken")
	}
}

// apiServer answers lists, and remembers what it was asked.
type apiServer struct {
	mu    sync.Mutex
	asked []string
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	list := func(api, kind, from string, names ...string) {
		var items []string
		for _, name := range names {
			items = append(items, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, api, kind, name))
		}
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":"%sList","metadata":{"continue":%q},"items":[%s]}`, api, kind, from, strings.Join(items, ","))
	}
	switch r.URL.Path + "?" + r.URL.Query().Get("continue") {
	case "/apis/egressgateway.spidernet.io/v1beta1/egressgateways?":
		list("egressgateway.spidernet.io/v1beta1", "EgressGateway", "more", "a")
	case "/apis/egressgateway.spidernet.io/v1beta1/egressgateways?more":
		list("egressgateway.spidernet.io/v1beta1", "EgressGateway", "", "b")
	case "/apis/cilium.io/v2/ciliumegressgatewaypolicies?":
		if r.Header.Get("Authorization") == "Bearer none" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"you may not"}`)
			return
		}
		list("cilium.io/v2", "CiliumEgressGatewayPolicy", "")
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"the server could not find the requested resource"}`)
	}
}

// TestCluster lists in pages, and only asks.
func TestCluster(t *testing.T) {
	a := &apiServer{}
	server := httptest.NewServer(a)
	defer server.Close()
	all, err := source.Cluster(t.Context(), &rest.Config{Host: server.URL})
	if want := "EgressGateway/a EgressGateway/b"; err != nil || names(t, all) != want {
		t.Errorf("%s, %v; want %s", names(t, all), err, want)
	}
	for _, asked := range a.asked {
		if !strings.HasPrefix(asked, "GET ") {
			t.Errorf("the API server is asked: %s", asked)
		}
	}
	_, err = source.Cluster(t.Context(), &rest.Config{Host: server.URL, BearerToken: "none"})
	if err == nil || !strings.Contains(err.Error(), "list ciliumegressgatewaypolicies.cilium.io: you may not") {
		t.Errorf("without permission: %v", err)
	}
}
