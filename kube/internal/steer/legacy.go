package steer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// legacy is a family of iptables before nftables: linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h.
type legacy struct {
	names         string // file of the tables that there are: to ask for others would make them
	domain, level int
	entry         int // bytes of struct ipt_entry, before its matches; offsets of the target and of the next are in it
	offsets       int
}

var legacies = []legacy{
	{"/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.IPPROTO_IP, 112, 88},
	{"/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.IPPROTO_IPV6, 168, 140},
}

const (
	getInfo    = 64
	getEntries = 65
	nameBytes  = 32
	infoBytes  = 84 // struct ipt_getinfo
	headBytes  = 40 // of struct ipt_get_entries
)

func legacyRules() (list []markRule, err error) {
	for _, l := range legacies {
		names, err := os.ReadFile(l.names)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the kernel has none
		}
		if err != nil {
			return list, err
		}
		for _, table := range strings.Fields(string(names)) {
			entries, err := l.read(table)
			if err != nil {
				return list, fmt.Errorf("table %s of iptables-legacy: %w", table, err)
			}
			list = append(list, l.rules(table, entries)...)
		}
	}
	return list, nil
}

// read is a table's entries.
func (l legacy) read(table string) ([]byte, error) {
	fd, err := unix.Socket(l.domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	info := make([]byte, infoBytes)
	copy(info[:nameBytes-1], table)
	if err := l.get(fd, getInfo, info); err != nil {
		return nil, err
	}
	size := binary.NativeEndian.Uint32(info[infoBytes-4:])
	entries := make([]byte, headBytes+int(size))
	copy(entries, info[:nameBytes])
	binary.NativeEndian.PutUint32(entries[nameBytes:], size)
	if err := l.get(fd, getEntries, entries); err != nil { // EAGAIN where it has just changed
		return nil, err
	}
	return entries[headBytes:], nil
}

func (l legacy) get(fd, option int, b []byte) error {
	length := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(l.level), uintptr(option), uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// rules are those of entries that have to do with marks. Each has matches, then a target: length, name, revision and data of its own.
func (l legacy) rules(table string, b []byte) (list []markRule) {
	for len(b) >= l.entry {
		target, next := int(binary.NativeEndian.Uint16(b[l.offsets:])), int(binary.NativeEndian.Uint16(b[l.offsets+2:]))
		if target < l.entry || next < target || next > len(b) {
			break
		}
		var bits uint32
		for at := l.entry; at+nameBytes <= next; {
			length := int(binary.NativeEndian.Uint16(b[at:]))
			if length < nameBytes || at+length > next {
				break
			}
			name, _, _ := bytes.Cut(b[at+2:at+nameBytes-1], []byte{0})
			bits |= extension(string(name), b[at+nameBytes:at+length])
			at += length
		}
		if bits != 0 {
			list = append(list, markRule{table: table, chain: "of iptables-legacy", by: "iptables-legacy", bits: bits})
		}
		b = b[next:]
	}
	return list
}
