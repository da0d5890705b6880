/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * gen: what the lab's generator, sink and reflector share: the mark in each
 * frame, and the kernel's ABI for XDP.
 */
#pragma once

#include "net.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct frame { /* what an XDP program is called with (struct xdp_md) */
	__u32 data;
	__u32 data_end;
	__u32 data_meta;
	__u32 ingress_ifindex;
	__u32 rx_queue_index;
	__u32 egress_ifindex;
};

enum { /* enum xdp_action */
       FRAME_DROP = 1,
       FRAME_PASS = 2,
       FRAME_TX = 3,
};

enum { KIND_DEVMAP = 14, MMAPABLE = 1U << 10 }; /* BPF_MAP_TYPE_DEVMAP, BPF_F_MMAPABLE */

/*
 * The first bytes of the UDP payload: as many as the smallest IPv4 frame has. They
 * are in host order, being read on the machine that wrote them.
 */
struct mark {
	__u32 head;    /* MARK_MAGIC, stream and run, from the lowest bits up */
	__u64 place;   /* flow in the upper 24 bits, its sequence number in the lower 40 */
	__u32 sent_ns; /* the clock's lower 48 bits, with sent_ns_high; 0: not timed */
	__u16 sent_ns_high;
} __attribute__((packed));

_Static_assert(sizeof(struct mark) == 18, "a frame of 64 bytes has room for 18");

#define MARK_MAGIC 0x5e1f
#define MAGIC_MASK 0xffff
#define SEQ_BITS 40
#define SEQ_MASK ((1ULL << SEQ_BITS) - 1)
#define CLOCK_MASK ((1ULL << 48) - 1)

static __always_inline __u32 mark_head(__u8 stream, __u8 run)
{
	return MARK_MAGIC | (__u32)stream << 16 | (__u32)run << 24;
}

static __always_inline void *frame_data(struct frame *f)
{
	return (void *)(long)f->data;
}

static __always_inline void *frame_end(struct frame *f)
{
	return (void *)(long)f->data_end;
}

/* The ones' complement sum as a checksum (RFC 1071). */
static __always_inline __sum16 checksum(__u64 sum)
{
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 32) + (sum & 0xffffffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	sum = (sum >> 16) + (sum & 0xffff);
	return ~sum;
}

/* UDP's, where 0 means that there is none (RFC 768). */
static __always_inline __sum16 udp_checksum(__u64 sum)
{
	__sum16 check = checksum(sum);

	return check ? check : 0xffff;
}
