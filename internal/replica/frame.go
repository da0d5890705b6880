package replica

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is a header of 12 bytes, its payload and, where the gateways share a key, a
// message authentication code. Numbers are in network byte order.
//
//	 0      4         5      6          8               12
//	+------+---------+------+----------+----------------+---------+-----+
//	| SLVR | version | kind | reserved | payload length | payload | MAC |
//	+------+---------+------+----------+----------------+---------+-----+
const (
	headerLen = 12
	magic     = "SLVR"
	version   = 1
	// macLen is of an HMAC-SHA-256 that is cut (RFC 2104 section 5: at least half).
	macLen = 16
	// maxPayload is more than recordsMost records have.
	maxPayload = 1 << 20
	// recordsMost is of one frame.
	recordsMost = 1000
)

// kind says what is in a frame.
type kind uint8

// The kinds of frames. In the first two are the two ends of the handshake.
const (
	kindHello  kind = 1 + iota
	kindProof       // that the sender has the key
	kindPut         // records of sessions that are new, or go on
	kindDelete      // records of sessions that ended
	kindSynced      // all sessions that there were have been sent
	kindBeat        // nothing, so that the other end hears something
	kindParts       // what the ends have to be configured with alike
	kindEnd
)

func (k kind) String() string {
	names := [...]string{kindHello: "hello", kindProof: "proof", kindPut: "put", kindDelete: "delete", kindSynced: "synced", kindBeat: "beat", kindParts: "parts"}
	if k == 0 || k >= kindEnd {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k]
}

// payload limits by kind: what comes before the key was proven shall not take much memory.
func (k kind) limit() int {
	switch k {
	case kindHello:
		return helloLen
	case kindProof:
		return sha256.Size
	case kindPut, kindDelete:
		return maxPayload
	case kindParts:
		return maxParts
	}
	return 0
}

// sealer makes the codes of the frames in one direction. The number of the frame is part
// of what is authenticated, so none can be replayed, left out or moved. nil makes none.
type sealer struct {
	key  []byte
	next uint64
}

// code is that of the next frame.
func (s *sealer) code(header, payload []byte) []byte {
	mac := hmac.New(sha256.New, s.key)
	_, _ = mac.Write(binary.BigEndian.AppendUint64(nil, s.next)) // a hash takes everything
	_, _ = mac.Write(header)
	_, _ = mac.Write(payload)
	s.next++
	return mac.Sum(nil)[:macLen]
}

// writeFrame writes a frame at once.
func writeFrame(w io.Writer, s *sealer, k kind, payload []byte) error {
	b := make([]byte, headerLen, headerLen+len(payload)+macLen)
	copy(b, magic)
	b[4], b[5] = version, byte(k)
	binary.BigEndian.PutUint32(b[8:], uint32(len(payload)))
	b = append(b, payload...)
	if s != nil {
		b = append(b, s.code(b[:headerLen], payload)...)
	}
	_, err := w.Write(b)
	return err
}

// readFrame reads a frame and authenticates it. The payload is in buffer where that is
// large enough, and good until the next call.
func readFrame(r io.Reader, s *sealer, buffer []byte) (k kind, payload []byte, err error) {
	var header [headerLen]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	k = kind(header[5])
	n := int(binary.BigEndian.Uint32(header[8:]))
	switch {
	case string(header[:4]) != magic:
		return k, nil, errors.New("it does not speak this protocol")
	case header[4] != version:
		return k, nil, fmt.Errorf("it speaks version %d of the protocol, not %d: run the same release on all gateways", header[4], version)
	case k == 0 || k >= kindEnd:
		return k, nil, fmt.Errorf("frame of %s", k)
	case header[6] != 0 || header[7] != 0:
		return k, nil, fmt.Errorf("frame (%s) with reserved bits", k)
	case n > k.limit():
		return k, nil, fmt.Errorf("frame (%s) of %d bytes, more than %d", k, n, k.limit())
	}
	size := n
	if s != nil {
		size += macLen
	}
	if cap(buffer) < size {
		buffer = make([]byte, size)
	}
	buffer = buffer[:size]
	if _, err := io.ReadFull(r, buffer); err != nil {
		return k, nil, fmt.Errorf("frame (%s) cut short: %w", k, err)
	}
	payload = buffer[:n]
	if s != nil && !hmac.Equal(s.code(header[:], payload), buffer[n:]) {
		return k, nil, fmt.Errorf("frame (%s) that the key does not authenticate", k)
	}
	return k, payload, nil
}
