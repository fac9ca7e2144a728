// Depthwise convolution (every channel on its own): no matrix product in it, so channels fill the vectors and memory sets the speed.
//
// Input rows are copied into a ring of rows that a window reads: as T, with zeros around them and channels in whole vectors. So there are no
// edges, storage in bfloat16 costs one conversion a value, and what has to happen to a value before it is used (a norm, an activation) happens
// on the way. A block of outputs stays in registers while the window passes; channels run innermost, so that memory is read in its order.
#pragma once
#include <type_traits>

#include "conv_dw.h"
#include "norm.h"
#include "winograd.h"

namespace pdl::PDL_ISA {

constexpr int kOutputs = 7;      // outputs of a block: what fits the registers of AVX2, and divides the sizes of most nets
constexpr int kMoreOutputs = PDL_VECTOR_BYTES == 64 ? 10 : kOutputs;  // where there are 32 registers, and this divides a size better
constexpr int kMostWindow = 7;   // taps along the width that have a form in registers
constexpr int kMostRows = 16;    // taps along the height

// How output rows read input rows along one dimension, phase by phase: output r, in phase r % phases, reads input
// (r / phases) * step + offset through every tap of that phase.
struct Reading {
  int phases;
  Taps taps[2];

  const Taps& of(int64_t output) const { return taps[output % phases]; }
  int64_t first(int64_t output, int tap) const { return output / phases * of(output).step + of(output).offset[tap]; }
};

// Rows of input pixels in T with zeros on both sides; channels fill up to whole vectors.
template <class T>
struct RowRing {
  T* memory = nullptr;
  int64_t slots = 0, left = 0, pixels = 0, channels = 0;
  int64_t image = -1, next = 0;

  // For outputs [0, out) along the width that read `in` pixels.
  void measure(const Reading& h, const Reading& w, int64_t in, int64_t out, int64_t c) {
    channels = round_up(c, kLanes<T>);
    int64_t right = in;
    for (int p = 0; p < w.phases; p++) {
      if (w.taps[p].count == 0) continue;
      left = max64(left, -w.taps[p].lowest());
      right = max64(right, (out - 1) / w.phases * w.taps[p].step + w.taps[p].lowest() + w.taps[p].span());
    }
    pixels = left + right;
    for (int p = 0; p < h.phases; p++) slots = max64(slots, h.taps[p].span() + h.phases);
  }
  int64_t size() const { return slots * pixels * channels; }
  void place(T* at) { memset(memory = at, 0, size() * sizeof(T)); }

  T* row(int64_t r) const { return memory + ((r % slots) * pixels + left) * channels; }

  // Makes rows [first, last] of image n present: load(row, where). They must not lie before what was asked for last, in the same image.
  template <class F>
  void need(int64_t n, int64_t first, int64_t last, const F& load) {
    if (image != n || next < first) image = n, next = first;
    for (; next <= last; next++) load(next, row(next));
  }
};

// How rows come out of memory. at(pixel values, channel, lanes) makes the vector of T.
template <class S>
struct PlainRows {
  const S* data;
  int64_t channels;

  void operator()(Real<S>* to, int64_t to_step, int64_t first, int64_t pixels) const {
    using T = Real<S>;
    for (int64_t i = 0; i < pixels; i++) {
      const S* from = data + (first + i) * channels;
      T* row = to + i * to_step;
      int64_t c = 0;
      for (; c + kLanes<T> <= channels; c += kLanes<T>) store(row + c, load(from + c));
      if (c < channels) store(row + c, load_tail(from + c, channels - c));
    }
  }
};

// A row of outputs, channel by channel: out[i] = sum over rows r and taps t of rows[r][i * step + t] weights[r][t] (+ bias), clamped.
//   out OUT pixels out_step apart; rows (used up), weights IN [count] pixels and taps `padded` apart; bias IN [padded] or null;
//   bounds may be null
template <class S>
using DepthwiseRow = void (*)(S* out, int64_t out_step, int64_t outputs, const Real<S>** rows, const Real<S>* const* weights, int count,
                              int64_t channels, int64_t padded, const Real<S>* bias, const Bounds<Real<S>>* bounds);

// sums[t] += sum over outputs j of x[j * step + t] g[j], channel by channel.   sums OUT taps `padded` apart, x, g IN pixels `padded` apart
template <class T>
using DepthwiseDwRow = void (*)(T* sums, const T* x, const T* g, int64_t outputs, int64_t padded);

// The forms for a window of `count` taps with `step` pixels between outputs, or null: depthwise_rows.h, compiled in tile.cpp.
template <class S>
DepthwiseRow<S> depthwise_row_of(int count, int64_t step);
template <class T>
DepthwiseDwRow<T> depthwise_dw_row_of(int count, int64_t step);

// What forward and both gradients of one convolution share.
template <class T>
struct Depthwise {
  Geometry g;
  Reading out_h, out_w;  // outputs read inputs
  Reading in_h, in_w;    // gradients of inputs read gradients of outputs
  int64_t padded;
  const T *w = nullptr, *bias = nullptr;  // [kh][kw][padded], [padded]
  const T* back = nullptr;                // [kh][kw in the order of the taps of in_w, phase by phase][padded]

