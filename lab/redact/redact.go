// Package redact replaces what names people, hosts and networks in results by pseudonyms, so that
// they can be given to vendors: addresses, MAC addresses, host, user and path names, files and
// command lines.
//
// Its one invariant: one original has one pseudonym in all results of a Redactor, and figures stay.
// What says how the machine works stays as well: kernel, processor, versions, sysctls, offloads, interface
// names. Do not use it as proof that a text names nobody: a name that stands in no place where names
// are looked for has to be told.
package redact

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/pseudonym"
	"github.com/selvage/selvage/lab/result"
)

// Redactor gives pseudonyms.
type Redactor struct{ table *pseudonym.Table }

// New is one that knows no name but those that it is told.
func New(names ...string) *Redactor {
	r := &Redactor{pseudonym.New(isPseudonym.MatchString)}
	for _, name := range names {
		r.name("name", name)
	}
	return r
}

// Originals are the pseudonyms that were given, with what they stand for: for who has to read
// the answer, not for who gets the result.
func (r *Redactor) Originals() map[string]string { return r.table.Originals() }

// of is the pseudonym of an original: its kind and a number.
func (r *Redactor) of(kind, original string) string { return r.table.Of(kind, original) }

// name is the pseudonym of a name, which is looked for in texts from now on.
func (r *Redactor) name(kind, original string) string { return r.table.Name(kind, original) }

// isPseudonym matches what of gives.
var isPseudonym = regexp.MustCompile(`^((gateway-)?egress-target|name|host|user|netns|target|node|file|ipv4|ipv6|mac|command|machine)-\d+$`)

// Result returns run under pseudonyms, without its verdict, which is computed again from what is here. Names are looked for first, so that texts before them are without them too.
func (r *Redactor) Result(run result.Result) result.Result {
	r.find(run)
	e := run.Environment
	out := result.Result{ // a field that nobody has thought of is left out
		Schema: run.Schema, Experiment: run.Experiment, Started: run.Started, Duration: run.Duration,
		Environment: result.Environment{Kernel: e.Kernel, CPU: e.CPU, Cores: e.Cores, MemoryBytes: e.MemoryBytes, Versions: e.Versions, Sysctls: e.Sysctls},
	}
	if len(run.Command) > 0 {
		out.Command = []string{r.of("command", strings.Join(run.Command, " "))}
	}
	out.Parameters = r.keyed(run.Parameters, run.Targets)
	out.Environment.Offloads = map[string]map[string]bool{}
	for role, features := range run.Environment.Offloads {
		out.Environment.Offloads[r.text(role)] = features
	}
	out.Environment.MTU = map[string]int{}
	for name, mtu := range run.Environment.MTU {
		out.Environment.MTU[r.text(name)] = mtu
	}
	out.Topology = r.topology(run.Topology)
	for _, t := range run.Targets {
		t.Name, t.Description = r.target(t.Name), r.text(t.Description)
		out.Targets = append(out.Targets, t)
	}
	out.Samples = make([]result.Sample, len(run.Samples))
	for i, s := range run.Samples {
		s.Target, s.Case, s.Error = r.target(s.Target), r.text(s.Case), r.text(s.Error)
		s.Metrics, s.Series = keys(r, s.Metrics), keys(r, s.Series)
		s.Uses = slices.Clone(s.Uses)
		for j, u := range s.Uses {
			s.Uses[j].Role, s.Uses[j].Drops = r.text(u.Role), r.drops(u.Drops)
		}
		out.Samples[i] = s
	}
	out.Summary = r.rows(run.Summary)
	for _, c := range run.Causes {
		c.Object, c.Why, c.Commands = r.text(c.Object), r.text(c.Why), r.texts(c.Commands)
		if c.Target != "" {
			c.Target, c.Against = r.target(c.Target), r.target(c.Against)
		}
		out.Causes = append(out.Causes, c)
	}
	r.places(run, &out)
	return out
}

// rows are the rows of a summary.
func (r *Redactor) rows(rows []result.Row) (out []result.Row) {
	for _, row := range rows {
		baseline, caseName, other := strings.Cut(row.Baseline, ":")
		row.Target, row.Case, row.Metric, row.Baseline = r.target(row.Target), r.text(row.Case), r.text(row.Metric), r.target(baseline)
		if other {
			row.Baseline += ":" + r.text(caseName)
		}
		out = append(out, row)
	}
	return out
}

