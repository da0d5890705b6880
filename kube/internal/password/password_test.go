package password

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// What of a Secret is a password, and what is said of one that is none; never the value itself.
func TestValue(t *testing.T) {
	canary := "canary-" + strings.Repeat("x", 74)
	woken := 0
	s := &secret{name: "routers", namespace: "selvage-system", wake: func() { woken++ }, answered: make(chan struct{})}
	says := func(key, password, problem string) {
		t.Helper()
		got, what := s.value(key)
		if string(got) != password || problem != "" && !strings.HasSuffix(what, problem) || (problem == "") != (what == "") {
			t.Errorf("key %s: %q, %q, want %q, %q", key, got, what, password, problem)
		}
		if strings.Contains(what, "canary") || what != "" && !strings.HasPrefix(what, "Secret selvage-system/routers") {
			t.Errorf("key %s: it says %q", key, what)
		}
	}
	says("a", "", ": the API server has not answered yet")
	s.answer(errors.New("no route to host"))
	says("a", "", ": no route to host")
	<-s.answered
	s.answer(nil)
	if err := s.Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	says("a", "", ": there is none")
	if err := s.Replace([]any{&corev1.Secret{Data: map[string][]byte{
		"good": []byte("canary"), "line": []byte("canary\r\n"), "empty": {}, "end": []byte("\n"), "lines": []byte("canary\ncanary"), "long": []byte(canary), "most": []byte(canary[:80]),
	}}}, "2"); err != nil {
		t.Fatal(err)
	}
	says("good", "canary", "")
	says("line", "canary", "")
	says("most", canary[:80], "")
	says("none", "", ": it has no key none")
	says("empty", "", ", key empty: the password is empty")
	says("end", "", ", key end: the password is empty")
	says("lines", "", "spans lines")
	says("long", "", "the password has 81 bytes, at most 80")
	s.answer(errors.New("no route to host")) // what is known stays
	says("good", "canary", "")
	s.answer(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "routers", errors.New("not yours")))
	says("good", "", ": the agent may not read it: name it in bgp.passwordSecrets of the chart's values")
	s.answer(nil)
	if err := s.Delete(&corev1.Secret{}); err != nil {
		t.Fatal(err)
	}
	says("good", "", ": there is none")
	if woken != 7 {
		t.Errorf("it woke %d times", woken)
	}
}

// Each other password is another file, of root alone; one that is there already is not; what no configuration names goes.
func TestFolder(t *testing.T) {
	f := Folder(filepath.Join(t.TempDir(), "run", "passwords"))
	key, longer := v1alpha1.SecretKey{Name: "routers", Key: "rack"}, v1alpha1.SecretKey{Name: "routers", Key: "rack.1"}
	put := func(k v1alpha1.SecretKey, password string) string {
		t.Helper()
		file, err := f.Put(k, []byte(password))
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	last := func(k v1alpha1.SecretKey, want string) {
		t.Helper()
		if file, err := f.Last(k); err != nil || file != want {
			t.Errorf("the last of %s is %s, %v, want %s", k, file, err, want)
		}
	}
	last(key, "")
	if err := f.Keep(nil); err != nil {
		t.Error(err)
	}
	first := put(key, "first")
	if again := put(key, "first"); again != first {
		t.Errorf("the same password is in %s and %s", first, again)
	}
	other := put(longer, "other")
	second := put(key, "second")
	last(key, second)
	last(longer, other)
	if got := Read([]string{first, second, other, other + "0"}); !slices.Equal(got, []string{"first", "second", "other"}) {
		t.Errorf("files have %q", got)
	}
	for path, mode := range map[string]fs.FileMode{string(f): fs.ModeDir | 0o700, filepath.Dir(first): fs.ModeDir | 0o700, first: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := f.Keep([]string{second}); err != nil {
		t.Error(err)
	}
	last(key, second)
	last(longer, "")
	for range 9 {
		second = put(key, second)
	}
	last(key, second) // 11 is after 9
	if err := f.Keep(nil); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(string(f)); err != nil || len(list) > 0 {
		t.Errorf("there is %v, %v", list, err)
	}
}
