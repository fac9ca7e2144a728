// Attention, y = softmax(scale q k^T + mask) v, and its gradient, tile by tile; dropout.
//
// Attention: no more than kQueries x kKeys scores exist at a time and thread.
//
// Forward: running maximum and sum over the tiles of a row (Milakov and Gimelshein, arXiv 1805.02867). Backward: the tiles are computed
// again from the logarithm of the sum, one number a row (Dao et al., FlashAttention, arXiv 2205.14135). The products are tiles of tile.h on
// operands packed once per head; with bfloat16 storage probabilities are rounded for them where the CPU multiplies bf16 itself.
#pragma once
#include "attention_pack.h"
#include "pointwise.h"
#include "random.h"
#include "table.h"

namespace pdl::PDL_ISA {
namespace attention {

constexpr int64_t kQueries = 64, kKeys = 128;
constexpr int64_t kPlaces = kQueries + kKeys + 64;  // that a tile of scores reads, from the beginning of a panel on
constexpr int64_t kParallelWork = 64 * 1024;  // multiply-adds below which one more thread does not pay

// What the work on one head needs, besides the call: sizes of packed rows, and places in the caller's scratch memory.
template <class S>
struct Head {
  using T = Real<S>;
  using P = Operand<S>;
  const AttentionCall& call;
  int64_t e_width, d_width, e_units, d_units;
  Drop<T> drop;

  explicit Head(const AttentionCall& c)
      : call(c), e_width(width_of(c.e)), d_width(width_of(c.d)), e_units(units_of<P>(c.e)), d_units(units_of<P>(c.d)),
        drop(c.dropout, c.seed) {}

  T scale() const { return static_cast<T>(call.scale); }

  static int64_t width_of(int64_t columns) {
    const int64_t rest = columns % kPanel<P>;  // in whole vectors; in whole panels where pairs of rows are interleaved
    return columns > kPanel<P> && kPaired<S> ? round_up(columns, kPanel<P>) : columns - rest + (rest > 0 ? panel_width<P>(rest) : 0);
  }
  template <class Q>
  Q* at(Q* base, const int64_t* strides, int64_t unit, int64_t row = 0) const {
    return base + unit / call.heads * strides[0] + unit % call.heads * strides[1] + row * strides[2];
  }
  const S* in(const AttentionArray& x, int64_t unit, int64_t row = 0) const {
    return at(static_cast<const S*>(x.data), x.strides, unit, row);
  }
  S* out(const AttentionArray& x, int64_t unit, int64_t row = 0) const { return at(static_cast<S*>(x.data), x.strides, unit, row); }

  // Keys [first, stop) that some query of [row, row + rows) may see.
  int64_t stop_of(int64_t row, int64_t rows, int64_t stop) const { return call.causal ? min64(stop, row + rows) : stop; }

  // tile [rows, kKeys] = a b, b the transposed panels from row `at` (a multiple of kKeys) on
  static void times_panels(T* tile, const P* a, int64_t a_stride, const P* panels, int64_t at, int64_t rows, int64_t columns,
                           int64_t units) {
    product<false>(tile, kKeys, a, a_stride, panels + at * units * kUnit<P>, kPanel<P>, units * kPanel<P>, rows, columns, units, false);
  }

  // Keys behind `stop` are kept out of all queries of a unit; `masked`: so may others be.
  struct Seen {
    int64_t stop;
    bool masked;
  };
  Seen seen(int64_t unit) const {
    const int64_t* m = call.mask_strides;
    if (call.mask_kind != kKeepMask || m[2] != 0) return {call.s, call.mask_kind != kNoMask};
    const uint8_t* keep = static_cast<const uint8_t*>(call.mask) + unit / call.heads * m[0] + unit % call.heads * m[1];
    int64_t stop = call.s, count = 0;
    while (stop > 0 && !keep[(stop - 1) * m[3]]) stop--;
    for (int64_t c = 0; c < stop; c++) count += keep[c * m[3]] != 0;
    return stop > 0 ? Seen{stop, count < stop} : Seen{call.s, true};  // without a key the result is NaN
  }