  explicit Depthwise(const Geometry& geometry) : g(geometry), padded(round_up(geometry.c, kLanes<T>)) {
    Taps forward[kDims];
    forward_taps(forward, g);
    out_h.phases = out_w.phases = 1, out_h.taps[0] = forward[1], out_w.taps[0] = forward[2];
    in_h.phases = static_cast<int>(g.stride[1]), in_w.phases = static_cast<int>(g.stride[2]);
    for (int p = 0; p < in_h.phases; p++) phase_taps(in_h.taps[p], p, g.kernel[1], g.stride[1], g.pad[1], 1);
    for (int p = 0; p < in_w.phases; p++) phase_taps(in_w.taps[p], p, g.kernel[2], g.stride[2], g.pad[2], 1);
  }

  // Whether the forms in registers cover a convolution.
  static bool covers(const Geometry& g) {
    for (int d = 0; d < kDims; d++)
      if (g.dilation[d] != 1 && g.kernel[d] != 1) return false;
    return g.kernel[0] == 1 && g.stride[0] == 1 && g.pad[0] == 0 && g.in[0] == g.out[0] && g.stride[1] <= 2 && g.stride[2] <= 2 &&
           g.kernel[1] <= kMostRows && g.kernel[2] <= kMostWindow && g.kernel[2] != 6;
  }

  int64_t taps() const { return g.kernel[1] * g.kernel[2]; }
  int64_t images() const { return g.n * g.in[0]; }
  int64_t packed_size() const { return (taps() + 1) * padded; }

  // Whole vectors of channels of this type are read where they lie.
  template <class S>
  bool in_place() const { return std::is_same_v<S, T> && padded == g.c; }

  // Brings weights [kh][kw][c] and bias [c] (or null) into order for the outputs.   at OUT [packed_size()]
  template <class S>
  void pack(T* at, const S* weights, const S* offset) {
    if constexpr (std::is_same_v<S, T>)
      if (in_place<S>()) {
        w = weights, bias = offset;
        return;
      }
    w = at, bias = offset == nullptr ? nullptr : at + taps() * padded;
    for (int64_t t = 0; t < taps(); t++) widen(at + t * padded, weights + t * g.c);
    if (offset != nullptr) widen(at + taps() * padded, offset);
  }

  // The same for gradients of inputs.
  template <class S>
  void pack_back(T* at, const S* weights) {
    back = at;
    for (int64_t kh = 0; kh < g.kernel[1]; kh++)
      for (int p = 0; p < in_w.phases; p++)
        for (int t = 0; t < in_w.taps[p].count; t++, at += padded) widen(at, weights + (kh * g.kernel[2] + in_w.taps[p].index[t]) * g.c);
  }

  // Channels of one pixel as T, in whole vectors.
  template <class S>
  void widen(T* to, const S* from) const {
    for (int64_t c = 0; c < padded; c++) to[c] = c < g.c ? value(from[c]) : T(0);
  }

  // Output row oh of image n, from a ring of input rows that load(row, where) fills.   bounds may be null
  template <class S, class F>
  void output_row(S* out, RowRing<T>& ring, int64_t n, int64_t oh, const F& load, const Bounds<T>* bounds = nullptr) const {
    const T *rows[kMostRows], *weights[kMostRows];
    const Taps &h = out_h.taps[0], &across = out_w.taps[0];
    ring.need(n, max64(0, oh * h.step + h.offset[0]), min64(g.in[1] - 1, oh * h.step + h.offset[h.count - 1]), load);
    int count = 0;
    for (int t = 0; t < h.count; t++) {
      const int64_t ih = oh * h.step + h.offset[t];
      if (ih < 0 || ih >= g.in[1]) continue;
      rows[count] = ring.row(ih) + across.lowest() * padded;
      weights[count++] = w + t * g.kernel[2] * padded;
    }
    depthwise_row_of<S>(across.count, across.step)(out, g.c, g.out[2], rows, weights, count, g.c, padded, bias, bounds);
  }

