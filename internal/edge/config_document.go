package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os/user"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/revision"
)

// Bounds of a change of the configuration.
const (
	applyMost    = 512 << 20 // bytes of a request
	applyTimeout = 5 * time.Minute
	leastConfirm = time.Second
	mostConfirm  = 24 * time.Hour
)

// configDocument is the configuration in force, as it was written.
func (e *edge) configDocument() (api.ConfigInfo, error) {
	now := e.current()
	info := api.ConfigInfo{Revision: e.revisionInfo(now.Revision), Files: []api.ConfigFile{}}
	hidden := secrets(now.edge)
	for _, f := range now.Source.Files {
		text := f.Text
		for _, s := range hidden {
			text = bytes.ReplaceAll(text, []byte(s), []byte("(secret)"))
		}
		info.Files = append(info.Files, api.ConfigFile{Path: f.Path, Text: string(text)})
	}
	return info, nil
}

// secrets are the passwords and keys of a configuration, the longest first.
func secrets(e overlay.Edge) (list []string) {
	if e.BGP != nil {
		for _, n := range e.BGP.Neighbours {
			list = append(list, n.Password)
		}
	}
	if e.Egress != nil {
		for _, g := range e.Egress.Gateways {
			if g.Replication != nil {
				list = append(list, string(g.Replication.Key))
			}
		}
	}
	for _, s := range list { // as they may be written in quotes
		quoted := strconv.Quote(s)
		list = append(list, quoted[1:len(quoted)-1], strings.ReplaceAll(s, "'", "''"))
	}
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	return list
}

func (e *edge) historyDocument() ([]api.RevisionInfo, error) {
	now := e.current()
	store, err := revision.Open(e.opts.StateDir, now.edge.Name)
	if err != nil {
		return nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, err
	}
	infos := make([]api.RevisionInfo, 0, len(list))
	for _, r := range list {
		infos = append(infos, e.revisionInfo(r))
	}
	return infos, nil
}

func (e *edge) revisionInfo(r revision.Revision) api.RevisionInfo {
	e.mu.RLock()
	defer e.mu.RUnlock()
	info := api.RevisionInfo{
		ID: r.ID, When: r.When, By: r.By, What: r.What, Path: r.Path, InForce: r.ID == e.inForce.ID, Unconfirmed: r.Unconfirmed,
	}
	if e.awaited != nil && e.awaited.id == r.ID {
		info.Unconfirmed, info.Until = true, e.awaited.until
	}
	return info
}

// requester is who asks by a connection to the socket, and on whose behalf.
func requester(r *http.Request, behalf string) string {
	by := "somebody"
	if uid, ok := r.Context().Value(peerKey{}).(uint32); ok {
		by = "uid " + strconv.FormatUint(uint64(uid), 10)
		if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
			by = u.Username
		}
	}
	if behalf != "" && behalf != by {
		by += " for " + behalf
	}
	return by
}

// peerKey is the key of who asks, in the context of a request.
type peerKey struct{}

// withPeer notes who is at the other end of a connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return ctx
	}
	var peer *unix.Ucred
	if err := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || peer == nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peer.Uid)
}

func (e *edge) applyHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	patiently(w)
	var q api.ApplyQuery
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, applyMost)) // all of it, or the server would not tell that the asker is gone
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil {
		reply(w, nil, api.BadRequest{Err: fmt.Errorf("apply: %w", err)})
		return
	}
	if q.Confirm != 0 && (q.Confirm < leastConfirm || q.Confirm > mostConfirm) {
		reply(w, nil, api.BadRequest{Err: fmt.Errorf("confirm: %s is not a time from %s to %s", q.Confirm, leastConfirm, mostConfirm)})
		return
	}
	source := config.Source{Path: q.Path}
	for _, f := range q.Files {
		source.Files = append(source.Files, config.File{Path: f.Path, Text: []byte(f.Text)})
	}
	if !q.DryRun {
		if err := e.turn.take(r.Context(), e.ended); err != nil {
			reply(w, nil, err)
			return
		}
		defer e.turn.pass()
	}
	info, err := e.applySource(source, revision.Revision{By: requester(r, q.For), What: "apply", Path: q.Path, Source: source}, q.DryRun, q.Confirm)
	reply(w, info, err)
}

