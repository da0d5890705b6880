package replica

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A frame is its kind, the length of its payload in network byte order, and the payload. TLS guards it.
//
//	 0      1                4
//	+------+----------------+---------+
//	| kind | payload length | payload |
//	+------+----------------+---------+
const (
	headerLen = 4
	// helloLen is of the payload of a hello: length and version of records, 2 bytes each.
	helloLen = 4
	// maxPayload is more than recordsMost records have.
	maxPayload = 1 << 20
	// recordsMost is of one frame.
	recordsMost = 1000
)

// kind says what is in a frame.
type kind uint8

// The kinds of frames. A hello is the first one of each end, and no other one is.
const (
	kindHello  kind = 1 + iota // which records the sender has
	kindPut                    // records of sessions that are new, or go on
	kindDelete                 // records of sessions that ended
	kindSynced                 // all sessions that there were have been sent
	kindBeat                   // nothing, so that the other end hears something
	kindParts                  // what the ends have to be configured with alike
	kindEnd
)

func (k kind) String() string {
	names := [...]string{kindHello: "hello", kindPut: "put", kindDelete: "delete", kindSynced: "synced", kindBeat: "beat", kindParts: "parts"}
	if k == 0 || k >= kindEnd {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k]
}

// limit is that of a payload.
func (k kind) limit() int {
	switch k {
	case kindHello:
		return helloLen
	case kindPut, kindDelete:
		return maxPayload
	case kindParts:
		return maxParts
	}
	return 0
}

// writeFrame writes a frame at once.
func writeFrame(w io.Writer, k kind, payload []byte) error {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, headerLen+len(payload)), uint32(k)<<24|uint32(len(payload)))
	_, err := w.Write(append(b, payload...))
	return err
}

// readFrame reads a frame. The payload is in buffer where that is large enough, and good until the next call.
func readFrame(r io.Reader, buffer []byte) (k kind, payload []byte, err error) {
	var header [headerLen]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	k = kind(header[0])
	n := int(binary.BigEndian.Uint32(header[:]) & 0xffffff)
	switch {
	case k == 0 || k >= kindEnd:
		return k, nil, fmt.Errorf("frame of %s", k)
	case n > k.limit():
		return k, nil, fmt.Errorf("frame (%s) of %d bytes, more than %d", k, n, k.limit())
	}
	if cap(buffer) < n {
		buffer = make([]byte, n)
	}
	if _, err := io.ReadFull(r, buffer[:n]); err != nil {
		return k, nil, fmt.Errorf("frame (%s) cut short: %w", k, err)
	}
	return k, buffer[:n], nil
}

// greet tells the other end which records there are, and holds against it what it says.
func greet(c io.ReadWriter, format Format) error {
	hello := binary.BigEndian.AppendUint32(nil, uint32(format.Len)<<16|uint32(format.Version))
	if err := writeFrame(c, kindHello, hello); err != nil {
		return err
	}
	k, theirs, err := readFrame(c, nil)
	switch {
	case err != nil:
		return err
	case k != kindHello || len(theirs) != helloLen:
		return fmt.Errorf("frame (%s) of %d bytes where hello should be", k, len(theirs))
	}
	if size, version := int(binary.BigEndian.Uint16(theirs)), binary.BigEndian.Uint16(theirs[2:]); size != format.Len || version != format.Version {
		return &refused{OtherVersion, fmt.Sprintf("its records are of version %d with %d bytes, ours of %d with %d"+sameRelease, version, size, format.Version, format.Len)}
	}
	return nil
}
