// Attention, y = softmax(scale q k^T + mask) v, and its gradient, tile by tile; dropout.
//
// Attention: no more than kQueries x kKeys scores exist at a time and thread.
//
// Forward: running maximum and sum over the tiles of a row (Milakov and Gimelshein, arXiv 1805.02867). Backward: the tiles are computed
// again from the logarithm of the sum, one number a row (Dao et al., FlashAttention, arXiv 2205.14135). Operands are packed once per head into
// float rows, whatever their strides and storage; the products are the tiles of gemm.h.
#pragma once
#include "bf16.h"
#include "gemm.h"
#include "pointwise.h"
#include "random.h"
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA {
namespace attention {

constexpr int64_t kQueries = 64, kKeys = 128;

// One exchange step of a transposition: blocks of `step` lanes of a and b change places.
template <class T, int step>
PDL_INLINE void exchange(Vec<T>& a, Vec<T>& b) {
  Mask<T> low, high;
  for (int i = 0; i < kLanes<T>; i++) {
    low[i] = i & step ? kLanes<T> + i - step : i;
    high[i] = i & step ? kLanes<T> + i : i + step;
  }
  const Vec<T> first = __builtin_shuffle(a, b, low), second = __builtin_shuffle(a, b, high);
  a = first, b = second;
}
template <class T, int step = kLanes<T> / 2>
PDL_INLINE void transpose(Vec<T> (&rows)[kLanes<T>]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; i++)
    if (!(i & step)) exchange<T, step>(rows[i], rows[i + step]);
  if constexpr (step > 1) transpose<T, step / 2>(rows);
}

// Rows of one head lie a page apart where heads are side by side: the hardware foresees none of them.
constexpr int64_t kAhead = 8;
template <class S>
PDL_INLINE void prefetch(const S* row, int64_t columns) {
  for (int64_t c = 0; c < columns; c += static_cast<int64_t>(64 / sizeof(S))) __builtin_prefetch(row + c);
  __builtin_prefetch(row + columns - 1);
}

// x [rows, columns] transposed into panels of kPanel rows of x: element (r, c) at (r / kPanel) panel_size + c kPanel + r % kPanel.
template <class T, class S>
void pack_transposed(T* out, const S* x, int64_t rows, int64_t columns, int64_t stride) {
  constexpr int lanes = kLanes<T>;
  for (int64_t r = 0; r < rows; r += lanes) {
    T* to = out + r / kPanel<T> * columns * kPanel<T> + r % kPanel<T>;
    const int64_t there = min64(lanes, rows - r);
    for (int64_t next = r + lanes; next < min64(rows, r + 2 * lanes); next++) prefetch(x + next * stride, columns);
    for (int64_t c = 0; c < columns; c += lanes) {
      const int64_t wide = min64(lanes, columns - c);
      Vec<T> block[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; i++) {
        const S* from = x + (r + (i < there ? i : 0)) * stride + c;
        block[i] = wide == lanes ? load(from) : load_tail(from, wide);
      }
      transpose<T>(block);
#pragma GCC unroll 16
      for (int i = 0; i < lanes; i++)
        if (i < wide) store<T>(to + (c + i) * kPanel<T>, block[i]);
    }
  }
}

// out OUT [rows, width] = factor x [rows, columns], zeros behind the last column
template <class T, class S>
void pack_rows(T* out, const S* x, int64_t rows, int64_t columns, int64_t width, int64_t stride, T factor) {
  constexpr int lanes = kLanes<T>;
  for (int64_t r = 0; r < rows; r++) {
    T* to = out + r * width;
    const S* from = x + r * stride;
    if (r + kAhead < rows) prefetch(from + kAhead * stride, columns);
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) store<T>(to + c, load(from + c) * factor);
    if (c < columns && c + lanes <= width) store<T>(to + c, load_tail(from + c, columns - c) * factor), c += lanes;
    for (; c < width; c++) to[c] = c < columns ? value(from[c]) * factor : T(0);
  }
}