  // The outputs of a row for which the whole window lies within the width.
  void inner(int64_t& first, int64_t& last) const {
    const Taps& across = out_w.taps[0];
    first = min64(g.out[2], max64(0, (across.step - 1 - across.lowest()) / across.step));
    const int64_t room = g.in[2] - across.lowest() - across.span();
    last = room < 0 ? first : max64(first, min64(g.out[2], room / across.step + 1));
  }

  // Whether rows are read in memory: it pays where the edges, whose outputs are summed one by one, take less time than to copy every row once.
  template <class S>
  bool reads_memory() const {
    constexpr int64_t latency = 4, copy = 2;  // cycles of an addition, and of a vector's way into the ring
    int64_t first, last;
    inner(first, last);
    const int64_t alone = (first + g.out[2] - last) * taps() * latency;
    return in_place<S>() && last - first >= 2 * kOutputs && alone <= g.in[2] * g.stride[1] * copy;
  }
  // Numbers that the edges of a row take.
  int64_t edge_size() const {
    int64_t first, last;
    inner(first, last);
    const Taps& across = out_w.taps[0];
    const int64_t most = max64(first, g.out[2] - last);
    return most == 0 ? 0 : out_h.taps[0].count * ((most - 1) * across.step + across.span()) * padded;
  }

  // Output row oh of an image whose rows are read in memory.   edge: [edge_size()]
  void output_row_of(T* out, const T* image, int64_t oh, T* edge, const Bounds<T>* bounds) const {
    const T *from[kMostRows], *weights[kMostRows];
    const Taps &h = out_h.taps[0], &across = out_w.taps[0];
    int count = 0;
    for (int t = 0; t < h.count; t++) {
      const int64_t ih = oh * h.step + h.offset[t];
      if (ih < 0 || ih >= g.in[1]) continue;
      from[count] = image + ih * g.in[2] * g.c;
      weights[count++] = w + t * g.kernel[2] * padded;
    }
    const auto run = depthwise_row_of<T>(across.count, across.step);
    const T* rows[kMostRows];
    int64_t first, last;
    inner(first, last);
    for (int r = 0; r < count; r++) rows[r] = from[r] + (first * across.step + across.lowest()) * g.c;
    run(out + first * g.c, g.c, last - first, rows, weights, count, g.c, padded, bias, bounds);
    const auto at_edge = [&](int64_t begin, int64_t end) {
      if (begin >= end) return;
      const int64_t start = begin * across.step + across.lowest(), pixels = (end - begin - 1) * across.step + across.span();
      const int64_t left = min64(pixels, max64(0, -start)), here = max64(0, min64(pixels, g.in[2] - start) - left);
      for (int r = 0; r < count; r++) {
        T* to = edge + r * pixels * padded;
        memset(to, 0, left * padded * sizeof(T));
        memcpy(to + left * padded, from[r] + (start + left) * g.c, here * padded * sizeof(T));
        memset(to + (left + here) * padded, 0, (pixels - left - here) * padded * sizeof(T));
        rows[r] = to;
      }
      run(out + begin * g.c, g.c, end - begin, rows, weights, count, g.c, padded, bias, bounds);
    };
    at_edge(0, first), at_edge(last, g.out[2]);
  }

  // The rows of the output that input row ih takes part in: those that its gradient reads.
  void output_rows(int64_t ih, int64_t& first, int64_t& last) const {
    const Taps& h = in_h.of(ih);
    first = h.count == 0 ? 0 : max64(0, in_h.first(ih, 0));
    last = h.count == 0 ? -1 : min64(g.out[1] - 1, in_h.first(ih, h.count - 1));
  }

