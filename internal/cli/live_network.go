package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
)

type segmentCmd struct {
	Show   segmentShowCmd   `cmd:"" default:"withargs" help:"List live segments. selvage status lists all."`
	Add    segmentAddCmd    `cmd:"" help:"Add a segment."`
	Set    segmentSetCmd    `cmd:"" help:"Change a live segment: what is given replaces what there was."`
	Remove segmentRemoveCmd `cmd:"" aliases:"del,delete" help:"Remove live segments."`
}

type segmentShowCmd struct{ showing }

// Run lists live segments.
func (c *segmentShowCmd) Run(ctx context.Context, s *streams) error {
	return c.show(ctx, s, config.KindSegment)
}

// segmentFields are flags for the fields of a segment.
type segmentFields struct {
	VNI           uint32   `name:"vni" placeholder:"N" help:"Virtual network identifier, the same on every edge of the segment."`
	Encapsulation string   `placeholder:"KIND" help:"Tunnel header: vxlan, geneve or nvgre."`
	UDPPort       uint16   `name:"udp-port" placeholder:"PORT" help:"UDP port of the tunnels; the encapsulation's when left out."`
	Remote        []string `placeholder:"REMOTE" help:"The other edges of the segment: tunnel endpoints, or names of remotes."`
	Firewall      string   `placeholder:"VERDICT" help:"What becomes of packets that no rule decides about: allow, drop or reject."`
	EVPN          bool     `name:"evpn" help:"Tell and learn the hosts and edges of the segment by EVPN."`
}

func (f segmentFields) object() map[string]any {
	o := map[string]any{}
	for name, value := range map[string]string{"encapsulation": f.Encapsulation, "firewall": f.Firewall} {
		if value != "" {
			o[name] = value
		}
	}
	if f.VNI != 0 {
		o["vni"] = f.VNI
	}
	if f.UDPPort != 0 {
		o["udpPort"] = f.UDPPort
	}
	if len(f.Remote) > 0 {
		o["remotes"] = f.Remote
	}
	if f.EVPN {
		o["evpn"] = map[string]any{}
	}
	return o
}

type segmentAddCmd struct {
	adding
	segmentFields
	Name string `arg:"" help:"Name of the segment."`
}

// Run adds a segment.
func (c *segmentAddCmd) Run(ctx context.Context, s *streams) error {
	o := c.object()
	o["name"] = c.Name
	return c.add(ctx, s, config.KindSegment, c.Name, o)
}

type segmentSetCmd struct {
	setting
	segmentFields
	Name string `arg:"" help:"Name of the segment."`
}

// Run changes a segment.
func (c *segmentSetCmd) Run(ctx context.Context, s *streams) error {
	return c.set(ctx, s, config.KindSegment, c.Name, c.object())
}

type segmentRemoveCmd struct{ namedRemoval }

// Run removes segments.
func (c *segmentRemoveCmd) Run(ctx context.Context, s *streams) error {
	return c.remove(ctx, s, config.KindSegment, c.Names...)
}

type remoteCmd struct {
	Show   remoteShowCmd   `cmd:"" default:"withargs" help:"List live remotes. selvage teps lists all."`
	Add    remoteAddCmd    `cmd:"" help:"Add a remote, and put it into segments."`
	Set    remoteSetCmd    `cmd:"" help:"Change a live remote: what is given replaces what there was."`
	Remove remoteRemoveCmd `cmd:"" aliases:"del,delete" help:"Remove live remotes."`
}

type remoteShowCmd struct{ showing }

// Run lists live remotes.
func (c *remoteShowCmd) Run(ctx context.Context, s *streams) error {
	return c.show(ctx, s, config.KindRemote)
}

type remoteFields struct {
	TEP     []string `name:"tep" placeholder:"ADDRESS" help:"Tunnel endpoints of a remote with a name, the preferred first."`
	Segment []string `placeholder:"NAME" help:"Segments that the remote is in, of the file or live."`
}

