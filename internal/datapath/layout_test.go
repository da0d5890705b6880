package datapath

import (
	"encoding/binary"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/test/tier"
)

// Generated types have no hidden padding and the sizes that the maps have.
func TestMapTypes(t *testing.T) {
	u32 := reflect.TypeFor[uint32]()
	types := map[string][2]reflect.Type{
		bpfMapVports:            {u32, reflect.TypeFor[bpfVport]()},
		bpfMapSegments:          {u32, reflect.TypeFor[bpfSegment]()},
		bpfMapPorts:             {reflect.TypeFor[bpfPortKey](), u32},
		bpfMapTeps:              {reflect.TypeFor[bpfPathKey](), u32},
		bpfMapPathReports:       {reflect.TypeFor[bpfPathKey](), reflect.TypeFor[bpfPathReport]()},
		bpfMapRouters:           {u32, reflect.TypeFor[bpfRouter]()},
		bpfMapLocalAddrs:        {reflect.TypeFor[bpfLocalKey](), u32},
		bpfMapNeighbours:        {reflect.TypeFor[bpfNeighbourKey](), reflect.TypeFor[bpfNeighbour]()},
		bpfMapNexthopGroups:     {u32, reflect.TypeFor[bpfNexthopGroup]()},
		bpfMapNexthops:          {u32, reflect.TypeFor[bpfNexthop]()},
		bpfMapRoutes:            {reflect.TypeFor[bpfRouteKey](), reflect.TypeFor[bpfRoute]()},
		bpfMapAllowedMacs:       {reflect.TypeFor[bpfAllowedMac](), u32},
		bpfMapAllowedAddrs:      {reflect.TypeFor[bpfAllowedAddr](), u32},
		bpfMapKnownOptions:      {u32, u32},
		bpfMapFragmentWorks:     {u32, reflect.TypeFor[bpfFragmentWork]()},
		bpfMapCurrent:           {u32, reflect.TypeFor[bpfPkt]()},
		bpfMapHostEvents:        {reflect.TypeFor[[0]byte](), reflect.TypeFor[[0]byte]()},
		bpfMapTrace:             {u32, reflect.TypeFor[bpfTraceStep]()},
		bpfMapVnis:              {reflect.TypeFor[bpfVniKey](), u32},
		bpfMapRemotes:           {reflect.TypeFor[bpfRemoteKey](), u32},
		bpfMapMembers:           {reflect.TypeFor[bpfMemberKey](), u32},
		bpfMapFdb:               {reflect.TypeFor[bpfFdbKey](), reflect.TypeFor[bpfFdbEntry]()},
		bpfMapFlows:             {reflect.TypeFor[uint64](), reflect.TypeFor[bpfFlow]()},
		bpfMapFlowSecret:        {u32, reflect.TypeFor[bpfFlowSecret]()},
		bpfMapFlowCandidates:    {u32, u32},
		bpfMapDrops:             {reflect.TypeFor[bpfReason](), reflect.TypeFor[bpfCounter]()},
		bpfMapEvents:            {reflect.TypeFor[bpfEvent](), reflect.TypeFor[uint64]()},
		bpfMapPathGroups:        {reflect.TypeFor[bpfPathGroupKey](), reflect.TypeFor[bpfPathGroup]()},
		bpfMapTransitCache:      {u32, reflect.TypeFor[bpfTransitEntry]()},
		bpfMapTransitActions:    {u32, reflect.TypeFor[bpfTransitAction]()},
		bpfMapTransitTables:     {u32, reflect.TypeFor[bpfTransitTable]()},
		bpfMapTxDevmapGeneric:   {u32, u32},
		bpfMapGlobalCounters:    {reflect.TypeFor[bpfGlobalCounter](), u32},
		bpfMapXdpInterfaces:     {u32, u32},
		bpfMapTxDevmap:          {u32, u32},
		bpfMapTraffic:           {u32, reflect.TypeFor[bpfVportCounters]()},
		bpfMapCtWorks:           {u32, reflect.TypeFor[bpfCtWork]()},
		bpfMapNatWorks:          {u32, reflect.TypeFor[bpfNatWork]()},
		bpfMapCtEstablished:     {reflect.TypeFor[bpfCtKey](), reflect.TypeFor[bpfCtEntry]()},
		bpfMapCtHalfOpen:        {reflect.TypeFor[bpfCtKey](), reflect.TypeFor[bpfCtEntry]()},
		bpfMapCtClosed:          {reflect.TypeFor[[0]byte](), reflect.TypeFor[bpfCtKey]()},
		bpfMapFragments:         {reflect.TypeFor[bpfFragmentKey](), reflect.TypeFor[bpfFragmentFirst]()},
		bpfMapRules:             {u32, reflect.TypeFor[bpfRuleCounters]()},
		bpfMapLogs:              {reflect.TypeFor[[0]byte](), reflect.TypeFor[[0]byte]()},
		bpfMapPolicy:            {u32, u32}, // of maps
		bpfMapClassifyStates:    {u32, reflect.TypeFor[bpfClassifyState]()},
		bpfMapEgressPolicies:    {u32, reflect.TypeFor[bpfEgressPolicy]()},
		bpfMapPool:              {u32, reflect.TypeFor[bpfAddr]()},
		bpfMapNatSessions:       {reflect.TypeFor[bpfCtKey](), reflect.TypeFor[bpfNatSession]()},
		bpfMapNatReverse:        {reflect.TypeFor[bpfCtKey](), reflect.TypeFor[bpfNatOrig]()},
		bpfMapNatHostCounts:     {reflect.TypeFor[bpfNatHostKey](), reflect.TypeFor[bpfNatHostCount]()},
		bpfMapNatInbound:        {reflect.TypeFor[bpfCtKey](), reflect.TypeFor[bpfNatSession]()},
		bpfMapNatOver:           {reflect.TypeFor[struct{}](), reflect.TypeFor[bpfCtKey]()},
		bpfMapNatUnanswered:     {reflect.TypeFor[struct{}](), reflect.TypeFor[bpfCtKey]()},
		bpfMapPortForwards:      {reflect.TypeFor[bpfPortForwardKey](), reflect.TypeFor[bpfPortForward]()},
		bpfMapNatFragments:      {reflect.TypeFor[bpfFragmentKey](), reflect.TypeFor[bpfFragmentTranslation]()},
		bpfMapNatEvents:         {reflect.TypeFor[[0]byte](), reflect.TypeFor[[0]byte]()},
		bpfMapOwnerLimits:       {u32, reflect.TypeFor[bpfLimits]()},
		bpfMapOwnerUsages:       {u32, reflect.TypeFor[bpfLimitUsage]()},
		bpfMapHostWorks:         {u32, reflect.TypeFor[bpfHostWork]()},
		bpfMapLimitEntries:      {reflect.TypeFor[bpfLimitSlot](), reflect.TypeFor[bpfLimitEntry]()},
		bpfMapLimitLargest:      {reflect.TypeFor[bpfLimitedCount](), u32},
		bpfMapStamps:            {u32, reflect.TypeFor[bpfStamp]()},
		bpfMapStamped:           {u32, reflect.TypeFor[bpfStamped]()},
		mapMonitors:             {u32, reflect.TypeFor[bpfMonitorTable]()},
		bpfMapMonitorCores:      {u32, reflect.TypeFor[bpfMonitorCore]()},
		bpfMapMonitorRings:      {u32, u32}, // of maps
		bpfMapOwnerDrops:        {reflect.TypeFor[bpfDropOwner](), reflect.TypeFor[bpfCounter]()},
		bpfMapNeighbourRequests: {reflect.TypeFor[bpfNeighbourKey](), reflect.TypeFor[uint64]()},
	}
	spec, err := loadBpf()
	must(t, err)
	nameSections(spec)
	for name, m := range spec.Maps {
		if isData(m) {
			continue
		}
		pair, ok := types[name]
		if !ok {
			t.Errorf("map %s is not in this test", name)
			continue
		}
		for i, size := range []uint32{m.KeySize, m.ValueSize} {
			if got := uint32(pair[i].Size()); got != size {
				t.Errorf("map %s: %s has %d bytes, the map %d", name, pair[i], got, size)
			}
			if got := binary.Size(reflect.Zero(pair[i]).Interface()); got != int(size) {
				t.Errorf("map %s: binary.Size of %s is %d, want %d", name, pair[i], got, size)
			}
		}
		delete(types, name)
	}
	for name := range types {
		t.Errorf("there is no map %s any more", name)
	}
}

