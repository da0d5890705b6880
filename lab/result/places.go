package result

import (
	"fmt"
	"strings"

	"github.com/selvage/selvage/internal/doctor/facts"
)

// Place is one that took part in a run between places.
type Place struct {
	Role string `json:"role"` // "client", "server", "watch 1" …, as in samples and profiles
	Name string `json:"name"` // as the command names it: "ssh:host-a"
	// Machine is the same for places of one machine, whose cores are then the same too.
	Machine string `json:"machine"`
	Host    string `json:"host"`
	Kernel  string `json:"kernel"`
	Arch    string `json:"arch"`
	Cores   int    `json:"cores"`
	Clock   string `json:"clock"` // offset to the controller's, and its error
}

// Host is what was read of a place's host before the first sample, or nil.
func Host(r Result, p Place) *facts.Host {
	for i := range r.Preflight {
		if r.Preflight[i].Place == p.Name {
			return &r.Preflight[i]
		}
	}
	return nil
}

// Hardware is kernel, processor and adapters of a place, in a line.
func Hardware(r Result, p Place) string {
	h := Host(r, p)
	if h == nil {
		return fmt.Sprintf("Linux %s, %s, %s", p.Kernel, p.Arch, Counted(p.Cores, "core"))
	}
	text := h.Machine.String()
	for _, i := range h.Interfaces {
		if i.Kind != "" {
			continue
		}
		text += "; " + strings.TrimSpace(i.Name+" "+i.Driver)
		if i.Firmware != "" {
			text += ", firmware " + i.Firmware
		}
		if i.Mbps > 0 {
			text += fmt.Sprintf(", %d Mbit/s", i.Mbps)
		}
	}
	return text
}

// Counted is a number of things in words: "1 core".
func Counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Use is what one place did during a sample.
type Use struct {
	Role  string     `json:"role"`
	CPU   []CPUShare `json:"cpu"`
	Drops []Drop     `json:"drops,omitempty"` // what grew
}

// Drop is where packets were lost, and how many.
type Drop struct {
	Stage   string `json:"stage"`   // "NIC", "interface", "tunnel", "softnet", "qdisc", "protocol" or "reason"
	Where   string `json:"where"`   // "eth0", "core 1", "eth0 fq_codel"; "" for the whole place
	Counter string `json:"counter"` // as ethtool -S, ip -s link, tc -s or nstat name it, or the kernel's drop reason
	Packets int64  `json:"packets"`
}

// Profile is what took a place's cores while a case ran over a target: a slice of its own, whose
// figures are in no sample.
type Profile struct {
	Target   string  `json:"target"`
	Case     string  `json:"case"`
	Role     string  `json:"role"`
	Duration float64 `json:"duration_s"`
	// Gigabytes is what the slice moved (10⁹ bytes of payload), 0 where that is not what it does.
	Gigabytes float64        `json:"gigabytes"`
	CPU       []CPUShare     `json:"cpu"`
	Processes []ProcessTime  `json:"processes" jsonschema:"nullable"`
	SoftIRQs  []SoftIRQCount `json:"softirqs" jsonschema:"nullable"`
	Functions []FunctionTime `json:"functions" jsonschema:"nullable"`
	Drops     []Drop         `json:"drops" jsonschema:"nullable"` // by the kernel's reason
	// NotRead is what could not be read, and why.
	NotRead []string `json:"not_read" jsonschema:"nullable"`
}

// ProcessTime is the CPU time of the processes of one name, in seconds.
type ProcessTime struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// SoftIRQCount is how often a core ran softirqs of a kind.
type SoftIRQCount struct {
	Kind  string `json:"kind"` // NET_RX, NET_TX …
	Core  int    `json:"core"`
	Count int64  `json:"count"`
}

// FunctionTime is the time of a kernel function itself, by samples, in cores.
type FunctionTime struct {
	Name  string  `json:"name"`
	Cores float64 `json:"cores"`
}

// Device is a box whose own command line was asked again and again.
type Device struct {
	Place   string         `json:"place"`
	Command string         `json:"command"`
	Pattern string         `json:"pattern"`
	Asked   int            `json:"asked"`
	Failed  int            `json:"failed"`
	Error   string         `json:"error,omitempty"` // the first
	Series  []DeviceSeries `json:"series" jsonschema:"nullable"`
}

// DeviceSeries are the values of one name.
type DeviceSeries struct {
	Name   string    `json:"name"`
	Times  []float64 `json:"times_s" jsonschema:"nullable"` // since Result.Started, in the middle of the question
	Values []float64 `json:"values" jsonschema:"nullable"`
}