// keyed are the parameters, of which some are named after a target, as program_NAME.
func (r *Redactor) keyed(parameters result.Parameters, targets []result.Target) result.Parameters {
	if parameters == nil {
		return nil
	}
	out := result.Parameters{}
	for _, name := range parameters.Names() {
		p := parameters[name]
		switch v := p.Value.(type) {
		case result.Text:
			p.Value = result.Text(r.text(string(v)))
		case result.Texts:
			p.Value = result.Texts(r.texts(v))
		}
		p.Explanation = r.text(p.Explanation)
		for _, t := range targets {
			if of, ok := strings.CutSuffix(name, "_"+t.Name); ok {
				name = of + "_" + r.target(t.Name)
			}
		}
		out[r.text(name)] = p
	}
	return out
}

func (r *Redactor) texts(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = r.text(s)
	}
	return out
}

// places are those of a run between places, and what was read there.
func (r *Redactor) places(run result.Result, out *result.Result) {
	for _, p := range run.Places {
		p.Role, p.Name, p.Machine, p.Host, p.Clock = r.text(p.Role), r.text(p.Name), r.of("machine", p.Machine), r.name("host", p.Host), r.text(p.Clock)
		out.Places = append(out.Places, p)
	}
	for _, h := range run.Preflight {
		if slices.ContainsFunc(run.Places, func(p result.Place) bool { return p.Name == h.Place }) {
			out.Preflight = append(out.Preflight, r.hardware(h))
		}
	}
	for _, p := range run.Profiles {
		p.Target, p.Case, p.Role, p.NotRead, p.Drops = r.target(p.Target), r.text(p.Case), r.text(p.Role), r.texts(p.NotRead), r.drops(p.Drops)
		p.Processes = slices.Clone(p.Processes)
		for i := range p.Processes {
			p.Processes[i].Name = r.text(p.Processes[i].Name)
		}
		out.Profiles = append(out.Profiles, p)
	}
	for _, d := range run.Devices {
		d.Place, d.Command, d.Pattern, d.Error = r.text(d.Place), r.of("command", d.Command), "", r.text(d.Error)
		d.Series = slices.Clone(d.Series)
		for i := range d.Series {
			d.Series[i].Name = r.text(d.Series[i].Name)
		}
		out.Devices = append(out.Devices, d)
	}
}

// hardware is what figures of a place depend on and what names nobody: its adapters, and no other interface.
func (r *Redactor) hardware(h facts.Host) facts.Host {
	m := h.Machine
	out := facts.Host{Place: r.text(h.Place), Name: r.name("host", h.Name), Sysctls: h.Sysctls, Machine: facts.Machine{
		Kernel: m.Kernel, Arch: m.Arch, Parameters: m.Parameters, Hypervisor: m.Hypervisor, ClockSource: m.ClockSource, CPU: m.CPU, Memory: facts.Memory{Bytes: m.Memory.Bytes},
	}}
	for _, i := range h.Interfaces {
		if i.Kind == "" {
			out.Interfaces = append(out.Interfaces, facts.Interface{
				Name: i.Name, Up: i.Up, MTU: i.MTU, Driver: i.Driver, DriverVersion: i.DriverVersion, Firmware: i.Firmware, Mbps: i.Mbps, Features: i.Features,
				Ring: i.Ring, Channels: i.Channels, Pause: i.Pause, Coalesce: i.Coalesce, Hash4: i.Hash4, Hash6: i.Hash6, RPS: i.RPS,
			})
		}
	}
	return out
}

func (r *Redactor) drops(drops []result.Drop) (out []result.Drop) {
	for _, d := range drops {
		d.Where = r.text(d.Where)
		out = append(out, d)
	}
	return out
}

// keys are figures by name.
func keys[V any](r *Redactor, figures map[string]V) map[string]V {
	if figures == nil {
		return nil
	}
	out := map[string]V{}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		out[r.text(name)] = figures[name]
	}
	return out
}

func (r *Redactor) topology(t result.Topology) (out result.Topology) {
	for _, n := range t.Nodes {
		n.Name, n.Role, n.Addrs = r.node(n.Name), r.text(n.Role), slices.Clone(n.Addrs)
		for i, addr := range n.Addrs {
			n.Addrs[i] = r.text(addr)
		}
		out.Nodes = append(out.Nodes, n)
	}
	for _, l := range t.Links {
		l.A, l.B, l.Role = r.node(l.A), r.node(l.B), r.text(l.Role)
		out.Links = append(out.Links, l)
	}
	return out
}