func (f remoteFields) object() map[string]any {
	o := map[string]any{}
	if len(f.TEP) > 0 {
		o["addresses"] = f.TEP
	}
	if len(f.Segment) > 0 {
		o["segments"] = f.Segment
	}
	return o
}

type remoteAddCmd struct {
	adding
	remoteFields
	Name string `arg:"" help:"Name of the remote, or the address of its only tunnel endpoint."`
}

// Run adds a remote.
func (c *remoteAddCmd) Run(ctx context.Context, s *streams) error {
	o := c.object()
	o["name"] = c.Name
	return c.add(ctx, s, config.KindRemote, c.Name, o)
}

type remoteSetCmd struct {
	setting
	remoteFields
	Name string `arg:"" help:"Name of the remote, or its address."`
}

// Run changes a remote.
func (c *remoteSetCmd) Run(ctx context.Context, s *streams) error {
	return c.set(ctx, s, config.KindRemote, c.Name, c.object())
}

type remoteRemoveCmd struct{ namedRemoval }

// Run removes remotes.
func (c *remoteRemoveCmd) Run(ctx context.Context, s *streams) error {
	return c.remove(ctx, s, config.KindRemote, c.Names...)
}

type fdbCmd struct {
	List   fdbListCmd   `cmd:"" default:"withargs" help:"List the forwarding database."`
	Add    fdbAddCmd    `cmd:"" help:"Add a static entry, which neither ages nor moves."`
	Remove fdbRemoveCmd `cmd:"" aliases:"del,delete" help:"Remove a live static entry."`
}

type fdbAddCmd struct {
	adding
	MAC     string `arg:"" name:"mac" help:"MAC address."`
	Segment string `required:"" placeholder:"NAME" help:"Segment of the entry."`
	Port    string `xor:"place" required:"" placeholder:"NAME" help:"Local port behind which it is; of a trunk with the VLAN, as in p0.10."`
	Remote  string `xor:"place" required:"" placeholder:"REMOTE" help:"Remote behind which it is."`
}

// Run adds an entry.
func (c *fdbAddCmd) Run(ctx context.Context, s *streams) error {
	o := map[string]any{"segment": c.Segment, "mac": c.MAC}
	if c.Port != "" {
		o["port"] = c.Port
	} else {
		o["remote"] = c.Remote
	}
	return c.add(ctx, s, config.KindFDB, "", o)
}

type fdbRemoveCmd struct {
	removing
	MAC     string `arg:"" name:"mac" help:"MAC address."`
	Segment string `required:"" placeholder:"NAME" help:"Segment of the entry."`
}

// Run removes an entry.
func (c *fdbRemoveCmd) Run(ctx context.Context, s *streams) error {
	return c.remove(ctx, s, config.KindFDB, c.Segment+"/"+strings.ToLower(c.MAC))
}

type neighboursCmd struct {
	List   neighboursListCmd  `cmd:"" default:"withargs" help:"List ARP and ND entries."`
	Add    neighbourAddCmd    `cmd:"" help:"Add a static entry: the MAC address of a host, known for ever."`
	Remove neighbourRemoveCmd `cmd:"" aliases:"del,delete" help:"Remove a live static entry."`
}

type neighbourAddCmd struct {
	adding
	Address string `arg:"" help:"IP address of the host."`
	MAC     string `arg:"" name:"mac" help:"Its MAC address."`
	Segment string `required:"" placeholder:"NAME" help:"Segment of the entry."`
}

// Run adds an entry.
func (c *neighbourAddCmd) Run(ctx context.Context, s *streams) error {
	return c.add(ctx, s, config.KindNeighbour, "", map[string]any{"segment": c.Segment, "address": c.Address, "mac": c.MAC})
}

type neighbourRemoveCmd struct {
	removing
	Address string `arg:"" help:"IP address of the host."`
	Segment string `required:"" placeholder:"NAME" help:"Segment of the entry."`
}