  // Row ih of the gradient of the input, from a ring of rows of the gradient of the output that is filled already.
  //   out OUT pixels out_step apart, out_channels of them written
  template <class S>
  void input_row(S* out, int64_t out_step, int64_t out_channels, const RowRing<T>& ring, int64_t ih) const {
    const Taps& h = in_h.of(ih);
    int64_t before = 0;  // taps of the phases before
    for (int p = 0; p < in_w.phases; before += in_w.taps[p++].count) {
      const Taps& across = in_w.taps[p];
      const T *rows[kMostRows], *weights[kMostRows];
      int count = 0;
      for (int t = 0; t < h.count && across.count > 0; t++) {
        const int64_t oh = in_h.first(ih, t);
        if (oh < 0 || oh >= g.out[1]) continue;
        rows[count] = ring.row(oh) + across.lowest() * padded;
        weights[count++] = back + (h.index[t] * g.kernel[2] + before) * padded;
      }
      const int64_t outputs = (g.in[2] - p + in_w.phases - 1) / in_w.phases;
      depthwise_row_of<S>(across.count > 0 ? across.count : 1, 1)(out + p * out_step, in_w.phases * out_step, outputs, rows, weights, count,
                                                                    out_channels, padded, static_cast<const T*>(nullptr), static_cast<const Bounds<T>*>(nullptr));
    }
  }

  // sums [kh][kw][padded] += what input row `x` (of number ih) and the rows of the output's gradient in the ring give together
  void add_weights(T* sums, const T* x, const RowRing<T>& ring, int64_t ih) const {
    const Taps &h = in_h.of(ih), &across = out_w.taps[0];
    const auto run = depthwise_dw_row_of<T>(across.count, across.step);
    for (int t = 0; t < h.count; t++) {
      const int64_t oh = in_h.first(ih, t);
      if (oh >= 0 && oh < g.out[1])
        run(sums + h.index[t] * g.kernel[2] * padded, x + across.lowest() * padded, ring.row(oh), g.out[2], padded);
    }
  }

  // dw [taps][c] from `parts` sums [taps][padded], in their order
  template <class S>
  void finish_weights(S* dw, const T* sums, int parts) const {
    for (int64_t t = 0; t < taps(); t++)
      for (int64_t c = 0; c < g.c; c++) {
        T sum = sums[t * padded + c];
        for (int p = 1; p < parts; p++) sum += sums[(p * taps() + t) * padded + c];
        put(dw + t * g.c + c, sum);
      }
  }

  // A ring for input rows and one for rows of the output's gradient; `x_reading` also serves a single row of x.
  RowRing<T> ring_of_inputs() const {
    RowRing<T> ring;
    ring.measure(out_h, out_w, g.in[2], g.out[2], g.c);
    return ring;
  }
  RowRing<T> ring_of_outputs() const {
    RowRing<T> ring;
    ring.measure(in_h, in_w, g.out[2], g.in[2], g.c);
    return ring;
  }
  int64_t grain(int64_t row) const { return max64(1, kParallelWork / 4 / max64(1, row * g.c)); }
};

// Loads row `r` of image n of a channels-last array.
constexpr int64_t kPieceRows = 8;  // rows that a piece of work has at least: each piece pads the rows around it again

template <class S>
auto plain_rows(const S* data, int64_t n, int64_t height, int64_t width, int64_t channels, int64_t padded) {
  return [=](int64_t r, Real<S>* to) { PlainRows<S>{data + (n * height + r) * width * channels, channels}(to, padded, 0, width); };
}

template <class S>
void depthwise_fast(S* y, const S* x, const S* w, const S* bias, const Geometry& g, const Epilogue<S>* then) {
  using T = Real<S>;
  Depthwise<T> d(g);
  d.pack(static_cast<T*>(scratch(Slot::kChannelWeights, d.packed_size() * sizeof(T))), w, bias);
  const RowEpilogue<S> finish(then);
  const int64_t image = g.in[1] * g.in[2] * g.c, row = g.out[2] * g.c;
  parallel(d.images() * g.out[1], d.grain(g.out[2]), [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<S, T>)
      if (d.template reads_memory<S>()) {
        T* edge = static_cast<T*>(scratch(Slot::kChannelRows, d.edge_size() * sizeof(T)));
        for (int64_t r = begin; r < end; r++) {
          d.output_row_of(y + r * row, x + r / g.out[1] * image, r % g.out[1], edge, finish.bounds());
          finish(y, r * row, row);
        }
        return;
      }
    RowRing<T> ring = d.ring_of_inputs();
    ring.place(static_cast<T*>(scratch(Slot::kChannelRows, ring.size() * sizeof(T))));
    for (int64_t r = begin; r < end; r++) {
      d.output_row(y + r * row, ring, r / g.out[1], r % g.out[1], plain_rows(x, r / g.out[1], g.in[1], g.in[2], g.c, d.padded),
                   finish.bounds());
      finish(y, r * row, row);
    }
  }, kPieceRows);
}

