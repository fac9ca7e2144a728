// The first half of an inverted bottleneck (Sandler et al., arXiv 1801.04381): a pointwise convolution to many channels, an activation, and
// a depthwise convolution. What lies between is several times as large as what goes in, so no row of it is written to memory: the ring of
// rows that depthwise.h reads is filled by the product.
#pragma once
#include "depthwise.h"
#include "packed.h"

namespace pdl::PDL_ISA {

// Rows of pixels times packed weights, as rows of a ring.
template <class S>
class Expansion {
  using T = Real<S>;

 public:
  // w IN packed rows [inputs, g.c], b IN [g.c] or null; inputs are whole units
  Expansion(const S* x, const S* w, const S* b, int64_t inputs, const Geometry& g, int64_t padded, const Epilogue<S>& then)
      : x_(x), w_(w), g_(g), inputs_(inputs), padded_(padded), panels_((g.c + kPanel<S> - 1) / kPanel<S>), function_(&then), finish_(&then) {
    T* bias = static_cast<T*>(scratch(Slot::kPanelBias, panels_ * kPanel<S> * sizeof(T)));
    for (int64_t c = 0; c < panels_ * kPanel<S>; c++) bias[c] = b == nullptr || c >= g.c ? T(0) : value(b[c]);
    bias_ = bias;
  }

  // to OUT [g.in[2], padded]: row r of image n (of images and depths)
  void row(T* to, int64_t n, int64_t r) const {
    const S* from = x_ + (n * g_.in[1] + r) * g_.in[2] * inputs_;
    const int64_t tile = even_rows(g_.in[2], max_rows<S>(static_cast<int>(min64(g_.c, kPanel<S>))));
    for (int64_t at = 0; at < panels_; at++) {
      const int columns = static_cast<int>(min64(kPanel<S>, g_.c - at * kPanel<S>));
      const S *left = from, *right = w_ + at * kPanel<S> * inputs_;
      Tile<S> t{.a = &left, .b = &right, .batch = 1, .k = inputs_ / kUnit<S>, .a_stride = inputs_,
                .b_stride = panel_width<S>(columns) * kUnit<S>, .c = to + at * kPanel<S>, .c_stride = padded_,
                .bias = bias_ + at * kPanel<S>, .accumulate = false, .bounds = finish_.bounds()};
      t.repeat = g_.in[2] / tile;
      if (t.repeat > 0) tile_kernel<S, false>(static_cast<int>(tile), columns, t);
      const int rest = static_cast<int>(g_.in[2] % tile);
      t.step(t.repeat * tile), t.repeat = 1;
      if (rest > 0) tile_kernel<S, false>(rest, columns, t);
    }
    if (function_.name >= 0 && finish_.bounds() == nullptr) function_.call(to, g_.in[2] * padded_);
  }

 private:
  const S *x_, *w_;
  const T* bias_;
  const Geometry& g_;
  int64_t inputs_, padded_, panels_;
  Function<T> function_;
  RowEpilogue<S> finish_;
};

constexpr int64_t kExpandedRows = 28;  // input rows that a piece of work has at least: those around it are computed twice

// Whether the product may be summed where it is clamped, and the depthwise convolution has a form in registers.
template <class S>
bool expands(int64_t inputs, const Geometry& g) { return sizeof(Real<S>) == 4 && inputs % kUnit<S> == 0 && Depthwise<Real<S>>::covers(g); }

// y = f(depthwise convolution of h(x w + b) with `window` (+ bias)), h and f without residual and statistics.
//   y OUT [n, out..., g.c], x IN [n, in..., inputs], w IN packed rows [inputs, g.c], b, bias IN [g.c] or null, window IN [kernel..., 1, g.c]
template <class S>
void expand_depthwise(S* y, const S* x, const S* w, const S* b, int64_t inputs, const Epilogue<S>& inner, const S* window, const S* bias,
                      const Geometry& g, const Epilogue<S>& then) {
  using T = Real<S>;
  Depthwise<T> d(g);
  d.pack(static_cast<T*>(scratch(Slot::kChannelWeights, d.packed_size() * sizeof(T))), window, bias);
  const Expansion<S> expansion(x, w, b, inputs, g, d.padded, inner);
  const RowEpilogue<S> finish(&then);
  const int64_t row = g.out[2] * g.c, grain = max64(1, kParallelWork / max64(1, row * (inputs + d.taps())));
  parallel(d.images() * g.out[1], grain, [&](int64_t begin, int64_t end) {
    RowRing<T> ring = d.ring_of_inputs();
    ring.place(static_cast<T*>(scratch(Slot::kChannelRows, ring.size() * sizeof(T))));
    for (int64_t r = begin; r < end; r++) {
      const int64_t n = r / g.out[1];
      d.output_row(y + r * row, ring, n, r % g.out[1], [&](int64_t at, T* to) { expansion.row(to, n, at); }, finish.bounds());
      finish(y, r * row, row);
    }
  }, max64(1, kExpandedRows / g.stride[1]));
}

}  // namespace pdl::PDL_ISA
