// Attention of new positions to all that a row has kept: one token, or a prompt, appended to a cache of keys and values and read with it.
//
// What a step of a decoder costs is reading the cache, so that happens once: the query heads of a key's head (Ainslie et al., grouped
// queries, arXiv 2305.13245), and the positions of a prompt, meet each key in blocks. Long rows are cut into parts of kPart keys, whose
// shares are joined by their maxima and sums (Dao et al., Flash-Decoding, 2023); where the cuts lie depends on nothing but the row, so a
// row has the same bits in any batch and on any number of threads. Storage S is float, double or bf16; sums are numbers of the arithmetic.
#pragma once
#include "attention.h"
#include "bf16.h"
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA {
namespace cached {

constexpr int kBlock = 8;         // queries that meet a key together
constexpr int64_t kPart = 512;    // keys of a part
constexpr int64_t kPrompt = 16;   // positions of a prompt that products of whole tiles pay for
constexpr int kAhead = 8;         // keys ahead that are fetched: those of one head lie in pages of their own

template <class S>
PDL_INLINE Vec<Real<S>> get(const S* p, int64_t lanes) { return lanes < kLanes<Real<S>> ? load_tail(p, lanes) : load(p); }

template <class S>
PDL_INLINE void fetch(const S* p, int64_t n) {
  for (int64_t i = 0; i < n; i += 64 / static_cast<int64_t>(sizeof(S))) __builtin_prefetch(p + i);
}

template <int n>
struct Number { static constexpr int value = n; };

inline int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }

// What a block of queries has seen so far: the largest score, the sum of e^(score - largest) and of that times the values, per query.
template <class T>
struct Share {
  T *largest, *sum, *values;  // [kBlock], [kBlock], [kBlock, width]
  int64_t width;

  Share(T* at, int64_t d) : largest(at), sum(at + kBlock), values(at + 2 * kBlock), width(padded(d)) {}
  static int64_t size(int64_t d) { return 2 * kBlock + kBlock * padded(d); }

  void clear() {
    for (int b = 0; b < kBlock; b++) largest[b] = -static_cast<T>(__builtin_inf()), sum[b] = 0;
    memset(values, 0, kBlock * width * sizeof(T));
  }

  // Joins another's keys.
  void join(const Share& other, int queries) {
    for (int b = 0; b < queries; b++) {
      if (!(other.sum[b] > 0) && other.sum[b] == other.sum[b]) continue;  // it saw none
      const T high = other.largest[b] > largest[b] ? other.largest[b] : largest[b];
      const T mine = sum[b] > 0 ? vexp<T>(splat<T>(largest[b] - high))[0] : T(0), theirs = vexp<T>(splat<T>(other.largest[b] - high))[0];
      largest[b] = high;
      sum[b] = sum[b] * mine + other.sum[b] * theirs;
      for (int64_t c = 0; c < width; c += kLanes<T>)
        store(values + b * width + c, load(values + b * width + c) * mine + load(other.values + b * width + c) * theirs);
    }
  }
};

// The sums of as many vectors as a vector has lanes, each in the lane of its number.
template <class T, int kStep = kLanes<T> / 2>
PDL_INLINE Vec<T> sums(Vec<T>* v) {
  Mask<T> low, high;  // of two vectors, blocks of kStep lanes side by side: the first ones of both, and the second ones
  for (int l = 0; l < kLanes<T>; l++) {
    const int at = l % (2 * kStep), base = l - at;
    low[l] = at < kStep ? l : kLanes<T> + base + at - kStep;
    high[l] = at < kStep ? l + kStep : kLanes<T> + l;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kStep; i++) v[i] = __builtin_shuffle(v[i], v[i + kStep], low) + __builtin_shuffle(v[i], v[i + kStep], high);
  if constexpr (kStep > 1) return sums<T, kStep / 2>(v);
  return v[0];
}

// q [e] times as many keys, `stride` numbers apart, as a vector has lanes
template <class S, class T = Real<S>>
PDL_INLINE Vec<T> products(const T* q, const S* keys, int64_t stride, int64_t e) {
  Vec<T> sum[kLanes<T>] = {};
  int64_t c = 0;
  for (; c + kLanes<T> <= e; c += kLanes<T>) {
    const Vec<T> x = load(q + c);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; i++) sum[i] += load(keys + i * stride + c) * x;
  }
  if (c < e) {
    const Vec<T> x = load(q + c);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; i++) sum[i] += load_tail(keys + i * stride + c, e - c) * x;
  }
  return sums<T>(sum);
}