// out OUT [rows, columns] = factor x [rows, width]
template <class T, class S>
void put_rows(S* out, const T* x, int64_t rows, int64_t columns, int64_t width, int64_t stride, T factor) {
  constexpr int lanes = kLanes<T>;
  for (int64_t r = 0; r < rows; r++) {
    S* to = out + r * stride;
    const T* from = x + r * width;
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) store(to + c, load<T>(from + c) * factor);
    if (c < columns) store_tail(to + c, load_tail(from + c, columns - c) * factor, columns - c);
  }
}

// c OUT [m, n] (+)= a b. a (m, k) at m a_stride + k, or in the column form at m + k a_stride; b (k, n) at k b_stride + n, or, where b_panel is not
// 0, in panels of kPanel columns, b_panel apart.
template <bool kColumns, class T>
void product(T* c, int64_t c_stride, const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t b_panel, int64_t m, int64_t n, int64_t k,
             bool accumulate) {
  for (int64_t j = 0; j < n; j += kPanel<T>) {
    const int columns = static_cast<int>(min64(kPanel<T>, n - j));
    const int64_t step = even_rows(m, max_rows<T>(columns));
    const T* b_at = b + (b_panel != 0 ? j / kPanel<T> * b_panel : j);
    for (int64_t i = 0; i < m; i += step) {
      const T* a_at = a + (kColumns ? i : i * a_stride);
      const Tile<T> tile{&a_at, &b_at, 1, k, a_stride, b_stride, c + i * c_stride + j, c_stride, nullptr, accumulate};
      tile_kernel<T, kColumns>(static_cast<int>(min64(step, m - i)), columns, tile);
    }
  }
}

// What the work on one head needs, besides the call: sizes of packed rows, and places in the caller's scratch memory.
template <class S>
struct Head {
  using T = Real<S>;
  const AttentionCall& call;
  int64_t e_width, d_width;
  Drop<T> drop;

  explicit Head(const AttentionCall& c) : call(c), e_width(width_of(c.e)), d_width(width_of(c.d)), drop(c.dropout, c.seed) {}

  static int64_t width_of(int64_t columns) {
    return columns <= kPanel<T> ? panel_width<T>(static_cast<int>(columns)) : round_up(columns, kPanel<T>);
  }
  template <class P>
  P* at(P* base, const int64_t* strides, int64_t unit, int64_t row = 0) const {
    return base + unit / call.heads * strides[0] + unit % call.heads * strides[1] + row * strides[2];
  }
  const S* in(const AttentionArray& x, int64_t unit, int64_t row = 0) const { return at(static_cast<const S*>(x.data), x.strides, unit, row); }
  S* out(const AttentionArray& x, int64_t unit, int64_t row = 0) const { return at(static_cast<S*>(x.data), x.strides, unit, row); }

  // Keys [first, stop) that some query of [row, row + rows) may see.
  int64_t stop_of(int64_t row, int64_t rows, int64_t stop) const { return call.causal ? min64(stop, row + rows) : stop; }

  // Adds the mask to scores [columns] of query `row`, beginning at key `key`; -inf where a key is kept out, also behind the last one.
  void mask(T* scores, int64_t unit, int64_t row, int64_t key, int64_t columns) const {
    const T low = -static_cast<T>(__builtin_inf());
    const int64_t seen = call.causal ? max64(0, min64(columns, row + 1 - key)) : columns;
    if (call.mask_kind != kNoMask) {
      const int64_t* m = call.mask_strides;
      const int64_t at = unit / call.heads * m[0] + unit % call.heads * m[1] + row * m[2] + key * m[3];
      if (call.mask_kind == kKeepMask) {
        const uint8_t* keep = static_cast<const uint8_t*>(call.mask) + at;
        for (int64_t c = 0; c < seen; c++) scores[c] = keep[c * m[3]] ? scores[c] : low;
      } else if (m[3] == 1) {
        const S* add = static_cast<const S*>(call.mask) + at;
        int64_t c = 0;
        for (; c + kLanes<T> <= seen; c += kLanes<T>) store<T>(scores + c, load<T>(scores + c) + load(add + c));
        for (; c < seen; c++) scores[c] += value(add[c]);
      } else {
        const S* add = static_cast<const S*>(call.mask) + at;
        for (int64_t c = 0; c < seen; c++) scores[c] += value(add[c * m[3]]);
      }
    }
    for (int64_t c = seen; c < round_up(columns, kLanes<T>); c++) scores[c] = low;
  }
};