// The digest and the key of a flow, and then what its packets read and write, are two cache lines each.
func TestFlowFitsCacheLines(t *testing.T) {
	// A translation is read by who has one.
	translation, _ := reflect.TypeFor[bpfFlow]().FieldByName("Translation")
	if size := reflect.TypeFor[bpfFlow]().Size(); translation.Offset > 192 || size > 224 {
		t.Errorf("struct flow has %d bytes, the translation begins at %d", size, translation.Offset)
	}
	if size := reflect.TypeFor[bpfTransitEntry]().Size(); size != 64 {
		t.Errorf("struct transit_entry has %d bytes", size)
	}
}

func TestWords(t *testing.T) {
	v, err := vocabularyOf()
	must(t, err)
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	for list, w := range map[string]words{"reasons": v.reasons, "slows": v.slows, "events": v.events, "stages": v.stages} {
		names, texts := map[string]bool{}, map[string]bool{}
		for i, word := range w {
			if !name.MatchString(word.name) || names[word.name] {
				t.Errorf("%s: number %d has the name %q", list, i, word.name)
			}
			fast := list == "slows" && i == int(bpfSlowSLOW_FAST) // nothing to explain
			if texts[word.text] || word.text == "" && !fast {
				t.Errorf("%s: %s has the text %q", list, word.name, word.text)
			}
			if len(word.name) >= 31 || len(word.text) >= 95 {
				t.Errorf("%s: %s does not fit struct word", list, word.name)
			}
			names[word.name], texts[word.text] = true, true
		}
	}
}

