package grafana

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	sdk "github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// What is written is right by Grafana's own schema: no field that it does not know, none missing, none of another type.
func TestWrite(t *testing.T) {
	plugins.RegisterDefaultPlugins() // of panels and queries
	dir := filepath.Join(t.TempDir(), "dashboards")
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(dir + "/*.json")
	if err != nil || len(names) != len(Dashboards()) {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if bytes.Contains(text, []byte("inControlsMenu")) {
			t.Errorf("%s: Grafana 10 refuses links and annotations that would be in a menu", name)
		}
	}
}

func valid(text []byte) error {
	var d sdk.Dashboard //nolint:staticcheck // what replaces it is for Grafana 12 and newer
	err := d.UnmarshalJSONStrict(text)
	if found := (cog.BuildErrors{}); errors.As(err, &found) && len(found) == 0 { // which it returns for no error
		err = nil
	}
	return errors.Join(err, d.Validate())
}

// What Grafana's schema does not have is found, at every depth.
func TestSchemaRefuses(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	text := files["overview.json"]
	for name, change := range map[string]func(d map[string]any){
		"no schema version":             func(d map[string]any) { delete(d, "schemaVersion") },
		"a field that is not known":     func(d map[string]any) { d["nonsense"] = 1 },
		"a refresh that is a number":    func(d map[string]any) { d["refresh"] = 30 },
		"a panel without a type":        func(d map[string]any) { delete(panelOf(d), "type") },
		"an option that is not known":   func(d map[string]any) { panelOf(d)["options"].(map[string]any)["nonsense"] = 1 },
		"a query without an expression": func(d map[string]any) { delete(panelOf(d)["targets"].([]any)[0].(map[string]any), "expr") },
		"a place that is text":          func(d map[string]any) { panelOf(d)["gridPos"].(map[string]any)["x"] = "left" },
	} {
		var d map[string]any
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		change(d)
		changed, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if valid(changed) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// panelOf is the first panel of a dashboard that is no row.
func panelOf(d map[string]any) map[string]any {
	for _, p := range d["panels"].([]any) {
		if p := p.(map[string]any); p["type"] != "row" {
			return p
		}
	}
	return nil
}
