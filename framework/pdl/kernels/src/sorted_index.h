// The entries of an index in the order of what they name.
#pragma once
#include "parallel.h"

namespace pdl {

// What an entry names, a row or a key, and its place.
struct IndexEntry {
  int64_t key, from;
};

// The entries of index [n] that are neither negative nor `left_out`, by key, equal keys in their order (radix sort); their number in *count.
// Static: units compiled for different CPUs must not share it.
static inline const IndexEntry* sorted_index(const int64_t* index, int64_t n, int64_t left_out, int64_t* count) {
  constexpr int digit = 11, values = 1 << digit;
  IndexEntry* from = static_cast<IndexEntry*>(scratch(Slot::kIndexFrom, (n + 1) * sizeof(IndexEntry)));
  IndexEntry* to = static_cast<IndexEntry*>(scratch(Slot::kIndexTo, (n + 1) * sizeof(IndexEntry)));
  int64_t kept = 0, any = 0, all = -1;
  for (int64_t i = 0; i < n; i++)
    if (index[i] >= 0 && index[i] != left_out) from[kept++] = {index[i], i}, any |= index[i], all &= index[i];
  for (int shift = 0; shift < 63; shift += digit) {
    if (((any ^ all) >> shift & (values - 1)) == 0) continue;  // no two keys differ there
    int64_t start[values] = {};
    for (int64_t i = 0; i < kept; i++) start[from[i].key >> shift & (values - 1)]++;
    for (int64_t v = 0, sum = 0; v < values; v++) {
      const int64_t size = start[v];
      start[v] = sum, sum += size;
    }
    for (int64_t i = 0; i < kept; i++) to[start[from[i].key >> shift & (values - 1)]++] = from[i];
    IndexEntry* other = from;
    from = to, to = other;
  }
  *count = kept;
  return from;
}

}  // namespace pdl
