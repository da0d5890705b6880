package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/password"
	"github.com/selvage/selvage/test/tier"
)

// Agents may watch the Secrets that the chart's values name, each by its name, and no others; none without such a value.
func TestPasswordRole(t *testing.T) {
	tier.Slow(t)
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := server.Run(ctx, "kubectl", "create", "secret", "generic", "routers", "--namespace", namespace, "--from-file=password="+file); err != nil {
		t.Fatal(err, out)
	}
	routers := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "routers"}}
	t.Cleanup(func() {
		if err := admin.Delete(context.WithoutCancel(ctx), routers); err != nil {
			t.Error(err)
		}
	})
	for _, s := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "routers"}},
	} {
		create(t, s)
	}
	config, own := as(t, "agent", pod)
	woken := make(chan struct{}, 1)
	secrets, err := password.NewSecrets(config, namespace, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer secrets.Close()
	says := func(name, value, problem string) {
		t.Helper()
		if err := await.Within(ctx, patience, "a password", func() error {
			got, what := secrets.Value(v1alpha1.SecretKey{Name: name, Key: "password"})
			if string(got) != value || what != problem {
				return fmt.Errorf("Secret %s: %q, %q", name, got, what)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	const refused = "Secret selvage-system/%s: the agent may not read it: name it in bgp.passwordSecrets of the chart's values"
	secrets.Want(ctx, []string{"routers"})
	says("routers", "", fmt.Sprintf(refused, "routers"))
	t.Cleanup(func() {
		if out, err := upgrade(context.WithoutCancel(ctx)); err != nil {
			t.Error(err, out)
		}
	})
	if out, err := upgrade(ctx, `bgp={"passwordSecrets":["routers","later"]}`); err != nil {
		t.Fatal(err, out)
	}
	says("routers", "first", "") // it looks again by itself
	before := asked(t)
	secrets.Want(ctx, []string{"routers", "later", "mine"})
	says("mine", "", fmt.Sprintf(refused, "mine"))
	says("later", "", "Secret selvage-system/later: there is none")
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "later"}, Data: map[string][]byte{"password": []byte("a\nb")}})
	says("later", "", "Secret selvage-system/later, key password: the password has a control character or spans lines")
	change := client.RawPatch("application/merge-patch+json", []byte(`{"stringData":{"password":"second"}}`))
	for len(woken) > 0 {
		<-woken
	}
	if err := admin.Patch(ctx, routers, change); err != nil {
		t.Fatal(err)
	}
	<-woken
	says("routers", "second", "")
	byName := func(name string) client.ListOption { return client.MatchingFields{"metadata.name": name} }
	within := func(n string) client.ListOption { return client.InNamespace(n) }
	if err := own.List(ctx, &corev1.SecretList{}, within(namespace), byName("routers")); err != nil {
		t.Error(err)
	}
	refuses(t, map[string]error{
		"reads all Secrets of its namespace":  own.List(ctx, &corev1.SecretList{}, within(namespace)),
		"reads all Secrets":                   own.List(ctx, &corev1.SecretList{}),
		"reads one that is not named":         own.List(ctx, &corev1.SecretList{}, within(namespace), byName("mine")),
		"reads one of another namespace":      own.List(ctx, &corev1.SecretList{}, within("default"), byName("routers")),
		"reads the key of replication":        own.Get(ctx, client.ObjectKey{Namespace: namespace, Name: release + "-replication"}, &corev1.Secret{}),
		"writes one":                          own.Patch(ctx, routers, change),
		"deletes one":                         own.Delete(ctx, routers),
		"makes one":                           own.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "more"}}),
		"reads one as the controller, by all": controllerReads(t),
	})
	requests, err := server.Requests()
	if err != nil {
		t.Fatal(err)
	}
	watched := map[string]bool{}
	for _, r := range requests[before:] {
		if r.ObjectRef.Resource == "secrets" && r.Verb == "watch" && strings.Contains(r.User.Username, ":"+release+"-agent") {
			watched[r.RequestURI[strings.Index(r.RequestURI, "?"):]] = true
		}
	}
	if len(watched) == 0 {
		t.Error("nothing was watched")
	}
	for query := range watched {
		if !strings.Contains(query, "fieldSelector=metadata.name%3D") {
			t.Errorf("it watched %s", query)
		}
	}
}

// controllerReads is what the controller's account is answered.
func controllerReads(t *testing.T) error {
	t.Helper()
	_, own := as(t, "controller", nil)
	err := own.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": "routers"})
	if err == nil {
		return errors.New("it is given to it")
	}
	if !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	return err
}