template <class S>
void depthwise_fast_dx(S* dx, const S* dy, const S* w, const Geometry& g) {
  using T = Real<S>;
  Depthwise<T> d(g);
  d.pack_back(static_cast<T*>(scratch(Slot::kChannelWeights, d.packed_size() * sizeof(T))), w);
  parallel(d.images() * g.in[1], d.grain(g.in[2]), [&](int64_t begin, int64_t end) {
    RowRing<T> ring = d.ring_of_outputs();
    ring.place(static_cast<T*>(scratch(Slot::kChannelRows, ring.size() * sizeof(T))));
    for (int64_t r = begin; r < end; r++) {
      const int64_t n = r / g.in[1], ih = r % g.in[1];
      int64_t first, last;
      d.output_rows(ih, first, last);
      ring.need(n, first, last, plain_rows(dy, n, g.out[1], g.out[2], g.c, d.padded));
      d.input_row(dx + r * g.in[2] * g.c, g.c, g.c, ring, ih);
    }
  }, kPieceRows);
}

template <class S, class D>
void depthwise_fast_dw(D* dw, const S* x, const S* dy, const Geometry& g) {
  using T = Real<S>;
  Depthwise<T> d(g);
  const int64_t rows = d.images() * g.in[1], total = d.taps() * d.padded;
  const int parts = parts_of(rows, d.grain(g.in[2]));
  T* sums = static_cast<T*>(scratch(Slot::kChannelWeights, parts * total * sizeof(T)));
  parallel_parts(rows, parts, [&](int64_t begin, int64_t end, int part) {
    RowRing<T> ring = d.ring_of_outputs(), row = d.ring_of_inputs();
    row.slots = 1;
    T* memory = static_cast<T*>(scratch(Slot::kChannelRows, (ring.size() + row.size()) * sizeof(T)));
    ring.place(memory), row.place(memory + ring.size());
    memset(sums + part * total, 0, total * sizeof(T));
    for (int64_t r = begin; r < end; r++) {
      const int64_t n = r / g.in[1], ih = r % g.in[1];
      int64_t first, last;
      d.output_rows(ih, first, last);
      if (first > last) continue;
      ring.need(n, first, last, plain_rows(dy, n, g.out[1], g.out[2], g.c, d.padded));
      plain_rows(x, n, g.in[1], g.in[2], g.c, d.padded)(ih, row.row(0));
      d.add_weights(sums + part * total, row.row(0), ring, ih);
    }
  });
  d.finish_weights(dw, sums, parts);
}

// `here` channels of one output pixel, tap by tap.   rows, weights IN [count] of the taps that lie inside in depth and height
template <class S>
void depthwise_pixel(S* out, int64_t ow, const Taps& taps, const Grid<const S>& from, const S* const* rows, const S* const* weights,
                     int count, int64_t channels, int64_t c, int here, const S* bias) {
  Vec<Real<S>> sum{};
  if (bias != nullptr) sum = norm::fetch(bias + c, here);
  for (int tw = 0; tw < taps.count; tw++) {
    const int64_t iw = ow * taps.step + taps.offset[tw];
    if (iw < 0 || iw >= from.size[2]) continue;
    for (int row = 0; row < count; row++)
      sum += norm::fetch(rows[row] + iw * from.stride[2] + c, here) * norm::fetch(weights[row] + taps.index[tw] * channels + c, here);
  }
  norm::leave(out, sum, here);
}

// to[j, c] = sum over taps of from[j * step + offset, c] w[index, c] (+ bias[c]): the form for dilated windows, three dimensions and long
// kernels.
template <class S>
void depthwise_correlate(const Grid<S>& to, const Grid<const S>& from, const Taps* taps, int64_t n, int64_t channels, const S* w,
                         const int64_t* kernel, const S* bias) {
  constexpr int lanes = kLanes<Real<S>>;
  const int64_t work = max64(1, to.size[2] * channels * taps[0].count * taps[1].count * taps[2].count);
  const int most = taps[0].count * taps[1].count;
  parallel(n * to.size[0] * to.size[1], max64(1, kParallelWork / work), [&](int64_t begin, int64_t end) {
    const S** x_rows = static_cast<const S**>(scratch(Slot::kChannelRows, 2 * max64(1, most) * sizeof(S*)));
    const S** w_rows = x_rows + most;
    for (int64_t r = begin; r < end; r++) {
      const int64_t oh = r % to.size[1], od = r / to.size[1] % to.size[0], image = r / to.size[1] / to.size[0];
      S* out_row = to.data + image * to.stride_n + od * to.stride[0] + oh * to.stride[1];
      int count = 0;
      for (int td = 0; td < taps[0].count; td++) {
        const int64_t id = od * taps[0].step + taps[0].offset[td];
        for (int th = 0; id >= 0 && id < from.size[0] && th < taps[1].count; th++) {
          const int64_t ih = oh * taps[1].step + taps[1].offset[th];
          if (ih < 0 || ih >= from.size[1]) continue;
          x_rows[count] = from.data + image * from.stride_n + id * from.stride[0] + ih * from.stride[1];
          w_rows[count++] = w + (taps[0].index[td] * kernel[1] + taps[1].index[th]) * kernel[2] * channels;
        }
      }
      for (int64_t ow = 0; ow < to.size[2]; ow++)
        for (int64_t c = 0; c < channels; c += lanes)
          depthwise_pixel(out_row + ow * to.stride[2] + c, ow, taps[2], from, x_rows, w_rows, count, channels, c,
                          channels - c < lanes ? static_cast<int>(channels - c) : 0, bias);
    }
  });
}