template <class T>
PDL_INLINE T largest(const T* x, int64_t columns, T start) {
  Vec<T> most = splat<T>(start);
  for (int64_t c = 0; c < columns; c += kLanes<T>) most = at_least<T>(load<T>(x + c), most);
  return across<T>(most, [](Vec<T> a, Vec<T> b) { return at_least<T>(a, b); });
}

// scores <- e^(scores - most), dropped out; returns their sum before that
template <bool kDrop, class T>
PDL_INLINE T exponentials(T* scores, int64_t columns, T most, const Drop<T>& drop, Stream stream, int64_t key) {
  Vec<T> sum{};
  for (int64_t c = 0; c < columns; c += kLanes<T>) {
    Vec<T> p = exp_negative<T>(load<T>(scores + c) - most);
    sum += p;
    if constexpr (kDrop) p *= drop.factors(stream, key + c);
    store<T>(scores + c, p);
  }
  return across_sum<T>(sum);
}

// Scratch memory, cut into pieces: first counted, with no memory, then taken.
template <class T>
struct Pieces {
  int64_t used = 0;
  T* base = nullptr;
  T* take(int64_t n) {
    T* piece = base + used;
    used += round_up(n, 16);
    return piece;
  }
};

// One head's keys and values, packed, and the running state of a block of queries.
template <class T>
struct Running {
  T *kt, *v, *q, *y, *tile, *most, *sum;
};

// Queries [row, row + rows) of one head against all keys.
template <class S, bool kDrop>
void forward_block(const Head<S>& h, int64_t unit, int64_t row, int64_t rows, const Running<Real<S>>& p) {
  using T = Real<S>;
  const AttentionCall& call = h.call;
  pack_rows<T>(p.q, h.in(call.q, unit, row), rows, call.e, h.e_width, call.q.strides[2], static_cast<T>(call.scale));
  for (int64_t i = 0; i < rows; i++) p.most[i] = -static_cast<T>(__builtin_inf()), p.sum[i] = 0;
  const int64_t stop = h.stop_of(row, rows, call.s);
  for (int64_t key = 0; key < stop; key += kKeys) {
    const int64_t keys = min64(kKeys, stop - key), wide = round_up(keys, kLanes<T>);
    product<false>(p.tile, kKeys, p.q, h.e_width, p.kt + key * call.e, kPanel<T>, call.e * kPanel<T>, rows, wide, call.e, false);
    for (int64_t i = 0; i < rows; i++) {
      T *scores = p.tile + i * kKeys, *y = p.y + i * h.d_width;
      if (call.causal || call.mask_kind != kNoMask || wide != keys) h.mask(scores, unit, row + i, key, keys);
      const T before = p.most[i], now = p.most[i] = largest<T>(scores, wide, before);
      const T base = now == -static_cast<T>(__builtin_inf()) ? T(0) : now;
      const Stream stream = kDrop ? stream_of(call.seed, unit * call.l + row + i) : Stream{};
      const T sum = exponentials<kDrop, T>(scores, wide, base, h.drop, stream, key);
      const T keep = key == 0 || before == now ? T(1) : exp_negative<T>(splat<T>(before - base))[0];
      p.sum[i] = p.sum[i] * keep + sum;
      if (keep != 1)
        for (int64_t c = 0; c < h.d_width; c++) y[c] *= keep;
    }
    product<false>(p.y, h.d_width, p.tile, kKeys, p.v + key * h.d_width, h.d_width, 0, rows, h.d_width, keys, key != 0);
  }
  T* lse = static_cast<T*>(call.lse) + unit * call.l + row;
  for (int64_t i = 0; i < rows; i += kLanes<T>) {
    const Vec<T> sum = load<T>(p.sum + i), logs = load<T>(p.most + i) + vlog<T>(sum);
    store<T>(p.sum + i, splat<T>(1) / sum);
    i + kLanes<T> <= rows ? store<T>(lse + i, logs) : store_tail(lse + i, logs, rows - i);
  }
  for (int64_t i = 0; i < rows; i++)
    put_rows(h.out(call.y, unit, row + i), p.y + i * h.d_width, 1, call.d, h.d_width, 0, p.sum[i]);
}

