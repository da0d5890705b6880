package experiments

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/lab/compare"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gate"
	"github.com/selvage/selvage/lab/result"
)

// runLab runs a command of selvage lab that needs no network.
func runLab(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	commands := NewCommands()
	var out, log bytes.Buffer
	parser, err := kong.New(&commands, kong.BindTo(t.Context(), (*context.Context)(nil)), kong.Bind(&experiment.Console{Out: &out, Err: &log}), kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	command, err := parser.Parse(args)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	err = command.Run()
	return out.String(), log.String(), err
}

// stored writes a recorded result into a directory of its own, changed, as a run has it.
func stored(t *testing.T, name string, change func(*result.Result)) string {
	t.Helper()
	r, err := result.ReadFile("../experiment/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&r)
	}
	dir := t.TempDir()
	var b bytes.Buffer
	if err := errors.Join(result.Write(&b, r), os.WriteFile(filepath.Join(dir, experiment.ResultFile), b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

const slicesFile = "ab/testdata/slices.json.gz"

// slower makes every figure of Selvage's TCP throughput worse.
func slower(r *result.Result) {
	r.Environment.Versions["selvage"] = "v9"
	for _, s := range r.Samples {
		if s.Target == "selvage" && s.Case == "tcp" {
			s.Metrics["tcp_throughput"] /= 2
			for i := range s.Series["tcp_throughput"] {
				s.Series["tcp_throughput"][i] /= 2
			}
		}
	}
}

func exitCode(err error) int {
	var coder interface{ ExitCode() int }
	if errors.As(err, &coder) {
		return coder.ExitCode()
	}
	return map[bool]int{true: 0, false: 1}[err == nil]
}

func TestCompareCommand(t *testing.T) {
	old, latest := stored(t, slicesFile, nil), stored(t, slicesFile, slower)
	if _, _, err := runLab(t, "compare", old, latest); exitCode(err) != compare.ExitStatus || !strings.Contains(err.Error(), "versions.selvage: 52bfdfe-dirty, then v9") {
		t.Errorf("another version: %v", err)
	}
	table, _, err := runLab(t, "compare", old, latest, "--allow", "version")
	if err != nil || !regexp.MustCompile(`(?m)^  selvage +7\.96 +3\.98 +0\.50 .*worse$`).MatchString(table) {
		t.Errorf("%v\n%s", err, table)
	}
	document, _, err := runLab(t, "compare", old, latest, "--allow", "versions.selvage", "-o", "json", "--fail-if-worse")
	var report compare.Report
	if decoded := json.Unmarshal([]byte(document), &report); exitCode(err) != gate.ExitStatus || decoded != nil || len(report.Of(compare.Worse)) != 1 || report.Old.Name == "" {
		t.Errorf("%v, %v\n%s", err, decoded, document)
	}
	for condition, want := range map[string]int{
		"selvage/tcp_throughput<0.9@old": gate.ExitStatus, "kernel/tcp_throughput<0.5@old": 0, "kernel/speed<0.5@old": 1,
	} {
		if _, _, err := runLab(t, "compare", old, latest, "--allow", "version", "--fail-if", condition); exitCode(err) != want {
			t.Errorf("%s: %v, want exit status %d", condition, err, want)
		}
	}
	if _, _, err := runLab(t, "compare", old, t.TempDir()); err == nil || !strings.Contains(err.Error(), experiment.ResultFile) {
		t.Errorf("a directory without a result: %v", err)
	}
}

func TestCheckCommand(t *testing.T) {
	run := stored(t, slicesFile, nil)
	for condition, want := range map[string]int{
		"selvage/tcp_throughput<0.5@plain": 0, "kernel/tcp_throughput<0.95@plain": gate.ExitStatus, "selvage/tcp/tcp_throughput>1Gbit/s": gate.ExitStatus, "selvage/nothing<1": 1,
	} {
		out, _, err := runLab(t, "check", run, "--fail-if", condition)
		if exitCode(err) != want || (want == 0) != strings.Contains(out, "passes: selvage/tcp/tcp_throughput to plain") {
			t.Errorf("%s: %v, want exit status %d; printed %s", condition, err, want, out)
		}
	}
}

func TestExportCommands(t *testing.T) {
	run := stored(t, slicesFile, nil)
	for _, c := range []struct{ args, want string }{
		{"csv", "ab,2026-11-23T05:39:46.355230512Z,selvage,tcp,tcp_throughput,Gbit/s,7.9"},
		{"csv --of samples", "ab,2026-11-23T05:39:46.355230512Z,wire,tcp,1,"},
		{"csv --of series", ",tcp_throughput,0,"},
		{"openmetrics", `selvage_lab_tcp_throughput_bits_per_second{experiment="ab",target="selvage",case="tcp",stat="median"} 7.9`},
	} {
		out, _, err := runLab(t, append(strings.Fields(c.args), run)...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v, no %q in %.2000s", c.args, err, c.want, out)
		}
	}
	file := filepath.Join(t.TempDir(), "lab.prom")
	if _, log, err := runLab(t, "openmetrics", run, "-o", file); err != nil || !strings.Contains(log, file) {
		t.Errorf("%v, %s", err, log)
	}
	if data, err := os.ReadFile(file); err != nil || !bytes.HasSuffix(data, []byte("# EOF\n")) {
		t.Error(err)
	}
}

// Result and report of a bundle have no original in them, also where the report carries the result.
func TestRedactCommand(t *testing.T) {
	secrets := []string{"192.0.2.200", "2001:db8:aa::7", "02:00:5e:00:53:aa", "/srv/acme/old", "acme-old", "alice", "db.acme.example", "Roadrunner"}
	run := stored(t, slicesFile, func(r *result.Result) {
		r.Command = append(r.Command, "--targets", "acme-old=/srv/acme/old")
		r.Parameters["program_acme-old"] = result.Words("/srv/acme/old")
		r.Parameters["note"] = result.Words("by Roadrunner at ssh:alice@db.acme.example")
		r.Topology.Nodes[0].Addrs = secrets[:3]
		for i := range r.Targets {
			if r.Targets[i].Name == "limit" {
				r.Targets[i] = result.Target{Name: "acme-old", Description: "edge /srv/acme/old of 192.0.2.200"}
			}
		}
		for i := range r.Samples {
			if r.Samples[i].Target == "limit" {
				r.Samples[i].Target = "acme-old"
			}
		}
		r.Samples[0].Error = "dial 192.0.2.200:5300 for alice: no route"
	})
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key.json")
	if _, _, err := runLab(t, "redact", run, "-o", dir, "--name", "Roadrunner", "--key", key); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(dir, "20261123T053946Z-ab")
	texts := map[string]string{}
	for _, file := range []string{experiment.ResultFile, experiment.ReportFile} {
		data, err := os.ReadFile(filepath.Join(bundle, file))
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(data)
	}
	m := regexp.MustCompile(`base64,([A-Za-z0-9+/=]+)"`).FindStringSubmatch(texts[experiment.ReportFile])
	if m == nil {
		t.Fatal("the report carries no result")
	}
	carried, err := base64.StdEncoding.DecodeString(m[1])
	if err != nil {
		t.Fatal(err)
	}
	texts["the result in the report"] = string(carried)
	for where, text := range texts {
		for _, secret := range append(secrets, "--targets") {
			if strings.Contains(text, secret) {
				t.Errorf("%s is left in %s", secret, where)
			}
		}
		if !strings.Contains(text, "target-1") || !strings.Contains(text, "ipv4-1") {
			t.Errorf("%s has no pseudonyms", where)
		}
	}
	data, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if !strings.Contains(string(data), fmt.Sprintf("%q", secret)) {
			t.Errorf("the key does not have %s: %s", secret, data)
		}
	}
	if _, _, err := runLab(t, "redact", filepath.Join(bundle, experiment.ResultFile), "-o", dir); err == nil || !strings.Contains(err.Error(), "overwritten") {
		t.Errorf("over itself: %v", err)
	}
}

// The page is beside the runs, links to reports that are there, and names what is no result.
func TestIndexCommand(t *testing.T) {
	root := t.TempDir()
	for i, name := range []string{"a", "b", "deep/c"} {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(stored(t, "cache/testdata/cache.json.gz", func(r *result.Result) { r.Started = r.Started.AddDate(0, 0, i) }), dir); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"a/report.html": "", "old/result.json": `{"schema":"selvage.dev/result/v1"}`, "1/2/3/4/5/result.json": "!"} {
		file = filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, log, err := runLab(t, "index", root); err != nil || !strings.Contains(log, filepath.Join(root, "index.html")) {
		t.Fatalf("%v, %s", err, log)
	}
	data, err := os.ReadFile(filepath.Join(root, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	if links := regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1); len(links) != 1 || links[0][1] != "a/report.html" {
		t.Errorf("links: %q", links)
	}
	for _, want := range []string{"3 runs of 1 experiment", "selvage.dev/result/v1", "<figure>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(page, "1/2/3/4") {
		t.Error("runs are looked for too deep")
	}
	if _, _, err := runLab(t, "index", t.TempDir()); err == nil || !strings.Contains(err.Error(), "no result.json within 4 directories") {
		t.Errorf("an empty directory: %v", err)
	}
}
