package event

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Kind is what kind of thing happened.
type Kind string

// Kinds of events. About says what they mean.
const (
	EdgeStarted      Kind = "edge-started"
	EdgeStopping     Kind = "edge-stopping"
	DataPathAdopted  Kind = "data-path-adopted"
	DataPathLoaded   Kind = "data-path-loaded"
	DataPathReplaced Kind = "data-path-replaced"
	TableResized     Kind = "table-resized"
	LinkUp           Kind = "link-up"
	LinkDown         Kind = "link-down"
	PortUp           Kind = "port-up"
	PortDown         Kind = "port-down"
	PortAdded        Kind = "port-added"
	PortChanged      Kind = "port-changed"
	PortRemoved      Kind = "port-removed"
	PortCut          Kind = "port-cut"
	PortThawed       Kind = "port-thawed"
	PortClaim        Kind = "port-claim"
	PathUp           Kind = "path-up"
	PathDown         Kind = "path-down"
	BFDState         Kind = "bfd-state"
	RemoteService    Kind = "remote-service"
	BGPUp            Kind = "bgp-up"
	BGPDown          Kind = "bgp-down"
	BGPReset         Kind = "bgp-reset"
	BGPLimit         Kind = "bgp-limit"
	BGPFamily        Kind = "bgp-family"
	BGPMalformed     Kind = "bgp-malformed"
	BGPHost          Kind = "bgp-host"
	MACMoved         Kind = "mac-moved"
	MACFrozen        Kind = "mac-frozen"
	MACThawed        Kind = "mac-thawed"
	AddressConflict  Kind = "address-conflict"
	GatewayRole      Kind = "gateway-role"
	FailoverStarted  Kind = "failover-started"
	FailoverEnded    Kind = "failover-ended"
	DrainStarted     Kind = "drain-started"
	DrainEnded       Kind = "drain-ended"
	DrainDone        Kind = "drain-done"
	SyncUp           Kind = "sync-up"
	SyncDown         Kind = "sync-down"
	ProblemRaised    Kind = "problem-raised"
	ProblemCleared   Kind = "problem-cleared"
	ConfigApplied    Kind = "config-applied"
	ConfigRefused    Kind = "config-refused"
	ConfigAwaits     Kind = "config-awaits"
	ConfigConfirmed  Kind = "config-confirmed"
	ConfigRolledBack Kind = "config-rolled-back"
	ObjectsChanged   Kind = "objects-changed"
	LogLevel         Kind = "log-level"
	RequestRefused   Kind = "request-refused"
)

// About is what is known of a kind.
type About struct {
	Kind Kind
	// Object is the attribute that names what the event is of; "" is the edge itself.
	Object string
	Text   string
	// Busy says that guests or the network can cause many: they push out each other and no event of other kinds.
	Busy bool
}