// Rows in a block of queries: equal blocks of at most kQueries.
inline int64_t query_rows(int64_t l) { return even_rows(l, kQueries); }

template <class S>
void forward(const AttentionCall& call) {
  using T = Real<S>;
  const Head<S> h(call);
  const int64_t step = query_rows(call.l), blocks = (call.l + step - 1) / step, work = step * call.s * (call.e + call.d);
  parallel(call.n * call.heads * blocks, max64(1, kParallelWork / max64(1, work)), [&](int64_t begin, int64_t end, int) {
    Running<T> p{};
    Pieces<T> memory;
    for (int pass = 0; pass < 2; pass++) {  // first the size, then the places
      memory = {0, pass == 0 ? nullptr : static_cast<T*>(scratch(2, memory.used * sizeof(T)))};
      p.kt = memory.take(round_up(call.s, kPanel<T>) * call.e), p.v = memory.take(call.s * h.d_width);
      p.q = memory.take(step * h.e_width), p.y = memory.take(step * h.d_width), p.tile = memory.take(step * kKeys);
      p.most = memory.take(round_up(step, 16)), p.sum = memory.take(round_up(step, 16));
    }
    for (int64_t item = begin, packed = -1; item < end; item++) {
      const int64_t unit = item / blocks, row = item % blocks * step, rows = min64(step, call.l - row);
      if (unit != packed) {
        pack_transposed<T>(p.kt, h.in(call.k, unit), call.s, call.e, call.k.strides[2]);
        pack_rows<T>(p.v, h.in(call.v, unit), call.s, call.d, h.d_width, call.v.strides[2], T(1));
        packed = unit;
      }
      call.dropout > 0 ? forward_block<S, true>(h, unit, row, rows, p) : forward_block<S, false>(h, unit, row, rows, p);
    }
  });
}

// scores <- dropped-out probabilities, grads <- gradients of the scores, from scores and gradients of the probabilities
template <bool kDrop, class T>
PDL_INLINE void score_gradients(T* scores, T* grads, int64_t columns, T lse, T delta, const Drop<T>& drop, Stream stream, int64_t key) {
  for (int64_t c = 0; c < columns; c += kLanes<T>) {
    const Vec<T> p = exp_negative<T>(load<T>(scores + c) - lse), g = load<T>(grads + c);
    if constexpr (kDrop) {
      const Vec<T> z = drop.factors(stream, key + c);
      store<T>(scores + c, p * z);
      store<T>(grads + c, p * (g * z - delta));
    } else {
      store<T>(scores + c, p);
      store<T>(grads + c, p * (g - delta));
    }
  }
}

// One head's operands, packed for the gradient, and its sums.
template <class T>
struct Packed {
  T *q, *g, *k, *kt, *vt, *dq, *dk, *dv, *delta, *tile, *dtile;
};

// Keys [first, last) of one head: dk and dv of them, their share of dq.
template <class S, bool kDrop>
void backward_keys(const Head<S>& h, int64_t unit, int64_t first, int64_t last, const Packed<Real<S>>& p) {
  using T = Real<S>;
  const AttentionCall& call = h.call;
  const int64_t step = query_rows(call.l);
  const T* lse = static_cast<const T*>(call.lse) + unit * call.l;
  for (int64_t key = first; key < last; key += kKeys)
    for (int64_t row = 0; row < call.l; row += step) {
      const int64_t rows = min64(step, call.l - row), keys = min64(kKeys, h.stop_of(row, rows, last) - key), wide = round_up(keys, kLanes<T>);
      if (keys <= 0) continue;
      const int64_t at = key - first;
      const T *q = p.q + row * h.e_width, *g = p.g + row * h.d_width;
      product<false>(p.tile, kKeys, q, h.e_width, p.kt + at * call.e, kPanel<T>, call.e * kPanel<T>, rows, wide, call.e, false);
      product<false>(p.dtile, kKeys, g, h.d_width, p.vt + at * call.d, kPanel<T>, call.d * kPanel<T>, rows, wide, call.d, false);
      for (int64_t i = 0; i < rows; i++) {
        T* scores = p.tile + i * kKeys;
        if (call.causal || call.mask_kind != kNoMask || wide != keys) h.mask(scores, unit, row + i, key, keys);
        const Stream stream = kDrop ? stream_of(call.seed, unit * call.l + row + i) : Stream{};
        score_gradients<kDrop, T>(scores, p.dtile + i * kKeys, wide, lse[row + i], p.delta[row + i], h.drop, stream, key);
      }
      product<true>(p.dv + at * h.d_width, h.d_width, p.tile, kKeys, g, h.d_width, 0, keys, h.d_width, rows, true);
      product<true>(p.dk + at * h.e_width, h.e_width, p.dtile, kKeys, q, h.e_width, 0, keys, h.e_width, rows, true);
      product<false>(p.dq + row * h.e_width, h.e_width, p.dtile, kKeys, p.k + at * h.e_width, h.e_width, 0, rows, h.e_width, keys, true);
    }
}

