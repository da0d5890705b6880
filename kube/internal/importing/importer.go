package importing

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Setting is what objects do not say and the caller does, for one gateway or, without a name, for all.
type Setting struct{ Gateway, Value string }

// Options are what objects do not say.
type Options struct {
	Interfaces []Setting // of uplinks
	VLANs      []Setting
	NextHops   []Setting
	Nodes      []Setting // label selectors
	Addresses  []Setting // of gateways, besides those of objects
	Except     []string  // networks, of every policy
	// WhenNoGateway is of every policy; Drop when left out.
	WhenNoGateway v1alpha1.NoGateway
	// ExtraCIDRs has the networks of EgressClusterInfo be exceptions of policies that name no destinations.
	ExtraCIDRs bool
	// First are policies, by KIND [NAMESPACE/]NAME, that go before others with the same address: they keep it, and their name.
	First map[string]bool
}

// Result is objects of Selvage, and what of those that were read they do not have.
type Result struct {
	Gateways        []v1alpha1.EgressGateway
	Policies        []v1alpha1.EgressPolicy
	ClusterPolicies []v1alpha1.ClusterEgressPolicy
	Notes           []Note
	// Read counts objects that were read by kind and group; Ignored those of other groups.
	Read, Ignored map[string]int

	origins map[string][]string // objects that one was made of, by KIND NAMESPACE/NAME
}

// importer holds what has been read.
type importer struct {
	Options
	notes    []Note
	noted    map[Note]bool
	gateways []*gateway
	policies []*policy
	settled  map[*Setting]bool
	needed   Needed
	except   []netip.Prefix
	names    map[string]bool
	result   Result
	seen     map[string]string // objects by group, kind and name, and where they were read

	spidernet spidernet
	cilium    cilium
}

// gateway is a gateway that is being made.
type gateway struct {
	name      string
	origins   []string
	project   string // goes into the name when two projects have the same
	nodes     *metav1.LabelSelector
	mode      v1alpha1.GatewayMode
	addresses []span
	pool      bool   // its own object names addresses
	given     []span // by the caller
	uplink    string
	vlan      uint16
	hops      []netip.Addr
}

// policy is a policy that is being made.
type policy struct {
	origins    []string
	namespace  string // none: of the cluster
	name       string
	project    string
	namespaces *metav1.LabelSelector
	pods       *metav1.LabelSelector
	accounts   []string
	to, except []netip.Prefix
	gateway    *gateway
	fixed      []netip.Addr
	ofNode     bool // its pods get the address of the gateway's node
	holds      bool // the other project has given it its addresses already
	priority   *int32
}

// object is how notes name what the policy was made of.
func (p *policy) object() string { return p.origins[0] }

// normalize leaves selectors out that select all.
func (p *policy) normalize() {
	if everything(p.pods) {
		p.pods = nil
	}
	if everything(p.namespaces) {
		p.namespaces = nil
	}
}

// spaces selects the namespaces of the policy.
func (p *policy) spaces() *metav1.LabelSelector {
	if p.namespace != "" {
		return ofNamespace(p.namespace)
	}
	return p.namespaces
}

// reader reads one kind of a group.
type reader func(*importer, heading, Object)

// readers are the kinds that are read, by API version and kind.
var readers = map[string]reader{
	"egressgateway.spidernet.io/v1beta1 EgressGateway":       (*importer).readSpidernetGateway,
	"egressgateway.spidernet.io/v1beta1 EgressPolicy":        (*importer).readSpidernetPolicy,
	"egressgateway.spidernet.io/v1beta1 EgressClusterPolicy": (*importer).readSpidernetPolicy,
	"egressgateway.spidernet.io/v1beta1 EgressClusterInfo":   (*importer).readSpidernetClusterInfo,
	"cilium.io/v2 CiliumEgressGatewayPolicy":                 (*importer).readCilium,
	"v1 Namespace":                                           (*importer).readNamespace,
}

// written are kinds that others' controllers write by themselves: there is nothing to carry.
var written = map[string]bool{
	"egressgateway.spidernet.io EgressTunnel":               true,
	"egressgateway.spidernet.io EgressEndpointSlice":        true,
	"egressgateway.spidernet.io EgressClusterEndpointSlice": true,
}

// egressKinds are what else of the groups would make packets leave elsewhere.
var egressKinds = map[string]string{
	"cilium.io CiliumEgressNATPolicy":        "convert it to cilium.io/v2 CiliumEgressGatewayPolicy first",
	"cilium.io IsovalentEgressGatewayPolicy": "write policies by hand",
}

