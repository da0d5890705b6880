package api

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// remove deletes an object, whether or not it is there; also when the test is over.
func remove(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := client.IgnoreNotFound(c.Delete(context.WithoutCancel(t.Context()), o)); err != nil {
		t.Error(err)
	}
}
