package config

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// The shape of the file. These structs are all there is: the strict decoder and
// the JSON Schema both read them and their tags.
//
//	json                    the field's name; omitempty makes it optional
//	jsonschema              default, enum, minimum, maximum, minItems are obeyed
//	jsonschema_description  for editors, and the hint when the field is missing
//	hint                    the hint when a value is out of range

type document struct {
	APIVersion string   `json:"apiVersion" jsonschema:"enum=selvage.dev/v1alpha1" jsonschema_description:"version of this format: selvage.dev/v1alpha1"`
	Kind       string   `json:"kind" jsonschema:"enum=Edge" jsonschema_description:"what the file describes: Edge"`
	Metadata   metadata `json:"metadata" jsonschema_description:"who this edge is"`
	Spec       spec     `json:"spec" jsonschema_description:"what this edge does"`
}

type metadata struct {
	Name label `json:"name" jsonschema_description:"name of this edge on its host, a DNS label; it names the socket and the directory of pins"`
}

type spec struct {
	Underlay  underlay  `json:"underlay" jsonschema_description:"the plain IP network that carries the tunnels"`
	FlowCache flowCache `json:"flowCache,omitempty" jsonschema_description:"the cache of forwarding decisions"`
	FDB       fdb       `json:"fdb,omitempty" jsonschema_description:"the forwarding database that all segments share"`
	Segments  []segment `json:"segments,omitempty" jsonschema_description:"layer 2 broadcast domains, one VNI each"`
	Ports     []port    `json:"ports,omitempty" jsonschema_description:"local interfaces attached to segments"`
}

type underlay struct {
	Interfaces []interfaceName `json:"interfaces" jsonschema:"minItems=1,uniqueItems=true" jsonschema_description:"interfaces on which tunnels arrive and leave, as in [eth0]"`
	TEP        address         `json:"tep" jsonschema_description:"address of this edge's tunnel endpoint, IPv4 or IPv6: one that this host has"`
}

type flowCache struct {
	Enabled bool   `json:"enabled,omitempty" jsonschema:"default=true" jsonschema_description:"false decides every packet anew, for comparison only"`
	Size    uint32 `json:"size,omitempty" jsonschema:"default=262144,minimum=1024,maximum=4194304" jsonschema_description:"entries; one for each direction of a connection" hint:"two entries for each concurrent connection are enough"`
}

type fdb struct {
	Size   uint32   `json:"size,omitempty" jsonschema:"default=65536,minimum=16,maximum=4194304" jsonschema_description:"entries, one for each MAC address of each segment" hint:"one entry for each MAC address is enough"`
	Ageing duration `json:"ageing,omitempty" jsonschema:"default=300s" jsonschema_description:"how long a learned entry lives without traffic, as in 300s or 5m; 0 is for ever"`
}

type segment struct {
	Name          objectName  `json:"name" jsonschema_description:"name by which ports and commands refer to this segment"`
	VNI           uint32      `json:"vni" jsonschema:"minimum=1,maximum=16777215" jsonschema_description:"VXLAN network identifier, the same on every edge of the segment" hint:"a VNI has 24 bits, is the same on every edge of the segment, and 0 is not used"`
	Encapsulation string      `json:"encapsulation,omitempty" jsonschema:"default=vxlan,enum=vxlan" jsonschema_description:"tunnel header: vxlan (RFC 7348)"`
	UDPPort       uint16      `json:"udpPort,omitempty" jsonschema:"default=4789,minimum=1,maximum=65535" jsonschema_description:"UDP port of the tunnels, the same on every edge of the segment" hint:"4789 is VXLAN's own, 8472 what Linux used before it"`
	UDPChecksum   bool        `json:"udpChecksum,omitempty" jsonschema:"default=false" jsonschema_description:"send outer UDP checksums, on an IPv6 underlay only; both kinds are accepted (RFC 6935)"`
	Remotes       []address   `json:"remotes,omitempty" jsonschema:"uniqueItems=true" jsonschema_description:"tunnel endpoints of the other edges of the segment"`
	FDB           []staticMAC `json:"fdb,omitempty" jsonschema_description:"forwarding entries that neither age nor move"`
}

type staticMAC struct {
	MAC    macAddress `json:"mac" jsonschema_description:"unicast MAC address, as in \"02:00:00:00:00:01\""`
	Port   objectName `json:"port,omitempty" jsonschema:"oneof_required=port" jsonschema_description:"local port behind which it is"`
	Remote address    `json:"remote,omitempty" jsonschema:"oneof_required=remote" jsonschema_description:"remote tunnel endpoint behind which it is"`
}

type port struct {
	Name      objectName    `json:"name" jsonschema_description:"name of the port in commands and counters"`
	Interface interfaceName `json:"interface" jsonschema_description:"local interface, as in veth0 or tap0; it may appear later"`
	Segment   objectName    `json:"segment" jsonschema_description:"name of the segment that it belongs to"`
}

// edge turns a checked document into the model.
func (d *document) edge() overlay.Edge {
	e := overlay.Edge{
		Name: string(d.Metadata.Name),
		Underlay: overlay.Underlay{
			TEP: d.Spec.Underlay.TEP.Addr,
		},
		FlowCache: overlay.FlowCache{Enabled: d.Spec.FlowCache.Enabled, Size: d.Spec.FlowCache.Size},
		FDB:       overlay.FDB{Size: d.Spec.FDB.Size, Ageing: time.Duration(d.Spec.FDB.Ageing)},
	}
	for _, name := range d.Spec.Underlay.Interfaces {
		e.Underlay.Interfaces = append(e.Underlay.Interfaces, string(name))
	}
	for _, s := range d.Spec.Segments {
		e.Segments = append(e.Segments, s.model())
	}
	for _, p := range d.Spec.Ports {
		e.Ports = append(e.Ports, overlay.Port{Name: string(p.Name), Interface: string(p.Interface), Segment: string(p.Segment)})
	}
	return e
}

func (s segment) model() overlay.Segment {
	remotes := make([]netip.Addr, len(s.Remotes))
	for i, r := range s.Remotes {
		remotes[i] = r.Addr
	}
	static := make([]overlay.StaticMAC, len(s.FDB))
	for i, f := range s.FDB {
		static[i] = overlay.StaticMAC{MAC: f.MAC.MAC, Port: string(f.Port), Remote: f.Remote.Addr}
	}
	return overlay.Segment{
		Name:          string(s.Name),
		VNI:           overlay.VNI(s.VNI),
		Encapsulation: overlay.Encapsulation(s.Encapsulation),
		UDPPort:       s.UDPPort,
		UDPChecksum:   s.UDPChecksum,
		Remotes:       remotes,
		Static:        static,
	}
}
