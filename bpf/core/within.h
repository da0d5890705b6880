/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * within: whether a value is in a range, as two comparisons of the value itself. The compiler
 * makes one of them, of value - least, and Linux 6.12 then does not know the bounds of
 * the value: it refuses the program.
 *
 * in:    a variable and its bounds
 * out:   whether it is within them, which the verifier knows too
 * maps:  none
 * stops: nothing
 */
#pragma once

#include <bpf/bpf_helpers.h>

#define within(value, least, most)   \
	((value) >= (least) && ({    \
		 barrier_var(value); \
		 (value) <= (most);  \
	 }))