func (e *edge) rollbackHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	patiently(w)
	a := api.Arguments{Values: r.URL.Query()}
	id, behalf := a.Number(api.ArgRevision, 0, api.MaxLimit), a.Text(api.ArgFor)
	if err := a.End(); err != nil {
		reply(w, nil, err)
		return
	}
	err := e.turn.take(r.Context(), e.ended)
	if err != nil {
		reply(w, nil, err)
		return
	}
	defer e.turn.pass()
	info, err := e.rollback(id, requester(r, behalf))
	reply(w, info, err)
}

// patiently lets a handler take longer than answers do.
func patiently(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	until := time.Now().Add(applyTimeout)
	_, _ = c.SetReadDeadline(until), c.SetWriteDeadline(until) // else the usual time must do
}

// rollback goes back to a revision; while one waits for its confirmation, 0 is the one before it.
// The caller has the turn.
func (e *edge) rollback(id int, by string) (api.ApplyInfo, error) {
	e.mu.RLock()
	waits := e.awaited
	e.mu.RUnlock()
	if waits != nil && id == 0 {
		return e.goBackNow(waits, by)
	}
	r, err := e.earlier(id)
	if errors.Is(err, fs.ErrNotExist) {
		return api.ApplyInfo{}, api.BadRequest{Err: fmt.Errorf("%w: see selvage history", err)}
	}
	if err != nil {
		return api.ApplyInfo{}, err
	}
	if waits != nil {
		if _, err := e.goBackNow(waits, by); err != nil {
			return api.ApplyInfo{}, err
		}
	}
	return e.applySource(r.Source, revision.Revision{By: by, What: rollbackWord + strconv.Itoa(r.ID), Path: r.Path, Source: r.Source}, false, 0)
}

// goBackNow goes back from a configuration that waits for its confirmation.
func (e *edge) goBackNow(waits *awaited, by string) (api.ApplyInfo, error) {
	info, err := e.difference(e.current(), waits.back)
	if err == nil {
		_, err = inLoop(e, func() (struct{}, error) {
			if e.awaited != waits { // it went back by itself
				return struct{}{}, nil
			}
			return struct{}{}, e.goBack(fmt.Sprintf("rollback of revision %d", waits.id), by)
		})
	}
	if err != nil {
		return api.ApplyInfo{}, fmt.Errorf("revision %d is in force still: %w", waits.id, err)
	}
	return e.applied(info), nil
}

func (e *edge) confirmHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	_, err := inLoop(e, func() (struct{}, error) { return struct{}{}, e.confirm() })
	if err != nil {
		reply(w, nil, api.BadRequest{Err: err})
		return
	}
	reply(w, e.revisionInfo(e.current().Revision), nil)
}

// applySource says what another configuration changes, and has it come into force unless that
// is all that is asked.
func (e *edge) applySource(source config.Source, r revision.Revision, dryRun bool, confirm time.Duration) (api.ApplyInfo, error) {
	next, err := e.opts.Parse(source)
	if err == nil {
		err = e.sameName(next, source.Path)
	}
	if err != nil {
		return api.ApplyInfo{}, api.BadRequest{Err: err}
	}
	was := e.current()
	c, err := newCandidate(was, next, r)
	if err != nil {
		return api.ApplyInfo{}, api.BadRequest{Err: err}
	}
	info, err := e.difference(was, c)
	if err != nil {
		return info, err
	}
	if dryRun {
		info.Revision = e.revisionInfo(e.current().Revision)
		return info, nil
	}
	_, err = inLoop(e, func() (struct{}, error) { return struct{}{}, e.transact(c, confirm) })
	if err != nil {
		return info, fmt.Errorf("the configuration is not in force, the one before is: %w", err)
	}
	e.log.Info("configuration applied", "by", r.By, "changes", len(info.Changes)+info.Omitted)
	return e.applied(info), nil
}

