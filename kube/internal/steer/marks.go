package steer

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// markRule is a rule of netfilter that sets bits of the mark, or looks for them.
type markRule struct {
	table, chain, by string
	bits             uint32
}

// markRules are all of them: of nftables, of iptables on top of it, and of the old iptables.
func markRules() ([]markRule, error) {
	list, err := nftRules()
	if err != nil {
		return list, fmt.Errorf("rules of nftables: %w", err)
	}
	old, err := legacyRules()
	return append(list, old...), err
}

// nftRules are those of nftables. nft's text would not do: it shows rules of iptables only where iptables is installed.
func nftRules() (list []markRule, err error) {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_UNSPEC, Version: nl.NFNETLINK_V0})
	messages, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		rule := attributes(m[min(len(m), nl.SizeofNfgenmsg):])
		registers := map[uint32]register{}
		var bits uint32
		for _, e := range elements(rule[unix.NFTA_RULE_EXPRESSIONS]) {
			is := attributes(e)
			bits |= expression(text(is[unix.NFTA_EXPR_NAME]), attributes(is[unix.NFTA_EXPR_DATA]), registers)
		}
		if bits != 0 {
			list = append(list, markRule{table: text(rule[unix.NFTA_RULE_TABLE]), chain: text(rule[unix.NFTA_RULE_CHAIN]), by: "nftables", bits: bits})
		}
	}
	return list, nil
}

// register is what one has of the packet's mark: (mark & mask) ^ xor, or xor alone.
type register struct {
	mark      bool
	mask, xor uint32
}

// expression is the bits that one sets or looks for.
func expression(name string, a map[uint16][]byte, r map[uint32]register) uint32 {
	switch name {
	case "immediate":
		r[number(a[unix.NFTA_IMMEDIATE_DREG])] = register{xor: value(a[unix.NFTA_IMMEDIATE_DATA])}
	case "meta":
		if number(a[unix.NFTA_META_KEY]) != unix.NFT_META_MARK {
			delete(r, number(a[unix.NFTA_META_DREG]))
			return 0
		}
		if from := a[unix.NFTA_META_SREG]; from != nil {
			return r[number(from)].xor
		}
		r[number(a[unix.NFTA_META_DREG])] = register{mark: true, mask: ^uint32(0)}
	case "bitwise":
		from, mask := r[number(a[unix.NFTA_BITWISE_SREG])], value(a[unix.NFTA_BITWISE_MASK])
		r[number(a[unix.NFTA_BITWISE_DREG])] = register{mark: from.mark, mask: from.mask & mask, xor: from.xor&mask ^ value(a[unix.NFTA_BITWISE_XOR])}
	case "cmp":
		if from := r[number(a[unix.NFTA_CMP_SREG])]; from.mark {
			return value(a[unix.NFTA_CMP_DATA]) & from.mask
		}
	case "target", "match": // of iptables; both have the same attributes
		return extension(text(a[unix.NFTA_TARGET_NAME]), a[unix.NFTA_TARGET_INFO])
	}
	return 0
}

// extension is the bits that one of iptables sets or looks for: struct xt_mark_mtinfo1 and xt_mark_tginfo2 begin with mark and mask.
func extension(name string, info []byte) uint32 {
	if name != "mark" && name != "MARK" || len(info) < 8 {
		return 0
	}
	return binary.NativeEndian.Uint32(info)
}

// attributes are those of a netlink message, by type.
func attributes(b []byte) map[uint16][]byte {
	list, out := attributeList(b), map[uint16][]byte{}
	for _, a := range list {
		out[a.kind] = a.value
	}
	return out
}

func elements(b []byte) (list [][]byte) {
	for _, a := range attributeList(b) {
		list = append(list, a.value)
	}
	return list
}

type attribute struct {
	kind  uint16
	value []byte
}

func attributeList(b []byte) (list []attribute) {
	for len(b) >= unix.NLA_HDRLEN {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.NLA_HDRLEN || length > len(b) {
			break
		}
		list = append(list, attribute{binary.NativeEndian.Uint16(b[2:]) & 0x3fff, b[unix.NLA_HDRLEN:length]})
		b = b[min(len(b), (length+3)&^3):]
	}
	return list
}

func text(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }

// number is one of nftables' own, in the network's order.
func number(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// value is data of an expression, in the host's order.
func value(b []byte) uint32 {
	if data := attributes(b)[unix.NFTA_DATA_VALUE]; len(data) >= 4 {
		return binary.NativeEndian.Uint32(data)
	}
	return 0
}