// define is a number that a header of bpf/abi defines.
func define(t *testing.T, name string) int {
	t.Helper()
	return number(t, "../../bpf/abi/*.h", regexp.MustCompile(`(?m)^#define `+name+`\s+(0x[0-9a-f]+|\d+)`))
}

// number is what pattern finds in one of the files.
func number(t *testing.T, files string, pattern *regexp.Regexp) int {
	t.Helper()
	names, err := filepath.Glob(files)
	must(t, err)
	var match [][]byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(t, err)
		if m := pattern.FindSubmatch(text); m != nil {
			match = m
		}
	}
	if match == nil {
		t.Fatalf("%s: nothing matches %s", files, pattern)
	}
	n, err := strconv.ParseInt(string(match[1]), 0, 0)
	must(t, err)
	return int(n)
}

// What Go repeats of bpf/abi is the same there. Slot 0 of vports and segments is never used.
func TestConstantsAreTheHeaders(t *testing.T) {
	config := func(name string) int {
		return number(t, "../config/check_*.go", regexp.MustCompile(`(?m)^\s*`+name+`\s*=\s*(\d+)`))
	}
	spec, err := loadBpf()
	must(t, err)
	size := func(table string) int { return int(spec.Maps[table].MaxEntries) }
	// usual and most are the default and the maximum of a field of spec.tables.
	of := func(field, tag string) int {
		return number(t, "../config/document.go", regexp.MustCompile(`json:"`+field+`,omitempty" jsonschema:"[^"]*`+tag+`=(\d+)`))
	}
	usual := func(field string) int { return of(field, "default") }
	most := func(field string) int { return of(field, "maximum") }
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"abiVersion", abiVersion, define(t, "ABI_VERSION")},
		{"MaxUDPPorts", MaxUDPPorts, define(t, "MAX_UDP_PORTS")},
		{"config.maxUDPPorts", config("maxUDPPorts"), define(t, "MAX_UDP_PORTS")},
		{"config.maxSegments", config("maxSegments"), define(t, "MAX_SEGMENTS") - 1},
		{"maxSegments", maxSegments, define(t, "MAX_SEGMENTS")},
		{"segmentOwner", segmentOwner, define(t, "SEGMENT_OWNER")},
		{"tables.vports", usual("vports"), size(bpfMapVports)},
		{"tables.vports", usual("vports"), define(t, "VPORTS")},
		{"tables.vports", most("vports"), define(t, "MAX_VPORTS")},
		{"vports above routers", most("vports") + define(t, "MAX_ROUTERS"), 1 << 16},
		{"tables.segmentMembers", usual("segmentMembers"), usualMembers},
		{"tables.segmentMembers", most("segmentMembers"), define(t, "MAX_MEMBERS")},
		{"tables.members", usual("members"), size(bpfMapMembers)},
		{"tables.remotes", usual("remotes"), size(bpfMapRemotes)},
		{"tables.routes", usual("routes"), size(bpfMapRoutes)},
		{"tables.nextHops", usual("nextHops"), size(bpfMapNexthops)},
		{"tables.nextHops", most("nextHops"), define(t, "MAX_NEXTHOPS")},
		{"tables.nextHopGroups", usual("nextHopGroups"), size(bpfMapNexthopGroups)},
		{"config.maxRouters", config("maxRouters"), size(bpfMapRouters) - 1},
		{"config.maxAllowed", config("maxAllowed"), size(bpfMapAllowedMacs)},
		{"config.maxAllowed", config("maxAllowed"), size(bpfMapAllowedAddrs)},
		{"config.maxPolicies", config("maxPolicies"), size(bpfMapEgressPolicies) - 1},
		{"config.maxPortForwards", config("maxPortForwards"), size(bpfMapPortForwards)},
		{"config.maxPools", config("maxPools"), size(bpfMapPool)},
		{"groupBuckets", groupBuckets, define(t, "NEXTHOP_BUCKETS")},
		{"egressVports", egressVports, define(t, "MAX_ROUTERS")},
		{"noEgress", noEgress, define(t, "MAX_EGRESS")},
		{"EgressBuckets", fib.EgressBuckets, define(t, "EGRESS_BUCKETS")},
		{"nat.Buckets", nat.Buckets, define(t, "EGRESS_BUCKETS")},
		{"MaxGateways", fib.MaxGateways, define(t, "MAX_GATEWAYS")},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, the data plane has %d", c.what, c.got, c.want)
		}
	}
}

