package monitoring

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// sized are the fields of docs/guide/capacity.md that size a table: where they are, and a default of their own in this
// test, since what they count is more than the least.
var sized = []struct {
	field string
	text  string // in the configuration, with %d
	size  int
}{
	{"flowCache.size", "flowCache: {size: %d}", 65536},
	{"fdb.size", "fdb: {size: %d}", 65536},
	{"tables.vports", "tables: {vports: %d}", 8192},
	{"tables.members", "tables: {members: %d}", 131072},
	{"tables.remotes", "tables: {remotes: %d}", 65536},
	{"tables.nextHops", "tables: {nextHops: %d}", 4096},
	{"tables.nextHopGroups", "tables: {nextHopGroups: %d}", 4096},
	{"firewall.connections", "firewall: {connections: %d}", 131072},
	{"firewall.halfOpen", "firewall: {halfOpen: %d}", 131072},
	{"egress.sessions", "egress: {sessions: %d}", 131072},
}

const capacityPicture = `
   edge1   one edge with an uplink that translates, and no guests`

// What docs/guide/capacity.md says of the memory of tables is what the kernel accounts to the maps of an edge.
func TestCapacity(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/guide/capacity.md")
	if err != nil {
		t.Fatal(err)
	}
	n := harness.NewUnderlay(t, capacityPicture, 1, 4)
	n.Outside(n.Hosts[0], "up0")
	n.Edge(1, "  segments: []\n")
	page, fields, whole := string(text), sized, []string{"segments and ports alone", "a firewall besides", "an uplink, without a firewall", "an uplink that translates", "all of it"}
	if !tier.IsLong() {
		fields, whole = fields[1:2], whole[:1]
	}
	for _, row := range whole {
		config(n, map[string]string{
			"segments and ports alone": "", "a firewall besides": "  firewall: {}\n", "an uplink, without a firewall": strings.Replace(translatingUplink, ", nat: {masquerade: true}", "", 1),
			"an uplink that translates": translatingUplink, "all of it": everything,
		}[row])
		if takes, said := mapMemory(n), number(page, `\| `+row+` \| ([0-9,]+) MiB \|`); !near(float64(takes)/(1<<20), said) {
			t.Errorf("%s: an edge takes %d MiB; the page says %.0f", row, takes>>20, said)
		}
	}
	for _, s := range fields {
		each := float64(withTable(n, s.text, 2*s.size)-withTable(n, s.text, s.size)) / float64(s.size)
		row := "(?m)^\\| `spec\\." + regexp.QuoteMeta(s.field) + "` \\| [^|]* "
		said := number(page, row+`\| ([0-9,]+) \|`) + number(page, row+`\| [0-9,]+ \| ([0-9,]+) \|`)*float64(runtime.NumCPU())
		if !near(each, said) {
			t.Errorf("%s: an entry takes %.1f bytes on %d cores; the page says %.1f", s.field, each, runtime.NumCPU(), said)
		}
	}
	inUse(n, page)
}

// inUse compares what the page says of tables whose entries take memory when they are used.
func inUse(n *harness.Hub, page string) {
	n.T.Helper()
	for field, names := range map[string][]string{
		"firewall.connections": {"ct_established"}, "firewall.halfOpen": {"ct_half_open"}, "egress.sessions": {"nat_sessions", "nat_reverse"},
	} {
		each := 0.0
		for _, m := range maps(n) {
			if slices.Contains(names, m.name) {
				each += m.entry()
			}
		}
		said := number(page, "(?m)^\\| `spec\\."+regexp.QuoteMeta(field)+"` \\| [^|]* \\| [0-9,]+ \\| [0-9,]+ \\| ([0-9,]+) \\|")
		if !near(each, said) {
			n.T.Errorf("%s: an entry in use takes %.0f bytes; the page says %.0f", field, each, said)
		}
	}
}

// everything is an edge that has a table of each kind.
const everything = "  firewall: {}\n  egress: {}\n" + translatingUplink

const translatingUplink = `
  routers:
  - name: tenant
    uplinks:
    - {name: wan, interface: up0, addresses: [198.51.100.2/24], nat: {masquerade: true}}
`

// withTable is the memory of the maps with a table of that size.
func withTable(n *harness.Hub, text string, size int) int64 {
	n.T.Helper()
	key, _, _ := strings.Cut(text, ":")
	config(n, strings.Replace(everything, "  "+key+": {}\n", "", 1)+"  "+fmt.Sprintf(text, size)+"\n")
	return mapMemory(n)
}

// config gives the edge another one.
func config(n *harness.Hub, spec string) {
	n.T.Helper()
	n.Must(os.WriteFile(n.Edges["edge1"].Config, []byte(n.Yaml(1, spec)), 0o600))
	if out, err := n.Command(1, "apply", n.Edges["edge1"].Config); err != nil {
		n.Fail("apply", fmt.Errorf("%w: %s", err, out))
	}
}

// pinnedMap is one of an edge.
type pinnedMap struct {
	name       string
	key, value uint32
	bytes      uint64 // that the kernel accounts to it
}

// entry is what an entry of a hash table takes that is made when it is used: the kernel's part of 48 bytes, key and value.
func (m pinnedMap) entry() float64 { return float64(48 + (m.key+7)/8*8 + (m.value+7)/8*8) }

func maps(n *harness.Hub) (all []pinnedMap) {
	n.T.Helper()
	files, err := filepath.Glob("/sys/fs/bpf/selvage/" + n.Edges["edge1"].Name + "/maps-*/*")
	n.Must(err)
	for _, file := range files {
		m, err := ebpf.LoadPinnedMap(file, &ebpf.LoadPinOptions{ReadOnly: true})
		n.Must(err)
		info, err := m.Info()
		n.Must(err)
		bytes, _ := info.Memlock()
		all = append(all, pinnedMap{filepath.Base(file), info.KeySize, info.ValueSize, bytes})
		m.Close()
	}
	if len(all) == 0 {
		n.Fail("the maps of the edge are pinned", fmt.Errorf("%v", files))
	}
	return all
}

// mapMemory is what the kernel accounts to all maps of the edge.
func mapMemory(n *harness.Hub) (sum int64) {
	n.T.Helper()
	for _, m := range maps(n) {
		sum += int64(m.bytes)
	}
	return sum
}

// near: they differ by five per cent at most.
func near(got, want float64) bool { return math.Abs(got-want) <= 0.05*want }

// number is what a pattern finds in the page, not a number where it finds nothing.
func number(page, pattern string) float64 {
	found := regexp.MustCompile(pattern).FindStringSubmatch(page)
	if found == nil {
		return math.NaN()
	}
	value, err := strconv.ParseFloat(strings.ReplaceAll(found[1], ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return value
}
