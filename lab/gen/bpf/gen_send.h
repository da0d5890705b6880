/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * send: makes frames out of packet_templates and hands them to the ports. The program is
 * run in a loop on pages that come back (live frames of BPF_PROG_TEST_RUN), so
 * whatever a device may have changed in the last use of a page is written anew: all
 * headers and the mark. What follows them is 0 and stays.
 *
 * in:    the run, the packet_templates
 * out:   a frame to a port
 * maps:  ports
 */
#pragma once

#include "gen_pace.h"

#define HEADER_MAX 192 /* IPv6, UDP and Geneve with 60 bytes of options, around IPv6 and UDP */
#define SIZES_MAX 8
#define PATTERN_MAX 64
#define FIRST_PORT 49152

/* The headers of a frame of one size to one port, and sums of what does not change. */
struct packet_template {
	__u8 header[HEADER_MAX];
	__u64 ip_sum;	 /* IPv4: the header without addresses and checksum */
	__u64 udp_sum;	 /* IPv6: pseudo header and UDP without all that differs */
	__u64 outer_sum; /* a tunnel in UDP over IPv6: likewise, what is inside included */
	__u32 len;	 /* of the frame, without FCS */
	__u32 pad;
};

/* The stream. */
const volatile __u32 flows = 1, sources = 1, destinations = 1;
const volatile __u32 first_flow;	 /* of a part of the stream: where its numbers begin */
const volatile __u32 from_host, to_host; /* the last 32 bits of the first addresses */
const volatile __u32 family = 4;
const volatile __u32 ports_len = 1;
const volatile __u32 sizes_len = 1;
const volatile __u32 buffer_len; /* of every frame before it gets its size */
const volatile __u32 pattern_len = 1, pattern_skip;
const volatile __u8 pattern[PATTERN_MAX]; /* sizes by turns */
const volatile __u8 stream;

/* Places in the header. */
const volatile __u32 header_len = 42;
const volatile __u32 ip_off = 14;
const volatile __u32 outer_udp_off; /* 0: there is none */
const volatile __u32 outer_sum_off; /* of its checksum; 0: it has none */
const volatile __u32 flow_id_off;   /* of NVGRE's FlowID; 0: there is none */

struct packet_template packet_templates[PORTS_MAX * SIZES_MAX];

struct {
	__uint(type, KIND_DEVMAP);
	__uint(max_entries, PORTS_MAX);
	__type(key, __u32);
	__type(value, __u32); /* ifindex */
} ports SEC(".maps");

static __always_inline void next_flow(struct run *r)
{
	if (ports_len > 1 && ++r->port >= ports_len)
		r->port = 0;
	if (pattern_len > 1 && ++r->pattern >= pattern_len)
		r->pattern = 0;
	if (++r->source >= sources) {
		r->source = 0;
		if (++r->destination >= destinations) {
			r->destination = 0;
			r->udp_port++;
		}
	}
	if (++r->flow < flows)
		return;
	r->flow = r->source = r->destination = r->udp_port = r->port = 0;
	r->seq++;
	if (pattern_len <= 1)
		return;
	r->pattern += pattern_skip; /* so that each flow has all sizes */
	if (r->pattern >= pattern_len)
		r->pattern -= pattern_len;
}

/* Spreads the flows over a tunnel's source ports (RFC 7348 section 5). */
static __always_inline __u32 entropy(__u32 flow)
{
	return (flow * 0x9e3779b1) >> 18; /* 14 bits: the dynamic ports (RFC 6335) */
}

static __always_inline void write_outer(void *data, const struct packet_template *t, __u32 flow,
					__u64 inside)
{
	__u32 port_offset = entropy(flow);

	if (flow_id_off)
		*(__u8 *)(data + flow_id_off) = port_offset;
	if (!outer_udp_off)
		return;
	*(__be16 *)(data + outer_udp_off) = bpf_htons(FIRST_PORT + port_offset);
	if (outer_sum_off)
		*(__sum16 *)(data + outer_sum_off) =
			udp_checksum(t->outer_sum + bpf_htons(FIRST_PORT + port_offset) + inside);
}

/* Writes headers and mark; data has room for both. */
static __always_inline void write_frame(void *data, const struct packet_template *t, struct run *r,
					__u64 now)
{
	__be32 from = bpf_htonl(from_host + r->source), to = bpf_htonl(to_host + r->destination);
	__be16 from_port = bpf_htons(FIRST_PORT + r->udp_port);
	__u64 sent = r->timed ? now & CLOCK_MASK : 0;
	struct mark *m = data + header_len;
	struct udphdr *udp;
	__u64 sum, place;
	__u32 i;

#pragma unroll
	for (i = 0; i < HEADER_MAX; i += 8) {
		if (i < header_len) /* at most 6 bytes into the mark, which follows */
			*(__u64 *)(data + i) = *(const __u64 *)(t->header + i);
	}
	place = (__u64)(first_flow + r->flow) << SEQ_BITS | (r->seq & SEQ_MASK);
	m->head = mark_head(stream, r->id);
	m->place = place;
	m->sent_ns = sent;
	m->sent_ns_high = sent >> 32;
	sum = mark_head(stream, r->id) + (place >> 32) + (place & 0xffffffff) +
	      (sent & 0xffffffff) + (sent >> 32) + from_port;
	if (family == 4) {
		struct iphdr *ip = data + ip_off;

		ip->saddr = from;
		ip->daddr = to;
		ip->check = checksum(t->ip_sum + from + to);
		udp = (void *)(ip + 1);
	} else {
		struct ipv6hdr *ip6 = data + ip_off;

		ip6->saddr[3] = from;
		ip6->daddr[3] = to;
		udp = (void *)(ip6 + 1);
		udp->check = udp_checksum(t->udp_sum + from + to + sum);
		sum = 0; /* with it, header and datagram sum up to what does not change */
	}
	udp->source = from_port;
	write_outer(data, t, r->flow, sum);
}

static __always_inline int send(struct frame *f, struct run *r, __u64 now)
{
	__u32 port = ports_len > 1 ? r->port : 0,
	      size = pattern_len > 1 ? pattern[r->pattern & (PATTERN_MAX - 1)] : 0;
	const struct packet_template *t;
	void *data;

	t = &packet_templates[(port * SIZES_MAX + size) & (PORTS_MAX * SIZES_MAX - 1)];
	if (sizes_len > 1 && bpf_xdp_adjust_tail((void *)f, (int)t->len - (int)buffer_len))
		return FRAME_DROP;
	data = frame_data(f);
	if (data + header_len + sizeof(struct mark) > frame_end(f))
		return FRAME_DROP;
	write_frame(data, t, r, now);
	r->offered++;
	if (sizes_len > 1)
		r->bytes += t->len;
	if (ports_len > 1)
		r->sent[port & (PORTS_MAX - 1)]++;
	next_flow(r);
	return bpf_redirect_map(&ports, port, 0);
}
