package measure

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// SizeEcho answers each datagram with its first bytes, until it is killed.
type SizeEcho struct{ Endpoint }

// SizeProbe finds the largest datagram that SizeEcho answers, from several
// source ports at once.
type SizeProbe struct {
	Endpoint
	Most     int           `default:"1500" help:"bytes of the largest IP packet to try"`
	Least    int           `default:"576" help:"bytes of the smallest"`
	Flows    int           `default:"16" help:"source ports"`
	Patience time.Duration `default:"100ms" help:"time to wait for an answer"`
}

const (
	sizeTries  = 3
	rttProbes  = 20
	sizeHeader = 8 // bytes that come back: the probe's size and number
	sizeSource = 20000
)

// Run answers until it is killed.
func (s *SizeEcho) Run() error {
	fd, err := openSocket(s.Addr, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := bind(fd, s.Addr, s.Port); err != nil {
		return err
	}
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := unix.Recvfrom(fd, buffer, 0)
		if err == nil && n >= sizeHeader {
			err = unix.Sendto(fd, buffer[:sizeHeader], 0, from)
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("echo: %w", err)
		}
	}
}

// sizeFlow is one source port's search.
type sizeFlow struct {
	fd int
	bisection
	FlowSize
	trying  int    // bytes, 0 when done
	number  uint32 // of the last probe
	sent    time.Time
	timed   bool // each probe is sent once, so that an answer has one it is of
	arrived bool
}

// Run probes and prints a list of FlowSize to standard output.
func (s *SizeProbe) Run() error {
	flows := make([]*sizeFlow, s.Flows)
	for i := range flows {
		fd, err := s.open(sizeSource + i)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		flows[i] = &sizeFlow{fd: fd, bisection: bisection{least: s.Least, most: s.Most}, FlowSize: FlowSize{Port: sizeSource + i}}
		if err := flows[i].look(s.Addr); err != nil {
			return err
		}
	}
	for s.round(flows) {
		for range sizeTries {
			if err := s.try(flows); err != nil {
				return err
			}
		}
		for _, f := range flows {
			if f.trying > 0 {
				f.tried(f.trying, f.arrived)
			}
		}
	}
	for range rttProbes {
		for _, f := range flows {
			if f.passes == 0 { // nobody answers, and waiting for that once is enough
				continue
			}
			f.trying, f.arrived, f.timed = min(s.Least, s.Most), false, true
			f.number++
		}
		if err := s.try(flows); err != nil {
			return err
		}
	}
	report := make([]FlowSize, len(flows))
	for i, f := range flows {
		f.Largest = f.passes
		report[i] = f.FlowSize
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// look notes what the kernel believes of the path, and from where it leaves.
func (f *sizeFlow) look(to netip.Addr) error {
	level, option := unix.IPPROTO_IPV6, unix.IPV6_MTU
	if to.Is4() {
		level, option = unix.IPPROTO_IP, unix.IP_MTU
	}
	var err error
	if f.Believed, err = unix.GetsockoptInt(f.fd, level, option); err != nil {
		return fmt.Errorf("path MTU: %w", err)
	}
	local, err := unix.Getsockname(f.fd)
	switch a := local.(type) {
	case *unix.SockaddrInet4:
		f.Local = netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		f.Local = netip.AddrFrom16(a.Addr)
	}
	return err
}

// round sets each flow's next size and says whether there is one.
func (s *SizeProbe) round(flows []*sizeFlow) (more bool) {
	for _, f := range flows {
		f.trying, f.arrived = f.next(), false
		f.number++
		more = more || f.trying > 0
	}
	return more
}

// open connects a socket that never fragments, does not believe the route's
// cached MTU (IP_PMTUDISC_PROBE, ip(7)), and keeps the messages about it.
func (s *SizeProbe) open(port int) (int, error) {
	fd, err := openSocket(s.Addr, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK)
	if err != nil {
		return -1, err
	}
	level, discover, errorsToo := unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_RECVERR
	if s.Addr.Is4() {
		level, discover, errorsToo = unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_RECVERR
	}
	for _, step := range []struct {
		what string
		err  error
	}{
		{"MTU_DISCOVER", unix.SetsockoptInt(fd, level, discover, unix.IP_PMTUDISC_PROBE)},
		{"RECVERR", unix.SetsockoptInt(fd, level, errorsToo, 1)},
		{fmt.Sprintf("bind port %d", port), unix.Bind(fd, sockaddrAny(s.Addr, port))},
		{fmt.Sprintf("connect to %s port %d", s.Addr, s.Port), unix.Connect(fd, sockaddr(s.Addr, s.Port))},
	} {
		if step.err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("%s: %w", step.what, step.err)
		}
	}
	return fd, nil
}

// try sends the probes that are still unanswered and waits for answers.
func (s *SizeProbe) try(flows []*sizeFlow) error {
	headers := 20 + 8
	if !s.Addr.Is4() {
		headers = 40 + 8
	}
	waiting := 0
	for _, f := range flows {
		if f.trying == 0 || f.arrived {
			continue
		}
		probe := make([]byte, f.trying-headers)
		binary.BigEndian.PutUint32(probe, uint32(f.trying))
		binary.BigEndian.PutUint32(probe[4:], f.number)
		f.readErrors()
		f.sent = time.Now()
		err := sendProbe(f.fd, probe)
		if errors.Is(err, unix.EMSGSIZE) { // of an earlier probe, as a message may come late
			f.readErrors()
			err = sendProbe(f.fd, probe)
		}
		// ENOBUFS is a device's refusal, as a veth's whose other end has a smaller MTU.
		if err != nil && !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("probe of %d bytes: %w", f.trying, err)
		}
		waiting++
	}
	for end := time.Now().Add(s.Patience); waiting > 0 && time.Now().Before(end); {
		n, err := s.collect(flows, time.Until(end))
		if err != nil {
			return err
		}
		waiting -= n
	}
	return nil
}