// delta[i] = sum g y of query i
template <class S>
void deltas(Real<S>* delta, const Head<S>& h, int64_t unit) {
  using T = Real<S>;
  const AttentionCall& call = h.call;
  for (int64_t i = 0; i < call.l; i++) {
    const S *g = h.in(call.g, unit, i), *y = h.in(call.y, unit, i);
    if (i + kAhead < call.l) prefetch(y + kAhead * call.y.strides[2], call.d);
    Vec<T> sum{};
    int64_t c = 0;
    for (; c + kLanes<T> <= call.d; c += kLanes<T>) sum += load(g + c) * load(y + c);
    if (c < call.d) sum += load_tail(g + c, call.d - c) * load_tail(y + c, call.d - c);
    delta[i] = across_sum<T>(sum);
  }
}

// Heads are shared out among the threads; where there are fewer heads than threads, so are the keys of a head, and their shares of dq are
// added in the order of the keys.
template <class S>
void backward(const AttentionCall& call) {
  using T = Real<S>;
  const Head<S> h(call);
  const int64_t units = call.n * call.heads, step = query_rows(call.l), blocks = (call.s + kKeys - 1) / kKeys;
  const int64_t most = units >= num_threads() ? 1 : min64(blocks, (num_threads() + units - 1) / max64(1, units));
  const int64_t chunk = (blocks + most - 1) / most * kKeys, chunks = (call.s + chunk - 1) / chunk, dq_size = call.l * h.e_width;
  T* shares = chunks > 1 ? static_cast<T*>(scratch(3, units * chunks * dq_size * sizeof(T))) : nullptr;
  const int64_t work = 3 * call.l * chunk * (call.e + call.d);
  parallel(units * chunks, max64(1, kParallelWork / max64(1, work)), [&](int64_t begin, int64_t end, int) {
    const int64_t panels = round_up(min64(chunk, call.s), kPanel<T>);
    Packed<T> p{};
    Pieces<T> memory;
    for (int pass = 0; pass < 2; pass++) {  // first the size, then the places
      memory = {0, pass == 0 ? nullptr : static_cast<T*>(scratch(2, memory.used * sizeof(T)))};
      p.q = memory.take(call.l * h.e_width), p.g = memory.take(call.l * h.d_width), p.k = memory.take(panels * h.e_width);
      p.kt = memory.take(panels * call.e), p.vt = memory.take(panels * call.d), p.dq = memory.take(dq_size);
      p.dk = memory.take(panels * h.e_width), p.dv = memory.take(panels * h.d_width), p.delta = memory.take(call.l);
      p.tile = memory.take(step * kKeys), p.dtile = memory.take(step * kKeys);
    }
    for (int64_t item = begin, packed = -1; item < end; item++) {
      const int64_t unit = item / chunks, first = item % chunks * chunk, last = min64(call.s, first + chunk), keys = last - first;
      if (unit != packed) {
        pack_rows<T>(p.q, h.in(call.q, unit), call.l, call.e, h.e_width, call.q.strides[2], static_cast<T>(call.scale));
        pack_rows<T>(p.g, h.in(call.g, unit), call.l, call.d, h.d_width, call.g.strides[2], T(1));
        deltas<S>(p.delta, h, unit);
        packed = unit;
      }
      pack_rows<T>(p.k, h.in(call.k, unit, first), keys, call.e, h.e_width, call.k.strides[2], T(1));
      pack_transposed<T>(p.kt, h.in(call.k, unit, first), keys, call.e, call.k.strides[2]);
      pack_transposed<T>(p.vt, h.in(call.v, unit, first), keys, call.d, call.v.strides[2]);
      if (chunks > 1) p.dq = shares + item * dq_size;
      memset(p.dq, 0, dq_size * sizeof(T));
      memset(p.dk, 0, keys * h.e_width * sizeof(T));
      memset(p.dv, 0, keys * h.d_width * sizeof(T));
      call.dropout > 0 ? backward_keys<S, true>(h, unit, first, last, p) : backward_keys<S, false>(h, unit, first, last, p);
      put_rows(h.out(call.dk, unit, first), p.dk, keys, call.e, h.e_width, call.dk.strides[2], T(1));
      put_rows(h.out(call.dv, unit, first), p.dv, keys, call.d, h.d_width, call.dv.strides[2], T(1));
      if (chunks == 1) put_rows(h.out(call.dq, unit), p.dq, call.l, call.e, h.e_width, call.dq.strides[2], static_cast<T>(call.scale));
    }
  });
  for (int64_t unit = 0; chunks > 1 && unit < units; unit++) {
    T* sum = shares + unit * chunks * dq_size;
    for (int64_t part = 1; part < chunks; part++)
      for (int64_t i = 0; i < dq_size; i++) sum[i] += sum[part * dq_size + i];
    put_rows(h.out(call.dq, unit), sum, call.l, call.e, h.e_width, call.dq.strides[2], static_cast<T>(call.scale));
  }
}

