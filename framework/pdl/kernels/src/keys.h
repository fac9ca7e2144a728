// Tables of rows that are found by 64-bit keys: the places of rows (a hash table with linear probing), the keys of a batch dealt out to
// servers, and what rows begin with.
#pragma once
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <vector>

#include "hashing.h"
#include "sorted_index.h"

namespace pdl::keys {

constexpr int64_t kEmpty = 0, kGone = 1;  // in a slot, in place of ~key: memory that is zero is a table without keys
constexpr int64_t kAhead = 32;  // slots that are asked for before they are looked at: each is somewhere else in memory

struct Place {
  int64_t name, place;  // name: ~key, below 0
};

inline int64_t slot_of(int64_t key, int64_t size, uint64_t seed) {
  return hashing::place(hashing::of_number(static_cast<uint64_t>(key), seed), size);
}

// f(i, slot of keys[i]) for i in order, the slots fetched ahead
template <class F>
void each_slot(const Place* slots, int64_t size, const int64_t* keys, int64_t n, uint64_t seed, const F& f) {
  int64_t ahead[kAhead];
  for (int64_t i = 0; i < n + kAhead; i++) {
    const int64_t at = ahead[i % kAhead];
    if (i < n) __builtin_prefetch(slots + (ahead[i % kAhead] = slot_of(keys[i], size, seed)), 1);
    if (i >= kAhead) f(i - kAhead, at);
  }
}

// The slot of a key, from its first one on; -1 where it is not there.
inline int64_t slot_from(const Place* slots, int64_t size, int64_t key, int64_t at) {
  for (; slots[at].name != ~key; at = at + 1 == size ? 0 : at + 1)
    if (slots[at].name == kEmpty) return -1;
  return at;
}

// places[i] = where keys[i] lies, or -1; returns how many are not there
inline int64_t find(int64_t* places, const Place* slots, int64_t size, const int64_t* keys, int64_t n, uint64_t seed) {
  int64_t lacking = 0;
  each_slot(slots, size, keys, n, seed, [&](int64_t i, int64_t at) {
    at = slot_from(slots, size, keys[i], at);
    places[i] = at < 0 ? -1 : slots[at].place;
    lacking += at < 0;
  });
  return lacking;
}

// Takes in keys that are not there, each once; more than n slots are empty.
inline void put(Place* slots, int64_t size, const int64_t* keys, const int64_t* places, int64_t n, uint64_t seed) {
  each_slot(slots, size, keys, n, seed, [&](int64_t i, int64_t at) {
    while (slots[at].name != kEmpty) at = at + 1 == size ? 0 : at + 1;
    slots[at] = {~keys[i], places[i]};
  });
}

// The keys of a table and their places; returns how many there are. keys and places may be null.
inline int64_t items(int64_t* keys, int64_t* places, const Place* slots, int64_t size) {
  int64_t n = 0;
  for (int64_t at = 0; at < size; at++)
    if (slots[at].name < 0) {
      if (keys != nullptr) keys[n] = ~slots[at].name, places[n] = slots[at].place;
      n++;
    }
  return n;
}

// Marks keys as gone; their slots stay taken, so that probing goes on. Returns how many were there.
inline int64_t drop(Place* slots, int64_t size, const int64_t* keys, int64_t n, uint64_t seed) {
  int64_t dropped = 0;
  each_slot(slots, size, keys, n, seed, [&](int64_t i, int64_t at) {
    if ((at = slot_from(slots, size, keys[i], at)) >= 0) slots[at].name = kGone, dropped++;
  });
  return dropped;
}

// A table of `before` slots, behind which others are empty, becomes one of `size`. Keys move up from the last one on, to slots that are free by
// then: in a larger table a key's slot lies behind. Those that have been pushed past their new one, or would go round the end, come last.
inline void grow(Place* slots, int64_t before, int64_t size, uint64_t seed) {
  std::vector<Place> late;
  int64_t from = before - 1;
  for (; from >= 0; from--) {
    const Place held = slots[from];
    if (held.name >= 0) {
      slots[from] = {};
      continue;
    }
    int64_t at = slot_of(~held.name, size, seed);
    if (at <= from) break;
    slots[from] = {};
    while (at < size && slots[at].name != kEmpty) at++;
    if (at < size)
      slots[at] = held;
    else
      late.push_back(held);
  }
  for (; from >= 0; from--) {
    if (slots[from].name < 0) late.push_back(slots[from]);
    slots[from] = {};
  }
  for (const Place& held : late) {
    int64_t at = slot_of(~held.name, size, seed);
    while (slots[at].name != kEmpty) at = at + 1 == size ? 0 : at + 1;
    slots[at] = held;
  }
}

// Deals the keys in index [n] out to `parts`, by hash: keys holds each once, by part and in each part in order, those of part p from starts[p]
// to starts[p + 1]; back[i] is where index[i] lies in it (-1: negative, or `left_out`), order[k] the number that key has among all, by size.
inline void deal(int64_t* keys, int64_t* back, int64_t* order, int64_t* starts, const int64_t* index, int64_t n, int64_t parts,
                 int64_t left_out, uint64_t seed) {
  int64_t count;
  const IndexEntry* entries = sorted_index(index, n, left_out, &count);
  for (int64_t p = 0; p <= parts; p++) starts[p] = 0;
  for (int64_t i = 0; i < count; i++)
    if (i == 0 || entries[i].key != entries[i - 1].key) starts[slot_of(entries[i].key, parts, seed) + 1]++;
  for (int64_t p = 0; p < parts; p++) starts[p + 1] += starts[p];
  if (count < n)
    for (int64_t i = 0; i < n; i++) back[i] = -1;
  int64_t* next = static_cast<int64_t*>(scratch(Slot::kIndexStarts, parts * sizeof(int64_t)));
  for (int64_t p = 0; p < parts; p++) next[p] = starts[p];
  for (int64_t i = 0, number = 0, at = 0; i < count; i++) {
    if (i == 0 || entries[i].key != entries[i - 1].key) {
      at = next[slot_of(entries[i].key, parts, seed)]++;
      keys[at] = entries[i].key, order[at] = number++;
    }
    back[entries[i].from] = at;
  }
}

typedef float Row __attribute__((vector_size(16), may_alias, aligned(4)));  // four numbers, wherever they lie

// values [rows, columns]: values[k] = the sum of the g[i] [n, columns] with back[i] = k, i in order; negative back[i] name no row. Each thread
// has rows of its own.
inline void sum(float* values, const int64_t* back, const float* g, int64_t rows, int64_t n, int64_t columns) {
  constexpr int64_t lanes = 4, least = 1 << 15;
  const auto body = [=](int64_t begin, int64_t end) {
    memset(values + begin * columns, 0, (end - begin) * columns * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
      if (i + kAhead < n && back[i + kAhead] >= 0) __builtin_prefetch(values + back[i + kAhead] * columns, 1);
      if (back[i] < begin || back[i] >= end) continue;
      float* to = values + back[i] * columns;
      const float* from = g + i * columns;
      int64_t c = 0;
      for (; c + lanes <= columns; c += lanes) *reinterpret_cast<Row*>(to + c) += *reinterpret_cast<const Row*>(from + c);
      for (; c < columns; c++) to[c] += from[c];
    }
  };
  parallel_for(
      rows, n * columns < least ? 1 : parts_of(rows, 1),  // each thread reads all of `back`
      [](void* f, int64_t begin, int64_t end, int) { (*static_cast<const decltype(body)*>(f))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

typedef float Floats __attribute__((vector_size(16), may_alias));
typedef int32_t Ints __attribute__((vector_size(16), may_alias));

// log x, 0 < x < 1, to 1e-7 (Cephes' polynomial about 1)
inline Floats log_of(Floats x) {
  const Ints bits = (Ints)x, e = (bits - 0x3f3504f3) >> 23;  // x = 2^e m, m in [sqrt 1/2, sqrt 2)
  const Floats m = (Floats)(bits - (e << 23)) - 1, whole = __builtin_convertvector(e, Floats);
  Floats y = m * 7.0376836292e-2f - 1.1514610310e-1f;
  y = y * m + 1.1676998740e-1f;
  y = y * m - 1.2420140846e-1f;
  y = y * m + 1.4249322787e-1f;
  y = y * m - 1.6668057665e-1f;
  y = y * m + 2.0000714765e-1f;
  y = y * m - 2.4999993993e-1f;
  y = y * m + 3.3333331174e-1f;
  return whole * 0.69314718f + (m - 0.5f * m * m + y * m * m * m);
}

// cos(2 pi a), 0 <= a < 1: 2 sin^2(pi (a - 1/2)) - 1
inline Floats cosine_of(Floats a) {
  const Floats x = (a - 0.5f) * 3.14159265f, t = x * x;
  Floats y = t * -2.5052108e-8f + 2.7557319e-6f;
  y = y * t - 1.9841270e-4f;
  y = y * t + 8.3333333e-3f;
  y = y * t - 1.6666667e-1f;
  y = y * t + 1.0f;
  return 2 * (x * y) * (x * y) - 1;
}

inline Floats root_of(Floats x) {
#if defined(__SSE__)
  return (Floats)_mm_sqrt_ps((__m128)x);
#else
  for (int i = 0; i < 4; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

// out [n, columns]: N(a, b^2) by Box and Muller, or U(a, b), of 48 bits that SplitMix64 makes of (seed, key, column)
inline void draw(float* out, const int64_t* keys, int64_t n, int64_t columns, uint64_t seed, bool normal, float a, float b) {
  constexpr int64_t lanes = 4, block = 64;
  constexpr float unit = 1.0f / (1 << 24);
  const uint64_t start = hashing::of_number(seed, 0);
  hashing::over(n * columns, [=](int64_t begin, int64_t end) {
    int64_t row = begin / columns, column = begin % columns;
    alignas(16) int32_t high[block] = {}, low[block] = {};
    alignas(16) float value[block];
    for (int64_t at = begin; at < end; at += block) {
      const int64_t m = end - at < block ? end - at : block;
      for (int64_t i = 0; i < m; i++) {
        const uint64_t counter = static_cast<uint64_t>(keys[row]) * static_cast<uint64_t>(columns) + static_cast<uint64_t>(column);
        const uint64_t bits = hashing::of_number(counter ^ start, 0);
        high[i] = static_cast<int32_t>(bits >> 40), low[i] = static_cast<int32_t>(bits >> 8 & 0xffffff);
        if (++column == columns) column = 0, row++;
      }
      for (int64_t i = 0; i < m; i += lanes) {
        const Floats u = (__builtin_convertvector(*reinterpret_cast<const Ints*>(high + i), Floats) + 0.5f) * unit;
        const Floats angle = __builtin_convertvector(*reinterpret_cast<const Ints*>(low + i), Floats) * unit;
        const Floats drawn = normal ? root_of(-2 * log_of(u)) * cosine_of(angle) * b + a : u * (b - a) + a;
        *reinterpret_cast<Floats*>(value + i) = drawn;
      }
      memcpy(out + at, value, m * sizeof(float));
    }
  });
}

}  // namespace pdl::keys
