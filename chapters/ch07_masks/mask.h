// Which keys a query may see, and which tiles need not be visited: the same few functions for the
// host and for kernels. A mask is a rule of three numbers, for one batch entry; nothing is stored.
//
//     causal   query i sees key j only when j <= i + (keys - len_q): the last query sees the last
//              key (bottom-right aligned)
//     window   and only when j > i + (keys - len_q) - window: `window` keys, its own counted
//     padding  and only when j < keys: what lies behind an entry's length is never seen
//
// A tile of queries and keys is skipped, partial or full (mask_tile). The functions themselves are
// in common/device.h: later chapters use them too.
#ifndef CH07_MASK_H
#define CH07_MASK_H

#include "common/device.h"

#endif
