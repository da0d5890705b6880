package api

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/test/tier"
)

// The API server takes what import writes, and knows each of its fields.
func TestImported(t *testing.T) {
	tier.Slow(t)
	c := clientBy(t, server.Admin())
	files, err := filepath.Glob("../../internal/importing/testdata/*/out.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no output of import", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			decoder, count := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096), 0
			for {
				u := &unstructured.Unstructured{}
				if err := decoder.Decode(&u.Object); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				if u.GetNamespace() != "" {
					u.SetNamespace("default") // theirs are not there
				}
				if err := c.Create(t.Context(), u, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
					t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
				}
				count++
			}
			t.Logf("%d objects", count)
			if count == 0 {
				t.Error("no object")
			}
		})
	}
}
