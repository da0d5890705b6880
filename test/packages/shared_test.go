package packages

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/testprogram"
)

func TestMain(m *testing.M) { testprogram.Main(m, 2) }

// output is what a command prints; its failure is the test's.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	return outputIn(t, "", nil, name, args...)
}

// outputIn is the same in a directory, with more of an environment.
func outputIn(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// needs skips where a command of a Debian package is missing; with CI=true that fails.
func needs(t *testing.T, command, set string) {
	t.Helper()
	if _, err := exec.LookPath(command); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is missing: install it with `scripts/packages.sh %s`", command, set)
	}
	t.Skipf("%s is missing: install it with `scripts/packages.sh %s`", command, set)
}

// shared is a directory with what both programs have below /usr/share.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, program := range []string{"selvage", "selvage-lab"} {
		outputIn(t, "", []string{"SOURCE_DATE_EPOCH=1700000000"}, program, "__share", dir)
	}
	return dir
}

// Each command has a page, and readers of manual pages find nothing wrong with any.
func TestManualPages(t *testing.T) {
	t.Parallel()
	dir := shared(t)
	pages, err := filepath.Glob(dir + "/man/man?/*")
	if err != nil || len(pages) < 50 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, program := range []string{"selvage", "selvage-lab"} {
		commands := regexp.MustCompile(`(?m)^  ([a-z0-9]+)(?: [a-z-]+)?(?: \([a-z]+\))?  +[A-Z]`).FindAllStringSubmatch(output(t, program, "--help"), -1)
		if len(commands) < 15 {
			t.Fatalf("%s has %d commands", program, len(commands))
		}
		for _, c := range commands {
			page := "/man/man1/" + program + "-" + c[1] + ".1"
			if _, err := os.Stat(dir + page); err != nil && page != "/man/man1/selvage-lab.1" {
				t.Error(err)
			}
		}
	}
	needs(t, "mandoc", "test")
	needs(t, "groff", "test")
	for _, page := range pages {
		if said, err := exec.CommandContext(t.Context(), "mandoc", "-Tlint", "-W", "style", page).CombinedOutput(); err != nil || len(said) > 0 {
			t.Errorf("mandoc: %v\n%s", err, said)
		}
		if said := output(t, "groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-z", page); said != "" {
			t.Errorf("groff: %s", said)
		}
	}
	// Flags as they are typed, and the date of the source.
	text := output(t, "mandoc", "-Tascii", dir+"/man/man1/selvage-bgp.1")
	text = regexp.MustCompile(`.\x08`).ReplaceAllString(text, "")
	for _, want := range []string{"SELVAGE-BGP(1)", "selvage-bgp - Show BGP sessions", "selvage bgp thaw [FLAG]... SEGMENT MAC", "--neighbour=NAME", "-o, --output=FORMAT", "2023-11-14"} {
		if !strings.Contains(text, want) {
			t.Errorf("selvage-bgp(1) has no %q:\n%s", want, text)
		}
	}
}

// selvage.yaml(5) has each field of the schema, with its place.
func TestManualOfTheFile(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(shared(t) + "/man/man5/selvage.yaml.5")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal([]byte(output(t, "selvage", "schema")), &schema); err != nil {
		t.Fatal(err)
	}
	places := map[string]int{}
	walk(schema, func(field string) { places[field]++ })
	if len(places) < 100 {
		t.Fatalf("%d fields", len(places))
	}
	for field, n := range places {
		if got := strings.Count(string(page), `\fB`+field+`\fR (`); got < n {
			t.Errorf("%s is there %d times, in the schema %d times", field, got, n)
		}
	}
}

// walk calls do for each field of a JSON Schema, at each place.
func walk(schema any, do func(field string)) {
	s, _ := schema.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	for name, inner := range properties {
		do(name)
		walk(inner, do)
	}
	walkIfAny(s["items"], do)
	walkIfAny(s["additionalProperties"], do)
}

func walkIfAny(schema any, do func(field string)) {
	if schema != nil {
		walk(schema, do)
	}
}

// Shells load the files of packages and complete by them, those of the lab too.
func TestCompletionFiles(t *testing.T) {
	t.Parallel()
	dir := shared(t)
	t.Run("bash", func(t *testing.T) {
		for program, typed := range map[string]string{"selvage": "stat", "selvage-lab": "rfc"} {
			script := `source ` + dir + `/bash-completion/completions/` + program + `; COMP_WORDS=(` + program + ` ` + typed + `) COMP_CWORD=1; ` +
				`f=$(complete -p ` + program + ` | sed 's/.*-F \([^ ]*\).*/\1/'); $f; echo "${COMPREPLY[*]}"`
			want := map[string]string{"selvage": "status\n", "selvage-lab": "rfc2544\n"}[program]
			if got := output(t, "bash", "-c", script); got != want {
				t.Errorf("%s: %q, want %q", program, got, want)
			}
		}
	})
	t.Run("zsh", func(t *testing.T) {
		needs(t, "zsh", "packages")
		// As compinit loads it: by name, from $fpath. The first call completes already.
		script := `fpath=(` + dir + `/zsh/site-functions $fpath); autoload -Uz _selvage; compdef() { : }; ` +
			`_describe() { print -l ${(P)2} }; words=(selvage stat); CURRENT=2; _selvage; _selvage`
		if got := output(t, "zsh", "-fc", script); strings.Count(got, "status:Show") != 2 {
			t.Errorf("%q", got)
		}
	})
	t.Run("fish", func(t *testing.T) {
		needs(t, "fish", "packages")
		script := `source ` + dir + `/fish/vendor_completions.d/selvage-lab.fish; complete -C "selvage-lab rfc"`
		if got := output(t, "fish", "-c", script); !strings.HasPrefix(got, "rfc2544\t") {
			t.Errorf("%q", got)
		}
	})
}