// Kinds are all, in the order of the documentation.
func Kinds() []About {
	return []About{
		{EdgeStarted, "", "The process of the edge is ready.", false},
		{EdgeStopping, "", "The process of the edge ends. The text says whether its data path goes on.", false},
		{DataPathAdopted, "", "The process took over a data path that was forwarding already.", false},
		{DataPathLoaded, "", "The process loaded a data path, as there was none.", false},
		{DataPathReplaced, "", "Programs were loaded anew for a changed configuration, and took the place of the former ones.", false},
		{TableResized, "table", "A table of the data path has another size.", false},
		{LinkUp, "interface", "An underlay or uplink interface is up.", false},
		{LinkDown, "interface", "An underlay or uplink interface is down or gone.", false},
		{PortUp, "port", "The interface of a port is there and up.", false},
		{PortDown, "port", "The interface of a port is down or gone.", false},
		{PortAdded, "port", "A port was added to the configuration.", false},
		{PortChanged, "port", "A port has another configuration.", false},
		{PortRemoved, "port", "A port was removed from the configuration.", false},
		{PortCut, "port", "A port is cut off from floods, as its segment has a loop.", true},
		{PortThawed, "port", "A port that was cut off is back: its loop is gone.", true},
		{PortClaim, "port", "A host at a port claims an address outside the networks of its segment, to which no route leads. `owner` says what has it here.", true},
		{PathUp, "remote", "A path to a remote is in use again.", false},
		{PathDown, "remote", "A path to a remote is out of use. `found` says by what: bfd, next-hop or link.", false},
		{BFDState, "remote", "A BFD session with a remote changed its state.", false},
		{RemoteService, "remote", "A remote announces another role as a gateway.", false},
		{BGPUp, "neighbour", "A BGP session is established.", false},
		{BGPDown, "neighbour", "A BGP session is lost or was ended. `why` says by what.", false},
		{BGPReset, "neighbour", "Somebody reset a BGP session.", false},
		{BGPLimit, "neighbour", "A neighbour reached, or nearly reached, the number of prefixes that it may advertise, or too many of its updates waited.", false},
		{BGPFamily, "neighbour", "A neighbour does not exchange an address family that is configured.", false},
		{BGPMalformed, "neighbour", "A neighbour advertised a malformed route, which is not used.", true},
		{BGPHost, "mac", "BGP told of a host what an operator may look for: a duplicate, or a conflict with a static entry.", true},
		{MACMoved, "mac", "A host moved to this edge, or away from it.", true},
		{MACFrozen, "mac", "A MAC address moved too often and is frozen.", true},
		{MACThawed, "mac", "A frozen MAC address may move again.", true},
		{AddressConflict, "address", "Another host has a tunnel endpoint, an address of an uplink or an egress address of this edge too, or no longer. `mac` is its MAC address.", true},
		{GatewayRole, "gateway", "An egress gateway has another role: serving, draining or gone.", false},
		{FailoverStarted, "gateway", "A gateway is gone, and others take over its sources.", false},
		{FailoverEnded, "gateway", "The tables obey, and the uplinks were told of addresses that came here. `duration` is from the failure's being seen.", false},
		{DrainStarted, "", "Somebody drains this edge as a gateway.", false},
		{DrainEnded, "", "Somebody ended the drain of this edge.", false},
		{DrainDone, "", "A drain is over: no connection uses this gateway, or its time has passed.", false},
		{SyncUp, "gateway", "NAT sessions are replicated with another gateway.", false},
		{SyncDown, "gateway", "NAT sessions are not replicated with another gateway.", false},
		{ProblemRaised, "", "There is a problem that was not there before, as `selvage status` lists it.", false},
		{ProblemCleared, "", "A problem is over.", false},
		{ConfigApplied, "", "A configuration is in force.", false},
		{ConfigRefused, "", "A configuration was refused, and the one before is in force.", false},
		{ConfigAwaits, "", "A configuration is in force, and goes back unless it is confirmed.", false},
		{ConfigConfirmed, "", "A configuration that would have gone back stays.", false},
		{ConfigRolledBack, "", "A configuration went back to an earlier one.", false},
		{ObjectsChanged, "", "Somebody added, changed or removed ports, segments, remotes, static entries or address groups without a file.", false},
		{LogLevel, "log", "Somebody changed a level of the log.", false},
		{RequestRefused, "path", "A request to the API was refused, as who asked may not.", true},
	}
}

// about is what is known of a kind; of an unknown one, that it is about the edge.
func about(k Kind) About {
	for _, a := range Kinds() {
		if a.Kind == k {
			return a
		}
	}
	return About{Kind: k, Busy: true}
}

// ParseKinds reads kinds that are separated by commas. The first word of some, as bgp, stands for all of them.
func ParseKinds(text string) (kinds []Kind, err error) {
	for _, word := range strings.Split(text, ",") {
		before := len(kinds)
		for _, a := range Kinds() {
			if word == string(a.Kind) || strings.HasPrefix(string(a.Kind), word+"-") {
				kinds = append(kinds, a.Kind)
			}
		}
		if len(kinds) == before {
			return nil, fmt.Errorf("there is no kind of event %q; there are: %s", word, strings.Join(words(), ", "))
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds), nil
}

// words are the kinds, and the first words of several.
func words() []string {
	count := map[string]int{}
	list := make([]string, 0, len(Kinds()))
	for _, a := range Kinds() {
		first, _, _ := strings.Cut(string(a.Kind), "-")
		count[first]++
		list = append(list, string(a.Kind))
	}
	for first, n := range count {
		if n > 1 {
			list = append(list, first)
		}
	}
	slices.Sort(list)
	return list
}

// key is of the attribute that makes a log line an event.
const key = "event"

// Is has a log line be an event of a kind: log.Warn(text, event.Is(event.PortCut), "port", name).
func Is(k Kind) slog.Attr { return slog.Any(key, k) }
