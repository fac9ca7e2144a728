// Convolutions of many narrow groups (ResNeXt, RegNet): a group of G channels is at most a vector, so a product per group would leave most
// lanes empty.
//
// Output channel c of group c / G sums over its G inputs: over G depthwise convolutions, of which number i reads, in all lanes of a group,
// the group's input i. A vector of channels at a time, input pixels are shuffled into G such vectors while they are copied into a ring of
// rows, which stays in the first cache; a block of outputs stays in registers while the window passes.
#pragma once
#include "depthwise.h"

namespace pdl::PDL_ISA {

// v with channel i of each group of kGroup in all lanes of the group
template <class T, int kGroup>
PDL_INLINE Vec<T> spread(Vec<T> v, int i) {
  Mask<T> from;
  for (int l = 0; l < kLanes<T>; l++) from[l] = l / kGroup * kGroup + i;
  return __builtin_shuffle(v, from);
}

// Pixels of a vector of channels, each spread into kGroup vectors.   to OUT [pixels][kGroup][lanes]; from IN pixels `step` apart
template <class S, int kGroup>
void spread_pixels(Real<S>* to, const S* from, int64_t pixels, int64_t step, int64_t channels) {
  using T = Real<S>;
  constexpr int lanes = kLanes<T>;
  for (int64_t p = 0; p < pixels; p++, from += step, to += kGroup * lanes) {
    const Vec<T> v = channels < lanes ? load_tail(from, channels) : load(from);
#pragma GCC unroll 16
    for (int i = 0; i < kGroup; i++) store(to + i * lanes, spread<T, kGroup>(v, i));
  }
}

// kWide outputs of a vector of channels, clamped where bounds are given.
//   out OUT pixels out_step apart; rows IN [count] of spread pixels; weights IN [count] of [tap][kGroup][lanes]
template <class S, int kGroup, int kWindow, int kStep, int kWide>
PDL_INLINE void grouped_block(S* out, int64_t out_step, const Real<S>* const* rows, const Real<S>* const* weights, int count, int64_t channels,
                              const Real<S>* bias, const Bounds<Real<S>>* bounds) {
  using T = Real<S>;
  constexpr int lanes = kLanes<T>, pixel = kGroup * lanes;
  Vec<T> sum[kWide];
  const Vec<T> start = bias == nullptr ? Vec<T>{} : load(bias);
#pragma GCC unroll 8
  for (int o = 0; o < kWide; o++) sum[o] = start;
  for (int r = 0; r < count; r++) {
    const T *x = rows[r], *from = weights[r];
    for (int i = 0; i < kGroup; i++, x += lanes, from += lanes) {
      Vec<T> w[kWindow];
#pragma GCC unroll 3
      for (int t = 0; t < kWindow; t++) w[t] = load(from + t * pixel);
#pragma GCC unroll 32
      for (int p = 0; p < (kWide - 1) * kStep + kWindow; p++) {
        const Vec<T> v = load(x + p * pixel);
#pragma GCC unroll 3
        for (int t = 0; t < kWindow; t++)
          if (p >= t && (p - t) % kStep == 0 && (p - t) / kStep < kWide) sum[(p - t) / kStep] += v * w[t];
      }
    }
  }
  if (bounds != nullptr) {
#pragma GCC unroll 8
    for (int o = 0; o < kWide; o++) sum[o] = within_bounds(sum[o], *bounds);
  }
#pragma GCC unroll 8
  for (int o = 0; o < kWide; o++) norm::leave(out + o * out_step, sum[o], channels < lanes ? static_cast<int>(channels) : 0);
}

// A row of outputs; `rows` is used up.
template <class S, int kGroup, int kWindow, int kStep>
void grouped_row(S* out, int64_t out_step, int64_t outputs, const Real<S>** rows, const Real<S>* const* weights, int count, int64_t channels,
                 const Real<S>* bias, const Bounds<Real<S>>* bounds) {
  int64_t at = 0;
  const auto go_on = [&](int64_t by) {
    at += by, out += by * out_step;
    for (int r = 0; r < count; r++) rows[r] += by * kStep * kGroup * kLanes<Real<S>>;
  };
  for (; outputs - at >= kOutputs; go_on(kOutputs))
    grouped_block<S, kGroup, kWindow, kStep, kOutputs>(out, out_step, rows, weights, count, channels, bias, bounds);
  for (; outputs - at >= 3; go_on(3)) grouped_block<S, kGroup, kWindow, kStep, 3>(out, out_step, rows, weights, count, channels, bias, bounds);
  for (; at < outputs; go_on(1)) grouped_block<S, kGroup, kWindow, kStep, 1>(out, out_step, rows, weights, count, channels, bias, bounds);
}

// What a size of groups, window and stride are computed by; `row` is null where they have no form.
template <class S>
struct GroupedForms {
  using T = Real<S>;
  void (*spread)(T* to, const S* from, int64_t pixels, int64_t step, int64_t channels) = nullptr;
  void (*row)(S* out, int64_t out_step, int64_t outputs, const T** rows, const T* const* weights, int count, int64_t channels, const T* bias,
              const Bounds<T>* bounds) = nullptr;

  GroupedForms(int64_t group, int64_t window, int64_t stride) { find<2>(group, window, stride); }

