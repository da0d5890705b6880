package ops

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/e2e/harness"
)

// An edge under ip netns exec, which hides the bpffs of process 1, in a container of its own. Its first process is a
// shell that has a bpffs, or has none. After the edge stops, nothing lets go of what it says is left.
const bpffsScript = `
mount -t tmpfs none /run && mkdir /run/netns && $mount
ip netns add h
inside="ip netns exec h"
$inside ip link add eth0 type veth peer name wire
$inside ip link add p0 type veth peer name guest
for l in eth0 wire p0 guest; do $inside ip link set $l up; done
$inside ip address add 192.0.2.1/24 dev eth0
$inside "$program" edge -c "$config" --state-dir "$state" --runtime-dir "$state/run" 2>"$state/log" &
edge=$!
asks="$inside $program"
until $asks status --runtime-dir "$state/run" >"$state/status" 2>&1; grep -q ^Edge: "$state/status"; do kill -0 $edge || { cat "$state/log"; exit 1; }; done
kill -TERM $edge; wait $edge
echo "== log"; cat "$state/log"
echo "== status"; cat "$state/status"
echo "== after"; $asks status --runtime-dir "$state/run" --edge $name 2>&1
echo "== links"; $inside ip -o link | grep -c ': svg'
echo "== remove"; $asks remove $name --runtime-dir "$state/run" 2>&1
echo "== left"; $inside ip -o link | grep -c ': svg'
ip netns delete h
`

const bpffsConfig = `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: bpffs-test}
spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  segments: [{name: blue, vni: 100, remotes: [192.0.2.2]}]
  ports: [{name: p0, interface: p0, segment: blue}]
`

func TestBPFFSOfProcess1(t *testing.T) {
	for name, tt := range map[string]struct {
		mount string
		want  map[string][]string
		not   string
	}{
		"there": {"mount -t bpf bpf /sys/fs/bpf", map[string][]string{
			"log": {"edge stops, its data path keeps forwarding\""}, "after": {"does not run; its data path has forwarded since"}, "links": {"2"},
			"remove": {"removed the tables", "undid the changes of the host"}, "left": {"0"},
		}, "mount namespace"},
		"absent": {"mount -t tmpfs none /sys/fs/bpf", map[string][]string{
			"log":    {"level=WARN msg=\"the data path ends with this mount namespace", "edge stops, and so does its data path"},
			"status": {"the data path ends with this mount namespace"}, "after": {"no edge runs here"}, "links": {"0"}, "left": {"0"},
		}, "keeps forwarding"},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			config := filepath.Join(state, "edge.yaml")
			if err := os.WriteFile(config, []byte(bpffsConfig), 0o600); err != nil {
				t.Fatal(err)
			}
			run := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "sh", "-c", bpffsScript)
			run.Env = append(os.Environ(), "mount="+tt.mount, "program="+harness.Program, "config="+config, "state="+state, "name=bpffs-test", "NO_COLOR=1")
			out, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			parts := map[string]string{}
			for part := range strings.SplitSeq(string(out), "== ") {
				title, text, _ := strings.Cut(part, "\n")
				parts[title] = text
			}
			for part, words := range tt.want {
				for _, word := range words {
					if !strings.Contains(parts[part], word) {
						t.Errorf("%s has no %q", part, word)
					}
				}
			}
			if strings.Contains(parts["log"], tt.not) {
				t.Errorf("the log says %q", tt.not)
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}