// The verifier accepts the programs whatever branches the constants close: any two of them meet in all ways.
func TestEveryCombinationVerifies(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	for name, load := range map[string]func() (*ebpf.CollectionSpec, error){"ports": loadBpf, "transit": loadTransit} {
		t.Run(name, func(t *testing.T) {
			spec := specOf(t, load, transitProgTransitAsking)
			var switches []string
			for name, v := range spec.Variables {
				if isSwitch(v) {
					switches = append(switches, name)
				}
			}
			if len(switches) == 0 {
				t.Fatal("no load-time booleans found")
			}
			slices.Sort(switches)
			columns := covering(t, len(switches)+1)
			for row := range coveringRows {
				// A number that closes a branch too, and in transit's the kind of the device.
				constants := map[string]any{bpfVarReorderTimeoutNs: uint64(columns[0] >> row & 1 * 50_000)}
				if name == "transit" {
					constants = map[string]any{transitVarThisFlags: deviceFlags[row%len(deviceFlags)]}
				}
				for i, name := range switches {
					constants[name] = columns[i+1]>>row&1 != 0
				}
				verified(t, specOf(t, load, transitProgTransitAsking), constants)
			}
			if !tier.IsLong() {
				return
			}
			for _, odd := range append(switches, "") {
				for _, rest := range []bool{false, true} {
					constants := map[string]any{}
					for _, name := range switches {
						constants[name] = rest != (name == odd)
					}
					for i, hold := range []uint64{0, 50_000} {
						if name == "transit" {
							constants[transitVarThisFlags] = deviceFlags[i]
						} else {
							constants[bpfVarReorderTimeoutNs] = hold
						}
						verified(t, specOf(t, load, transitProgTransitAsking), constants)
					}
				}
			}
		})
	}
}

// deviceFlags are those of the devices that transit programs are at.
var deviceFlags = []bpfDeviceFlags{bpfDeviceFlagsDEVICE_UNDERLAY | bpfDeviceFlagsDEVICE_UPLINK, bpfDeviceFlagsDEVICE_UNDERLAY, bpfDeviceFlagsDEVICE_UPLINK}

// coveringRows is how many rows it takes for up to 15 columns.
const coveringRows = 7