// ownNode matches the names that the lab's own networks have.
var ownNode = regexp.MustCompile(`^(client|server|host|generator|device|sink|workload|node|gateway|target|attacker|stranger|same|other|guest|edge|switch|router|reflector)s?[0-9]*( [A-Za-z0-9])?$`)

func (r *Redactor) node(name string) string {
	if ownNode.MatchString(name) {
		return name
	}
	return r.name("node", name)
}

// ownTarget matches the lab's own targets, and words that name no network.
var ownTarget = regexp.MustCompile(`^(wire|limit|plain|kernel|ovs|selvage|underlay|overlay|old|new|cache)(-(on|off|vxlan|geneve|nvgre|csum-off))?$|^(gateway-)?(direct|egress[46]?)$`)

// target is the pseudonym of a target. Of lab egress it says as well whether it is an egress path, or
// the gateway's own way to one, since the verdict depends on that.
func (r *Redactor) target(name string) string {
	if ownTarget.MatchString(name) {
		return name
	}
	if path, ok := strings.CutPrefix(name, "gateway-"); ok && strings.HasPrefix(path, "egress") && !isPseudonym.MatchString(name) {
		r.table.Set(name, "gateway-"+r.target(path))
	}
	if strings.HasPrefix(name, "egress") {
		return r.name("egress-target", name)
	}
	return r.name("target", name)
}

// place matches ssh:[USER@]HOST and ns:NAME. A host may be an address, which text replaces.
var place = regexp.MustCompile(`\b(ssh|ns):(?:([\w.-]+)@)?([\w.-]+)`)

// What is looked for in texts: what a host says of itself, USER@HOST, and files and addresses.
var (
	hostParameter = regexp.MustCompile(`^(client|server|firewall|node|gateway|target|watch) \w+:`)
	atHost        = regexp.MustCompile(`\b([\w.-]+)@([A-Za-z][\w.-]*)`)
	file          = regexp.MustCompile(`(^|[\s=,;:"'(])((?:~|\.\.?)?/[^\s,;:"')]+)`)
)

// find takes up all names of a result.
func (r *Redactor) find(run result.Result) {
	r.findFlipped(run.Targets)
	for _, t := range run.Targets {
		r.target(t.Name)
	}
	for _, s := range run.Samples {
		r.target(s.Target)
	}
	for _, n := range run.Topology.Nodes {
		r.node(n.Name)
	}
	texts := slices.Clone(run.Command)
	for _, name := range run.Parameters.Names() {
		p := run.Parameters[name]
		texts = append(texts, name, p.String(), p.Explanation)
		// "client ssh:alice@db": what the host says of itself begins by its name.
		if m := hostParameter.FindString(name); m != "" {
			host, _, _ := strings.Cut(p.String(), ",")
			r.name("host", host)
		}
	}
	for _, p := range run.Places {
		r.name("host", p.Host)
		texts = append(texts, p.Name)
	}
	for _, d := range run.Devices {
		texts = append(texts, d.Place)
	}
	for _, s := range run.Samples {
		texts = append(texts, s.Error)
	}
	for _, t := range run.Targets {
		texts = append(texts, t.Description)
	}
	for _, text := range texts {
		r.findIn(text)
	}
}

// flips is what targets of lab why have after the name of their path: numbers of causes.
var flips = regexp.MustCompile(`^(-\d+)+$`)

// findFlipped has targets of lab why be those of their path still, since rows are against the target without the last number.
func (r *Redactor) findFlipped(targets []result.Target) {
	for _, t := range targets {
		if rest, ok := strings.CutPrefix(t.Name, targets[0].Name); ok && flips.MatchString(rest) {
			r.table.Set(t.Name, r.target(targets[0].Name)+rest)
		}
	}
}

// findIn takes up names of hosts, users and namespaces in a text.
func (r *Redactor) findIn(text string) {
	for _, m := range place.FindAllStringSubmatch(text, -1) {
		kind := "host"
		if m[1] == "ns" {
			kind = "netns"
		}
		if _, err := netip.ParseAddr(m[3]); err != nil {
			r.name(kind, m[3])
		}
		r.name("user", m[2])
	}
	for _, m := range atHost.FindAllStringSubmatch(text, -1) {
		r.name("user", m[1])
		r.name("host", m[2])
	}
}

// text is a text in which addresses, files and names are replaced.
func (r *Redactor) text(s string) string {
	s = file.ReplaceAllStringFunc(s, func(m string) string {
		at := strings.IndexAny(m, "/~.")
		return m[:at] + r.of("file", m[at:])
	})
	return r.table.Text(s)
}
