package agent

import (
	"encoding/json"
	"time"

	"github.com/selvage/selvage/lab/measure"
)

// Requests, by their name in a message.
const (
	opReady   = "ready" // the agent's own first message
	opHello   = "hello"
	opClock   = "clock"
	opServe   = "serve"   // start a server and say when it listens
	opCollect = "collect" // wait for a server's end and hand over its report
	opEnd     = "end"     // kill a server
	opRun     = "run"     // run a client to its end
	opWatch   = "watch"
	opAdapter = "adapter" // what of an interface can be changed
	opSet     = "set"
	opSwitch  = "switch"
	opAsk     = "ask" // something of a service
	opBye     = "bye"
)

// Hello is who answers.
type Hello struct {
	Version    string      `json:"version"`
	Program    string      `json:"program"` // SHA-256, in hexadecimal
	Arch       string      `json:"arch"`    // as Go names it
	Kernel     string      `json:"kernel"`
	Name       string      `json:"name"`    // of the host
	Machine    string      `json:"machine"` // the same for all agents of one machine
	Root       bool        `json:"root"`
	Cores      int         `json:"cores"`  // of the machine
	Usable     []int       `json:"usable"` // cores that may be pinned to
	Interfaces []Interface `json:"interfaces"`
	Carriers   []string    `json:"carriers"` // interfaces that carry this SSH session
	Dir        string      `json:"dir"`      // where the agent is
	// Restored are the directories of killed agents, whose changes are undone; NotRestored
	// is why some are not.
	Restored    []string `json:"restored"`
	NotRestored string   `json:"not_restored"`
}

// Interface is one of the agent's namespace.
type Interface struct {
	Name  string   `json:"name"`
	MTU   int      `json:"mtu"`
	Up    bool     `json:"up"`
	Addrs []string `json:"addrs"` // with prefix lengths
}

// clockReading are times of the agent's clock, in nanoseconds since 1970.
type clockReading struct {
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
}

// serving names a server that runs.
type serving struct {
	ID uint64 `json:"id"`
}

type watchRequest struct {
	Duration time.Duration `json:"duration"`
}

type setRequest struct {
	Changes []Change `json:"changes"`
	DryRun  bool     `json:"dry_run"`
}

// runRequest is an instrument's process, as measure knows it.
type runRequest struct {
	Role measure.Role `json:"role"`
}

// report is what an instrument's process printed.
type report struct {
	Report json.RawMessage `json:"report"`
}
