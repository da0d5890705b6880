package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/selvage/selvage/internal/config"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"selvage": func() { os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr)) },
	})
}

func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("EXAMPLES", examples)
			env.Setenv("COMMANDS", filepath.SplitList(env.Getenv("PATH"))[0]) // where selvage is, and nothing of this machine
			// Its own, so that no edge of this machine is in the way.
			env.Setenv("SELVAGE_RUNTIME_DIR", filepath.Join(env.WorkDir, "run"))
			env.Setenv("SELVAGE_PIN_ROOT", filepath.Join(env.WorkDir, "pins"))
			return os.Mkdir(filepath.Join(env.WorkDir, "run"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": checkStatus,
			"answer": answer,
		},
	})
}

// checkStatus runs "status CODE selvage ARG...", which asserts the exit status.
func checkStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		got = fmt.Sprint(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// answer runs "answer NAME DIR": until the script ends, an edge of that name
// answers /v1/x with the file DIR/x.json, or refuses it with DIR/x.refused.json, or fails with
// DIR/x.failed.json. DIR/x.matched is how many entries matched. What it was asked is in NAME.asked,
// with the bodies of requests.
func answer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: answer NAME DIR")
	}
	listener, err := net.Listen("unix", filepath.Join(ts.Getenv("SELVAGE_RUNTIME_DIR"), args[0]+".sock"))
	ts.Check(err)
	files := ts.MkAbs(args[1])
	asked, err := os.Create(ts.MkAbs(args[0] + ".asked"))
	ts.Check(err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(asked, r.Method, r.URL)
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			fmt.Fprintf(asked, "%s\n", body)
		}
		document := filepath.Join(files, strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"), "v1/"))
		matched, err := os.ReadFile(document + ".matched")
		if err != nil {
			matched = []byte("0")
		}
		w.Header().Set("Selvage-Matched", strings.TrimSpace(string(matched)))
		for suffix, code := range map[string]int{".refused.json": http.StatusBadRequest, ".failed.json": http.StatusInternalServerError} {
			if text, err := os.ReadFile(document + suffix); err == nil {
				http.Error(w, string(text), code)
				return
			}
		}
		http.ServeFile(w, r, document+".json")
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	ts.Defer(func() {
		_ = server.Close()
		<-done
		_ = asked.Close()
	})
}

func TestPrintError(t *testing.T) {
	problems := config.Errors{
		{Position: config.Position{File: "a.yaml", Line: 1, Column: 2}, Path: "kind", Message: "is missing"},
		{Position: config.Position{File: "a.yaml", Line: 3, Column: 4}, Message: "bad", Hint: "mend it"},
	}
	for _, c := range []struct {
		err  error
		want string
		code int
	}{
		{nil, "", 0},
		{errors.New("no"), "selvage: no\n", 1},
		{errors.Join(errors.New("a"), errors.New("b")), "selvage: a\nselvage: b\n", 1},
		{usageError{errors.New("which")}, "selvage: which\n", 2},
		{fmt.Errorf("reload: %w", problems), "a.yaml:1:2: kind: is missing\na.yaml:3:4: bad; mend it\n", 2},
	} {
		var b bytes.Buffer
		printError(&b, c.err)
		if got := b.String(); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
		if got := status(c.err); got != c.code {
			t.Errorf("%v: exit status %d, want %d", c.err, got, c.code)
		}
	}
}