// Run removes an entry.
func (c *neighbourRemoveCmd) Run(ctx context.Context, s *streams) error {
	return c.remove(ctx, s, config.KindNeighbour, c.Segment+"/"+c.Address)
}

type groupCmd struct {
	Show         groupShowCmd         `cmd:"" default:"withargs" help:"List live groups, and live members of groups of the configuration file."`
	Add          groupAddCmd          `cmd:"" help:"Add a group."`
	AddMember    groupAddMemberCmd    `cmd:"" help:"Add members to a group: one of the configuration file that is live, or a live one, which is made if it is not there."`
	RemoveMember groupRemoveMemberCmd `cmd:"" aliases:"del-member,delete-member" help:"Remove live members of a group."`
	Remove       groupRemoveCmd       `cmd:"" aliases:"del,delete" help:"Remove live groups, or all live members of groups of the configuration file."`
}

type groupShowCmd struct{ showing }

// Run lists groups.
func (c *groupShowCmd) Run(ctx context.Context, s *streams) error {
	return c.show(ctx, s, config.KindGroup)
}

type groupAddCmd struct {
	adding
	Name    string   `arg:"" help:"Name of the group."`
	Members []string `arg:"" optional:"" name:"member" help:"Members: addresses, networks, ranges, MAC addresses, names of groups, port:NAME, segment:NAME or label:NAME=VALUE."`
}

// Run adds a group.
func (c *groupAddCmd) Run(ctx context.Context, s *streams) error {
	members, err := membersOf(c.Members)
	if err != nil {
		return err
	}
	return c.add(ctx, s, config.KindGroup, c.Name, map[string]any{"name": c.Name, "members": members})
}

type groupAddMemberCmd struct {
	change
	Durable bool     `help:"Have the live part of the group outlast a reboot."`
	Name    string   `arg:"" help:"Name of the group."`
	Members []string `arg:"" name:"member" help:"Members: addresses, networks, ranges, MAC addresses, names of groups, port:NAME, segment:NAME or label:NAME=VALUE."`
}

// Run adds members.
func (c *groupAddMemberCmd) Run(ctx context.Context, s *streams) error {
	members, err := membersOf(c.Members)
	if err != nil {
		return err
	}
	return c.do(ctx, s, api.LiveOperation{Op: api.LiveAddMembers, Kind: string(config.KindGroup), Key: c.Name, Members: members, Durable: ifSet(c.Durable)})
}

type groupRemoveMemberCmd struct {
	removing
	Name    string   `arg:"" help:"Name of the group."`
	Members []string `arg:"" name:"member" help:"Members as they were added."`
}

// Run removes members.
func (c *groupRemoveMemberCmd) Run(ctx context.Context, s *streams) error {
	members, err := membersOf(c.Members)
	if err != nil {
		return err
	}
	return c.do(ctx, s, api.LiveOperation{
		Op: api.LiveRemoveMembers, Kind: string(config.KindGroup), Key: c.Name, Members: members, IfExists: c.IfExists, IfVersion: c.IfVersion,
	})
}

type groupRemoveCmd struct{ namedRemoval }

// Run removes groups.
func (c *groupRemoveCmd) Run(ctx context.Context, s *streams) error {
	return c.remove(ctx, s, config.KindGroup, c.Names...)
}

// membersOf are members as the configuration file has them.
func membersOf(words []string) ([]json.RawMessage, error) {
	list := []json.RawMessage{}
	for _, word := range words {
		var member any = word
		if kind, name, ok := strings.Cut(word, ":"); ok {
			switch kind {
			case "port", "segment":
				member = map[string]string{kind: name}
			case "label":
				label, value, ok := strings.Cut(name, "=")
				if !ok {
					return nil, usageError{fmt.Errorf("member %q: write it label:NAME=VALUE", word)}
				}
				member = map[string]any{"labels": map[string]string{label: value}}
			}
		}
		text, err := json.Marshal(member)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}
