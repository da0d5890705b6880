package stages

import (
	"fmt"
	"slices"
	"strings"
)

// decisive are the offloads whose loss costs most, as the EgressGateway study names them.
func decisive() []string {
	return []string{
		"tx-checksum-ip-generic", "rx-checksum", "tx-scatter-gather", "tx-generic-segmentation", "tx-tcp-segmentation",
		"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
	}
}

// Off are those of an adapter's features that are decisive and off.
func Off(features map[string]bool) []string {
	off := []string{}
	for _, name := range decisive() {
		if on, known := features[name]; known && !on {
			off = append(off, name)
		}
	}
	return off
}

// steps are in the study's order of looking: what is wrong lower down is nobody's fault above.
func (r *Report) steps(facts Facts) []Step {
	var steps []Step
	add := func(topic, text string) {
		if text != "" {
			steps = append(steps, Step{fmt.Sprintf("%d %s", len(steps)+1, topic), text})
		}
	}
	add("Source address", r.stepSource())
	add("Node to node", r.stepStage(Node, "the nodes' network: look at links, at drops (ip -s link, tc -s qdisc on both nodes) and at what others send, before anything above"))
	add("Offloads of adapters", stepOffloads(facts.Offloads))
	add("Checksum of the tunnel", r.stepTunnel())
	add("Pod to node", r.stepStage(Pod, "the CNI plugin: its tunnel, policies and MTU. Packets that leave by the gateway do not take its tunnel"))
	add("Gateway to server", r.stepStage(Gateway, "the uplink of the gateway, and what is behind it: the pod gets no more than that"))
	add("Pod to server", r.stepStage(Egress, "edges, tunnel and translation: kubectl selvage trace says what edges do with a packet, selvage doctor on both nodes what keeps them slow"))
	add("Size of packets", r.stepSize())
	return steps
}

func (r *Report) stepSource() string {
	s := r.stage(Egress)
	switch {
	case s == nil:
		return ""
	case len(r.Seen) == 0:
		return "the server saw no connection of the pod."
	case r.Leaks > 0:
		var seen []string
		for _, s := range r.Seen {
			seen = append(seen, fmt.Sprintf("%s (%d)", s.Address, s.Connections))
		}
		return "the server saw " + strings.Join(seen, ", ") + ". kubectl selvage why says whether the pod's node has the policy; where it has, look at who else translates (nft list ruleset on the pod's node)."
	}
	return "the server saw only addresses of the policy."
}

// stepStage is what a stage does, and where to look when it is the one.
func (r *Report) stepStage(name, look string) string {
	s := r.stage(name)
	if s == nil {
		return ""
	}
	if s.Failed != "" {
		return "fails. Look at " + look + "."
	}
	var text []string
	if s.Throughput != nil {
		text = append(text, s.Throughput.text(3)+" Gbit/s")
	}
	text = append(text, fmt.Sprintf("%d of %d datagrams lost", s.Lost, s.Sent))
	if s.Retransmits != nil {
		text = append(text, fmt.Sprintf("%.0f retransmits a transfer", s.Retransmits.Median))
	}
	if s.Ratio != nil {
		text = append(text, fmt.Sprintf("%s of %s", s.Ratio.text(3), slower(s.Below)))
	}
	if r.Loses == name {
		return strings.Join(text, ", ") + ". This is the one: look at " + look + "."
	}
	return strings.Join(text, ", ") + "."
}

func stepOffloads(list []Offloads) string {
	var off, unknown []string
	for _, o := range list {
		switch {
		case o.Error != "":
			unknown = append(unknown, o.Place+": "+o.Error)
		case len(o.Off) > 0:
			off = append(off, fmt.Sprintf("%s %s: %s", o.Place, o.Interface, strings.Join(o.Off, ", ")))
		}
	}
	switch {
	case len(list) == 0:
		return ""
	case len(off) > 0:
		return "off are " + strings.Join(slices.Concat(off, unknown), "; ") + ". Turn each on (ethtool -K) and measure again; selvage lab offload shows what each gains."
	case len(unknown) > 0:
		return "not known: " + strings.Join(unknown, "; ") + "."
	}
	return "checksums, segmentation and segmentation inside tunnels are on wherever they can be changed."
}

// stepTunnel says what is not tested here, where it could be the reason.
func (r *Report) stepTunnel() string {
	if s := r.stage(Egress); s == nil || r.Loses != Egress {
		return ""
	}
	return "not tested, as nothing of the cluster is changed. Some adapters are slow or wrong with it: selvage lab offload between both nodes tries each setting, and restores it."
}

func (r *Report) stepSize() string {
	var sizes []string
	for _, s := range r.Stages {
		if s.MSS != nil {
			sizes = append(sizes, fmt.Sprintf("%s %.0f", s.Name, s.MSS.Median))
		}
	}
	if len(sizes) == 0 {
		return ""
	}
	return "segments of TCP in bytes: " + strings.Join(sizes, ", ") + ". Smaller ones than the tunnel leaves room for (selvage lab mtu) cost throughput."
}
