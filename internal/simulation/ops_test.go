package simulation

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// op is one thing that happens. What its numbers mean depends on what there is then, so that a
// list of them stays one when some are taken out.
type op struct {
	kind int
	a, b uint32
}

// kinds are what can happen, and how often.
var kinds = []struct {
	name   string
	weight int
	do     func(w *world, a, b uint32) string
}{
	{"segment", 6, (*world).toggleSegment},
	{"port", 10, (*world).togglePort},
	{"remote", 8, (*world).toggleRemote},
	{"static", 6, (*world).toggleStatic},
	{"gateway", 3, (*world).toggleGateway},
	{"route", 3, (*world).toggleRoute},
	{"firewall", 2, (*world).changeFirewall},
	{"fdb-size", 1, (*world).changeFDB},
	{"break", 1, (*world).breakFile},
	{"reload", 20, (*world).reload},
	{"apply", 8, (*world).apply},
	{"confirm", 2, (*world).applyUnconfirmed},
	{"link", 6, (*world).toggleLink},
	{"carrier", 3, (*world).toggleCarrier},
	{"resolve", 3, (*world).toggleNextHop},
	{"path", 8, (*world).togglePath},
	{"path-in-reload", 6, (*world).failDuringReload},
	{"bgp-remote", 6, (*world).toggleLearned},
	{"bgp-host", 6, (*world).toggleHost},
	{"restart", 2, (*world).restart},
	{"kill", 2, (*world).kill},
	{"refuse-some", 4, (*world).refuseSome},
	{"refuse-one", 4, (*world).refuseOne},
	{"refuse-all", 3, (*world).refuseAll},
	{"mend", 5, (*world).mend},
	{"fill-fdb", 2, (*world).fillFDB},
	{"wait", 6, (*world).wait},
}

// scenario is what a seed stands for.
func scenario(seed uint64, length int) (s shape, ops []op) {
	r := rand.New(rand.NewPCG(seed, 7))
	s = newShape()
	s.dual, s.bfd, s.bgp = r.IntN(2) == 0, r.IntN(4) > 0, r.IntN(2) == 0
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for range length {
		n, kind := r.IntN(total), 0
		for n >= kinds[kind].weight {
			n -= kinds[kind].weight
			kind++
		}
		ops = append(ops, op{kind, r.Uint32(), r.Uint32()})
	}
	return s, ops
}

func (w *world) toggleSegment(a, b uint32) string {
	n := int(a % maxSegments)
	if w.file.segments[n] != nil {
		delete(w.file.segments, n)
		w.file.tidy()
		return fmt.Sprintf("the file has no s%d", n)
	}
	w.file.segments[n] = &segment{gateway: b%2 == 0, evpn: b/2%2 == 0, remotes: map[int]bool{}, static: map[int]int{}}
	return fmt.Sprintf("the file has s%d: %+v", n, *w.file.segments[n])
}

// some is one of the segments of the file; -1 when there is none.
func (w *world) some(a uint32) int {
	list := sorted(w.file.segments)
	if len(list) == 0 {
		return -1
	}
	return list[int(a)%len(list)]
}

func (w *world) togglePort(a, b uint32) string {
	n, seg := int(a%maxPorts), w.some(b)
	switch {
	case seg < 0:
		return "nothing"
	case w.file.ports[n] != nil && b/16%2 == 0:
		delete(w.file.ports, n)
		w.file.tidy()
		return fmt.Sprintf("the file has no p%d", n)
	}
	w.file.ports[n] = &port{segment: seg, guarded: b/32%2 == 0}
	w.file.tidy()
	return fmt.Sprintf("the file has p%d in s%d, guarded %t", n, seg, b/32%2 == 0)
}

func (w *world) toggleRemote(a, b uint32) string {
	n, r := w.some(a), int(b%maxRemotes)
	if n < 0 {
		return "nothing"
	}
	if seg := w.file.segments[n]; !seg.remotes[r] {
		seg.remotes[r] = true
		return fmt.Sprintf("the file has r%d in s%d", r, n)
	}
	delete(w.file.segments[n].remotes, r)
	w.file.tidy()
	return fmt.Sprintf("the file has no r%d in s%d", r, n)
}