// covering are so many columns of bits in which any two meet in all ways, in a row each
// (Kleitman and Spencer 1973): each has three of the rows, the first one among them.
func covering(t *testing.T, n int) (columns []int) {
	t.Helper()
	for c := range 1 << coveringRows {
		if c&1 != 0 && bits.OnesCount(uint(c)) == 3 {
			columns = append(columns, c)
		}
	}
	if len(columns) < n {
		t.Fatalf("%d columns, there are %d for %d rows", n, len(columns), coveringRows)
	}
	return columns[:n]
}

func TestCovering(t *testing.T) {
	columns := covering(t, 15)
	for i, a := range columns {
		for _, b := range columns[:i] {
			met := map[[2]int]bool{}
			for row := range coveringRows {
				met[[2]int{a >> row & 1, b >> row & 1}] = true
			}
			if len(met) != 4 {
				t.Errorf("%08b and %08b meet as %v", a, b, met)
			}
		}
	}
}

func isSwitch(v *ebpf.VariableSpec) bool {
	if v.Type == nil {
		return false
	}
	i, ok := btf.UnderlyingType(v.Type.Type).(*btf.Int)
	return ok && i.Encoding == btf.Bool
}

// What the verifier looks at of a program is bounded: an edge's start is mostly that. Without a firewall and NAT their stages are not there.
func TestVerifiedInstructions(t *testing.T) {
	t.Parallel()
	const most = 400_000 // the kernel refuses a program at 1,000,000
	w := emptyWorld(t, underIPv4)
	counts := map[string][2]uint32{}
	for i, there := range []bool{false, true} {
		stages := map[string]any{bpfVarWithFirewall: there, bpfVarWithNat: there}
		measure := func(spec *ebpf.CollectionSpec, constants map[string]any) {
			for name, program := range verified(t, spec, constants).Programs {
				n := counts[name]
				n[i] = max(n[i], instructions(t, program))
				counts[name] = n
			}
		}
		measure(specOf(t, loadBpf, ""), stages)
		for _, flags := range deviceFlags {
			constants := maps.Clone(stages)
			constants[transitVarThisFlags] = flags
			measure(specOf(t, loadTransit, transitProgTransitAsking), constants)
			asking := specOf(t, loadTransit, transitProgTransit)
			bind(asking, transitProgTransitAsking, w.dev["u0"].Index)
			w.do(t, func() { measure(asking, constants) })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		n := counts[name]
		t.Logf("%s: %d instructions without a firewall and NAT, %d with", name, n[0], n[1])
		if max(n[0], n[1]) > most {
			t.Errorf("of %s %d instructions are verified", name, max(n[0], n[1]))
		}
	}
	if n := counts[bpfProgFromPort]; n[0] > n[1]/2 {
		t.Errorf("%d instructions of from_port are verified without a firewall and NAT, %d with both: something calls them", n[0], n[1])
	}
}

func instructions(t *testing.T, p *ebpf.Program) uint32 {
	t.Helper()
	info, err := p.Info()
	must(t, err)
	n, ok := info.VerifiedInstructions()
	if !ok {
		t.Fatal("this kernel does not say how many instructions it verified")
	}
	return n
}

// specOf is an object without one of its programs: transit_asking is bound to one device.
func specOf(t *testing.T, load func() (*ebpf.CollectionSpec, error), without string) *ebpf.CollectionSpec {
	t.Helper()
	spec, err := load()
	must(t, err)
	delete(spec.Programs, without)
	return spec
}

// verified are the objects of spec with these constants, for the time of the test.
func verified(t *testing.T, spec *ebpf.CollectionSpec, constants map[string]any) *ebpf.Collection {
	t.Helper()
	for _, m := range spec.Maps {
		if !isData(m) && m.Type != ebpf.RingBuf {
			m.MaxEntries = min(m.MaxEntries, 64) // their sizes are not what is tested
		}
	}
	for name, value := range constants {
		if err := spec.Variables[name].Set(value); err != nil {
			t.Fatalf("set %s: %v", name, err)
		}
	}
	objs, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%v: %+v", constants, err)
	}
	t.Cleanup(objs.Close)
	return objs
}