  int64_t places() const { return call.relative ? call.l + call.s - 1 : 0; }
  // The first place that queries [row, row + rows) and keys from `key` on meet, and where its panel begins.
  int64_t first_place(int64_t row, int64_t rows, int64_t key) const { return call.l - row - rows + key; }
  int64_t first_panel(int64_t row, int64_t rows, int64_t key) const { return first_place(row, rows, key) / kPanel<P> * kPanel<P>; }
  // Query row + i meets key `key` in this column of a tile of places.
  int64_t column_of(int64_t row, int64_t rows, int64_t key, int64_t i) const {
    return first_place(row, rows, key) - first_panel(row, rows, key) + rows - 1 - i;
  }

  // Adds the products with places to a tile of products.   moved IN packed rows, panels IN packed places, transposed
  void add_places(T* tile, T* met, const P* moved, const P* panels, int64_t row, int64_t rows, int64_t key, int64_t keys) const {
    const int64_t first = first_panel(row, rows, key), wide = round_up(column_of(row, rows, key, 0) + keys, kLanes<T>);
    product<false>(met, kPlaces, moved, e_width, panels + first * e_units * kUnit<P>, kPanel<P>, e_units * kPanel<P>, rows, wide, e_units, false);
    for (int64_t i = 0; i < rows; i++) {
      const T* from = met + i * kPlaces + column_of(row, rows, key, i);
      T* to = tile + i * kKeys;
      for (int64_t c = 0; c < keys; c += kLanes<T>) store<T>(to + c, load<T>(to + c) + load<T>(from + c));
    }
  }

  // Makes scores of products: scaled (where q was not), masked. Row `row`, keys [key, key + columns).
  PDL_INLINE void finish(T* scores, int64_t unit, int64_t row, int64_t key, int64_t columns, bool masked) const {
    const int64_t wide = round_up(columns, kLanes<T>);
    if constexpr (kPaired<S>)
      for (int64_t c = 0; c < wide; c += kLanes<T>) store<T>(scores + c, load<T>(scores + c) * scale());
    if (call.causal || masked || wide != columns) mask(scores, unit, row, key, columns, masked);
  }