// to [queries, kPart] = q [queries, width] times keys j = 0..n, which are `stride` numbers apart, and numbers behind n; a vector of keys
// at a time. Several queries read them from `tile` [lanes, width]: where they lie they may all map to one set of the cache.
template <class S, class T = Real<S>>
void scores(T* to, const T* q, T* tile, int queries, int64_t width, const S* keys, int64_t stride, int64_t n, int64_t e) {
  constexpr int kKeys = kLanes<T>;
  for (int64_t j = 0; j < n; j += kKeys) {
    const S* from = keys + j * stride;
    const int64_t following = j + kKeys < n ? n - j - kKeys : 0, ahead = following < kKeys ? following : kKeys;
    if (queries == 1 && j + kKeys <= n) {
      for (int64_t i = 0; i < ahead; i++) fetch(from + (kKeys + i) * stride, e);
      store(to + j, products(q, from, stride, e));
      continue;
    }
    for (int64_t i = 0; i < kKeys; i++)
      for (int64_t c = 0; c < width; c += kLanes<T>)
        store(tile + i * width + c, j + i < n && c < e ? get(from + i * stride + c, e - c) : Vec<T>{});
    for (int b = 0; b < queries; b++) {  // the next keys come in meanwhile
      for (int64_t i = ahead * b / queries; i < ahead * (b + 1) / queries; i++) fetch(from + (kKeys + i) * stride, e);
      store(to + b * kPart + j, products(q + b * width, tile, width, width));
    }
  }
}

// to [B, width] = weights [B, kPart] times values j = 0..n, which are `stride` numbers apart
template <int B, class S, class T = Real<S>>
void mix(T* to, int64_t width, const T* weights, const S* values, int64_t stride, int64_t n, int64_t d) {
  constexpr int kColumns = B > 4 ? 2 : 4;
  const auto some = [=](auto count, int64_t c) {
    constexpr int kCount = decltype(count)::value;
    Vec<T> sum[B][kCount] = {};
    for (int64_t j = 0; j < n; j++) {
      const S* from = values + j * stride + c;
      if (j + kAhead < n) fetch(from + kAhead * stride, d - c < kCount * kLanes<T> ? d - c : kCount * kLanes<T>);
#pragma GCC unroll 4
      for (int i = 0; i < kCount; i++) {
        const Vec<T> v = get(from + i * kLanes<T>, d - c - i * kLanes<T>);
        for (int b = 0; b < B; b++) sum[b][i] += v * weights[b * kPart + j];
      }
    }
    for (int b = 0; b < B; b++)
      for (int i = 0; i < kCount; i++) store(to + b * width + c + i * kLanes<T>, sum[b][i]);
  };
  int64_t c = 0;
  for (; c + kColumns * kLanes<T> <= d; c += kColumns * kLanes<T>) some(Number<kColumns>(), c);
  for (; c < d; c += kLanes<T>) some(Number<1>(), c);
}

// A block of queries of one row and one head of keys.
template <class S>
struct Queries {
  using T = Real<S>;
  const CachedCall& call;
  int64_t row, head, first;  // queries are numbered position by position, the heads of a group side by side
  int count;

  Queries(const CachedCall& c, int64_t item)
      : call(c), row(item / (c.kv_heads * blocks(c))), head(item % c.kv_heads), first(item / c.kv_heads % blocks(c) * kBlock) {
    const int64_t there = group() * c.counts[row] - first;
    count = there < 0 ? 0 : there < kBlock ? static_cast<int>(there) : kBlock;
  }

  static int64_t blocks(const CachedCall& c) { return (c.heads / c.kv_heads * c.t + kBlock - 1) / kBlock; }
  static int64_t block_size(const CachedCall& c) { return kBlock * (padded(c.e) + kPart) + kLanes<T> * padded(c.e); }
  static int64_t scratch_size(const CachedCall& c) { return block_size(c) + 2 * Share<T>::size(c.d); }

