package apiserver

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/revision"
)

// inForce is one configuration.
type inForce struct {
	edge   overlay.Edge
	source config.Source
}

func (f inForce) InForce() (overlay.Edge, revision.Revision) {
	return f.edge, revision.Revision{Source: f.source}
}
func (f inForce) History() ([]revision.Revision, error)     { return nil, nil }
func (f inForce) Info(r revision.Revision) api.RevisionInfo { return api.RevisionInfo{ID: r.ID} }

// Passwords are not shown, in whichever quotes they stand.
func TestShownConfigurationHasNoSecrets(t *testing.T) {
	const head = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: a}
spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
`
	for _, password := range []string{"hush-hush-hush", `"hush \"hush\" hush"`, `'hush ''hush'' hush'`, `"hush \\ hush"`} {
		bgp := "  bgp:\n    as: 65000\n    routerID: 192.0.2.1\n    neighbours:\n      - {name: rr1, address: 192.0.2.100, as: 65000, password: " + password + "}\n"
		text := head + bgp
		parsed, err := config.Parse("a.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		now := inForce{parsed, config.Source{Files: []config.File{{Path: "a.yaml", Text: []byte(text)}}}}
		shown, err := configurations{Options{Configuration: now}}.document()
		if err != nil || strings.Contains(shown.Files[0].Text, "hush") || !strings.Contains(shown.Files[0].Text, "(secret)") {
			t.Errorf("%+v, %v", shown, err)
		}
	}
}