// The gradient of the weights for those forms: every part of the output rows has sums of its own, added in order.
template <class S, class D>
void depthwise_general_dw(D* dw, const S* x, const S* dy, const Geometry& g) {
  using T = Real<S>;
  Taps taps[kDims];
  forward_taps(taps, g);
  const Grid<const S> in = dense(x, g.in, g.c, 0), grad = dense(dy, g.out, g.o, 0);
  const int64_t total = g.kernel[0] * g.kernel[1] * g.kernel[2] * g.c, rows = g.n * g.out[0] * g.out[1];
  const int64_t grain = max64(1, kParallelWork / max64(1, g.out[2] * total));
  const int parts = parts_of(rows, grain);
  T* sums = static_cast<T*>(scratch(Slot::kChannelWeights, parts * total * sizeof(T)));
  parallel_parts(rows, parts, [&](int64_t begin, int64_t end, int part) {
    T* mine = sums + part * total;
    memset(mine, 0, total * sizeof(T));
    for (int64_t r = begin; r < end; r++) {
      const int64_t oh = r % g.out[1], od = r / g.out[1] % g.out[0], image = r / g.out[1] / g.out[0];
      const S* grad_row = grad.data + image * grad.stride_n + od * grad.stride[0] + oh * grad.stride[1];
      for (int64_t tap = 0; tap < g.kernel[0] * g.kernel[1]; tap++) {
        const int64_t id = od * g.stride[0] + taps[0].offset[tap / g.kernel[1]], ih = oh * g.stride[1] + taps[1].offset[tap % g.kernel[1]];
        if (id < 0 || id >= g.in[0] || ih < 0 || ih >= g.in[1]) continue;
        const S* row = in.data + image * in.stride_n + id * in.stride[0] + ih * in.stride[1];
        for (int64_t ow = 0; ow < g.out[2]; ow++)
          for (int64_t tw = 0; tw < g.kernel[2]; tw++) {
            const int64_t iw = ow * g.stride[2] + taps[2].offset[tw];
            if (iw < 0 || iw >= g.in[2]) continue;
            T* sum = mine + (tap * g.kernel[2] + tw) * g.c;
            norm::tiles<T>(g.c, [&](auto count, int64_t c, int lanes) {
              for (int j = 0; j < decltype(count)::value; j++, c += kLanes<T>)
                norm::leave(sum + c, norm::fetch(sum + c, lanes) + norm::fetch(row + iw * g.c + c, lanes) *
                                                                       norm::fetch(grad_row + ow * g.c + c, lanes), lanes);
            });
          }
      }
    }
  });
  for (int64_t i = 0; i < total; i++) {
    T sum = sums[i];
    for (int p = 1; p < parts; p++) sum += sums[p * total + i];
    put(dw + i, sum);
  }
}

// Every channel of some pixels `times` times, side by side.   to OUT pixels `padded` apart, from IN pixels `channels` apart
template <class S>
void repeat_channels(Real<S>* to, const S* from, int64_t pixels, int64_t channels, int64_t times, int64_t padded) {
  using T = Real<S>;
  constexpr int lanes = kLanes<T>;
  Mask<T> low, high;
  for (int l = 0; l < lanes; l++) low[l] = l / 2, high[l] = (lanes + l) / 2;
  for (int64_t p = 0; p < pixels; p++, from += channels, to += padded) {
    int64_t c = 0;
    for (; times == 2 && c + lanes <= channels; c += lanes) {
      const Vec<T> v = load(from + c);
      store(to + 2 * c, __builtin_shuffle(v, low)), store(to + 2 * c + lanes, __builtin_shuffle(v, high));
    }
    for (; c < channels; c++)
      for (int64_t i = 0; i < times; i++) to[c * times + i] = value(from[c]);
  }
}

