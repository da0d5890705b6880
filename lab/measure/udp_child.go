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

// UDPReceiver counts datagrams for the duration from the first, and then until
// none comes for a while.
type UDPReceiver struct {
	Endpoint
	Duration time.Duration `default:"1s" help:"time of sending"`
}

// UDPSender sends datagrams to a receiver as fast as a blocking loop can.
type UDPSender struct {
	Endpoint
	Payload  int           `default:"18" help:"bytes of a datagram; 18 make the smallest Ethernet frame over IPv4"`
	Duration time.Duration `default:"1s" help:"time of sending"`
	Rate     int64         `default:"0" help:"most datagrams a second; 0 for as many as there can be"`
}

// udpReport is what either process prints.
type udpReport struct {
	Packets   uint64 `json:"packets"`
	ElapsedNS int64  `json:"elapsed_ns"` // first to last packet
}

const (
	udpFirst  = 10 * time.Second       // the receiver's patience before the first datagram
	udpSettle = 300 * time.Millisecond // silence after sending that ends a run
	udpBatch  = 64
	// udpBuffer is the receiver's queue, so that only the path and the
	// receiver's speed lose packets, not its scheduling.
	udpBuffer = 4 << 20
)

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// Run receives one run and prints a report to standard output.
func (r *UDPReceiver) Run() error {
	if err := alone(r.Core); err != nil {
		return err
	}
	fd, err := r.bindUDP()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	report, err := r.receive(fd)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

// bindUDP returns a socket that receives at the endpoint, with a queue for floods.
func (e Endpoint) bindUDP() (int, error) {
	fd, err := openSocket(e.Addr, unix.SOCK_DGRAM)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, udpBuffer)
	if errors.Is(err, unix.EPERM) { // not root: what net.core.rmem_max allows
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, udpBuffer)
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("SO_RCVBUFFORCE: %w", err), unix.Close(fd))
	}
	if err := bind(fd, e.Addr, e.Port); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// udpHeaders are what recvmmsg(2) receives a batch into.
func udpHeaders() *[udpBatch]mmsghdr {
	var headers [udpBatch]mmsghdr
	var vectors [udpBatch]unix.Iovec
	buffers := make([]byte, udpBatch*2048)
	for i := range headers {
		vectors[i].Base = &buffers[i*2048]
		vectors[i].SetLen(2048)
		headers[i].hdr.Iov = &vectors[i]
		headers[i].hdr.SetIovlen(1)
	}
	return &headers
}

func (r *UDPReceiver) receive(fd int) (report udpReport, err error) {
	headers := udpHeaders()
	base := time.Now()
	var first, last time.Duration
	if err := receiveTimeout(fd, udpFirst); err != nil {
		return report, err
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&headers[0])), udpBatch, unix.MSG_WAITFORONE, 0, 0)
		now := time.Since(base)
		switch {
		case errno == unix.EINTR, errno == unix.EAGAIN && report.Packets > 0 && now < first+r.Duration:
			continue
		case errno == unix.EAGAIN && report.Packets == 0:
			return report, fmt.Errorf("no datagram came in %s: something on this path drops all that go to UDP port %d", udpFirst, r.Port)
		case errno == unix.EAGAIN:
			report.ElapsedNS = int64(last - first)
			return report, nil
		case errno != 0:
			return report, fmt.Errorf("recvmmsg: %w", errno)
		}
		if report.Packets == 0 {
			first = now
			if err := receiveTimeout(fd, udpSettle); err != nil {
				return report, err
			}
		}
		last = now
		report.Packets += uint64(n)
	}
}

// Run sends one run and prints a report to standard output.
func (s *UDPSender) Run() error {
	if err := alone(s.Core); err != nil {
		return err
	}
	fd, err := dial(s.Addr, s.Port, unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	report, err := s.send(fd)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

func (s *UDPSender) send(fd int) (report udpReport, err error) {
	payload := make([]byte, s.Payload)
	base := time.Now()
	for {
		elapsed := time.Since(base)
		if elapsed >= s.Duration {
			report.ElapsedNS = int64(elapsed)
			return report, nil
		}
		if early := s.early(report.Packets, elapsed); early > 0 {
			if err := pause(min(early, s.Duration-elapsed)); err != nil {
				return report, err
			}
			continue
		}
		switch err := sendAll(fd, payload); {
		case err == nil:
			report.Packets++
		case errors.Is(err, unix.ENOBUFS): // not sent, so not lost either
		default:
			return report, err
		}
	}
}

// early is how long before its time the next datagram is.
func (s *UDPSender) early(sent uint64, elapsed time.Duration) time.Duration {
	if s.Rate == 0 {
		return 0
	}
	return time.Duration(float64(sent)*float64(time.Second)/float64(s.Rate)) - elapsed
}
