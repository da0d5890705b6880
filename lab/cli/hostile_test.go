package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/selvage/selvage/internal/printable"
	"github.com/selvage/selvage/internal/program"
	"github.com/selvage/selvage/lab/result"
)

// hostile has what a terminal acts on, and begins a line of its own.
const hostile = "x\x1b]0;t\a\u009b2J\u202e\ninvented"

// Whatever a run of somebody else or a far end says, nothing acts on the terminal and no line is invented.
func TestHostileTexts(t *testing.T) {
	dir := t.TempDir()
	run, ssh := filepath.Join(dir, "result.json"), filepath.Join(dir, "ssh")
	for _, command := range []string{
		"compare RUN RUN --absolute", "compare RUN RUN -o json", "check RUN --fail-if selvage/rr_p50<1", "csv RUN", "csv RUN --of=samples", "csv RUN --of=series", "openmetrics RUN",
		"restore --hosts=ssh:a --ssh=SSH", "doctor --hosts=ssh:a,ssh:b --ssh=SSH", "ab --client=ssh:a --server=ssh:b --path=p=192.0.2.1 --ssh=SSH --results=RESULTS",
	} {
		var printed []string
		for _, text := range []string{hostile, printable.Line(hostile)} {
			r, err := result.ReadFile("../experiment/ab/testdata/slices.json.gz")
			if err != nil {
				t.Fatal(err)
			}
			r.Environment.Kernel, r.Environment.CPU, r.Environment.Versions["selvage"] = text, text, text
			r.Parameters["control"] = result.Words(text)
			for i := range r.Targets {
				r.Targets[i].Description = text
				if r.Targets[i].Name == "kernel" {
					r.Targets[i].Name = text
				}
			}
			for i := range r.Samples {
				if r.Samples[i].Target == "kernel" {
					r.Samples[i].Target = text
				}
			}
			r.Samples[0].Metrics, r.Samples[0].Error = nil, text
			document, err := json.Marshal(r)
			script := "#!/bin/sh\nprintf '%s' '" + text + "' >&2\nexit 255\n"
			if err := errors.Join(err, os.WriteFile(run, document, 0o644), os.WriteFile(ssh, []byte(script), 0o755)); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			words := strings.NewReplacer("RUN", run, "SSH", ssh, "RESULTS", dir).Replace(command)
			Main(append([]string{program.Lab}, strings.Fields(words)...), &out, &out)
			printed = append(printed, out.String())
		}
		bad := strings.IndexFunc(printed[0], func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || r == '\u202e') })
		if bad >= 0 || printed[0] != printed[1] || !strings.Contains(printed[0], "invented") && !strings.HasPrefix(command, "check") {
			t.Errorf("%s, at byte %d:\n%s\nof harmless texts:\n%s", command, bad, printed[0], printed[1])
		}
	}
}