// Long windows along the width. So many of kMostWindow taps side by side, the last one filled up with taps of zero, are read as rows of one
// window, which begin kMostWindow pixels apart in the same memory.
inline bool is_long(const Geometry& g) {
  for (int d = 0; d < kDims; d++)
    if (g.stride[d] != 1 || (d < 2 && (g.kernel[d] != 1 || g.pad[d] != 0))) return false;
  return g.kernel[2] > kMostWindow && g.kernel[2] <= kMostRows * kMostWindow && g.dilation[2] == 1 && g.pad[2] < g.kernel[2];
}

// y = correlation of x with w, from the first tap on or, `turned`, from the last one; its window begins `left` pixels in front of an output.
//   y OUT [rows, outputs, c], x IN [rows, pixels, c], w IN [taps][c], bias IN [c] or null
template <class S>
void depthwise_long(S* y, int64_t outputs, const S* x, int64_t pixels, const S* w, const S* bias, const Geometry& g, int64_t left, bool turned,
                    const Epilogue<S>* then) {
  using T = Real<S>;
  constexpr int64_t window = kMostWindow, segment = 8 * kOutputs;
  const int64_t taps = g.kernel[2], pieces = (taps + window - 1) / window, c = g.c, padded = round_up(c, kLanes<T>), total = pieces * window;
  T *weights = static_cast<T*>(scratch(Slot::kChannelWeights, (total + 1) * padded * sizeof(T))), *offset = weights + total * padded;
  memset(weights, 0, (total + 1) * padded * sizeof(T));
  for (int64_t t = 0; t < taps; t++)
    for (int64_t i = 0; i < c; i++) weights[t * padded + i] = value(w[(turned ? taps - 1 - t : t) * c + i]);
  for (int64_t i = 0; bias != nullptr && i < c; i++) offset[i] = value(bias[i]);
  const RowEpilogue<S> finish(then);
  const auto run = depthwise_row_of<S>(kMostWindow, 1);
  const int64_t segments = (outputs + segment - 1) / segment, grain = max64(1, kParallelWork / 4 / (segment * padded));
  parallel(g.n * g.in[0] * g.in[1] * segments, grain, [&](int64_t begin, int64_t end) {
    T* near = static_cast<T*>(scratch(Slot::kChannelRows, (segment - 1 + total) * padded * sizeof(T)));
    const T *rows[kMostRows], *parts[kMostRows];
    for (int64_t item = begin; item < end; item++) {
      const int64_t row = item / segments, first = item % segments * segment, count = min64(segment, outputs - first);
      const int64_t start = first - left, wide = count - 1 + total;
      const int64_t before = min64(wide, max64(0, -start)), here = max64(0, min64(wide, pixels - start) - before);
      memset(near, 0, before * padded * sizeof(T));
      PlainRows<S>{x + row * pixels * c, c}(near + before * padded, padded, start + before, here);
      memset(near + (before + here) * padded, 0, (wide - before - here) * padded * sizeof(T));
      for (int64_t i = 0; i < pieces; i++) rows[i] = near + i * window * padded, parts[i] = weights + i * window * padded;
      const int64_t at = (row * outputs + first) * c;
      run(y + at, c, count, rows, parts, static_cast<int>(pieces), c, padded, bias != nullptr ? offset : nullptr, finish.bounds());
      finish(y, at, count * c);
    }
  });
}

// Several outputs of every channel: a depthwise convolution of repeated channels.
inline bool multiplies(const Geometry& g) { return g.groups > 1 && g.groups == g.c && g.o > g.c; }