// applied completes an answer when its configuration is in force.
func (e *edge) applied(info api.ApplyInfo) api.ApplyInfo {
	info.Applied, info.Revision = true, e.revisionInfo(e.current().Revision)
	if left := e.leftOut(); left != nil {
		info.LeftOut = left.Error()
	}
	return info
}

// difference is what changes between two configurations, and what that does to what runs.
func (e *edge) difference(was, next candidate) (info api.ApplyInfo, err error) {
	info = api.ApplyInfo{Edge: next.edge.Name, Changes: changes(was.Source, next.Source)}
	info.Omitted = max(0, len(info.Changes)-api.MaxChanges)
	info.Changes = info.Changes[:len(info.Changes)-info.Omitted]
	info.Effects, err = e.effects(was, next)
	return info, err
}

// changes are those of the texts. Of a former one that cannot be read any more nothing is known.
func changes(was, now config.Source) []api.ConfigChange {
	list := []api.ConfigChange{}
	diff, err := config.Diff(was, now)
	if err != nil {
		return append(list, api.ConfigChange{Kind: config.Changed, Path: now.Path})
	}
	for _, c := range diff {
		list = append(list, api.ConfigChange(c))
	}
	return list
}

// effects are what a change does to what runs.
func (e *edge) effects(was, next candidate) (api.ApplyEffects, error) {
	x := api.ApplyEffects{
		Programs:  !reflect.DeepEqual(dataPathConfig(was.edge, e.opts), dataPathConfig(next.edge, e.opts)),
		BGPResets: bgpResets(was.edge.BGP, next.edge.BGP),
	}
	_, err := read(e, "connections", func() (struct{}, error) {
		return struct{}{}, errors.Join(e.sessionEffects(next, &x), e.natEffects(next.edge, &x))
	})
	return x, err
}

func (e *edge) sessionEffects(next candidate, x *api.ApplyEffects) error {
	if e.config.Firewall == nil {
		return nil
	}
	places := make(map[string]bool)
	for _, p := range plan.Places(next.edge) {
		places[p.Name] = true
	}
	return e.dp.Firewall.EachSession(func(s *datapath.Session) bool {
		x.Sessions++
		if _, allowed := wouldAllow(next.rules.policy, places, s); !allowed {
			x.SessionsCut++
		}
		return true
	})
}

func (e *edge) natEffects(next overlay.Edge, x *api.ApplyEffects) error {
	if e.config.Egress == nil {
		return nil
	}
	stays := make(map[string]bool)
	if next.Egress != nil {
		for _, p := range next.Egress.Policies {
			stays[p.Name] = true
		}
	}
	for _, r := range next.Routers {
		for _, u := range r.Uplinks {
			stays["uplink/"+u.Name] = u.NAT != nil
		}
	}
	return e.dp.NAT.EachNATSession(func(s *datapath.NATSession) bool {
		x.NATSessions++
		if !stays[s.Policy] {
			x.NATSessionsCut++
		}
		return true
	})
}

// bgpResets are the neighbours whose sessions begin anew, or end, when one configuration becomes another.
func bgpResets(was, next *overlay.BGP) []string {
	names := []string{}
	if was == nil {
		return names
	}
	for _, n := range was.Neighbours {
		if next == nil || next.AS != was.AS || next.RouterID != was.RouterID || !slices.ContainsFunc(next.Neighbours, func(o overlay.BGPNeighbour) bool { return reflect.DeepEqual(n, o) }) {
			names = append(names, n.Name)
		}
	}
	return names
}
