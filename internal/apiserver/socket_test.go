package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/selvage/selvage/internal/api"
)

// A group may read and change nothing; root may do both.
func TestReaders(t *testing.T) {
	h := readers(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { api.Answer(w, http.StatusOK, "done") }))
	for _, c := range []struct {
		uid    any
		method string
		want   int
	}{
		{uint32(0), http.MethodPost, 200}, {uint32(0), http.MethodGet, 200},
		{uint32(1000), http.MethodPost, 403}, {uint32(1000), http.MethodDelete, 403}, {uint32(1000), http.MethodGet, 200}, {uint32(1000), http.MethodHead, 200},
	} {
		r := httptest.NewRequest(c.method, "/v1/egress/drain", nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, c.uid)))
		if w.Code != c.want {
			t.Errorf("%s by user %v: %d, want %d", c.method, c.uid, w.Code, c.want)
		}
	}
}

func TestListenForGroup(t *testing.T) {
	own, err := user.LookupGroupId("0")
	if err != nil || os.Getuid() != 0 {
		t.Skip("only root gives files to a group")
	}
	path := filepath.Join(t.TempDir(), "a.sock")
	for group, mode := range map[string]os.FileMode{"": 0o600, own.Name: 0o660} {
		l, err := Listen(path, group)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode || info.Sys().(*syscall.Stat_t).Gid != 0 {
			t.Errorf("group %q: %v, %v", group, info, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Listen(path, "no-such-group"); err == nil || !strings.Contains(err.Error(), "no-such-group") {
		t.Errorf("a group that is not there: %v", err)
	}
}
