package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A package that is not what its pin says is not taken, wherever it comes from; one that is is asked for once.
func TestFetch(t *testing.T) {
	asked := 0
	content := "a package"
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.RequestURI != "/debian/pool/main/a/a/a_1%2B1_amd64.deb" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(content))
	}))
	defer mirror.Close()
	t.Setenv("DEBIAN_MIRROR", mirror.URL)
	from := pins{archive: mirror.URL + "/archive/"}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	sum := sha256.Sum256([]byte(content))
	good := pin{hex.EncodeToString(sum[:]), "debian/pool/main/a/a/a_1+1_amd64.deb"}
	for range 2 {
		if got, err := from.fetch(good); err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
	}
	if asked != 1 {
		t.Errorf("the mirror was asked %d times", asked)
	}
	cache, _ := filepath.Glob(os.Getenv("XDG_CACHE_HOME") + "/selvage/debian/*")
	if len(cache) != 1 || os.WriteFile(cache[0], []byte("another"), 0o644) != nil {
		t.Fatal(cache)
	}
	content = "another"
	if _, err := from.fetch(good); err == nil || !strings.Contains(err.Error(), mirror.URL+"/debian/pool/main/a/a/a_1%2B1_amd64.deb: SHA-256 is ") {
		t.Errorf("of another content: %v", err)
	}
}

// What is wrong with pins is said with its line.
func TestReadPins(t *testing.T) {
	for text, want := range map[string]string{
		"# snapshot 20261126T175934Z\n" + strings.Repeat("a", 64) + "  debian/pool/main/a/a_1_amd64.deb\n": "",
		strings.Repeat("a", 64) + "  debian/pool/main/a/a_1_amd64.deb\n":                                   `no line "# snapshot TIME"`,
		"# snapshot yesterday\n": ":1: parsing time",
		"# snapshot 20261126T175934Z\nabc  debian/pool/main/a/a_1_amd64.deb\n": `:2: "abc  debian/pool/main/a/a_1_amd64.deb" is not SHA256 and PATH`,
	} {
		file := filepath.Join(t.TempDir(), "pins")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readPins(file); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A program without one of its libraries, and a package that it does not need, end a build.
func TestLinked(t *testing.T) {
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string, files ...entry) deb {
		d := deb{pin: pin{path: name + ".deb"}, fields: map[string]string{"Package": name}, files: map[string]entry{}}
		for _, e := range append(files, file("usr/share/doc/"+name+"/copyright", 0o644, []byte("License: MIT\n"))) {
			d.files[e.name] = e
		}
		return d
	}
	program := of("a", link("usr/bin/x", "y"), file("usr/bin/y", 0o755, own))
	if got, err := linked("usr/bin/z", []deb{program}); err == nil || !strings.Contains(err.Error(), "usr/bin/z is in no package") {
		t.Errorf("%d, %v", len(got), err)
	}
	if got, err := linked("usr/bin/x", []deb{program, of("b", file("usr/lib/b", 0o644, nil))}); err == nil {
		t.Errorf("with a package of which nothing is needed there are %d files", len(got))
	}
}