// y = f(x, ref) factor, factor 0 or 1 / (1 - p) by position in [rows, columns]    y OUT, x, ref IN (ref may be null: f gets x twice)
template <class S, class F>
PDL_INLINE void drop_map(S* y, const S* x, const S* ref, int64_t rows, int64_t columns, double p, uint64_t seed, const F& f) {
  using T = Real<S>;
  const Drop<T> drop(p, seed);
  parallel(rows, 16384 / max64(1, columns) + 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      const Stream stream = stream_of(seed, r);
      const S *from = x + r * columns, *beside = (ref != nullptr ? ref : x) + r * columns;
      S* to = y + r * columns;
      int64_t c = 0;
      for (; c + kLanes<T> <= columns; c += kLanes<T>) store(to + c, f(load(from + c), load(beside + c)) * drop.factors(stream, c));
      const int64_t rest = columns - c;
      if (rest > 0) store_tail(to + c, f(load_tail(from + c, rest), load_tail(beside + c, rest)) * drop.factors(stream, c), rest);
    }
  });
}

// Dropout of f(x), or with `ref` its gradient: y = x f'(ref) factor. `activation`: kRelu, kGelu, kGeluTanh, kSilu, or -1 for f(x) = x.
template <class S>
void dropout(S* y, const S* x, const S* ref, int activation, int64_t rows, int64_t columns, double p, uint64_t seed) {
  using T = Real<S>;
  using V = Vec<T>;
  const auto run = [&](const auto& f) { drop_map(y, x, ref, rows, columns, p, seed, f); };
  const bool gradient = ref != nullptr;
  switch (activation) {
    case kRelu: return gradient ? run([](V d, V v) { return v > T(0) ? d : V{}; }) : run([](V v, V) { return at_least<T>(v, T(0)); });
    case kGelu: return gradient ? run([](V d, V v) { return d * gelu_erf_slope<T>(v); }) : run([](V v, V) { return gelu_erf<T>(v); });
    case kGeluTanh: return gradient ? run([](V d, V v) { return d * gelu_tanh_slope<T>(v); }) : run([](V v, V) { return gelu_tanh<T>(v); });
    case kSilu: return gradient ? run([](V d, V v) { return d * silu_slope<T>(v); }) : run([](V v, V) { return silu<T>(v); });
    default: return run([](V v, V) { return v; });
  }
}

}  // namespace attention
}  // namespace pdl::PDL_ISA
