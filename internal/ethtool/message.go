package ethtool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// message is a structure of the kernel, in its byte order.
type message []byte

func (m message) half(at int) uint16       { return binary.NativeEndian.Uint16(m[at:]) }
func (m message) word(at int) uint32       { return binary.NativeEndian.Uint32(m[at:]) }
func (m message) long(at int) uint64       { return binary.NativeEndian.Uint64(m[at:]) }
func (m message) put(at int, v uint32)     { binary.NativeEndian.PutUint32(m[at:], v) }
func (m message) putLong(at int, v uint64) { binary.NativeEndian.PutUint64(m[at:], v) }

// text is one of textLength bytes, up to the first 0.
func (m message) text(at int) string {
	text, _, _ := bytes.Cut(m[at:at+textLength], []byte{0})
	return string(text)
}

// textLength is ETH_GSTRING_LEN, and what the fields of struct ethtool_drvinfo have.
const textLength = 32

// request is struct ifreq with a pointer to what is asked.
type request struct {
	name [unix.IFNAMSIZ]byte
	data uintptr // of memory that is not Go's
	_    [16]byte
}

// ask puts a question of so many bytes about an interface. fill completes it beside its command,
// and read has the answer; both may be nil.
func (t *Tool) ask(name string, command uint32, size int, fill, read func(message)) error {
	if len(name) >= unix.IFNAMSIZ {
		return unix.ENODEV
	}
	memory, m, err := guarded(size)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(memory) }()
	m.put(0, command)
	if fill != nil {
		fill(m)
	}
	r := request{data: uintptr(unsafe.Pointer(unsafe.SliceData(m)))}
	copy(r.name[:], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(t.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return errno
	}
	if read != nil {
		read(m)
	}
	return nil
}

// guarded is memory that ends with a message of so many bytes, and a page behind it that nobody
// may write to.
func guarded(size int) (memory []byte, m message, err error) {
	page := os.Getpagesize()
	room := (size + page - 1) / page * page
	memory, err = unix.Mmap(-1, 0, room+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.Mprotect(memory[room:], unix.PROT_NONE); err != nil {
		return nil, nil, errors.Join(err, unix.Munmap(memory))
	}
	return memory, memory[room-size : room], nil
}