func (w *world) toggleStatic(a, b uint32) string {
	n := w.some(a)
	if n < 0 {
		return "nothing"
	}
	seg, mac := w.file.segments[n], int(b%maxMACs)
	if _, ok := seg.static[mac]; ok {
		delete(seg.static, mac)
		return fmt.Sprintf("the file has no static MAC %d in s%d", mac, n)
	}
	var at []int
	for _, p := range sorted(w.file.ports) {
		if w.file.ports[p].segment == n {
			at = append(at, p)
		}
	}
	for _, r := range sorted(seg.remotes) {
		at = append(at, -1-r)
	}
	if len(at) == 0 {
		return "nothing"
	}
	seg.static[mac] = at[int(b/16)%len(at)]
	return fmt.Sprintf("the file has static MAC %d in s%d at %d", mac, n, seg.static[mac])
}

func (w *world) toggleGateway(a, _ uint32) string {
	n := w.some(a)
	if n < 0 {
		return "nothing"
	}
	w.file.segments[n].gateway = !w.file.segments[n].gateway
	w.file.tidy()
	return fmt.Sprintf("the file has a gateway in s%d: %t", n, w.file.segments[n].gateway)
}

func (w *world) toggleRoute(a, b uint32) string {
	n, by := int(b%maxRoutes), w.some(a)
	if _, ok := w.file.routes[n]; ok {
		delete(w.file.routes, n)
		return fmt.Sprintf("the file has no route %d", n)
	}
	if by < 0 || !w.file.segments[by].gateway {
		return "nothing"
	}
	w.file.routes[n] = by
	return fmt.Sprintf("the file has route %d by s%d", n, by)
}

func (w *world) changeFirewall(a, _ uint32) string {
	w.file.firewall = int(a % 4)
	return fmt.Sprintf("the file has firewall %d", w.file.firewall)
}

func (w *world) changeFDB(a, _ uint32) string {
	w.file.fdbSize = 32 + int(a%3)*16
	return fmt.Sprintf("the file has an FDB of %d", w.file.fdbSize)
}

func (w *world) breakFile(uint32, uint32) string {
	w.broken = !w.broken
	return fmt.Sprintf("the file is broken: %t", w.broken)
}

// reload has the edge read the file. It must be in force then, or a problem says why not.
func (w *world) reload(uint32, uint32) string {
	w.write()
	w.hangup()
	w.pass(100 * time.Millisecond)
	refused := w.hasProblem("reload the configuration")
	switch {
	case w.broken && !refused:
		w.violate("a broken file was reloaded and no problem says so")
	case refused && !w.broken && !w.faulty():
		w.violate("a good file is not in force: %v", w.problems())
	case !refused:
		w.inForce = w.file.clone()
	}
	return fmt.Sprintf("reload, refused: %t", refused)
}

func (w *world) query() api.ApplyQuery {
	w.write()
	text := w.file.text()
	if w.broken {
		text += "  nonsense: true\n"
	}
	return api.ApplyQuery{Path: w.path, Files: []api.ConfigFile{{Path: w.path, Text: text}}}
}

func (w *world) apply(a, _ uint32) string {
	q := w.query()
	q.DryRun = a%4 == 0
	_, err := w.client.Config().Apply(w.t.Context(), q)
	w.applied(q, err)
	return fmt.Sprintf("apply, dry run %t: %v", q.DryRun, err)
}

func (w *world) applied(q api.ApplyQuery, err error) {
	switch {
	case w.broken && err == nil:
		w.violate("a broken file was applied")
	case err != nil && !w.broken && !w.faulty():
		w.violate("a good file is not applied: %v", err)
	case err == nil && !q.DryRun:
		w.inForce = w.file.clone()
	}
}

// applyUnconfirmed applies what goes back by itself, or is confirmed.
func (w *world) applyUnconfirmed(a, _ uint32) string {
	q, before := w.query(), w.inForce
	q.Confirm = 2 * time.Second
	_, err := w.client.Config().Apply(w.t.Context(), q)
	w.applied(q, err)
	if err != nil {
		return fmt.Sprintf("apply --confirm: %v", err)
	}
	w.pass(100 * time.Millisecond)
	if a%2 == 0 {
		_, err = w.client.Config().Confirm(w.t.Context())
		return fmt.Sprintf("apply --confirm, confirmed: %v", err)
	}
	w.check("before it goes back")
	w.pass(2 * time.Second)
	if w.faulty() && w.hasProblem("go back to the configuration before") {
		return "apply --confirm, and it could not go back"
	}
	w.inForce = before
	return "apply --confirm, it goes back"
}

