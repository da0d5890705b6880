package offload

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// Kinds of messages. The answer to a question is the next kind.
const (
	kindOpen uint8 = iota
	kindOpened
	kindStart
	kindStarted
	kindStop
	kindStopped
	kindClose
	kindClosed
	kinds
)

const (
	magic   = 0x53764f70 // "SvOp"
	version = 1
	// messageSize is the same for questions and answers: nobody gains by asking in
	// another's name.
	messageSize = 128
)

// What a kindOpened says besides yes.
const (
	statusOpen = iota
	statusBusy // with another probe: ask again later
	statusNo   // it cannot, such as for want of a socket
)

// message is what prober and responder tell each other, in network order.
type message struct {
	Magic   uint32
	Version uint8
	Kind    uint8
	Status  uint8
	Checked uint8 // in kindStart: compare all checksums, not the bytes alone
	// Session is chosen by the prober, Token by the responder: who does not get its
	// answers does not know it.
	Session uint64
	Token   uint64
	// Of kindOpen: what the frames have.
	VNI  uint32
	Port uint16
	Unit uint16 // bytes of payload in one packet
	// Of kindStart on.
	Burst uint32
	Units uint32 // in kindStop: that were sent
	tally
}

// tally is what a responder counted in one burst.
type tally struct {
	Seen      uint32 // units that arrived right, each once
	Corrupt   uint32 // frames with anything wrong
	Duplicate uint32 // units
	Frames    uint32 // right ones
	Dropped   uint32 // frames that came faster than they were read
	Uncut     uint32 // frames of several units
	Nanos     uint64 // from the first frame to the last
}

func (m message) encode() []byte {
	m.Magic, m.Version = magic, version
	b := bytes.NewBuffer(make([]byte, 0, messageSize))
	_ = binary.Write(b, binary.BigEndian, m) // the fields have sizes, and a Buffer takes all
	return append(b.Bytes(), make([]byte, messageSize-b.Len())...)
}

var errMessage = errors.New("no message of an offload probe")

func decode(b []byte) (m message, err error) {
	if len(b) != messageSize {
		return m, errMessage
	}
	if err := binary.Read(bytes.NewReader(b), binary.BigEndian, &m); err != nil {
		return m, err
	}
	if m.Magic != magic || m.Version != version || m.Kind >= kinds {
		return m, errMessage
	}
	return m, nil
}