template <class S>
void depthwise_multiplied(S* y, const S* x, const S* w, const S* bias, const Geometry& g, const Epilogue<S>* then) {
  using T = Real<S>;
  Geometry repeated = g;
  repeated.c = repeated.groups = g.o;
  Depthwise<T> d(repeated);
  d.pack(static_cast<T*>(scratch(Slot::kChannelWeights, d.packed_size() * sizeof(T))), w, bias);
  const RowEpilogue<S> finish(then);
  const int64_t row = g.out[2] * g.o;
  parallel(d.images() * g.out[1], d.grain(g.out[2]), [&](int64_t begin, int64_t end) {
    RowRing<T> ring = d.ring_of_inputs();
    ring.place(static_cast<T*>(scratch(Slot::kChannelRows, ring.size() * sizeof(T))));
    for (int64_t r = begin; r < end; r++) {
      const S* image = x + r / g.out[1] * g.in[1] * g.in[2] * g.c;
      const auto load = [&](int64_t at, T* to) { repeat_channels(to, image + at * g.in[2] * g.c, g.in[2], g.c, g.o / g.c, d.padded); };
      d.output_row(y + r * row, ring, r / g.out[1], r % g.out[1], load, finish.bounds());
      finish(y, r * row, row);
    }
  }, kPieceRows);
}

// A window dilated along the width, where all sizes are multiples of the dilation: as many pixels side by side are one of more channels, to
// which the window is not dilated. 0 where that does not serve, else the dilation.
template <class S>
int64_t folded_width(const Geometry& g, Geometry* folded) {
  const int64_t d = g.dilation[2];
  if (d == 1 || g.stride[2] != 1 || g.in[2] % d != 0 || g.out[2] % d != 0 || g.pad[2] % d != 0) return 0;
  *folded = g;
  folded->c = folded->o = folded->groups = d * g.c;
  folded->in[2] /= d, folded->out[2] /= d, folded->pad[2] /= d;
  folded->dilation[1] = folded->dilation[2] = 1;
  if (!Depthwise<Real<S>>::covers(*folded)) return 0;
  folded->dilation[1] = g.dilation[1];  // rows may lie apart
  return d;
}

// y = depthwise correlation of x with w (+ bias), and its gradients.
//   y, dy [n, out..., c], x, dx [n, in..., c], w, dw [kernel..., 1, c], bias [c] or null
template <class S>
void depthwise_forward(S* y, const S* x, const S* w, const S* bias, const Geometry& g, const Epilogue<S>* then = nullptr) {
  if (Depthwise<Real<S>>::covers(g)) return depthwise_fast(y, x, w, bias, g, then);
  if (is_long(g)) return depthwise_long(y, g.out[2], x, g.in[2], w, bias, g, g.pad[2], false, then);
  Geometry folded;
  if (const int64_t d = folded_width<S>(g, &folded)) {
    const int64_t taps = g.kernel[1] * g.kernel[2];
    S *wide = static_cast<S*>(scratch(Slot::kFoldedWeights, (taps + 1) * folded.c * sizeof(S))), *offset = wide + taps * folded.c;
    for (int64_t t = 0; t < taps * d; t++) memcpy(wide + t * g.c, w + t / d * g.c, g.c * sizeof(S));
    for (int64_t t = 0; bias != nullptr && t < d; t++) memcpy(offset + t * g.c, bias, g.c * sizeof(S));
    return depthwise_fast(y, x, wide, bias == nullptr ? nullptr : offset, folded, then);
  }
  Taps taps[kDims];
  forward_taps(taps, g);
  depthwise_correlate<S>(dense(y, g.out, g.o, 0), dense(x, g.in, g.c, 0), taps, g.n, g.c, w, g.kernel, bias);
  if (then != nullptr) finish_rows(y, g.n * g.out[0] * g.out[1] * g.out[2], g.o, *then);
}
template <class S>
void depthwise_dx(S* dx, const S* dy, const S* w, const Geometry& g) {
  if (Depthwise<Real<S>>::covers(g)) return depthwise_fast_dx(dx, dy, w, g);
  if (is_long(g)) {
    const Epilogue<S>* none = nullptr;
    return depthwise_long(dx, g.in[2], dy, g.out[2], w, static_cast<const S*>(nullptr), g, g.kernel[2] - 1 - g.pad[2], true, none);
  }
  each_phase(g, [&](const Taps* taps, const int64_t* at) {
    depthwise_correlate<S>(phase_grid(dx, g, at, g.c, 0), dense(dy, g.out, g.o, 0), taps, g.n, g.c, w, g.kernel,
                           static_cast<const S*>(nullptr));
  });
}
template <class S, class D>
void depthwise_dw(D* dw, const S* x, const S* dy, const Geometry& g) {
  Depthwise<Real<S>>::covers(g) ? depthwise_fast_dw(dw, x, dy, g) : depthwise_general_dw(dw, x, dy, g);
}

inline bool is_depthwise(const Geometry& g) { return g.groups > 1 && g.groups == g.c && g.c == g.o; }

}  // namespace pdl::PDL_ISA
