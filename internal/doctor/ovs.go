package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/host"
)

// Row is one row of Open vSwitch's database by column: strings, float64, bools,
// []any for sets and map[string]string for maps.
type Row map[string]any

func (r Row) text(column string) string {
	s, _ := r[column].(string)
	return s
}

func (r Row) number(column string) int {
	f, _ := r[column].(float64)
	return int(f)
}

func (r Row) pairs(column string) map[string]string {
	m, _ := r[column].(map[string]string)
	return m
}

// list is a set; a single element is stored as itself.
func (r Row) list(column string) []string {
	all, isSet := r[column].([]any)
	if !isSet {
		all = []any{r[column]}
	}
	var texts []string
	for _, v := range all {
		if s, ok := v.(string); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

// addVswitch adds the bridges and tunnels of an Open vSwitch in this namespace.
func (inv *Inventory) addVswitch(ctx context.Context, v Vswitch) {
	tables := map[string][]Row{}
	for table, columns := range map[string][]string{
		"Bridge":    {"name", "ports"},
		"Port":      {"_uuid", "name", "interfaces"},
		"Interface": {"_uuid", "name", "type", "options", "ifindex", "mac_in_use"},
	} {
		rows, err := v.List(ctx, table, columns...)
		if err != nil {
			inv.unknown("Open vSwitch", "%v", err)
			return
		}
		tables[table] = rows
	}
	elsewhere := 0
	for _, b := range tables["Bridge"] {
		interfaces := interfacesOf(b, tables)
		if !hasBridge(inv, b.text("name"), interfaces) {
			elsewhere++
			continue
		}
		inv.addVswitchBridge(b.text("name"), interfaces)
	}
	if elsewhere > 0 {
		inv.unknown("Open vSwitch", "%d of its bridges have no interface in this network namespace, so their tunnels were not examined", elsewhere)
	}
}

// interfacesOf joins a bridge to its interfaces.
func interfacesOf(bridge Row, tables map[string][]Row) []Row {
	var found []Row
	for _, p := range tables["Port"] {
		if !slices.Contains(bridge.list("ports"), p.text("_uuid")) {
			continue
		}
		for _, i := range tables["Interface"] {
			if slices.Contains(p.list("interfaces"), i.text("_uuid")) {
				found = append(found, i)
			}
		}
	}
	return found
}

// hasBridge reports whether the bridge's own interface is a link that was seen,
// and not one of the same name in another network namespace.
func hasBridge(inv *Inventory, name string, interfaces []Row) bool {
	l, ok := inv.link(name)
	return ok && slices.ContainsFunc(interfaces, func(i Row) bool {
		return i.text("name") == name && i.number("ifindex") == l.Index && strings.EqualFold(i.text("mac_in_use"), l.MAC.String())
	})
}

func (inv *Inventory) addVswitchBridge(name string, interfaces []Row) {
	b := Bridge{Name: name, Source: fromOVS, Members: []string{}}
	ports := []string{}
	for _, i := range interfaces {
		port := i.text("name")
		if _, ok := inv.link(port); !ok {
			continue // a tunnel, a patch or absent
		}
		b.Members = append(b.Members, port)
		if port != name {
			ports = append(ports, port)
		}
	}
	inv.Bridges = append(inv.Bridges, b)
	for _, i := range interfaces {
		if t, ok := vswitchTunnel(i); ok {
			inv.Tunnels = append(inv.Tunnels, Tunnel{Name: i.text("name"), Source: fromOVS, Tunnel: t, Bridge: name, Up: true, Ports: ports})
		}
	}
}

func vswitchTunnel(i Row) (host.Tunnel, bool) {
	options := i.pairs("options")
	t := host.Tunnel{Encapsulation: i.text("type"), External: options["remote_ip"] == "flow"}
	switch t.Encapsulation {
	case "vxlan":
		t.Port = 4789
	case "geneve":
		t.Port = 6081
	case "gre", "ip6gre":
		t.Encapsulation = "gretap" // Open vSwitch's GRE carries Ethernet
	default:
		return t, false
	}
	if port, err := strconv.ParseUint(options["dst_port"], 10, 16); err == nil {
		t.Port = uint16(port)
	}
	for _, name := range []string{"key", "out_key"} {
		if key, err := strconv.ParseUint(options[name], 10, 32); err == nil {
			t.VNI = uint32(key)
		}
	}
	checksum := options["csum"] == "true"
	t.Checksum = &checksum
	t.Local, _ = netip.ParseAddr(options["local_ip"])
	if remote, err := netip.ParseAddr(options["remote_ip"]); err == nil {
		t.Remotes = []netip.Addr{remote}
	}
	return t, true
}

// vsctl asks ovs-vsctl.
type vsctl struct {
	socket  string
	timeout time.Duration // of one question, at least a second
}

// newVsctl is of the database where Open vSwitch's own tools look for it.
func newVsctl() vsctl {
	dir := os.Getenv("OVS_RUNDIR")
	if dir == "" {
		dir = "/var/run/openvswitch"
	}
	return vsctl{filepath.Join(dir, "db.sock"), vsctlTimeout}
}

// vsctlTimeout bounds one question to Open vSwitch.
const vsctlTimeout = 3 * time.Second

// List asks for a table, if anybody listens.
func (v vsctl) List(ctx context.Context, table string, columns ...string) ([]Row, error) {
	if _, err := os.Stat(v.socket); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	conn, err := net.DialTimeout("unix", v.socket, time.Second)
	if err != nil {
		return nil, err
	}
	conn.Close()
	ctx, cancel := context.WithTimeout(ctx, v.timeout+time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ovs-vsctl", "--db=unix:"+v.socket, fmt.Sprintf("--timeout=%d", v.timeout/time.Second),
		"--format=json", "--columns="+strings.Join(columns, ","), "list", table)
	var stderr bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &stderr, time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ovs-vsctl list %s: %w: %s", table, err, strings.TrimSpace(stderr.String()))
	}
	return parseTable(out)
}

// parseTable reads ovs-vsctl's JSON, the atoms and sets of RFC 7047 section 5.1.
func parseTable(text []byte) ([]Row, error) {
	var table struct {
		Headings []string `json:"headings"`
		Data     [][]any  `json:"data"`
	}
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, fmt.Errorf("answer of ovs-vsctl: %w", err)
	}
	rows := make([]Row, 0, len(table.Data))
	for _, cells := range table.Data {
		row := Row{}
		for i, cell := range cells {
			if i < len(table.Headings) {
				row[table.Headings[i]] = atom(cell)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// atom turns ["uuid", x], ["set", [...]] and ["map", [[k, v], ...]] into plain values.
func atom(v any) any {
	pair, ok := v.([]any)
	if !ok || len(pair) != 2 {
		return v
	}
	inner, _ := pair[1].([]any)
	switch pair[0] {
	case "uuid":
		return pair[1]
	case "set":
		set := make([]any, 0, len(inner))
		for _, e := range inner {
			set = append(set, atom(e))
		}
		return set
	case "map":
		m := map[string]string{}
		for _, e := range inner {
			if kv, ok := e.([]any); ok && len(kv) == 2 {
				m[fmt.Sprint(kv[0])] = fmt.Sprint(kv[1])
			}
		}
		return m
	}
	return v
}