func (w *world) toggleLink(a, _ uint32) string {
	n := int(a % maxPorts)
	w.mu.Lock()
	link, ok := w.state.Links[interfaceOf(n)]
	if ok {
		delete(w.state.Links, interfaceOf(n))
	} else {
		w.addLink(n)
	}
	w.mu.Unlock()
	if ok {
		w.machine.RemoveInterface(link.Index)
	}
	mark(w.changed)
	return fmt.Sprintf("%s is there: %t", interfaceOf(n), !ok)
}

func (w *world) toggleCarrier(a, _ uint32) string {
	name := []string{"eth0", "eth1"}[a%2]
	w.mu.Lock()
	link := w.state.Links[name]
	link.Up = !link.Up
	w.state.Links[name] = link
	w.mu.Unlock()
	if !link.Up {
		select {
		case w.linksLost <- link.Index:
		default:
		}
	}
	mark(w.changed)
	return fmt.Sprintf("%s is up: %t", name, link.Up)
}

func (w *world) toggleNextHop(a, b uint32) string {
	pair := pairOf(int(a%maxRemotes), b)
	w.mu.Lock()
	resolved := w.state.Routes[pair].NextMAC != overlay.MAC{}
	w.setRoute(pair.Local, pair.Remote, !resolved)
	w.mu.Unlock()
	mark(w.changed)
	return fmt.Sprintf("next hop of %s resolved: %t", pair, !resolved)
}

func pairOf(n int, b uint32) overlay.Pair {
	if b%2 == 0 {
		return overlay.Pair{Local: tep, Remote: remoteAddr(n)}
	}
	return overlay.Pair{Local: tep2, Remote: secondAddr(n)}
}

// togglePath has a path die or come back. Flows leave a dead one before time passes.
func (w *world) togglePath(a, b uint32) string {
	pair := pairOf(int(a%maxRemotes), b)
	w.mu.Lock()
	next := bfd.Result{State: bfd.Down, Since: time.Now(), Why: "no packet for 150ms"}
	if w.lives[pair].State == bfd.Down {
		next = bfd.Result{State: bfd.Up, Since: time.Now()}
	}
	w.lives[pair] = next
	w.mu.Unlock()
	mark(w.died)
	synctest.Wait()
	if dead := w.deadPaths(w.inForce); len(dead) > 0 && !w.faulty() {
		w.violate("flows go by dead paths: %s", strings.Join(dead, ", "))
	}
	return fmt.Sprintf("path %s is %s", pair, next.State)
}

func (w *world) toggleLearned(a, b uint32) string {
	seg, n := int(a%maxSegments), int(b%maxLearned)
	k := evpn.Key{Type: evpn.Multicast, Addr: learnedAddr(n)}
	return w.toggleUpdate(seg, n, k, "remote")
}

func (w *world) toggleHost(a, b uint32) string {
	seg, n := int(a%maxSegments), int(b%maxLearned)
	k := evpn.Key{Type: evpn.MACIP, MAC: overlay.MAC{2, 0, 0, 2, byte(seg), byte(b / 16 % 8)}}
	return w.toggleUpdate(seg, n, k, "host "+k.MAC.String())
}

// toggleUpdate has the reflector tell a route of a remote, or withdraw it.
func (w *world) toggleUpdate(seg, n int, k evpn.Key, what string) string {
	vni, to := overlay.VNI(vniOf(seg)), learnedAddr(n)
	k.RD = overlay.AddrDistinguisher(to, uint16(vni))
	u := evpn.Update{Neighbour: reflector, Route: evpn.Route{
		Key: k, VNI: vni, NextHop: to, Encapsulation: overlay.VXLAN, LocalPref: 100, Targets: []overlay.RouteTarget{overlay.ASTarget(65000, uint32(vni))},
	}}
	var list []evpn.Update
	w.mu.Lock()
	if _, ok := w.routes[k]; ok {
		delete(w.routes, k)
		u.Withdrawn = true
	} else {
		// One edge at a time has a host: the other withdraws it, later.
		for o, old := range w.routes {
			if k.Type == evpn.MACIP && o.Type == evpn.MACIP && o.MAC == k.MAC {
				old.Withdrawn = true
				list = append(list, old)
				delete(w.routes, o)
			}
		}
		w.routes[k] = u
	}
	speaker := w.speaker
	w.mu.Unlock()
	if speaker != nil {
		speaker.Receive(append([]evpn.Update{u}, list...))
	}
	return fmt.Sprintf("BGP: %s of s%d behind %s, withdrawn %t", what, seg, to, u.Withdrawn)
}

