package agent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const opEvidence = "evidence"

// Evidence is what the kernel has on the way of packets besides interfaces, in one network namespace.
type Evidence struct {
	Qdiscs  []Qdisc           `json:"qdiscs,omitempty"`
	Chains  []Chain           `json:"chains,omitempty"`
	Sysctls map[string]string `json:"sysctls,omitempty"` // by name with dots, as net.bridge.bridge-nf-call-iptables
	Tracked int               `json:"tracked,omitempty"` // connections in netfilter's table
	Unknown []string          `json:"unknown,omitempty"` // what could not be read, and why
}

// Qdisc is a root queueing discipline other than the kernel's default for virtual devices.
type Qdisc struct {
	Interface string `json:"interface"`
	Kind      string `json:"kind"` // as tc(8) calls it
	TBF       *TBF   `json:"tbf,omitempty"`
}

// TBF is how a token bucket filter is set (tc-tbf(8)).
type TBF struct {
	Rate  uint64 `json:"rate"`  // bytes a second
	Burst uint64 `json:"burst"` // bytes
	Limit uint32 `json:"limit"` // bytes
}

// Args are those of tc(8) that make it again.
func (t TBF) Args() string {
	return fmt.Sprintf("tbf rate %dbps burst %db limit %db", t.Rate, t.Burst, t.Limit)
}

// Chain is a base chain of nftables.
type Chain struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Name   string `json:"name"`
	Hook   string `json:"hook"`
	// Linear is the most rules, one after another, that a packet may be compared with: those of the chain and of the
	// chains that it jumps to. A rule with a map or a set counts as one.
	Linear int `json:"linear"`
}

// String is as nft(8) names it.
func (c Chain) String() string { return c.Family + " " + c.Table + " " + c.Name }

// Evidence reads what the kernel has on the way. It changes nothing; what needs root is unknown without.
func (s *Session) Evidence(ctx context.Context) (e Evidence, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err = s.call(ctx, opEvidence, nil, &e)
	return e, err
}

// evidenceSysctls are those that send bridged frames through netfilter.
var evidenceSysctls = []string{"net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables", "net.bridge.bridge-nf-call-arptables"}

func readEvidence(ctx context.Context) (e Evidence) {
	unknown := func(what string, err error) {
		if err != nil {
			e.Unknown = append(e.Unknown, fmt.Sprintf("%s: %v", what, err))
		}
	}
	var err error
	e.Qdiscs, err = readQdiscs()
	unknown("queueing disciplines", err)
	e.Chains, err = readChains(ctx)
	unknown("nftables", err)
	e.Sysctls = map[string]string{}
	if data, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count"); err == nil {
		e.Tracked, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	} else if !errors.Is(err, os.ErrNotExist) { // without the module nothing is tracked
		unknown("tracked connections", err)
	}
	for _, name := range evidenceSysctls {
		data, err := os.ReadFile(Change{Sysctl: name}.sysctlPath())
		if err == nil {
			e.Sysctls[name] = strings.TrimSpace(string(data))
		} else if !errors.Is(err, os.ErrNotExist) { // bridges without netfilter have none
			unknown(name, err)
		}
	}
	return e
}

// Of rtnetlink(7) and linux/pkt_sched.h.
const (
	tcmsgLen  = 20
	tcKind    = 1
	tcOptions = 2
	tbfParms  = 1
	tbfRate64 = 4
	tbfOptLen = 36
	tickNS    = 64 // of a packet scheduler's time
	// linkEthernet is the link layer that tc(8) takes by default.
	linkEthernet = 1
	rootHandle   = 0xffffffff
)

// isDefaultQdisc is of those that have no settings which slow a path.
func isDefaultQdisc(kind string) bool {
	return kind == "noqueue" || kind == "pfifo_fast" || kind == "mq" || kind == "clsact" || kind == "ingress"
}

func readQdiscs() ([]Qdisc, error) {
	messages, err := dump("queueing disciplines", unix.RTM_GETQDISC, tcmsgLen)
	if err != nil {
		return nil, err
	}
	// A discipline below another that somebody put there is not made again with that one.
	parents := map[uint64]bool{}
	for _, m := range messages {
		if len(m.Data) >= tcmsgLen {
			parents[placeOf(m.Data, 12)] = true
		}
	}
	var all []Qdisc
	for _, m := range messages {
		if len(m.Data) < tcmsgLen || binary.NativeEndian.Uint32(m.Data[12:]) != rootHandle {
			continue
		}
		attrs := attributes(m.Data, tcmsgLen)
		kind := strings.TrimRight(string(attrs[tcKind]), "\x00")
		dev, err := net.InterfaceByIndex(int(binary.NativeEndian.Uint32(m.Data[4:])))
		if err != nil || isDefaultQdisc(kind) {
			continue
		}
		q := Qdisc{Interface: dev.Name, Kind: kind}
		if kind == "tbf" && !parents[placeOf(m.Data, 8)] {
			q.TBF = tbfOf(attributes(attrs[tcOptions], 0))
		}
		all = append(all, q)
	}
	return all, nil
}