// Convert makes Selvage's objects. What is missing is an error of type Needed; the result then has the notes alone.
func Convert(objects []Object, o Options) (Result, error) {
	o.WhenNoGateway = cmp.Or(o.WhenNoGateway, v1alpha1.NoGatewayDrop)
	i := &importer{
		Options: o, noted: map[Note]bool{}, settled: map[*Setting]bool{}, names: map[string]bool{}, seen: map[string]string{},
		result: Result{Read: map[string]int{}, Ignored: map[string]int{}, origins: map[string][]string{}},
	}
	if err := i.readExcept(); err != nil {
		return Result{}, err
	}
	i.readAll(objects)
	i.makeSpidernet()
	i.makeCilium()
	i.addExcept()
	err := i.settle()
	if err == nil {
		i.share()
		i.write()
	}
	i.result.Notes = i.notes
	return i.result, err
}

// Origins are the objects that one of the result was made of, as KIND [NAMESPACE/]NAME, the first one first.
func (r Result) Origins(kind string, o metav1.ObjectMeta) []string {
	return r.origins[key(metav1.TypeMeta{Kind: kind}, o)]
}

func (i *importer) readExcept() error {
	for _, s := range i.Except {
		p, err := parseNetwork(s)
		if err != nil {
			return fmt.Errorf("exception %q: %w", s, err)
		}
		i.except = append(i.except, p)
	}
	if len(i.except) > maxNetworks {
		return fmt.Errorf("there are %d exceptions, and %d fit", len(i.except), maxNetworks)
	}
	return nil
}

// titled is an object with its heading.
type titled struct {
	heading
	Object
}

// readAll reads objects in the order of their names, so that the order of files counts for nothing.
func (i *importer) readAll(objects []Object) {
	var all []titled
	for _, o := range objects {
		var h heading
		if err := json.UnmarshalCaseSensitivePreserveInts(o.JSON, &h); err != nil {
			i.lost(o.Source, "", nil, fmt.Sprintf("it is no object of Kubernetes: %v", err), "correct it")
			continue
		}
		all = append(all, titled{h, o})
	}
	slices.SortStableFunc(all, func(a, b titled) int {
		return cmp.Or(cmp.Compare(a.group(), b.group()), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Metadata.Namespace, b.Metadata.Namespace), cmp.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	for _, o := range all {
		i.readOne(o)
	}
}

// groups are those of the projects.
var groups = map[string]bool{"egressgateway.spidernet.io": true, "cilium.io": true}

func (i *importer) readOne(o titled) {
	read, is := readers[o.APIVersion+" "+o.Kind]
	kind := o.group() + " " + o.Kind
	do, egress := egressKinds[kind]
	other := func(r string) bool { return strings.HasPrefix(r, o.group()+"/") && strings.HasSuffix(r, " "+o.Kind) }
	switch {
	case is:
		key := kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
		if first, twice := i.seen[key]; twice {
			i.lost(o.String(), "", nil, fmt.Sprintf("%s has it after %s", o.Source, first), "keep one of the two")
			return
		}
		i.seen[key] = o.Source
		if o.APIVersion != "v1" {
			i.result.Read[kind]++
		}
		read(i, o.heading, o.Object)
	case written[kind]:
	case egress:
		i.lost(o.String(), "", nil, "the kind is not read", do)
	case groups[o.group()] && slices.ContainsFunc(readerNames(), other):
		i.lost(o.String(), "", nil, "version "+o.APIVersion+" is not read", "convert it to a newer one")
	default:
		i.result.Ignored[strings.TrimSpace(kind)]++
	}
}

func readerNames() (names []string) {
	for name := range readers {
		names = append(names, name)
	}
	return names
}

// addGateway adds a gateway.
func (i *importer) addGateway(g *gateway) *gateway {
	g.addresses = mergeSpans(g.addresses, false)
	i.gateways = append(i.gateways, g)
	return g
}

// own adds an address that a policy has to its gateway, if that does not have it.
func (i *importer) own(object string, g *gateway, a netip.Addr) {
	if !slices.ContainsFunc(g.addresses, func(s span) bool { return s.contains(a) }) {
		if g.pool {
			i.changed(object, "", nil, fmt.Sprintf("its address %s is not among those of its gateway, and is added there", a), "")
		}
		g.addresses = mergeSpans(append(g.addresses, span{a, a}), false)
	}
}

// addExcept adds the exceptions that the caller named to all policies.
func (i *importer) addExcept() {
	for _, p := range i.policies {
		for _, e := range i.except {
			if !slices.Contains(p.except, e) {
				p.except = append(p.except, e)
			}
		}
	}
	i.policies = slices.DeleteFunc(i.policies, func(p *policy) bool {
		if len(p.except) > maxNetworks {
			p.except = aggregate(p.except)
		}
		if len(p.except) > maxNetworks {
			i.lost(p.object(), "", nil, fmt.Sprintf("it has %d exceptions, and %d fit", len(p.except), maxNetworks), "name fewer and larger networks")
			return true
		}
		return false
	})
}
