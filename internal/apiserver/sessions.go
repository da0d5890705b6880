package apiserver

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

func (d documents) sessions(v url.Values) (api.SessionList, error) {
	q, err := api.ConnectionQueryOf(v, datapath.StateNames[:], api.TopKinds, api.ArgPort, api.ArgRule)
	if err != nil {
		return api.SessionList{}, err
	}
	return read(d.o.Edge, "sessions", func(e *State) (api.SessionList, error) {
		if e.Config.Firewall == nil {
			return api.SessionList{}, noFirewall()
		}
		section, name, both := strings.Cut(q.Rule, "/")
		t := connectionTable[datapath.Session, api.SessionInfo]{
			each: e.DataPath.Firewall.EachSession,
			base: func(s *datapath.Session) *datapath.Connection { return &s.Connection },
			ends: func(s *datapath.Session) [3]netip.Addr { return [...]netip.Addr{0: s.Src, 2: s.Dst} },
			match: func(s *datapath.Session) bool {
				return (q.Port == "" || isPort(s.Port, q.Port)) &&
					(q.Rule == "" || s.Rule.Section == section && (!both || s.Rule.Name == name))
			},
			order: sessionOrder, infos: func(list []datapath.Session) ([]api.SessionInfo, error) { return sessionInfos(e, list) }, topBy: topSessionsBy(q.Top),
		}
		return t.answer(q)
	})
}

// noFirewall is the answer to a question about one that there is none.
func noFirewall() error {
	return api.BadRequest{Err: fmt.Errorf("this edge has no firewall, so it tracks no connections: configure spec.firewall")}
}

// sessionOrder makes the order the same each time.
func sessionOrder(a, b *datapath.Session) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), a.Src.Compare(b.Src), a.Dst.Compare(b.Dst),
		cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.SrcPort, b.SrcPort), cmp.Compare(a.DstPort, b.DstPort))
}

func topSessionsBy(kind string) func(*datapath.Session) any {
	switch kind {
	case "sources":
		return func(s *datapath.Session) any { return s.Src }
	case "destinations":
		return func(s *datapath.Session) any { return s.Dst }
	case "rules":
		return func(s *datapath.Session) any { return ruleText(s.Rule) }
	}
	return func(s *datapath.Session) any { return s.Port }
}

// sessionInfos say of sessions, too, what the flow cache has of them.
func sessionInfos(e *State, sessions []datapath.Session) ([]api.SessionInfo, error) {
	cached, err := e.DataPath.Flows.CachedSessions(sessions)
	if err != nil {
		return nil, err
	}
	list := make([]api.SessionInfo, len(sessions))
	for i := range sessions {
		list[i] = sessionInfo(&sessions[i])
		list[i].Path, list[i].Why = sessionPath(cached[i])
		for _, way := range cached[i] {
			if way.Known {
				list[i].Idle = min(list[i].Idle, seconds(way.IdleNS))
			}
		}
	}
	return list, nil
}

func sessionInfo(s *datapath.Session) api.SessionInfo {
	return api.SessionInfo{
		Port: s.Port, Segment: s.Segment, Direction: string(s.Direction), Proto: api.ProtoName(s.Proto),
		Src: s.Src, Dst: s.Dst, SrcPort: s.SrcPort, DstPort: s.DstPort, PeerPort: s.PeerPort, PeerSegment: s.PeerSegment,
		State: s.State, Answered: s.Answered, PickedUp: s.PickedUp, Rule: ruleText(s.Rule), Current: s.Current,
		Age: seconds(s.AgeNS), Idle: seconds(s.IdleNS),
		OrigPackets: s.Orig.Packets, OrigBytes: s.Orig.Bytes, ReplyPackets: s.Reply.Packets, ReplyBytes: s.Reply.Bytes,
	}
}

// ruleText is SECTION/NAME, or "" of a rule that is gone.
func ruleText(r datapath.RuleName) string {
	if r == (datapath.RuleName{}) {
		return ""
	}
	return r.Section + "/" + r.Name
}

// Paths of a session.
const pathFast, pathSlow, pathIdle = "fast", "slow", "idle"

// sessionPath sums up both directions: one that is slow is the news.
func sessionPath(ways [2]datapath.Cached) (path, why string) {
	path = pathIdle
	for _, way := range ways {
		switch {
		case way.Known && !way.Fast:
			return pathSlow, way.Why
		case way.Known:
			path = pathFast
		}
	}
	return path, ""
}
