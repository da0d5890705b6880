package replica

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The payload of a hello: a nonce, the length and the version of records, and flags.
const (
	nonceLen = 32
	helloLen = nonceLen + 6

	helloKeyed  = 1 // the sender has a key
	helloListen = 2 // the sender did not dial
	helloParts  = 4 // the sender takes frames of kindParts; former builds end at them
)

type hello struct {
	nonce     [nonceLen]byte
	recordLen uint16
	records   uint16 // version
	flags     uint16
}

func (h hello) marshal() []byte {
	b := append(make([]byte, 0, helloLen), h.nonce[:]...)
	b = binary.BigEndian.AppendUint16(b, h.recordLen)
	b = binary.BigEndian.AppendUint16(b, h.records)
	return binary.BigEndian.AppendUint16(b, h.flags)
}

func parseHello(b []byte) (h hello, err error) {
	if len(b) != helloLen {
		return h, fmt.Errorf("hello of %d bytes, not %d", len(b), helloLen)
	}
	copy(h.nonce[:], b)
	h.recordLen = binary.BigEndian.Uint16(b[nonceLen:])
	h.records = binary.BigEndian.Uint16(b[nonceLen+2:])
	h.flags = binary.BigEndian.Uint16(b[nonceLen+4:])
	return h, nil
}

// compare compares what both ends are.
func (h hello) compare(theirs hello) error {
	switch {
	case h.flags&helloListen == theirs.flags&helloListen:
		return errors.New("it takes itself for this end of the connection")
	case h.recordLen != theirs.recordLen || h.records != theirs.records:
		return fmt.Errorf("its records are of version %d with %d bytes, ours of %d with %d: run the same release on all gateways",
			theirs.records, theirs.recordLen, h.records, h.recordLen)
	case h.flags&helloKeyed != theirs.flags&helloKeyed:
		return errors.New("only one of both has a key: give all gateways of a group the same spec.egress.gateways[].replication.key")
	case hmac.Equal(h.nonce[:], theirs.nonce[:]):
		return errors.New("it echoes what it receives")
	}
	return nil
}

// seals are the sealers of both directions; nil without a key.
type seals struct{ out, in *sealer }

// peer is what is known of the other end after the handshake.
type peer struct {
	seals
	takesParts bool
}

// shake is the handshake. Each end gives the other a nonce and proves that it has the key
// by an HMAC over both nonces, both addresses and its own role: what one end says cannot
// be used as the answer of the other, nor between others, nor again.
func shake(c io.ReadWriter, l Link, format Format, listens bool) (peer, error) {
	mine := hello{recordLen: uint16(format.Len), records: format.Version, flags: helloParts}
	if len(l.Key) > 0 {
		mine.flags |= helloKeyed
	}
	if listens {
		mine.flags |= helloListen
	}
	if _, err := rand.Read(mine.nonce[:]); err != nil {
		return peer{}, err
	}
	if err := writeFrame(c, nil, kindHello, mine.marshal()); err != nil {
		return peer{}, err
	}
	payload, err := expect(c, kindHello)
	if err != nil {
		return peer{}, err
	}
	theirs, err := parseHello(payload)
	if err == nil {
		err = mine.compare(theirs)
	}
	if err != nil {
		return peer{}, err
	}
	other := peer{takesParts: theirs.flags&helloParts != 0}
	if len(l.Key) == 0 {
		return other, nil
	}
	d := derive{l, mine, theirs}
	if err := writeFrame(c, nil, kindProof, d.mac("proof", mine)); err != nil {
		return peer{}, err
	}
	if payload, err = expect(c, kindProof); err != nil {
		return peer{}, err
	}
	if !hmac.Equal(payload, d.mac("proof", theirs)) {
		return peer{}, errors.New("it has another key: give all gateways of a group the same spec.egress.gateways[].replication.key")
	}
	other.seals = seals{out: &sealer{key: d.mac("session", mine)}, in: &sealer{key: d.mac("session", theirs)}}
	return other, nil
}

func expect(r io.Reader, want kind) ([]byte, error) {
	k, payload, err := readFrame(r, nil, nil)
	if err == nil && k != want {
		err = fmt.Errorf("%s where %s should be", k, want)
	}
	return payload, err
}

// derive makes keys of what both ends know.
type derive struct {
	link         Link
	mine, theirs hello
}

// mac is what the end of hello h proves, or authenticates its frames with.
func (d derive) mac(purpose string, h hello) []byte {
	dialer, listener := d.mine, d.theirs
	from, to := d.link.Local, d.link.Remote
	if d.mine.flags&helloListen != 0 {
		dialer, listener, from, to = listener, dialer, to, from
	}
	mac := hmac.New(sha256.New, d.link.Key)
	b := append([]byte("selvage replica "+purpose+"\x00"), dialer.nonce[:]...)
	b = append(b, listener.nonce[:]...)
	a16, b16 := from.As16(), to.As16()
	b = append(append(b, a16[:]...), b16[:]...)
	b = binary.BigEndian.AppendUint16(b, d.link.Port)
	b = binary.BigEndian.AppendUint16(b, h.flags&helloListen)
	_, _ = mac.Write(b) // a hash takes everything
	return mac.Sum(nil)
}
