package datapath

import (
	"encoding/binary"
	"math/bits"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/test/tier"
)

// Generated types have no hidden padding and the sizes that the maps have.
func TestMapTypes(t *testing.T) {
	u32 := reflect.TypeFor[uint32]()
	types := map[string][2]reflect.Type{
		edgeMapEnds:           {u32, reflect.TypeFor[edgeEnd]()},
		edgeMapSegments:       {u32, reflect.TypeFor[edgeSegment]()},
		edgeMapPorts:          {reflect.TypeFor[edgePortKey](), u32},
		edgeMapTeps:           {reflect.TypeFor[edgePathKey](), u32},
		edgeMapRouters:        {u32, reflect.TypeFor[edgeRouter]()},
		edgeMapLocals:         {reflect.TypeFor[edgeLocalKey](), u32},
		edgeMapNeighbours:     {reflect.TypeFor[edgeNeighbourKey](), reflect.TypeFor[edgeNeighbour]()},
		edgeMapGroups:         {u32, reflect.TypeFor[edgeGroup]()},
		edgeMapHops:           {u32, reflect.TypeFor[edgeHop]()},
		edgeMapRoutes:         {reflect.TypeFor[edgeRouteKey](), reflect.TypeFor[edgeRoute]()},
		edgeMapAllowedMacs:    {reflect.TypeFor[edgeAllowedMac](), u32},
		edgeMapAllowedAddrs:   {reflect.TypeFor[edgeAllowedAddr](), u32},
		edgeMapKnownOptions:   {u32, u32},
		edgeMapBuckets:        {u32, reflect.TypeFor[edgeBucket]()},
		edgeMapScratch:        {u32, reflect.TypeFor[edgeScratch]()},
		edgeMapCurrent:        {u32, reflect.TypeFor[edgePkt]()},
		edgeMapArrivals:       {reflect.TypeFor[[0]byte](), reflect.TypeFor[[0]byte]()},
		edgeMapArrivalBuckets: {u32, reflect.TypeFor[edgeBucket]()},
		edgeMapTrace:          {u32, reflect.TypeFor[edgeTraceStep]()},
		edgeMapVnis:           {reflect.TypeFor[edgeVniKey](), u32},
		edgeMapRemotes:        {reflect.TypeFor[edgeRemoteKey](), u32},
		edgeMapMembers:        {reflect.TypeFor[edgeMemberKey](), u32},
		edgeMapFdb:            {reflect.TypeFor[edgeFdbKey](), reflect.TypeFor[edgeFdbEntry]()},
		edgeMapFlows:          {reflect.TypeFor[edgeFlowKey](), reflect.TypeFor[edgeFlow]()},
		edgeMapDrops:          {reflect.TypeFor[edgeReason](), reflect.TypeFor[edgeCounter]()},
		edgeMapEvents:         {reflect.TypeFor[edgeEvent](), reflect.TypeFor[uint64]()},
		edgeMapSpreads:        {reflect.TypeFor[edgeSpreadKey](), reflect.TypeFor[edgeSpread]()},
		edgeMapShortcuts:      {u32, reflect.TypeFor[edgeShortcut]()},
		edgeMapShortcutTables: {u32, reflect.TypeFor[edgeShortcutTable]()},
		edgeMapExitsGeneric:   {u32, u32},
		edgeMapPulses:         {reflect.TypeFor[edgePulse](), u32},
		edgeMapTakers:         {u32, u32},
		edgeMapExits:          {u32, u32},
		edgeMapTraffic:        {u32, reflect.TypeFor[edgeEndCounters]()},
		edgeMapHearings:       {u32, reflect.TypeFor[edgeHearing]()},
		edgeMapConnections:    {reflect.TypeFor[edgeConnKey](), reflect.TypeFor[edgeConn]()},
		edgeMapHalfOpen:       {reflect.TypeFor[edgeConnKey](), reflect.TypeFor[edgeConn]()},
		edgeMapHalfOpens:      {u32, reflect.TypeFor[edgeHalfOpenCount]()},
		edgeMapFragments:      {reflect.TypeFor[edgeFragmentKey](), reflect.TypeFor[uint64]()},
		edgeMapRules:          {u32, reflect.TypeFor[edgeRuleCounters]()},
		edgeMapLogs:           {reflect.TypeFor[[0]byte](), reflect.TypeFor[[0]byte]()},
		edgeMapLogBuckets:     {u32, reflect.TypeFor[edgeLogBucket]()},
		edgeMapPolicy:         {u32, u32}, // of maps
		edgeMapContests:       {u32, reflect.TypeFor[edgeContest]()},
		edgeMapEgresses:       {u32, reflect.TypeFor[edgeEgress]()},
		edgeMapPool:           {u32, reflect.TypeFor[edgeAddr]()},
		edgeMapBindings:       {reflect.TypeFor[edgeConnKey](), reflect.TypeFor[edgeBinding]()},
		edgeMapReturns:        {reflect.TypeFor[edgeConnKey](), reflect.TypeFor[edgeOrigin]()},
		edgeMapHostCounts:     {reflect.TypeFor[edgeHostKey](), reflect.TypeFor[edgeHostBindings]()},
		edgeMapForwards:       {reflect.TypeFor[edgeForwardKey](), reflect.TypeFor[edgeForward]()},
		edgeMapNatFragments:   {reflect.TypeFor[edgeFragmentKey](), reflect.TypeFor[edgeFragmentTranslation]()},
		edgeMapNews:           {reflect.TypeFor[[0]byte](), reflect.TypeFor[[0]byte]()},
		edgeMapStamps:         {u32, reflect.TypeFor[edgeStamp]()},
		edgeMapStamped:        {u32, reflect.TypeFor[edgeStamped]()},
	}
	spec, err := loadEdge()
	if err != nil {
		t.Fatal(err)
	}
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

// A decision fits a cache line, and so does what changes with each packet.
func TestFlowFitsCacheLines(t *testing.T) {
	// A translation is read by who has one.
	translation, _ := reflect.TypeFor[edgeFlow]().FieldByName("Translation")
	if size := reflect.TypeFor[edgeFlow]().Size(); translation.Offset > 128 || size > 192 {
		t.Errorf("struct flow has %d bytes, the translation begins at %d", size, translation.Offset)
	}
	if size := reflect.TypeFor[edgeShortcut]().Size(); size != 128 {
		t.Errorf("struct shortcut has %d bytes", size)
	}
}

func TestWords(t *testing.T) {
	v, err := vocabularyOf()
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	for list, w := range map[string]words{"reasons": v.reasons, "slows": v.slows, "events": v.events, "stages": v.stages} {
		names, texts := map[string]bool{}, map[string]bool{}
		for i, word := range w {
			if !name.MatchString(word.name) || names[word.name] {
				t.Errorf("%s: number %d has the name %q", list, i, word.name)
			}
			fast := list == "slows" && i == int(edgeSlowSLOW_FAST) // nothing to explain
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

// define is a number that a C header defines.
func define(t *testing.T, file, name string) int {
	t.Helper()
	return number(t, file, regexp.MustCompile(`(?m)^#define `+name+`\s+(\d+)`))
}

func number(t *testing.T, file string, pattern *regexp.Regexp) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	match := pattern.FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s: nothing matches %s", file, pattern)
	}
	n, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What Go repeats of bpf/abi/abi.h is the same there. Slot 0 of ends and segments is never used.
func TestConstantsAreTheHeaders(t *testing.T) {
	const abi, check = "../../bpf/abi/abi.h", "../config/check.go"
	config := func(name string) int {
		return number(t, check, regexp.MustCompile(`(?m)^\s*`+name+`\s*=\s*(\d+)`))
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"abiVersion", abiVersion, define(t, abi, "ABI_VERSION")},
		{"MaxUDPPorts", MaxUDPPorts, define(t, abi, "MAX_UDP_PORTS")},
		{"config.maxUDPPorts", config("maxUDPPorts"), define(t, abi, "MAX_UDP_PORTS")},
		{"config.maxSegments", config("maxSegments"), define(t, abi, "MAX_SEGMENTS") - 1},
		{"config.maxMembers", config("maxMembers"), define(t, abi, "MAX_MEMBERS")},
		{"config.maxEnds", config("maxEnds"), define(t, abi, "MAX_ENDS") - 1},
		{"groupBuckets", groupBuckets, define(t, abi, "GROUP_BUCKETS")},
		{"egressPlace", egressPlace, define(t, abi, "MAX_ENDS")},
		{"noEgress", noEgress, define(t, abi, "MAX_EGRESS")},
		{"EgressBuckets", EgressBuckets, define(t, abi, "EGRESS_BUCKETS")},
		{"nat.Buckets", nat.Buckets, define(t, abi, "EGRESS_BUCKETS")},
		{"MaxGateways", MaxGateways, define(t, abi, "MAX_GATEWAYS")},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, the data plane has %d", c.what, c.got, c.want)
		}
	}
}

// The verifier accepts the programs whatever branches the constants close: any two of
// them meet in all ways. In make test-long each is alone and all but each, too.
func TestEveryCombinationVerifies(t *testing.T) {
	tier.Root(t)
	spec, err := loadEdge()
	if err != nil {
		t.Fatal(err)
	}
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
		constants := map[string]any{edgeVarHoldNs: uint64(columns[0] >> row & 1 * 50_000)} // a number that closes a branch too
		for i, name := range switches {
			constants[name] = columns[i+1]>>row&1 != 0
		}
		verify(t, constants)
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
			for _, hold := range []uint64{0, 50_000} {
				constants[edgeVarHoldNs] = hold
				verify(t, constants)
			}
		}
	}
}

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