  // Adds the mask to scores [columns] of query `row`, beginning at key `key`; -inf where a key is kept out, also behind the last one.
  void mask(T* scores, int64_t unit, int64_t row, int64_t key, int64_t columns, bool masked) const {
    const T low = -static_cast<T>(__builtin_inf());
    const int64_t seen = call.causal ? max64(0, min64(columns, row + 1 - key)) : columns;
    if (masked) {
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

// out <- e^(scores - most), dropped out; returns their sum before that    out OUT [columns], may be the scores
template <bool kDrop, class P, class T>
PDL_INLINE T exponentials(P* out, const T* scores, int64_t columns, T most, const Drop<T>& drop, Stream stream, int64_t key) {
  Vec<T> sum{};
  for (int64_t c = 0; c < columns; c += kLanes<T>) {
    Vec<T> p = exp_negative<T>(load<T>(scores + c) - most);
    sum += p;
    if constexpr (kDrop) p *= drop.factors(stream, key + c);
    store(out + c, p);
  }
  return across_sum<T>(sum);
}

// One head's keys and values, packed, and the running state of a block of queries.
template <class S>
struct Running {
  using T = Real<S>;
  using P = Operand<S>;
  P *k, *kt, *v, *vs, *q, *prob;  // vs: v as it is multiplied, in pairs of rows or v itself; prob: the probabilities, in the tile or apart
  P *moved, *places, *panels;     // of relative positions; panels: places, transposed
  T *y, *tile, *most, *sum, *met;

  Running(const Head<S>& h, int64_t step) {
    const int64_t keys = round_up(h.call.s, kPanel<P>), all = round_up(h.places(), kPanel<P>), some = all > 0 ? step : 0;
    Cut memory;
    for (int pass = 0; pass < 2; pass++) {
      memory = {0, pass == 0 ? nullptr : static_cast<char*>(scratch(Slot::kHead, memory.used))};
      memory.take(moved, some * h.e_width), memory.take(places, all * h.e_width), memory.take(panels, all * h.e_units * kUnit<P>);
      memory.take(met, some * kPlaces);
      memory.take(k, keys * h.e_width), memory.take(kt, keys * h.e_units * kUnit<P>), memory.take(v, keys * h.d_width);
      memory.take(q, step * h.e_width), memory.take(y, step * h.d_width), memory.take(tile, step * kKeys);
      memory.take(most, round_up(step, 16)), memory.take(sum, round_up(step, 16));
      vs = v;
      if constexpr (kPaired<S>) memory.take(vs, keys * h.d_width), memory.take(prob, step * kKeys);
      else prob = tile;
    }
  }

  void pack(const Head<S>& h, int64_t unit) {
    const AttentionCall& call = h.call;
    pack_rows(k, h.in(call.k, unit), call.s, call.e, h.e_width, call.k.strides[2], T(1));
    pack_transposed(kt, k, call.s, h.e_units, h.e_width);
    pack_rows(v, h.in(call.v, unit), call.s, call.d, h.d_width, call.v.strides[2], T(1));
    if constexpr (kPaired<S>) pair_rows(vs, v, call.s, h.d_width);
    if (!call.relative) return;
    pack_rows(places, h.in(call.places, unit), h.places(), call.e, h.e_width, call.places.strides[2], T(1));
    pack_transposed(panels, places, h.places(), h.e_units, h.e_width);
  }
};

// Queries [row, row + rows) of one head against all keys.
template <class S, bool kDrop>
void forward_block(const Head<S>& h, int64_t unit, int64_t row, int64_t rows, const Running<S>& p) {
  using T = Real<S>;
  using P = Operand<S>;
  const AttentionCall& call = h.call;
  pack_rows(p.q, h.in(call.q, unit, row), rows, call.e, h.e_width, call.q.strides[2], h.scale());
  if (call.relative) pack_rows(p.moved, h.in(call.moved, unit, row), rows, call.e, h.e_width, call.moved.strides[2], h.scale());
  for (int64_t i = 0; i < rows; i++) p.most[i] = -static_cast<T>(__builtin_inf()), p.sum[i] = 0;
  const typename Head<S>::Seen seen = h.seen(unit);
  const int64_t stop = h.stop_of(row, rows, seen.stop);
  for (int64_t key = 0; key < stop; key += kKeys) {
    const int64_t keys = min64(kKeys, stop - key), wide = round_up(keys, kLanes<T>);
    h.times_panels(p.tile, p.q, h.e_width, p.kt, key, rows, wide, h.e_units);
    if (call.relative) h.add_places(p.tile, p.met, p.moved, p.panels, row, rows, key, keys);
    for (int64_t i = 0; i < rows; i++) {
      T *scores = p.tile + i * kKeys, *y = p.y + i * h.d_width;
      h.finish(scores, unit, row + i, key, keys, seen.masked);
      const T before = p.most[i], now = p.most[i] = largest<T>(scores, wide, before);
      const T base = now == -static_cast<T>(__builtin_inf()) ? T(0) : now;
      const Stream stream = kDrop ? stream_of(call.seed, unit * call.l + row + i) : Stream{};
      const T sum = exponentials<kDrop>(p.prob + i * kKeys, scores, wide, base, h.drop, stream, key);
      const T keep = key == 0 || before == now ? T(1) : exp_negative<T>(splat<T>(before - base))[0];
      p.sum[i] = p.sum[i] * keep + sum;
      if (keep != 1)
        for (int64_t c = 0; c < h.d_width; c++) y[c] *= keep;
    }
    product<false>(p.y, h.d_width, p.prob, kKeys, p.vs + key * h.d_width, h.d_width, 0, rows, h.d_width, units_of<P>(keys), key != 0);
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

// Rows in a block of queries: equal blocks of at most kQueries, of an even number, for pairs of rows.
inline int64_t query_rows(int64_t l) { return round_up(even_rows(l, kQueries), 2); }

template <class S>
void forward(const AttentionCall& call) {
  const Head<S> h(call);
  const int64_t step = query_rows(call.l), blocks = (call.l + step - 1) / step, work = step * call.s * (call.e + call.d);
  parallel(call.n * call.heads * blocks, max64(1, kParallelWork / max64(1, work)), [&](int64_t begin, int64_t end) {
    Running<S> p(h, step);
    for (int64_t item = begin, packed = -1; item < end; item++) {
      const int64_t unit = item / blocks, row = item % blocks * step, rows = min64(step, call.l - row);
      if (unit != packed) p.pack(h, packed = unit);
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

// One head's operands, packed for the gradient, and its sums. Where bf16 is multiplied, `*s` are operands in pairs of rows, else the rows.
template <class S>
struct Packed {
  using T = Real<S>;
  using P = Operand<S>;
  P *q, *g, *k, *v, *kt, *vt, *qs, *gs, *ks, *prob, *dprob, *drows;  // of a tile: prob and dprob by pairs of rows, drows by rows
  P *moved, *places, *panels;  // of relative positions, as in Running
  T *dq, *dk, *dv, *delta, *tile, *dtile, *met, *dmoved, *dplaces;

  Packed(const Head<S>& h, int64_t step, int64_t keys) {
    const AttentionCall& call = h.call;
    const int64_t rows = round_up(call.l, 2), all = round_up(h.places(), kPanel<P>), some = all > 0 ? rows : 0;
    keys = round_up(keys, kPanel<P>);
    Cut memory;
    for (int pass = 0; pass < 2; pass++) {
      memory = {0, pass == 0 ? nullptr : static_cast<char*>(scratch(Slot::kHead, memory.used))};
      memory.take(moved, some * h.e_width), memory.take(dmoved, some * h.e_width), memory.take(met, all > 0 ? step * kPlaces : 0);
      memory.take(places, all * h.e_width), memory.take(dplaces, all * h.e_width), memory.take(panels, all * h.e_units * kUnit<P>);
      memory.take(q, rows * h.e_width), memory.take(g, rows * h.d_width);
      memory.take(k, keys * h.e_width), memory.take(v, keys * h.d_width);
      memory.take(kt, keys * h.e_units * kUnit<P>), memory.take(vt, keys * h.d_units * kUnit<P>), memory.take(dq, rows * h.e_width);
      memory.take(dk, keys * h.e_width), memory.take(dv, keys * h.d_width), memory.take(delta, call.l);
      memory.take(tile, step * kKeys), memory.take(dtile, step * kKeys);
      if constexpr (kPaired<S>) {
        memory.take(qs, rows * h.e_width), memory.take(gs, rows * h.d_width), memory.take(ks, keys * h.e_width);
        memory.take(prob, step * kKeys), memory.take(dprob, step * kKeys), memory.take(drows, step * kKeys);
      } else {
        qs = q, gs = g, ks = k, prob = tile, dprob = drows = dtile;
      }
    }
  }

  void pack_queries(const Head<S>& h, int64_t unit) {
    const AttentionCall& call = h.call;
    pack_rows(q, h.in(call.q, unit), call.l, call.e, h.e_width, call.q.strides[2], h.scale());
    pack_rows(g, h.in(call.g, unit), call.l, call.d, h.d_width, call.g.strides[2], T(1));
    if constexpr (kPaired<S>) pair_rows(qs, q, call.l, h.e_width), pair_rows(gs, g, call.l, h.d_width);
    if (!call.relative) return;
    pack_rows(moved, h.in(call.moved, unit), call.l, call.e, h.e_width, call.moved.strides[2], h.scale());
    pack_rows(places, h.in(call.places, unit), h.places(), call.e, h.e_width, call.places.strides[2], T(1));
    pack_transposed(panels, places, h.places(), h.e_units, h.e_width);
    clear(dmoved, call.l * h.e_width), clear(dplaces, h.places() * h.e_width);
  }
  void pack_keys(const Head<S>& h, int64_t unit, int64_t first, int64_t keys) {
    const AttentionCall& call = h.call;
    pack_rows(k, h.in(call.k, unit, first), keys, call.e, h.e_width, call.k.strides[2], T(1));
    pack_rows(v, h.in(call.v, unit, first), keys, call.d, h.d_width, call.v.strides[2], T(1));
    pack_transposed(kt, k, keys, h.e_units, h.e_width);
    pack_transposed(vt, v, keys, h.d_units, h.d_width);
    if constexpr (kPaired<S>) pair_rows(ks, k, keys, h.e_width);
  }
  // The tile as the next products take it.
  void pack_tile(int64_t rows, int64_t columns) const {
    if constexpr (kPaired<S>) {
      pair_rows(prob, tile, rows, columns, kKeys), pair_rows(dprob, dtile, rows, columns, kKeys);
      round_rows(drows, dtile, rows, columns, kKeys);
    }
  }
};

// What a tile of gradients of scores gives to those of `moved` and of the places; not for operands in pairs.
template <class S>
void backward_places(const Head<S>& h, int64_t row, int64_t rows, int64_t key, int64_t keys, const Packed<S>& p) {
  using T = Real<S>;
  const int64_t e = h.e_width, first = h.first_panel(row, rows, key), count = h.column_of(row, rows, key, 0) + keys;
  for (int64_t i = 0; i < rows; i++) {
    T* to = p.met + i * kPlaces;
    clear(to, count);
    memcpy(to + h.column_of(row, rows, key, i), p.dtile + i * kKeys, keys * sizeof(T));
  }
  product<false>(p.dmoved + row * e, e, p.met, kPlaces, p.places + first * e, e, 0, rows, e, count, true);
  product<true>(p.dplaces + first * e, e, p.met, kPlaces, p.moved + row * e, e, 0, count, e, rows, true);
}

// Keys [first, last) of one head: dk and dv of them, their share of dq.
template <class S, bool kDrop>
void backward_keys(const Head<S>& h, int64_t unit, int64_t first, int64_t last, const Packed<S>& p) {
  using T = Real<S>;
  using P = Operand<S>;
  const AttentionCall& call = h.call;
  const int64_t step = query_rows(call.l), e = h.e_width, d = h.d_width;
  const T* lse = static_cast<const T*>(call.lse) + unit * call.l;
  const typename Head<S>::Seen seen = h.seen(unit);
  last = min64(last, seen.stop);
  for (int64_t key = first; key < last; key += kKeys)
    for (int64_t row = 0; row < call.l; row += step) {
      const int64_t rows = min64(step, call.l - row), keys = min64(kKeys, h.stop_of(row, rows, last) - key);
      const int64_t wide = round_up(keys, kLanes<T>);
      if (keys <= 0) continue;
      const int64_t at = key - first;
      h.times_panels(p.tile, p.q + row * e, e, p.kt, at, rows, wide, h.e_units);
      if (call.relative) h.add_places(p.tile, p.met, p.moved + row * e, p.panels, row, rows, key, keys);
      h.times_panels(p.dtile, p.g + row * d, d, p.vt, at, rows, wide, h.d_units);
      for (int64_t i = 0; i < rows; i++) {
        T* scores = p.tile + i * kKeys;
        h.finish(scores, unit, row + i, key, keys, seen.masked);
        const Stream stream = kDrop ? stream_of(call.seed, unit * call.l + row + i) : Stream{};
        score_gradients<kDrop, T>(scores, p.dtile + i * kKeys, wide, lse[row + i], p.delta[row + i], h.drop, stream, key);
      }
      p.pack_tile(rows, wide);
      if constexpr (!kPaired<S>)
        if (call.relative) backward_places(h, row, rows, key, keys, p);
      const int64_t units = units_of<P>(rows);
      product<true>(p.dv + at * d, d, p.prob, kKeys * kUnit<P>, p.gs + row * d, d, 0, keys, d, units, true);
      product<true>(p.dk + at * e, e, p.dprob, kKeys * kUnit<P>, p.qs + row * e, e, 0, keys, e, units, true);
      product<false>(p.dq + row * e, e, p.drows, kKeys, p.ks + at * e, e, 0, rows, e, units_of<P>(keys), true);
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
  const int64_t most = units >= num_threads() || call.relative ? 1 : min64(blocks, (num_threads() + units - 1) / max64(1, units));
  const int64_t chunk = (blocks + most - 1) / most * kKeys, chunks = (call.s + chunk - 1) / chunk, dq_size = call.l * h.e_width;
  T* shares = chunks > 1 ? static_cast<T*>(scratch(Slot::kHeadShares, units * chunks * dq_size * sizeof(T))) : nullptr;
  const int64_t work = 3 * call.l * chunk * (call.e + call.d);
  parallel(units * chunks, max64(1, kParallelWork / max64(1, work)), [&](int64_t begin, int64_t end) {
    Packed<S> p(h, step, min64(chunk, call.s));
    for (int64_t item = begin, packed = -1; item < end; item++) {
      const int64_t unit = item / chunks, first = item % chunks * chunk, last = min64(call.s, first + chunk), keys = last - first;
      if (unit != packed) {
        p.pack_queries(h, packed = unit);
        deltas<S>(p.delta, h, unit);
      }
      p.pack_keys(h, unit, first, keys);
      if (chunks > 1) p.dq = shares + item * dq_size;
      clear(p.dq, dq_size), clear(p.dk, keys * h.e_width), clear(p.dv, keys * h.d_width);
      call.dropout > 0 ? backward_keys<S, true>(h, unit, first, last, p) : backward_keys<S, false>(h, unit, first, last, p);
      put_rows(h.out(call.dk, unit, first), p.dk, keys, call.e, h.e_width, call.dk.strides[2], kPaired<S> ? h.scale() : T(1));
      put_rows(h.out(call.dv, unit, first), p.dv, keys, call.d, h.d_width, call.dv.strides[2], T(1));
      if (chunks == 1) put_rows(h.out(call.dq, unit), p.dq, call.l, call.e, h.e_width, call.dq.strides[2], h.scale());
      if (!call.relative) continue;
      put_rows(h.out(call.dmoved, unit), p.dmoved, call.l, call.e, h.e_width, call.dmoved.strides[2], h.scale());
      put_rows(h.out(call.dplaces, unit), p.dplaces, h.places(), call.e, h.e_width, call.dplaces.strides[2], T(1));
    }
  });
  for (int64_t unit = 0; chunks > 1 && unit < units; unit++) {
    T* sum = shares + unit * chunks * dq_size;
    for (int64_t part = 1; part < chunks; part++)
      for (int64_t i = 0; i < dq_size; i++) sum[i] += sum[part * dq_size + i];
    put_rows(h.out(call.dq, unit), sum, call.l, call.e, h.e_width, call.dq.strides[2], h.scale());
  }
}

// y = f(x, ref) factor, factor 0 or 1 / (1 - p) by position in [rows, columns]    y OUT, x, ref IN (ref may be null: f gets x twice)
template <class S, class F>
PDL_INLINE void drop_map(S* y, const S* x, const S* ref, int64_t rows, int64_t columns, double p, uint64_t seed, const F& f) {
  using T = Real<S>;
  const Drop<T> drop(p, seed);
  parallel(rows, 16384 / max64(1, columns) + 1, [&](int64_t begin, int64_t end) {
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
    case kGelu: return gradient ? run([](V d, V v) { return d * gelu_erf_slope<T>(v); }) : run([](V v, V) { return gelu(v); });
    case kGeluTanh: return gradient ? run([](V d, V v) { return d * gelu_tanh_slope<T>(v); }) : run([](V v, V) { return gelu_tanh<T>(v); });
    case kSilu: return gradient ? run([](V d, V v) { return d * silu_slope<T>(v); }) : run([](V v, V) { return silu<T>(v); });
    default: return run([](V v, V) { return v; });
  }
}

}  // namespace attention
}  // namespace pdl::PDL_ISA
