package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OutageInstruments send steadily and write down when nothing comes.
type OutageInstruments struct {
	OutageTarget OutageTarget `cmd:"" name:"lab-outage-target" hidden:""`
	OutageSource OutageSource `cmd:"" name:"lab-outage-source" hidden:""`
}

// OutageTarget sends back whatever comes by UDP and TCP, until SIGTERM.
type OutageTarget struct {
	Endpoint
	Flows    int           `default:"16" help:"UDP flows to expect"`
	Interval time.Duration `default:"1ms" help:"between two packets of a flow"`
}

// outageTargetReport is what its process prints: the way out of each UDP flow.
type outageTargetReport struct {
	Flows []OutageFlow `json:"flows"`
}

type outageTargetRun struct {
	*OutageTarget
	*outagePoll
	udp, listener int
	tracks        []outageTrack
	streams       map[int]*outageStream
}

// Run serves and prints a report to standard output.
func (t *OutageTarget) Run() error {
	poll, err := newOutagePoll()
	if err != nil {
		return err
	}
	run := &outageTargetRun{OutageTarget: t, outagePoll: poll, tracks: make([]outageTrack, t.Flows), streams: map[int]*outageStream{}}
	for i := range run.tracks {
		run.tracks[i].interval = t.Interval
	}
	if err := run.open(); err != nil {
		return err
	}
	for !run.stopped.Load() {
		if err := run.wait(run.ready); err != nil {
			return err
		}
	}
	report := outageTargetReport{Flows: make([]OutageFlow, t.Flows)}
	for i := range run.tracks {
		report.Flows[i] = run.tracks[i].flow
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

func (r *outageTargetRun) open() (err error) {
	if r.listener, err = listen(r.Addr, r.Port, crrBacklog); err != nil {
		return err
	}
	if r.udp, err = openSocket(r.Addr, unix.SOCK_DGRAM); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(r.udp, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, udpBuffer); err != nil {
		return fmt.Errorf("SO_RCVBUFFORCE: %w", err)
	}
	if err := bind(r.udp, r.Addr, r.Port); err != nil {
		return err
	}
	return errors.Join(r.add(r.listener), r.add(r.udp))
}

func (r *outageTargetRun) ready(fd int) error {
	switch fd {
	case r.udp:
		return r.datagrams()
	case r.listener:
		return r.accept()
	}
	stream := r.streams[fd]
	err := stream.read(stream.write)
	if err != nil { // the source knows better what that means
		delete(r.streams, fd)
		return unix.Close(fd)
	}
	return nil
}

func (r *outageTargetRun) accept() error {
	fd, _, err := unix.Accept4(r.listener, unix.SOCK_CLOEXEC)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("accept: %w", err)
	}
	if err := prepareStream(fd); err != nil {
		return err
	}
	r.streams[fd] = &outageStream{fd: fd}
	return r.add(fd)
}

// datagrams sends back what is there. One that the socket does not take is lost, as by any
// host on the way.
func (r *outageTargetRun) datagrams() error {
	var buffer [outageRecordSize]byte
	var from unix.RawSockaddrInet6
	for {
		size := uint32(unsafe.Sizeof(from))
		n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(r.udp), uintptr(unsafe.Pointer(&buffer)), outageRecordSize, 0,
			uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)))
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno == unix.EINTR, errno == unix.ECONNREFUSED, errno == unix.EHOSTUNREACH, errno == unix.ENETUNREACH:
			continue // what an ICMP message said of an earlier answer
		case errno != 0:
			return fmt.Errorf("receive: %w", errno)
		}
		record := outageRecordOf(buffer[:])
		if n == outageRecordSize && int(record.flow) < len(r.tracks) {
			r.tracks[record.flow].note(record.seq, record.sent, r.now())
			_, _, _ = unix.Syscall6(unix.SYS_SENDTO, uintptr(r.udp), uintptr(unsafe.Pointer(&buffer)), n, 0,
				uintptr(unsafe.Pointer(&from)), uintptr(size))
		}
	}
}