// Without a firewall and NAT their stages are not there, so the verifier does not look at
// them: an edge's start is mostly that.
func TestStagesThatAreNotThere(t *testing.T) {
	tier.Root(t)
	walked := func(there bool) uint32 {
		t.Helper()
		objs := verified(t, map[string]any{edgeVarWithFirewall: there, edgeVarWithNat: there})
		if objs == nil {
			t.FailNow()
		}
		defer objs.Close()
		info, err := objs.FromPort.Info()
		if err != nil {
			t.Fatal(err)
		}
		n, ok := info.VerifiedInstructions()
		if !ok {
			t.Fatal("this kernel does not say how many instructions it verified")
		}
		return n
	}
	with, without := walked(true), walked(false)
	t.Logf("%d instructions of from_port are verified with a firewall and NAT, %d without", with, without)
	if without > with/2 {
		t.Errorf("%d instructions of from_port are verified without a firewall and NAT, %d with both: something calls them", without, with)
	}
}

func verify(t *testing.T, constants map[string]any) {
	t.Helper()
	if objs := verified(t, constants); objs != nil {
		objs.Close()
	}
}

// verified are the objects with these constants; nil, and the test failed, when the kernel
// refuses them.
func verified(t *testing.T, constants map[string]any) *edgeObjects {
	t.Helper()
	spec, err := loadEdge()
	if err != nil {
		t.Fatal(err)
	}
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
	var objs edgeObjects
	if err := spec.LoadAndAssign(&objs, nil); err != nil {
		t.Errorf("%v: %+v", constants, err)
		return nil
	}
	return &objs
}
