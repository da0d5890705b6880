package fabric

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/selvage/selvage/lab/topo"
)

// Wire listens to what reflectors and edges say to each other, and to where edges send: the
// same for all targets, and without asking any of them.
type Wire struct {
	n        *Fabric
	captures []*topo.Command
	files    []string
}

// Listen starts it. It hears BGP at the first reflector, and BGP and tunnels at edge C, which
// in no case is what fails.
func (n *Fabric) Listen(ctx context.Context) (*Wire, error) {
	w := &Wire{n: n}
	for _, port := range []string{n.Reflectors[0].Name, n.Edges[edgeC].Name} {
		end := topo.LinkEnd{Host: n.Switch, Name: port}
		c, err := end.Capture(ctx, n.Lab.Dir, topo.CaptureOptions{Snaplen: 256, Filter: []string{"tcp port 179 or (udp dst port 4789 and src host " + n.Edges[edgeC].TEP.String() + ")"}})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen to %s: %w", end, err), w.Stop())
		}
		w.captures = append(w.captures, c)
		w.files = append(w.files, filepath.Join(n.Lab.Dir, n.Switch.Name+"-"+port+".pcap"))
	}
	return w, nil
}

// Stop ends it, so that all that was heard can be read.
func (w *Wire) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), topo.CloseTimeout)
	defer cancel()
	var errs []error
	for _, c := range w.captures {
		errs = append(errs, c.Stop(ctx))
	}
	return errors.Join(errs...)
}

// WireSteps are when something was first heard after a fault; zero is never.
type WireSteps struct {
	Advertised time.Time // an edge told the reflector of a route, or of one that is no more
	Passed     time.Time // the reflector told edge C after that
	Written    time.Time // edge C sent to the mobile guest by an edge by which it had not
}

// Steps are those since a time. They are to be asked for after Stop.
func (w *Wire) Steps(since time.Time) (steps WireSteps, err error) {
	advertised := firstSince{&steps.Advertised, since}
	err = readCapture(w.files[0], func(p received) {
		if p.dst == w.n.Reflectors[0].Addr && p.updates {
			advertised.note(p.at)
		}
	})
	if err != nil {
		return steps, err
	}
	passed, written := firstSince{&steps.Passed, since}, firstSince{&steps.Written, since}
	if !steps.Advertised.IsZero() {
		passed.since = steps.Advertised
	}
	was := netip.Addr{} // where the guest is, as edge C has it
	err = readCapture(w.files[1], func(p received) {
		switch {
		case w.passes(p):
			passed.note(p.at)
		case !w.toGuest(p):
		case p.at.Before(since) || !was.IsValid():
			was = p.dst
		case p.dst != was:
			written.note(p.at)
		}
	})
	return steps, err
}

// firstSince takes down the first of some times that is not before another.
type firstSince struct {
	at    *time.Time
	since time.Time
}

func (f firstSince) note(at time.Time) {
	if f.at.IsZero() && !at.Before(f.since) {
		*f.at = at
	}
}

// passes says whether the reflector tells edge C of routes.
func (w *Wire) passes(p received) bool {
	return p.updates && p.src == w.n.Reflectors[0].Addr && p.dst == w.n.Edges[edgeC].Addr
}

// toGuest says whether edge C sends to the mobile guest.
func (w *Wire) toGuest(p received) bool {
	return p.src == w.n.Edges[edgeC].TEP && bytes.Equal(p.inner, w.n.Guests[guestMobile].MAC)
}

// received is a packet of a capture.
type received struct {
	at       time.Time
	src, dst netip.Addr
	updates  bool             // it begins with BGP messages of which one is an UPDATE with routes
	inner    net.HardwareAddr // the destination in the tunnel, nil without
}

// readCapture calls each with the packets of a file of tcpdump (pcap-savefile(5)), which this
// machine has written.
func readCapture(name string, each func(received)) error {
	file, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	const header, record = 24, 16
	if len(file) < header || binary.NativeEndian.Uint32(file) != 0xa1b2c3d4 {
		return fmt.Errorf("%s is not a capture", name)
	}
	for at := file[header:]; len(at) > 0; {
		if len(at) < record {
			return fmt.Errorf("%s: %w", name, io.ErrUnexpectedEOF)
		}
		size := binary.NativeEndian.Uint32(at[8:])
		if uint64(len(at)) < record+uint64(size) {
			return fmt.Errorf("%s: %w", name, io.ErrUnexpectedEOF)
		}
		if p, ok := receive(at[record : record+size]); ok {
			p.at = time.Unix(int64(binary.NativeEndian.Uint32(at)), 1000*int64(binary.NativeEndian.Uint32(at[4:])))
			each(p)
		}
		at = at[record+size:]
	}
	return nil
}

// receive reads a frame with IPv4: TCP to or from BGP's port, or VXLAN.
func receive(frame []byte) (p received, ok bool) {
	const ethernet, ipv4 = 14, 20
	if len(frame) < ethernet+ipv4+20 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 {
		return p, false
	}
	ip := frame[ethernet:]
	p.src, _ = netip.AddrFromSlice(ip[12:16])
	p.dst, _ = netip.AddrFromSlice(ip[16:20])
	length := int(ip[0]&15) * 4
	if length+20 > len(ip) {
		return p, false
	}
	transport := ip[length:]
	switch ip[9] {
	case 6:
		p.updates = updates(transport[min(len(transport), int(transport[12]>>4)*4):])
		return p, true
	case 17:
		const udp, vxlan = 8, 8
		if len(transport) < udp+vxlan+6 {
			return p, false
		}
		p.inner = net.HardwareAddr(transport[udp+vxlan : udp+vxlan+6])
		return p, true
	}
	return p, false
}

// endOfRIB is the longest UPDATE that only says that there is no more (RFC 4724 section 2):
// header, two lengths, and an attribute with a family.
const endOfRIB = 19 + 4 + 4 + 3

// updates says whether messages (RFC 4271 section 4.1) hold an UPDATE with routes, as far as
// they were captured.
func updates(stream []byte) bool {
	const header, update = 19, 2
	for len(stream) >= header && bytes.Count(stream[:16], []byte{0xff}) == 16 {
		length := int(binary.BigEndian.Uint16(stream[16:]))
		if stream[18] == update && length > endOfRIB {
			return true
		}
		stream = stream[min(len(stream), max(header, length)):]
	}
	return false
}