  int64_t group() const { return call.heads / call.kv_heads; }
  // How many keys the query with this number sees, and where its numbers lie among [rows, t, heads].
  int64_t seen(int b) const { return call.lengths[row] + (first + b) / group() + 1; }
  int64_t place(int b) const {
    const int64_t position = (first + b) / group();
    return (row * call.t + position) * call.heads + head * group() + (first + b) % group();
  }
  int64_t parts() const { return count > 0 ? (seen(count - 1) + kPart - 1) / kPart : 0; }

  // One part of the keys.
  void look(int64_t part, Share<T> share, T* scratch) const {
    if (count == 1) look_as<1>(part, share, scratch);
    else if (count == 2) look_as<2>(part, share, scratch);
    else if (count <= 4) look_as<4>(part, share, scratch);
    else look_as<kBlock>(part, share, scratch);
  }

  template <int B>
  void look_as(int64_t part, Share<T> share, T* scratch) const {
    const int64_t width = padded(call.e), begin = part * kPart, e = call.e, d = call.d;
    const int64_t most = seen(count - 1) - begin, n = most < kPart ? most : kPart;
    T *q = scratch, *weights = scratch + kBlock * width;
    for (int b = 0; b < B; b++) {  // those that are not there are zeros
      const S* from = static_cast<const S*>(call.q) + (b < count ? place(b) * e : 0);
      for (int64_t c = 0; c < width; c += kLanes<T>) {
        const bool none = b >= count || c >= e;
        store(q + b * width + c, none ? Vec<T>{} : get(from + c, e - c) * static_cast<T>(call.scale));
      }
    }
    const int64_t key_stride = call.kv_heads * e, value_stride = call.kv_heads * d;
    const S* keys = static_cast<const S*>(call.keys) + (row * call.room + begin) * key_stride + head * e;
    const S* values = static_cast<const S*>(call.values) + (row * call.room + begin) * value_stride + head * d;
    scores(weights, q, weights + kBlock * kPart, count, width, keys, key_stride, n, e);
    for (int b = 0; b < B; b++) {
      T* own = weights + b * kPart;
      const int64_t visible = b < count ? seen(b) - begin : 0, last = visible < 0 ? 0 : visible < n ? visible : n;
      for (int64_t j = last; j < padded(n); j++) own[j] = -static_cast<T>(__builtin_inf());
      Vec<T> highest = splat<T>(-static_cast<T>(__builtin_inf())), total{};
      for (int64_t j = 0; j < last; j += kLanes<T>) {
        const Vec<T> x = load(own + j);
        highest = x > highest ? x : highest;
      }
      const T high = across<T>(highest, [](Vec<T> x, Vec<T> y) { return x > y ? x : y; });
      for (int64_t j = 0; j < last; j += kLanes<T>) {
        const Vec<T> x = load(own + j), p = x == -static_cast<T>(__builtin_inf()) ? Vec<T>{} : exp_negative<T>(x - high);
        total += p;
        store(own + j, p);
      }
      for (int64_t j = (last + kLanes<T> - 1) / kLanes<T> * kLanes<T>; j < padded(n); j++) own[j] = 0;
      share.largest[b] = high;
      share.sum[b] = last > 0 ? across_sum<T>(total) : T(0);
    }
    mix<B>(share.values, share.width, weights, values, value_stride, n, d);
  }

  void write(const Share<T>& share) const {
    for (int b = 0; b < count; b++) {
      S* to = static_cast<S*>(call.y) + place(b) * call.d;
      const T factor = T(1) / share.sum[b];
      for (int64_t c = 0; c < call.d; c += kLanes<T>) {
        const Vec<T> v = load(share.values + b * share.width + c) * factor;
        if (call.d - c < kLanes<T>) store_tail(to + c, v, call.d - c);
        else store(to + c, v);
      }
    }
  }
};

// 0, or 1 + the first row whose positions do not fit
inline int64_t misfit(const CachedCall& c) {
  for (int64_t r = 0; r < c.rows; r++)
    if (c.lengths[r] < 0 || c.counts[r] < 0 || c.counts[r] > c.t || c.lengths[r] > c.room - c.counts[r]) return r + 1;
  return 0;
}