// placeOf is an interface with the major number of a handle of it, which is at an offset of struct tcmsg: 8 for its own, 12
// for its parent's.
func placeOf(tcmsg []byte, at int) uint64 {
	return uint64(binary.NativeEndian.Uint32(tcmsg[4:]))<<32 | uint64(binary.NativeEndian.Uint32(tcmsg[at:])>>16)
}

// tbfOf is nil where rate, burst and limit are not all, as with a peak rate, an overhead or another link layer.
func tbfOf(options map[uint16][]byte) *TBF {
	p := options[tbfParms]
	if len(p) < tbfOptLen || binary.NativeEndian.Uint32(p[20:]) != 0 {
		return nil
	}
	if overhead, mpu := binary.NativeEndian.Uint16(p[2:]), binary.NativeEndian.Uint16(p[6:]); overhead != 0 || mpu != 0 || p[1] > linkEthernet {
		return nil
	}
	t := TBF{Rate: uint64(binary.NativeEndian.Uint32(p[8:])), Limit: binary.NativeEndian.Uint32(p[24:])}
	if large := options[tbfRate64]; len(large) >= 8 {
		t.Rate = binary.NativeEndian.Uint64(large)
	}
	t.Burst = (t.Rate*uint64(binary.NativeEndian.Uint32(p[28:]))*tickNS + 5e8) / 1e9
	return &t
}

// nftTime is the longest that nft(8) may take to list the rules of a large machine.
const nftTime = 10 * time.Second

func readChains(ctx context.Context) ([]Chain, error) {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil, errors.New("there is no nft(8)")
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("only root may read the rules")
	}
	ctx, cancel := context.WithTimeout(ctx, nftTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nft", "-j", "list", "ruleset").Output()
	if err != nil {
		return nil, fmt.Errorf("nft -j list ruleset: %w", err)
	}
	return chainsOf(out)
}

// nftObject is one of libnftables-json(5).
type nftObject struct {
	Chain *struct {
		Family, Table, Name, Hook string
	}
	Rule *struct {
		Family, Table, Chain string
		Expr                 []map[string]json.RawMessage
	}
}

// chainsOf are the base chains of a ruleset in JSON.
func chainsOf(ruleset []byte) ([]Chain, error) {
	var list struct {
		Nftables []nftObject `json:"nftables"`
	}
	if err := json.Unmarshal(ruleset, &list); err != nil {
		return nil, fmt.Errorf("nft -j list ruleset: %w", err)
	}
	rules, jumps := map[string]int{}, map[string][]string{}
	for _, o := range list.Nftables {
		if r := o.Rule; r != nil {
			name := Chain{Family: r.Family, Table: r.Table, Name: r.Chain}.String()
			rules[name]++
			for _, to := range targetsOf(r.Expr) {
				jumps[name] = append(jumps[name], Chain{Family: r.Family, Table: r.Table, Name: to}.String())
			}
		}
	}
	var all []Chain
	for _, o := range list.Nftables {
		if c := o.Chain; c != nil && c.Hook != "" {
			chain := Chain{Family: c.Family, Table: c.Table, Name: c.Name, Hook: c.Hook}
			chain.Linear = linear(chain.String(), rules, jumps, map[string]bool{})
			all = append(all, chain)
		}
	}
	return all, nil
}

// targetsOf are the chains that a rule jumps or goes to.
func targetsOf(expressions []map[string]json.RawMessage) (names []string) {
	for _, e := range expressions {
		for _, verb := range []string{"jump", "goto"} {
			var to struct{ Target string }
			if json.Unmarshal(e[verb], &to) == nil && to.Target != "" {
				names = append(names, to.Target)
			}
		}
	}
	return names
}

// linear counts the rules of a chain and of those below it, each chain once.
func linear(name string, rules map[string]int, jumps map[string][]string, seen map[string]bool) int {
	if seen[name] {
		return 0
	}
	seen[name] = true
	n := rules[name]
	for _, to := range jumps[name] {
		n += linear(to, rules, jumps, seen)
	}
	return n
}
