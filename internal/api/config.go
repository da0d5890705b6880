package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/problem"
)

// ConfigInfo is the configuration in force, as it was written. Passwords and keys are left out.
type ConfigInfo struct {
	Revision RevisionInfo `json:"revision"`
	Files    []ConfigFile `json:"files"` // the edge's own, then those that it includes
	// Live are objects that are not in the files: live ones, and ports by aliases of interfaces.
	Live []LiveObject `json:"live,omitempty"`
}

// ConfigFile is one file of a configuration.
type ConfigFile struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// WithoutSecrets is the text of a configuration as an edge shows it: passwords and keys are hidden wherever they are.
func WithoutSecrets(text string, secrets []string) string {
	var list []string
	for _, s := range secrets { // as they may be written in quotes, too
		quoted := strconv.Quote(s)
		list = append(list, s, quoted[1:len(quoted)-1], strings.ReplaceAll(s, "'", "''"))
	}
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, s := range slices.Compact(list) {
		text = strings.ReplaceAll(text, s, "(secret)")
	}
	return text
}

// RevisionInfo is a configuration that was in force, or is.
type RevisionInfo struct {
	ID   int       `json:"id"` // 0 where none are kept
	When time.Time `json:"when"`
	By   string    `json:"by"`   // who asked for it, as in "root"
	What string    `json:"what"` // "start", "apply", "reload", "rollback to 3", …
	Path string    `json:"path"` // of its file
	// InForce: it is the configuration now.
	InForce bool `json:"in_force"`
	// Unconfirmed: it was to go back by itself unless somebody confirmed it, and nobody has. Until
	// is when it does; unset when it has gone back.
	Unconfirmed bool      `json:"unconfirmed"`
	Until       time.Time `json:"until,omitzero"`
}

// ApplyQuery asks for another configuration.
type ApplyQuery struct {
	Path  string       `json:"path"`
	Files []ConfigFile `json:"files"` // the first is the configuration's own
	// For is on whose behalf, where it is not who asks, as with sudo.
	For string `json:"for,omitempty"`
	// DryRun only says what would change.
	DryRun bool `json:"dry_run"`
	// Confirm has it go back by itself unless it is confirmed within that time; 0: it stays.
	Confirm time.Duration `json:"confirm_ns"`
}

// ApplyInfo is what another configuration changed, or would.
type ApplyInfo struct {
	Edge     string         `json:"edge"`
	Applied  bool           `json:"applied"`
	Revision RevisionInfo   `json:"revision"` // in force now
	Changes  []ConfigChange `json:"changes"`  // at most MaxChanges
	Omitted  int            `json:"changes_omitted"`
	Effects  ApplyEffects   `json:"effects"`
	// LeftOut is what of it could not be written, where that was so before too.
	LeftOut string `json:"left_out,omitempty"`
	// NewProblems are those that the edge did not have before. The command finds them, the edge does not.
	NewProblems []problem.Problem `json:"new_problems,omitempty"`
}

// Unconfirmed is the problem of a revision that is rolled back unless it is confirmed.
func Unconfirmed(revision int, until time.Time) problem.Problem {
	return problem.Warning("revision %d goes back by itself at %s: selvage confirm has it stay", revision, until.UTC().Format(time.TimeOnly))
}

// MaxChanges is how many changes an ApplyInfo lists.
const MaxChanges = 1000

// ConfigChange is one difference between two configurations, as they are written.
type ConfigChange struct {
	Kind string `json:"kind"` // "added", "removed", "changed" or "moved"
	Path string `json:"path"` // as in spec.segments[blue].vni
	Was  string `json:"was,omitempty"`
	Now  string `json:"now,omitempty"`
}

// ApplyEffects are what a change of configuration does to what runs.
type ApplyEffects struct {
	// Programs: the programs of the data path are loaded anew. Packets go on meanwhile.
	Programs bool `json:"programs_reloaded"`
	// Sessions are the firewall's connections, and SessionsCut those that its new policy no
	// longer allows.
	Sessions    int `json:"sessions"`
	SessionsCut int `json:"sessions_cut"`
	// NATSessions are those of NAT, and NATSessionsCut those whose policy goes.
	NATSessions    int `json:"nat_sessions"`
	NATSessionsCut int `json:"nat_sessions_cut"`
	// BGPResets are the neighbours, by name, whose sessions start anew.
	BGPResets []string `json:"bgp_resets"`
}

// Parameters of requests about configurations.
const (
	ArgRevision = "revision"
	ArgFor      = "for"
	ArgDryRun   = "dry_run"
	ArgDurable  = "durable"
)

// ConfigClient asks about the configuration, and for another.
type ConfigClient struct{ c *Client }

// Config is the client's part about the configuration.
func (c *Client) Config() ConfigClient { return ConfigClient{c} }

// Show fetches the configuration in force.
func (c ConfigClient) Show(ctx context.Context) (ConfigInfo, error) {
	return Fetch[ConfigInfo](ctx, c.c, "config")
}

// History fetches the configurations that were in force, the newest first.
func (c ConfigClient) History(ctx context.Context) ([]RevisionInfo, error) {
	return Fetch[[]RevisionInfo](ctx, c.c, "config/history")
}

// Apply has the edge take another configuration, whole or not at all: with an error, the one
// before is in force.
func (c ConfigClient) Apply(ctx context.Context, q ApplyQuery) (ApplyInfo, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return ApplyInfo{}, fmt.Errorf("edge %s: configuration: %w", c.c.name, err)
	}
	return post[ApplyInfo](ctx, c.c.patient(), "config/apply", bytes.NewReader(text))
}

// Reload has the edge take the file that it was started with, as it is now. behalf and dryRun are as in ApplyQuery.
func (c ConfigClient) Reload(ctx context.Context, behalf string, dryRun bool) (ApplyInfo, error) {
	v := url.Values{}
	setIf(v, ArgFor, behalf, behalf != "")
	setIf(v, ArgDryRun, "true", dryRun)
	return post[ApplyInfo](ctx, c.c.patient(), "config/reload?"+v.Encode(), nil)
}

// Confirm has the configuration stay that would go back by itself.
func (c ConfigClient) Confirm(ctx context.Context) (RevisionInfo, error) {
	return post[RevisionInfo](ctx, c.c, "config/confirm", nil)
}

// Rollback has the edge take a former configuration, by the number of its revision; 0 is the
// one before. behalf is as ApplyQuery.For.
func (c ConfigClient) Rollback(ctx context.Context, revision int, behalf string) (ApplyInfo, error) {
	v := url.Values{ArgRevision: {strconv.Itoa(revision)}}
	setIf(v, ArgFor, behalf, behalf != "")
	return post[ApplyInfo](ctx, c.c.patient(), "config/rollback?"+v.Encode(), nil)
}