template <class S>
void append(const CachedCall& c) {
  const int64_t k = c.kv_heads * c.e * sizeof(S), v = c.kv_heads * c.d * sizeof(S), y = c.heads * c.d * sizeof(S);
  const auto at = [](const void* p, int64_t bytes) { return const_cast<char*>(static_cast<const char*>(p)) + bytes; };
  parallel(c.rows, grain_of(c.t * c.kv_heads * (c.e + c.d)), [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const int64_t n = c.counts[r], to = r * c.room + c.lengths[r];
      memcpy(at(c.keys, to * k), at(c.k, r * c.t * k), n * k);
      memcpy(at(c.values, to * v), at(c.v, r * c.t * v), n * v);
      memset(at(c.y, (r * c.t + n) * y), 0, (c.t - n) * y);
    }
  });
}

// Prompts of rows that have kept nothing: causal attention among their own positions.
template <class S>
void prompts(const CachedCall& c) {
  const int64_t group = c.heads / c.kv_heads;
  for (int64_t r = 0; r < c.rows; r++) {
    const auto array = [=](const void* p, int64_t heads, int64_t of_head, int64_t within, int64_t width) {
      S* from = static_cast<S*>(const_cast<void*>(p)) + r * c.t * heads * width;
      return AttentionArray{from, {of_head * width, within * width, heads * width}};
    };
    AttentionCall call{};
    call.n = c.kv_heads, call.heads = group, call.l = call.s = c.counts[r], call.e = c.e, call.d = c.d;
    call.q = array(c.q, c.heads, group, 1, c.e), call.y = array(c.y, c.heads, group, 1, c.d);
    call.k = array(c.k, c.kv_heads, 1, 0, c.e), call.v = array(c.v, c.kv_heads, 1, 0, c.d);
    call.lse = scratch(Slot::kCachedSums, c.heads * c.t * sizeof(Real<S>));
    call.mask_kind = kNoMask, call.causal = true, call.scale = c.scale;
    if (call.l > 0) attention::forward<S>(call);
  }
}

// Keys and values of the new positions into the cache; y of each, attending to its row's positions up to itself. 0, or 1 + the first row
// whose positions do not fit, and nothing is done.
template <class S>
int64_t attend(const CachedCall& c) {
  using T = Real<S>;
  const int64_t bad = misfit(c);
  if (bad != 0) return bad;
  append<S>(c);
  int64_t kept = 0, longest = 0;
  for (int64_t r = 0; r < c.rows; r++) kept += c.lengths[r];
  if (kept == 0 && c.t >= kPrompt) return prompts<S>(c), 0;
  for (int64_t r = 0; r < c.rows; r++) longest = largest(longest, c.counts[r] > 0 ? c.lengths[r] + c.counts[r] : 0);
  const int64_t items = c.rows * Queries<S>::blocks(c) * c.kv_heads, parts = (longest + kPart - 1) / kPart;
  const int64_t own = Queries<S>::scratch_size(c), size = Share<T>::size(c.d);
  const auto memory = [=] { return static_cast<T*>(scratch(Slot::kCachedBlock, own * sizeof(T))); };
  if (parts > 1 && items < 4 * num_threads()) {  // the parts of an item on several threads
    T* shares = static_cast<T*>(scratch(Slot::kCachedShares, items * parts * size * sizeof(T)));
    parallel(items * parts, grain_of(kPart * (c.e + c.d)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        const Queries<S> queries(c, i / parts);
        if (i % parts < queries.parts()) queries.look(i % parts, Share<T>(shares + i * size, c.d), memory());
      }
    });
    for (int64_t i = 0; i < items; i++) {
      const Queries<S> queries(c, i);
      Share<T> all(shares + i * parts * size, c.d);
      for (int64_t part = 1; part < queries.parts(); part++) all.join(Share<T>(shares + (i * parts + part) * size, c.d), queries.count);
      queries.write(all);
    }
    return 0;
  }
  parallel(items, grain_of(longest * (c.e + c.d)), [&](int64_t begin, int64_t end) {
    T* mine = memory();
    Share<T> all(mine + Queries<S>::block_size(c), c.d), next(all.largest + size, c.d);
    for (int64_t i = begin; i < end; i++) {
      const Queries<S> queries(c, i);
      if (queries.count == 0) continue;
      queries.look(0, all, mine);
      for (int64_t part = 1; part < queries.parts(); part++) {
        queries.look(part, next, mine);
        all.join(next, queries.count);
      }
      queries.write(all);
    }
  });
  return 0;
}

}  // namespace cached
}  // namespace pdl::PDL_ISA
