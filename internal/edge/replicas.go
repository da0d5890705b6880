package edge

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/replica"
)

// recordVersion is that of datapath.NATRecord's binary form.
const recordVersion = 1

// refreshEvery is how often other gateways are told that sessions live on, well before these
// expire there: a session that had a packet in between is told of. Timeouts that are shorter
// are halved.
const refreshEvery = time.Minute

// Replication tells other gateways of sessions.
type Replication interface {
	Set(links []replica.Link) error
	Put(link replica.ID, records []byte)
	Delete(link replica.ID, records []byte)
	// Resync has all told again, after something was missed.
	Resync(why string)
	States() map[replica.ID]replica.State
	Changed() <-chan struct{}
	Close() error
}

func openReplication(o replica.Options) (Replication, error) {
	r, err := replica.New(o)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// replicaLinks are the connections to the other members of the groups of e with replication:
// one for each port.
func replicaLinks(e overlay.Edge) (links []replica.Link) {
	if e.Egress == nil {
		return nil
	}
	for _, g := range e.Egress.Gateways {
		for _, l := range groupLinks(e, g) {
			if !slices.ContainsFunc(links, func(o replica.Link) bool { return o.ID() == l.ID() }) {
				links = append(links, l)
			}
		}
	}
	return links
}

func groupLinks(e overlay.Edge, g overlay.GatewayGroup) (links []replica.Link) {
	if g.Replication == nil || !slices.Contains(g.Members, self(e)) {
		return nil
	}
	for _, m := range g.Members {
		if m != self(e) && m.Is4() == self(e).Is4() {
			links = append(links, replica.Link{Local: self(e), Remote: m, Port: g.Replication.Port, Key: g.Replication.Key})
		}
	}
	return links
}

// described are links with what both ends have to be configured with alike.
func described(e overlay.Edge, links []replica.Link) []replica.Link {
	for i, l := range links {
		links[i].Parts = map[string]replica.Part{}
		for _, g := range e.Egress.Gateways {
			if !slices.ContainsFunc(groupLinks(e, g), func(o replica.Link) bool { return o.ID() == l.ID() }) {
				continue
			}
			for name, hash := range nat.Fingerprints(g, e.Egress.Policies) {
				links[i].Parts[name] = hash
			}
		}
	}
	return links
}

// audiences are the links that hear of the sessions of a policy, by the tag of its name.
func audiences(e overlay.Edge) map[uint32][]replica.ID {
	all := make(map[uint32][]replica.ID)
	if e.Egress == nil {
		return all
	}
	for _, p := range e.Egress.Policies {
		for _, g := range e.Egress.Gateways {
			if g.Name != p.Gateways {
				continue
			}
			for _, l := range groupLinks(e, g) {
				all[datapath.NameTag(p.Name)] = append(all[datapath.NameTag(p.Name)], l.ID())
			}
		}
	}
	return all
}

// replicas are the sessions of this edge as those who replicate them see them.
type replicas struct {
	e         *edge
	conflicts sync.Map // of replica.ID: how many uint64
}

// Snapshot is replica.Store's: all sessions of policies that the other gateway shares.
func (r *replicas) Snapshot(link replica.ID, do func(records []byte)) error {
	_, err := read(r.e, "NAT sessions", func() (struct{}, error) {
		hears := audiences(r.e.config)
		var b []byte
		return struct{}{}, r.e.dp.NAT.EachNATRecord(func(record *datapath.NATRecord) bool {
			if slices.Contains(hears[record.Policy], link) {
				b = appendRecord(b[:0], record)
				do(b)
			}
			return true
		})
	})
	return err
}

func appendRecord(b []byte, r *datapath.NATRecord) []byte {
	b, err := r.AppendBinary(b)
	if err != nil { // it never does
		panic(err)
	}
	return b
}

// Put is replica.Store's.
func (r *replicas) Put(link replica.ID, records []byte) error {
	list, err := r.parse(link, records)
	if err != nil {
		return err
	}
	_, err = read(r.e, "NAT sessions", func() (struct{}, error) {
		_, conflicts, err := r.e.dp.Replicas.PutNATRecords(list)
		if conflicts > 0 {
			was, _ := r.conflicts.LoadOrStore(link, uint64(0))
			r.conflicts.Store(link, was.(uint64)+uint64(conflicts)) // a link has one reader
		}
		return struct{}{}, err
	})
	return err
}

// Delete is replica.Store's.
func (r *replicas) Delete(link replica.ID, records []byte) error {
	list, err := r.parse(link, records)
	if err != nil {
		return err
	}
	_, err = read(r.e, "NAT sessions", func() (int, error) { return r.e.dp.Replicas.DeleteNATRecords(list) })
	return err
}

// parse leaves out the records of policies that the other gateway has no share in.
func (r *replicas) parse(link replica.ID, records []byte) ([]datapath.NATRecord, error) {
	r.e.mu.RLock()
	hears := audiences(r.e.config)
	r.e.mu.RUnlock()
	list := make([]datapath.NATRecord, 0, len(records)/datapath.NATRecordSize)
	for b := range slices.Chunk(records, datapath.NATRecordSize) {
		var record datapath.NATRecord
		if err := record.UnmarshalBinary(b); err != nil {
			return nil, err
		}
		if slices.Contains(hears[record.Policy], link) {
			list = append(list, record)
		}
	}
	return list, nil
}

// replicate has the links be those of the configuration.
func (e *edge) replicate() {
	links := replicaLinks(e.config)
	if e.replication == nil && len(links) == 0 {
		return
	}
	if e.replication == nil {
		store := &replicas{e: e}
		r, err := e.opts.OpenReplication(replica.Options{
			Format: replica.Format{Len: datapath.NATRecordSize, Version: recordVersion}, Store: store, Log: e.log, Enter: e.ns.enter,
		})
		e.reportProblem(replicateProblem, err)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.replication, e.replicas = r, store
		e.mu.Unlock()
		e.endReplication = onEach(r.Changed(), func() { wake(e.pathSelector.gateways.nudged) })
		s := &e.pathSelector
		s.mu.Lock()
		s.gateways.replicas = r.States
		s.mu.Unlock()
	}
	e.reportProblem(replicateProblem, e.replication.Set(described(e.config, links)))
}

// replicateProblem names the fault of replication that cannot be had.
const replicateProblem = "replicate sessions"

// stopReplication ends it.
func (e *edge) stopReplication() error {
	e.mu.Lock()
	r := e.replication
	e.replication = nil
	e.mu.Unlock()
	if r == nil {
		return nil
	}
	e.endReplication()
	return r.Close()
}

// refresh tells other gateways which sessions had packets in the last time, so that those do
// not expire there.
func (e *edge) refresh(since time.Duration) error {
	_, err := read(e, "NAT sessions", func() (struct{}, error) {
		hears := audiences(e.config)
		if e.replication == nil || len(hears) == 0 {
			return struct{}{}, nil
		}
		out := make(outbox)
		err := e.dp.NAT.EachNATRecord(func(r *datapath.NATRecord) bool {
			if r.IdleNS <= uint64(since) && !r.Replica {
				for _, id := range hears[r.Policy] {
					out[id] = appendRecord(out[id], r)
				}
				out.flush(e.replication.Put, outboxMost)
			}
			return true
		})
		out.flush(e.replication.Put, 0)
		return struct{}{}, err
	})
	return err
}

// outboxMost is how many bytes are collected before they are handed on.
const outboxMost = 1000 * datapath.NATRecordSize

// outbox is records by who hears of them.
type outbox map[replica.ID][]byte

// flush hands over what is more than so many bytes.
func (o outbox) flush(tell func(replica.ID, []byte), most int) {
	for id, records := range o {
		if len(records) > most {
			tell(id, records)
			o[id] = records[:0]
		}
	}
}

// refreshInterval is how often sessions of these timeouts are told of again.
func refreshInterval(t overlay.Timeouts) time.Duration {
	return min(refreshEvery, t.UDPReplied/2, t.ICMP/2, t.Established/2)
}

// replicationInfos are the links. mu is held.
func (e *edge) replicationInfos() []api.ReplicationInfo {
	list := []api.ReplicationInfo{}
	if e.replication == nil {
		return list
	}
	states := e.replication.States()
	for _, l := range replicaLinks(e.config) {
		s := states[l.ID()]
		info := api.ReplicationInfo{
			Gateway: l.Remote, Port: l.Port, Connected: s.Connected, Since: s.Since, Synced: s.Synced, Why: s.Why,
			Sent: s.Sent, Received: s.Received, Resyncs: s.Resyncs, Differs: s.Differs,
		}
		if n, ok := e.replicas.conflicts.Load(l.ID()); ok {
			info.Conflicts = n.(uint64)
		}
		list = append(list, info)
	}
	return list
}

// replicationProblems are links that do not work though the other gateway is there.
func (e *edge) replicationProblems(all map[netip.Addr]gatewayStates, now time.Time) (problems []problem.Problem) {
	for _, l := range e.replicationInfos() {
		if !l.Connected && now.Sub(l.Since) > patience && all[l.Gateway].State != nat.Gone {
			problems = append(problems, problem.Warning(
				"egress: sessions are not replicated with %s, so its connections would not survive its failure: %s: check TCP port %d between both",
				gatewayName(e.config, l.Gateway), l.Why, l.Port))
		}
		for _, what := range l.Differs {
			problems = append(problems, problem.Warning("egress: gateway %s has another configuration of %s, so both or none of them may own an address: "+
				"give all gateways the same spec.egress.gateways and policies", gatewayName(e.config, l.Gateway), what))
		}
	}
	return problems
}
