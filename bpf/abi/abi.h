/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The maps that the data plane shares with user space. The Go types are generated from
 * these headers. A change of a layout, or of the meaning of a value, raises ABI_VERSION: a
 * new process then replaces the maps of an old one instead of adopting them.
 */
#pragma once

#define ABI_VERSION 9

#include "abi/cache.h"
#include "abi/conntrack.h"
#include "abi/forwarding.h"
#include "abi/limits.h"
#include "abi/monitor.h"
#include "abi/nat.h"
#include "abi/routing.h"
#include "abi/trace.h"
