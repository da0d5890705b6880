// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The lab's generator, and what stands at the other side of the device under test. */
#include "gen_send.h"
#include "gen_refused.h"
#include "gen_check.h"
#include "gen_answer.h"
#include "gen_reflect.h"

SEC("xdp")
int generate(struct frame *f)
{
	struct run *r = &current;
	__u64 now;

	if (r->offered >= r->frames)
		return FRAME_DROP;
	now = r->interval ? due(r) : time_left(r);
	return now ? send(f, r, now) : FRAME_DROP;
}

SEC("tp_btf/xdp_devmap_xmit")
int refused(__u64 *args)
{
	count_refused(args);
	return 0;
}

SEC("tp_btf/xdp_redirect_err")
int redirect_error(__u64 *args)
{
	count_unredirected(args);
	return 0;
}

/* What is not the stream's: neighbours get an answer, the host the rest. */
static __always_inline int leave(struct frame *f, struct counts *c, enum foreign kind)
{
	__u64 *n = bpf_map_lookup_elem(&foreigns, &kind);

	if (n)
		(*n)++;
	if (kind == FOREIGN_STALE)
		return FRAME_DROP;
	if (!answer(f, kind))
		return FRAME_PASS;
	c->answered++;
	return FRAME_TX;
}

const volatile __u32 turns; /* of nothing for 16 frames: a delay that is planted */

static long turn(__u32 i, void *none)
{
	(void)i, (void)none;
	return 0;
}

SEC("xdp.frags")
int sink(struct frame *f)
{
	static __u32 heard;
	struct counts *c = counts_get();
	struct heard h = {};
	enum foreign kind;

	if (!c)
		return FRAME_PASS;
	kind = hear(f, &h);
	if (!kind && turns && ++heard % 16 == 0)
		bpf_loop(turns, turn, NULL, 0);
	if (!kind)
		kind = check(c, &h, bpf_xdp_get_buff_len((void *)f));
	return kind ? leave(f, c, kind) : FRAME_DROP;
}

SEC("xdp.frags")
int reflect(struct frame *f)
{
	struct counts *c = counts_get();
	struct heard h = {};
	enum foreign kind;

	if (!c)
		return FRAME_PASS;
	kind = hear(f, &h);
	if (!kind && !h.inner_eth && !reflect_plain)
		kind = FOREIGN_IP;
	if (kind)
		return leave(f, c, kind);
	count_frame(c, &h, bpf_xdp_get_buff_len((void *)f));
	turn_round(&h);
	return reflect_redirect ? bpf_redirect(f->ingress_ifindex, 0) : FRAME_TX;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
