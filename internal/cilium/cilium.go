// Package cilium asks the Cilium agent of a node how it forwards packets of pods.
//
// Its one invariant: it says what Cilium itself says, and guesses nothing from configuration: whether BPF host routing is in
// force depends on the kernel and on other options too. Do not use it to change Cilium.
package cilium

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Socket is where the agent has its API, in the file system of the node.
const Socket = "/var/run/cilium/cilium.sock"

// Mode is how packets go between pods and the interfaces of their node, by Cilium's own words.
type Mode string

// The modes.
const (
	// BPF host routing has packets go past the host's routes, rules and netfilter.
	BPF Mode = "BPF"
	// Legacy host routing is by the host's stack.
	Legacy Mode = "Legacy"
)

const (
	timeout    = 5 * time.Second
	answerMost = 16 << 20 // bytes: a status names each node that Cilium knows
)

// errUntold is that the agent answers and says no mode.
var errUntold = errors.New("it does not say how it routes within the host")

// HostRouting is the mode in force, "" without an error where there is no socket. A socket that nobody answers is an error:
// what Cilium has loaded forwards on without its agent.
func HostRouting(ctx context.Context, socket string) (Mode, error) {
	if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/healthz", http.NoBody)
	if err != nil {
		return "", err
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	answer, err := (&http.Client{Transport: transport}).Do(q)
	if err != nil {
		return "", fmt.Errorf("ask Cilium's agent at %s: %w", socket, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ask Cilium's agent at %s: GET /v1/healthz: %s", socket, answer.Status)
	}
	mode, err := parse(io.LimitReader(answer.Body, answerMost))
	if err != nil {
		return "", fmt.Errorf("the answer of Cilium's agent at %s: %w", socket, err)
	}
	return mode, nil
}

// parse reads the StatusResponse of Cilium's API: routing.intra-host-routing-mode since 1.16, host-routing.mode before.
func parse(r io.Reader) (Mode, error) {
	var status struct {
		Routing struct {
			Mode Mode `json:"intra-host-routing-mode"`
		} `json:"routing"`
		HostRouting struct {
			Mode Mode `json:"mode"`
		} `json:"host-routing"`
	}
	if err := json.NewDecoder(r).Decode(&status); err != nil {
		return "", err
	}
	for _, m := range []Mode{status.Routing.Mode, status.HostRouting.Mode} {
		switch m {
		case BPF, Legacy:
			return m, nil
		case "":
		default:
			return "", fmt.Errorf("it routes within the host by %q, which is neither %s nor %s", m, BPF, Legacy)
		}
	}
	return "", errUntold
}