func (w *world) restart(uint32, uint32) string {
	if err := w.end(); err != nil {
		w.violate("the edge ended: %v", err)
	}
	return w.again("restart")
}

// kill has the process end as by SIGKILL.
func (w *world) kill(uint32, uint32) string {
	w.machine.Kill()
	_ = w.end() // of a process that has nothing any more
	return w.again("kill")
}

// again starts the edge, with its file or the last good revision.
func (w *world) again(what string) string {
	w.start()
	w.pass(3 * time.Second) // what the last process learned by BGP stays so long
	select {
	case err := <-w.done:
		w.violate("the edge does not start: %v", err)
	default:
	}
	if w.hasProblem("start with the configuration's file") {
		return what + ", with the last good revision"
	}
	w.inForce = w.written.clone()
	return what
}

// Maps whose writes may be refused. Those that are arrays never refuse.
var refusable = []string{"ports", "vnis", "remotes", "members", "fdb", "teps", "path_groups", "allowed_macs", "routes", "attach"}

func (w *world) refuseSome(a, b uint32) string { return w.refuse(a, b, 1+int(b/4%5)) }

// refuseOne has writes of one entry fail: no other may be missing because of it.
func (w *world) refuseOne(a, _ uint32) string {
	table := refusable[int(a)%(len(refusable)-1)] // all but attach
	w.mu.Lock()
	w.setFault(table, fault{left: -1, one: true})
	w.mu.Unlock()
	w.pass(11 * time.Second) // what was refused before is written
	return fmt.Sprintf("writes of one entry of %s fail", table)
}

func (w *world) refuseAll(a, b uint32) string { return w.refuse(a, b, -1) }

func (w *world) refuse(a, b uint32, times int) string {
	table := refusable[int(a)%len(refusable)]
	deletes := b%4 == 0 && table != "attach"
	w.mu.Lock()
	w.setFault(table, fault{left: times, deletes: deletes})
	w.mu.Unlock()
	return fmt.Sprintf("writes to %s fail, deletes %t, times %d", table, deletes, times)
}

func (w *world) mend(uint32, uint32) string {
	w.mu.Lock()
	clear(w.faults)
	w.mu.Unlock()
	w.pass(11 * time.Second)
	return "nothing fails any more"
}

// fillFDB is a tenant who sends from many addresses.
func (w *world) fillFDB(a, _ uint32) string {
	c := &checker{w: w, s: w.inForce, a: w.actual(), segs: map[int]uint32{}}
	c.segments()
	ports := sorted(w.inForce.ports)
	if len(ports) == 0 {
		return "nothing"
	}
	n := ports[int(a)%len(ports)]
	w.mu.Lock()
	id, ok := c.portID(n)
	w.mu.Unlock()
	if !ok {
		return "nothing"
	}
	fdb, stored := w.machine.Map("fdb"), 0
	for i := range 200 {
		key, value := make([]byte, 12), make([]byte, 48)
		le.PutUint32(key, c.segs[w.inForce.ports[n].segment])
		copy(key[4:], []byte{6, 0, 0, byte(n), byte(i >> 8), byte(i)})
		le.PutUint32(value, id)
		binary.LittleEndian.PutUint64(value[8:], uint64(time.Hour)) // seen some time ago
		if err := fdb.Update(key, value, 1 /* BPF_NOEXIST */); err != nil {
			break
		}
		stored++
	}
	return fmt.Sprintf("p%d fills the FDB with %d addresses", n, stored)
}

func (w *world) wait(a, _ uint32) string {
	d := time.Duration(a%20_000) * time.Millisecond
	w.pass(d)
	return fmt.Sprintf("%s pass", d)
}

// pass has time pass, and what is due then happen.
func (w *world) pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in virtual time nobody waits
	synctest.Wait()
}

// faulty reports whether something is refused, or was until a moment ago.
func (w *world) faulty() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.faults) > 0
}

func (w *world) problems() []problem.Problem {
	s, err := w.client.Status(w.t.Context())
	if err != nil {
		w.violate("status: %v", err)
	}
	return s.Problems
}

func (w *world) hasProblem(word string) bool {
	return slices.ContainsFunc(w.problems(), func(p problem.Problem) bool { return strings.Contains(p.Text, word) })
}
