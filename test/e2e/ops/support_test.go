package ops

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/support"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// A support archive is made at hosta while numbered datagrams cross: of an edge that runs, of one that hangs (SIGSTOP) and of one
// that was killed. Canaries stand in its configuration, the one before, a file of a password and its log.

// archived are the files of an archive, by their names without its directory.
func archived(n *harness.TwoHosts, path string) map[string]string {
	n.T.Helper()
	text, err := os.ReadFile(path)
	n.Must(err)
	zip, err := gzip.NewReader(bytes.NewReader(text))
	n.Must(err)
	files := map[string]string{}
	for in := tar.NewReader(zip); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		n.Must(err)
		content, err := io.ReadAll(in)
		n.Must(err)
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(content)
	}
}

// supported makes an archive and reads it.
func supported(n *harness.TwoHosts, name string, more ...string) map[string]string {
	n.T.Helper()
	path := filepath.Join(n.Dir, fmt.Sprintf("support-%d.tar.gz", time.Now().UnixNano()))
	argv := append([]string{"env", "SELVAGE_STATE_DIR=" + dut.StateDir(n.Topo), "TMPDIR=" + filepath.Join(n.Dir, "none"), harness.Program, "support", name, "-o", path}, more...)
	begin := time.Now()
	out, err := n.A.Output(n.Ctx, argv...)
	if took := time.Since(begin); err != nil || took > 30*time.Second || !strings.Contains(string(out), path+": ") {
		n.T.Fatalf("after %s: %v: %s", took, err, out)
	}
	info, err := os.Stat(path)
	n.Must(err)
	if info.Mode().Perm() != 0o600 {
		n.T.Errorf("others may read it: %v", info.Mode())
	}
	files := archived(n, path)
	for file, text := range files {
		if at := strings.Index(text, "CANARY"); at >= 0 {
			n.T.Errorf("%s has a secret: …%s…", file, text[max(0, at-100):min(len(text), at+60)])
		}
	}
	return files
}

// has wants files that have words.
func has(n *harness.TwoHosts, files map[string]string, want map[string][]string) {
	n.T.Helper()
	for file, words := range want {
		if err := missing(files[file], nil, words); err != nil || files[file] == "" {
			n.T.Errorf("%s: %v", file, err)
		}
	}
}

func TestSupport(t *testing.T) {
	t.Parallel()
	n, streams := newStreams(t)
	e := n.Edges["hosta"]
	name, dir := e.Name, "edges/"+e.Name+"/"
	password := filepath.Join(n.Dir, "password")
	n.Must(os.WriteFile(password, []byte("CANARY-of-a-file\n"), 0o600))
	bgp := func(secret string) string {
		return "  bgp:\n    as: 65000\n    routerID: 192.0.2.1\n    neighbours:\n    - {name: one, address: 192.0.2.77, password: \"" + secret + "\"}\n" +
			"    - {name: two, address: 192.0.2.78, passwordFile: " + password + "}\n"
	}
	base := n.Config("hosta")
	for _, secret := range []string{"CANARY, before", "CANARY's \\\"now\\\""} {
		n.Must(os.WriteFile(e.Config, []byte(base+bgp(secret)), 0o600))
		if out, err := n.A.Output(n.Ctx, harness.Program, "apply", e.Config); err != nil {
			t.Fatalf("apply: %v: %s", err, out)
		}
	}
	n.Must(os.WriteFile(e.Config, []byte(base+bgp("CANARY of a file that is wrong")+"  nonsense: [\n"), 0o600))
	n.GoOn(streams)
	n.Fact("the edge misses its neighbours", func() error { return n.Problem("hosta", "no session") })

	files := supported(n, name)
	var manifest struct {
		Items []support.Item `json:"items"`
	}
	n.Must(json.Unmarshal([]byte(files["manifest.json"]), &manifest))
	if len(manifest.Items) < 60 {
		t.Errorf("%d items", len(manifest.Items))
	}
	var status api.Status
	n.Must(json.Unmarshal([]byte(files[dir+"status.json"]), &status))
	if status.Name != name || status.PID != e.Command.PID() {
		t.Errorf("status %+v", status)
	}
	has(n, files, map[string][]string{
		"summary.txt":          {"Edge " + name, "Last events of " + name, "config-applied", "Doctor", "no session"},
		"index.html":           {"<table>", "host/uname.txt"},
		dir + "fdb.json":       {harness.ClientMAC},
		dir + "flows.json":     {"udp"},
		dir + "goroutines.txt": {"goroutine profile"},
		dir + "memory.txt":     {"heap in use"},
		dir + "metrics.txt":    {"selvage_"},
		dir + "events.json":    {"edge-started", "config-applied"},
		dir + "config.json":    {"(secret)"},
		dir + "config/0-" + filepath.Base(e.Config):    {"password: (secret)", "192.0.2.1"},
		dir + "revisions.json":                         {"apply"},
		dir + "process/status.txt":                     {"selvage"},
		dir + "pins.txt":                               {"/maps-"},
		"doctor.json":                                  {"findings"},
		"host/bpf.json":                                {"programs", "port"},
		"host/sysctls.txt":                             {"net.ipv4.conf.all.rp_filter = "},
		"host/ip-link.json":                            {topo.UnderlayName},
		"host/ethtool/" + topo.UnderlayName + "-k.txt": {"generic-receive-offload"},
		"host/proc-net-snmp.txt":                       {"Udp:"},
	})
	n.GoOn(streams)

	masked := supported(n, name, "--anonymize", "--originals", filepath.Join(n.Dir, "originals"))
	for file, text := range masked {
		for _, address := range []string{"192.0.2.1", "192.0.2.77", harness.ClientMAC} {
			if strings.Contains(text, address) {
				t.Errorf("%s has %s", file, address)
			}
		}
	}
	originals, err := os.ReadFile(filepath.Join(n.Dir, "originals"))
	if missing(string(originals), err, []string{"192.0.2.77", harness.ClientMAC}) != nil {
		t.Errorf("originals %s: %v", originals, err)
	}

	n.Must(syscall.Kill(e.Command.PID(), syscall.SIGSTOP))
	files = supported(n, name)
	has(n, files, map[string][]string{
		"summary.txt":              {"has not answered within", name},
		dir + "process/status.txt": {"(stopped)"},
		dir + "runtime/events.txt": {"config-applied"},
	})
	n.Must(syscall.Kill(e.Command.PID(), syscall.SIGCONT))
	n.GoOn(streams)

	e.Kill()
	files = supported(n, name)
	has(n, files, map[string][]string{
		"summary.txt":              {"does not run; its data path has forwarded since", "config-applied"},
		dir + "runtime/events.txt": {"edge-started"},
		dir + "revisions.json":     {"apply"},
		dir + "pins.txt":           {"/maps-"},
	})
	n.GoOn(streams)
	n.LostNothing(streams)
}
