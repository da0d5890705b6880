package observe

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
)

// signs stand before changes, as in a diff.
var signs = map[string]string{"added": "+", "removed": "-", "changed": "~", "moved": ">"}

// Applied writes what a configuration changed, or would.
func Applied(w Writer, info api.ApplyInfo) error {
	var b strings.Builder
	changed := len(info.Changes) + info.Omitted
	switch {
	case !info.Applied && changed == 0:
		fmt.Fprintf(&b, "edge %s: nothing would change\n", info.Edge)
	case !info.Applied:
		fmt.Fprintf(&b, "edge %s: %s; nothing is changed yet\n", info.Edge, counted(changed, "change", "changes"))
	default:
		fmt.Fprintf(&b, "edge %s: revision %d is in force, %s%s\n", info.Edge, info.Revision.ID, counted(changed, "change", "changes"), newProblems(info.NewProblems))
	}
	listChanges(&b, info.Changes, info.Omitted, info.Effects, info.LeftOut)
	if r := info.Revision; info.Applied && !r.Until.IsZero() {
		fmt.Fprintf(&b, "It goes back by itself at %s: selvage confirm has it stay.\n", clock(r.Until))
	}
	for i, p := range info.NewProblems {
		if i == mostNewProblems {
			fmt.Fprintf(&b, "and %d more: see selvage status\n", len(info.NewProblems)-i)
			break
		}
		fmt.Fprintf(&b, "%s: %s\n", p.Severity, p.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mostNewProblems are written.
const mostNewProblems = 20

// newProblems counts those that a change made.
func newProblems(list []problem.Problem) string {
	if len(list) == 0 {
		return ""
	}
	return ", and " + counted(len(list), "new problem", "new problems") + " below"
}

// listChanges writes what changed, what that does to what runs, and what could not be written.
func listChanges(b *strings.Builder, changes []api.ConfigChange, omitted int, e api.ApplyEffects, leftOut string) {
	for _, c := range changes {
		fmt.Fprintf(b, "  %s %s%s\n", signs[c.Kind], c.Path, valueChange(c))
	}
	if omitted > 0 {
		fmt.Fprintf(b, "  and %d more\n", omitted)
	}
	for _, line := range effects(e) {
		fmt.Fprintln(b, line)
	}
	if leftOut != "" {
		fmt.Fprintf(b, "Not all of it is in force, see selvage status: %s\n", leftOut)
	}
}

func valueChange(c api.ConfigChange) string {
	switch {
	case c.Was == "" && c.Now == "":
		return ""
	case c.Kind == "changed":
		return fmt.Sprintf(": %s → %s", cmp.Or(c.Was, `""`), cmp.Or(c.Now, `""`))
	}
	return ": " + c.Was + c.Now
}

// counted is so many of something.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// effects are lines about what a change does to what runs.
func effects(x api.ApplyEffects) (lines []string) {
	if x.Programs {
		lines = append(lines, "The programs of the data path are loaded anew; packets go on meanwhile.")
	}
	if x.SessionsCut > 0 {
		lines = append(lines, fmt.Sprintf("Of %s of the firewall, %s no longer allowed.", counted(x.Sessions, "connection", "connections"), counted(x.SessionsCut, "is", "are")))
	}
	if x.NATSessionsCut > 0 {
		lines = append(lines, fmt.Sprintf("Of %s, %s: no policy translates them any more.", counted(x.NATSessions, "NAT session", "NAT sessions"), counted(x.NATSessionsCut, "ends", "end")))
	}
	if len(x.BGPResets) > 0 {
		lines = append(lines, fmt.Sprintf("BGP sessions that start anew or end: %s.", strings.Join(x.BGPResets, ", ")))
	}
	return lines
}

// Confirmed writes which revision stays.
func Confirmed(w Writer, r api.RevisionInfo) error {
	_, err := fmt.Fprintf(w, "revision %d stays\n", r.ID)
	return err
}

// History writes one line for each revision.
func History(w Writer, list []api.RevisionInfo) error {
	return table(w, "REVISION WHEN BY WHAT STATE +FILE", list, func(r api.RevisionInfo) []any {
		state := ""
		switch {
		case r.InForce && !r.Until.IsZero():
			state = "in force until " + clock(r.Until)
		case r.InForce:
			state = "in force"
		case r.Unconfirmed:
			state = "not confirmed"
		}
		return []any{r.ID, clock(r.When), r.By, r.What, state, r.Path}
	})
}

// RunningConfig is the configuration in force, and what BGP added to it.
type RunningConfig struct {
	api.ConfigInfo
	Learned []LearnedConfig `json:"learned"` // by segment and router
}

// LearnedConfig is what BGP told of one segment or router.
type LearnedConfig struct {
	Name    string          `json:"name"` // of the segment or router
	Entries []LearnedRemote `json:"entries"`
}

// LearnedRemote is a remote and what it told, by one neighbour.
type LearnedRemote struct {
	Remote    string `json:"remote"` // its tunnel endpoint, or next hop
	Neighbour string `json:"neighbour"`
	MACs      int    `json:"macs"`
	Prefixes  int    `json:"prefixes"`
}

// NewRunningConfig sums up the routes of BGP that are used.
func NewRunningConfig(info api.ConfigInfo, routes []api.BGPRouteInfo) RunningConfig {
	type from struct{ name, remote, neighbour string }
	sums := make(map[from]*LearnedRemote)
	byName := make(map[string][]*LearnedRemote)
	for _, r := range routes {
		if !r.Used || r.Neighbour == "" || r.Neighbour == "self" {
			continue
		}
		key := from{r.For, addr(r.NextHop), r.Neighbour}
		sum := sums[key]
		if sum == nil {
			sum = &LearnedRemote{Remote: key.remote, Neighbour: key.neighbour}
			sums[key], byName[key.name] = sum, append(byName[key.name], sum)
		}
		switch r.Type {
		case api.BGPRouteMAC:
			sum.MACs++
		case api.BGPRoutePrefix, api.BGPRouteUnicast:
			sum.Prefixes++
		}
	}
	c := RunningConfig{ConfigInfo: info, Learned: []LearnedConfig{}}
	for name, list := range byName {
		l := LearnedConfig{Name: name}
		for _, sum := range list {
			l.Entries = append(l.Entries, *sum)
		}
		slices.SortFunc(l.Entries, func(a, b LearnedRemote) int {
			return cmp.Or(cmp.Compare(a.Remote, b.Remote), cmp.Compare(a.Neighbour, b.Neighbour))
		})
		c.Learned = append(c.Learned, l)
	}
	slices.SortFunc(c.Learned, func(a, b LearnedConfig) int { return cmp.Compare(a.Name, b.Name) })
	return c
}

// Config writes the configuration as it was written; what is not of the file is a comment.
func Config(w Writer, c RunningConfig) error {
	var b strings.Builder
	r := c.Revision
	fmt.Fprintf(&b, "# revision %d, in force since %s: %s by %s\n", r.ID, clock(r.When), r.What, r.By)
	for _, f := range c.Files {
		fmt.Fprintf(&b, "# %s\n%s", f.Path, f.Text)
		if !strings.HasSuffix(f.Text, "\n") {
			b.WriteByte('\n')
		}
	}
	liveObjects(&b, c.Live)
	if len(c.Learned) > 0 {
		b.WriteString("# Added by BGP:\n")
	}
	for _, l := range c.Learned {
		fmt.Fprintf(&b, "#   %s:\n", l.Name)
		for _, e := range l.Entries {
			fmt.Fprintf(&b, "#     %s, by %s: %s, %s\n", e.Remote, e.Neighbour, counted(e.MACs, "MAC route", "MAC routes"), counted(e.Prefixes, "prefix", "prefixes"))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