 private:
  template <int kGroup>
  void find(int64_t group, int64_t window, int64_t stride) {
    if (group == kGroup) {
      spread = spread_pixels<S, kGroup>;
      if (window == 3) row = stride == 1 ? grouped_row<S, kGroup, 3, 1> : stride == 2 ? grouped_row<S, kGroup, 3, 2> : nullptr;
      if (window == 1 && stride == 1) row = grouped_row<S, kGroup, 1, 1>;
    } else if constexpr (2 * kGroup <= kLanes<T>) {
      find<2 * kGroup>(group, window, stride);
    }
  }
};

template <class S>
class Grouped {
  using T = Real<S>;

 public:
  static constexpr int kLane = kLanes<T>;

  static bool covers(const Geometry& g) {
    return g.groups > 1 && g.c == g.o && Depthwise<T>::covers(g) && g.kernel[1] <= kMostWindow &&
           GroupedForms<S>(g.c / g.groups, g.kernel[2], g.stride[2]).row != nullptr;
  }

  explicit Grouped(const Geometry& geometry)
      : g(geometry), group(g.c / g.groups), blocks((g.c + kLane - 1) / kLane), forms_(group, g.kernel[2], g.stride[2]) {
    forward_taps(taps_, g);
    reading_h_.phases = reading_w_.phases = 1, reading_h_.taps[0] = taps_[1], reading_w_.taps[0] = taps_[2];
  }

  const Geometry& g;
  int64_t group, blocks;  // channels of a group; vectors of channels

  int64_t taps() const { return g.kernel[1] * g.kernel[2]; }
  int64_t packed_size() const { return blocks * (taps() * group + 1) * kLane; }
  RowRing<T> ring() const {
    RowRing<T> made;
    made.measure(reading_h_, reading_w_, g.in[2], g.out[2], group * kLane);
    return made;
  }

  // to OUT [block][kh][kw][i][lanes], then the bias [blocks * lanes], zeros behind the last channel
  void pack(T* to, const S* w, const S* bias) {
    w_ = to, bias_ = bias == nullptr ? nullptr : to + blocks * taps() * group * kLane;
    for (int64_t b = 0; b < blocks; b++)
      for (int64_t row = 0; row < taps() * group; row++)
        for (int64_t c = b * kLane; c < (b + 1) * kLane; c++) *to++ = c < g.c ? value(w[row * g.c + c]) : T(0);
    for (int64_t c = 0; bias != nullptr && c < blocks * kLane; c++) *to++ = c < g.c ? value(bias[c]) : T(0);
  }

  // Output row oh of a block of channels of image n (of all images and depths).   bounds may be null
  void row(S* y, const S* x, RowRing<T>& ring, int64_t n, int64_t block, int64_t oh, const Bounds<T>* bounds) const {
    const int64_t first = block * kLane, channels = min64(kLane, g.c - first), pixel = group * kLane;
    const Taps &h = taps_[1], &across = taps_[2];
    const S* image = x + n * g.in[1] * g.in[2] * g.c + first;
    ring.need(n * blocks + block, max64(0, oh * h.step + h.offset[0]), min64(g.in[1] - 1, oh * h.step + h.offset[h.count - 1]),
              [&](int64_t r, T* to) { forms_.spread(to, image + r * g.in[2] * g.c, g.in[2], g.c, channels); });
    const T *rows[kMostWindow], *weights[kMostWindow];
    int count = 0;
    for (int t = 0; t < h.count; t++) {
      const int64_t ih = oh * h.step + h.offset[t];
      if (ih < 0 || ih >= g.in[1]) continue;
      rows[count] = ring.row(ih) + across.lowest() * pixel;
      weights[count++] = w_ + (block * taps() + t * g.kernel[2]) * pixel;
    }
    forms_.row(y + (n * g.out[1] + oh) * g.out[2] * g.c + first, g.c, g.out[2], rows, weights, count, channels,
               bias_ == nullptr ? nullptr : bias_ + first, bounds);
  }

 private:
  GroupedForms<S> forms_;
  Taps taps_[kDims];
  Reading reading_h_, reading_w_;
  const T *w_ = nullptr, *bias_ = nullptr;
};

// y = correlation of x with w (+ bias), as conv_forward computes it group by group.
template <class S>
void grouped_forward(S* y, const S* x, const S* w, const S* bias, const Geometry& g, const Epilogue<S>* then = nullptr) {
  using T = Real<S>;
  Grouped<S> groups(g);
  groups.pack(static_cast<T*>(scratch(Slot::kChannelWeights, groups.packed_size() * sizeof(T))), w, bias);
  const RowEpilogue<S> clamp(then);
  const bool again = then != nullptr && (clamp.bounds() == nullptr || then->before != nullptr || then->mean != nullptr);
  const int64_t grain = max64(1, kParallelWork / max64(1, g.out[2] * groups.taps() * groups.group * groups.kLane));
  parallel(g.n * g.in[0] * groups.blocks * g.out[1], grain, [&](int64_t begin, int64_t end) {
    RowRing<T> ring = groups.ring();
    ring.place(static_cast<T*>(scratch(Slot::kChannelRows, ring.size() * sizeof(T))));
    for (int64_t r = begin; r < end; r++)
      groups.row(y, x, ring, r / g.out[1] / groups.blocks, r / g.out[1] % groups.blocks, r % g.out[1], again ? nullptr : clamp.bounds());
  }, kPieceRows);
  if (again) finish_rows(y, g.n * g.out[0] * g.out[1] * g.out[2], g.o, *then);
}

}  // namespace pdl::PDL_ISA