func sendProbe(fd int, probe []byte) error {
	_, err := unix.Write(fd, probe)
	return err
}

// collect waits for something to come and returns how many probes it answers.
func (s *SizeProbe) collect(flows []*sizeFlow, wait time.Duration) (answered int, err error) {
	fds := make([]unix.PollFd, len(flows))
	for i, f := range flows {
		fds[i] = unix.PollFd{Fd: int32(f.fd), Events: unix.POLLIN}
	}
	if _, err := unix.Poll(fds, int(wait/time.Millisecond)+1); err != nil && !errors.Is(err, unix.EINTR) {
		return 0, fmt.Errorf("poll: %w", err)
	}
	buffer := make([]byte, 64)
	for i, f := range flows {
		if fds[i].Revents == 0 {
			continue
		}
		f.readErrors()
		for {
			n, err := unix.Read(f.fd, buffer)
			if err != nil {
				break // nothing more, or the error that readErrors has
			}
			if n == sizeHeader && binary.BigEndian.Uint32(buffer[4:]) == f.number && !f.arrived && f.trying > 0 {
				f.arrived = true
				if rtt := float64(time.Since(f.sent)) / 1e3; f.timed && (f.RTT == 0 || rtt < f.RTT) {
					f.RTT = rtt
				}
				answered++
			}
		}
	}
	return answered, nil
}

// readErrors empties the socket's error queue and notes what MTU was told to who sends the
// largest size, as end systems do. (Of smaller ones a Linux bridge lets four bytes more than a
// port's MTU pass, for a VLAN tag, so that a tunnel behind it has something to tell of those.)
func (f *sizeFlow) readErrors() {
	data, control := make([]byte, 1), make([]byte, 512)
	for {
		_, n, _, _, err := unix.Recvmsg(f.fd, data, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		if mtu := reportedMTU(control[:n]); f.trying == f.most && mtu > 0 && (f.Reported == 0 || mtu < f.Reported) {
			f.Reported = mtu
		}
	}
}

// reportedMTU is the MTU in an extended error (ip(7), IP_RECVERR) that came as an ICMP
// message, 0 for any other.
func reportedMTU(control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		// struct sock_extended_err: errno, origin, type, code, pad, info, data.
		if len(m.Data) < 16 {
			continue
		}
		number, origin := binary.NativeEndian.Uint32(m.Data), m.Data[4]
		byICMP := origin == unix.SO_EE_ORIGIN_ICMP || origin == unix.SO_EE_ORIGIN_ICMP6
		if byICMP && unix.Errno(number) == unix.EMSGSIZE {
			return int(binary.NativeEndian.Uint32(m.Data[8:]))
		}
	}
	return 0
}
