// Depthwise convolution (every channel on its own): no matrix product in it, so channels fill the vectors and taps are summed directly.
#pragma once
#include "conv_dw.h"
#include "winograd.h"

namespace pdl::PDL_ISA {

// The outputs [begin, end) along one dimension all of whose taps lie inside the input.
struct Safe {
  int64_t begin, end;

  Safe(const Taps& taps, int64_t out, int64_t in) {
    begin = taps.lowest() >= 0 ? 0 : min64(out, (-taps.lowest() + taps.step - 1) / taps.step);
    const int64_t room = in - taps.lowest() - taps.span();
    end = room < 0 ? begin : max64(begin, min64(out, room / taps.step + 1));
  }
};

// Outputs per piece of a row: all channels of a piece are done before the next, so that its pixels come from the first-level cache.
template <class T>
inline int64_t piece_of(const Taps* taps, int64_t channels) {
  constexpr int64_t kPieceBytes = 16 * 1024;
  return max64(12, kPieceBytes / static_cast<int64_t>(sizeof(T)) / max64(1, channels * taps[1].count * taps[2].step) / 12 * 12);
}

// Sums of one vector of channels over a row of outputs, all of whose taps lie inside the input; kWindow taps at consecutive pixels.
// Every pixel is loaded once and serves all outputs it belongs to; the sums and the weights stay in registers.
//   out OUT [outputs] at out_step, rows IN [count] first pixel of every tap row, weights IN [count] first of kWindow taps, `tap` apart
template <class T>
struct DepthwiseRow {
  T* out;
  int64_t out_step, outputs;
  const T* const* rows;
  const T* const* weights;
  int count;
  int64_t pixel, tap;
};

template <class T, int kWindow, int kStep, int kWide>
inline void depthwise_some(const DepthwiseRow<T>& r, int64_t at, Vec<T> start) {
  Vec<T> sum[kWide];
#pragma GCC unroll 8
  for (int i = 0; i < kWide; i++) sum[i] = start;
  for (int row = 0; row < r.count; row++) {
    const T* x = r.rows[row] + at * kStep * r.pixel;
    Vec<T> w[kWindow];
#pragma GCC unroll 8
    for (int t = 0; t < kWindow; t++) w[t] = load(r.weights[row] + t * r.tap);
#pragma GCC unroll 32
    for (int p = 0; p < (kWide - 1) * kStep + kWindow; p++) {
      const Vec<T> v = load(x + p * r.pixel);
#pragma GCC unroll 8
      for (int t = 0; t < kWindow; t++)
        if (p >= t && (p - t) % kStep == 0 && (p - t) / kStep < kWide) sum[(p - t) / kStep] += v * w[t];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kWide; i++) store(r.out + (at + i) * r.out_step, sum[i]);
}

template <class T, int kWindow, int kStep>
void depthwise_row(const DepthwiseRow<T>& r, Vec<T> start) {
  int64_t at = 0;
  for (; at + 6 <= r.outputs; at += 6) depthwise_some<T, kWindow, kStep, 6>(r, at, start);
  for (; at + 3 <= r.outputs; at += 3) depthwise_some<T, kWindow, kStep, 3>(r, at, start);
  for (; at < r.outputs; at++) depthwise_some<T, kWindow, kStep, 1>(r, at, start);
}

// The form for a window of `count` consecutive taps, or null where there is none and the general path has to do.
template <class T, int kStep>
auto depthwise_row_of(int count) -> void (*)(const DepthwiseRow<T>&, Vec<T>) {
  switch (count) {
    case 1: return depthwise_row<T, 1, kStep>;
    case 2: return depthwise_row<T, 2, kStep>;
    case 3: return depthwise_row<T, 3, kStep>;
    case 4: return depthwise_row<T, 4, kStep>;
    case 5: return depthwise_row<T, 5, kStep>;
    case 7: return depthwise_row<T, 7, kStep>;
  }
  return nullptr;
}

// `here` channels from `c` of one output pixel at the edge (or, without a fast form, any): the taps that lie inside, one by one.
template <class T>
inline void depthwise_pixel(T* out, int64_t ow, const Taps& taps, const Grid<const T>& from, const T* const* rows, const T* const* weights,
                            int count, int64_t channels, int64_t c, int64_t here, Vec<T> start) {
  const bool whole = here == kLanes<T>;
  for (int tw = 0; tw < taps.count; tw++) {
    const int64_t iw = ow * taps.step + taps.offset[tw];
    if (iw < 0 || iw >= from.size[2]) continue;
    for (int row = 0; row < count; row++) {
      const T *x = rows[row] + iw * from.stride[2] + c, *w = weights[row] + taps.index[tw] * channels + c;
      start += (whole ? load(x) : load_tail(x, here)) * (whole ? load(w) : load_tail(w, here));
    }
  }
  whole ? store(out, start) : store_tail(out, start, here);
}

// to[j, c] = sum over taps of from[j * step + offset, c] w[index, c] (+ bias[c]), for a row of outputs and a vector of channels at a time.
template <class T>
void depthwise_correlate(const Grid<T>& to, const Grid<const T>& from, const Taps* taps, int64_t n, int64_t channels, const T* w,
                         const int64_t* kernel, const T* bias) {
  constexpr int lanes = kLanes<T>;
  const Taps& wide = taps[2];
  const int64_t rows = n * to.size[0] * to.size[1];
  const int64_t work = max64(1, to.size[2] * channels * taps[0].count * taps[1].count * wide.count);
  const Safe safe(wide, to.size[2], from.size[2]);
  const auto fast = !wide.consecutive() ? nullptr : wide.step == 1 ? depthwise_row_of<T, 1>(wide.count)
                                                  : wide.step == 2 ? depthwise_row_of<T, 2>(wide.count) : nullptr;
  const int64_t tap = wide.count > 1 ? (wide.index[1] - wide.index[0]) * channels : channels;
  const int most = taps[0].count * taps[1].count;
  const int64_t whole = channels / lanes * lanes, piece = piece_of<T>(taps, channels);
  parallel(rows, max64(1, kParallelWork / work), [&](int64_t begin, int64_t end, int) {
    const T** x_rows = static_cast<const T**>(scratch(4, 4 * max64(1, most) * sizeof(T*)));
    const T **w_rows = x_rows + most, **x_here = w_rows + most, **w_here = x_here + most;
    for (int64_t r = begin; r < end; r++) {
      const int64_t oh = r % to.size[1], od = r / to.size[1] % to.size[0], image = r / to.size[1] / to.size[0];
      T* out_row = to.data + image * to.stride_n + od * to.stride[0] + oh * to.stride[1];
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
      const auto edge = [&](int64_t first, int64_t last) {
        for (int64_t ow = first; ow < last; ow++)
          for (int64_t c = 0; c < channels; c += lanes) {
            const int64_t here = min64(lanes, channels - c);
            const Vec<T> start = bias == nullptr ? Vec<T>{} : here == lanes ? load(bias + c) : load_tail(bias + c, here);
            depthwise_pixel<T>(out_row + ow * to.stride[2] + c, ow, wide, from, x_rows, w_rows, count, channels, c, here, start);
          }
      };
      if (fast == nullptr || safe.begin == safe.end) {
        edge(0, to.size[2]);
        continue;
      }
      edge(0, safe.begin);
      for (int64_t ow = safe.begin; ow < safe.end; ow += piece) {
        const int64_t outputs = min64(piece, safe.end - ow);
        for (int64_t c = 0; c < whole; c += lanes) {
          for (int i = 0; i < count; i++) {
            x_here[i] = x_rows[i] + (ow * wide.step + wide.lowest()) * from.stride[2] + c;
            w_here[i] = w_rows[i] + wide.index[0] * channels + c;
          }
          fast({out_row + ow * to.stride[2] + c, to.stride[2], outputs, x_here, w_here, count, from.stride[2], tap},
               bias == nullptr ? Vec<T>{} : load(bias + c));
        }
        for (int64_t i = ow; whole < channels && i < ow + outputs; i++)
          depthwise_pixel<T>(out_row + i * to.stride[2] + whole, i, wide, from, x_rows, w_rows, count, channels, whole, channels - whole,
                             bias == nullptr ? Vec<T>{} : load_tail(bias + whole, channels - whole));
      }
      edge(safe.end, to.size[2]);
    }
  });
}

template <class T>
void depthwise_forward(T* y, const T* x, const T* w, const T* bias, const Geometry& g) {
  Taps taps[kDims];
  forward_taps(taps, g);
  depthwise_correlate<T>(dense(y, g.out, g.o, 0), dense(x, g.in, g.c, 0), taps, g.n, g.c, w, g.kernel, bias);
}

template <class T>
void depthwise_dx(T* dx, const T* dy, const T* w, const Geometry& g) {
  each_phase(g, [&](const Taps* taps, const int64_t* at) {
    depthwise_correlate<T>(phase_grid(dx, g, at, g.c, 0), dense(dy, g.out, g.o, 0), taps, g.n, g.c, w, g.kernel,
                           static_cast<const T*>(nullptr));
  });
}

// sums[t * tap] += sum over outputs of x[j * kStep + t] g[j], one vector of channels: kWindow sums in registers, twice, so that
// consecutive outputs do not wait for each other.   x IN pixels `pixel` apart, g IN outputs `g_step` apart
template <class T, int kWindow, int kStep>
void depthwise_dw_row(T* sums, int64_t tap, const T* x, int64_t pixel, const T* g, int64_t g_step, int64_t outputs) {
  constexpr int kWide = 4;
  Vec<T> sum[2][kWindow] = {};
  int64_t at = 0;
  for (; at + kWide <= outputs; at += kWide, x += kWide * kStep * pixel, g += kWide * g_step) {
    Vec<T> d[kWide];
#pragma GCC unroll 4
    for (int i = 0; i < kWide; i++) d[i] = load(g + i * g_step);
#pragma GCC unroll 16
    for (int p = 0; p < (kWide - 1) * kStep + kWindow; p++) {
      const Vec<T> v = load(x + p * pixel);
#pragma GCC unroll 8
      for (int t = 0; t < kWindow; t++)
        if (p >= t && (p - t) % kStep == 0 && (p - t) / kStep < kWide) sum[(p - t) / kStep % 2][t] += v * d[(p - t) / kStep];
    }
  }
  for (; at < outputs; at++, x += kStep * pixel, g += g_step) {
    const Vec<T> d = load(g);
#pragma GCC unroll 8
    for (int t = 0; t < kWindow; t++) sum[0][t] += load(x + t * pixel) * d;
  }
#pragma GCC unroll 8
  for (int t = 0; t < kWindow; t++) store(sums + t * tap, load(sums + t * tap) + (sum[0][t] + sum[1][t]));
}

template <class T, int kStep>
auto depthwise_dw_row_of(int count) -> void (*)(T*, int64_t, const T*, int64_t, const T*, int64_t, int64_t) {
  switch (count) {
    case 1: return depthwise_dw_row<T, 1, kStep>;
    case 2: return depthwise_dw_row<T, 2, kStep>;
    case 3: return depthwise_dw_row<T, 3, kStep>;
    case 4: return depthwise_dw_row<T, 4, kStep>;
    case 5: return depthwise_dw_row<T, 5, kStep>;
    case 7: return depthwise_dw_row<T, 7, kStep>;
  }
  return nullptr;
}

// What one output pixel adds to the sums, tap by tap, where it lies inside.
template <class T>
inline void depthwise_dw_pixel(T* sums, int64_t ow, const Taps& taps, const Grid<const T>& in, const T* row, const T* g, int64_t channels,
                               int64_t here) {
  for (int tw = 0; tw < taps.count; tw++) {
    const int64_t iw = ow * taps.step + taps.offset[tw];
    if (iw < 0 || iw >= in.size[2]) continue;
    T* sum = sums + tw * channels;
    const T* x = row + iw * in.stride[2];
    if (here == kLanes<T>) store(sum, load(sum) + load(x) * load(g));
    else store_tail(sum, load_tail(sum, here) + load_tail(x, here) * load_tail(g, here), here);
  }
}

template <class T>
void depthwise_dw(T* dw, const T* x, const T* dy, const Geometry& g) {
  constexpr int lanes = kLanes<T>;
  Taps taps[kDims];
  forward_taps(taps, g);
  const Grid<const T> in = dense(x, g.in, g.c, 0), grad = dense(dy, g.out, g.o, 0);
  const int64_t row_sums = g.kernel[2] * g.c, total = g.kernel[0] * g.kernel[1] * row_sums, rows = g.n * g.out[0] * g.out[1];
  const int64_t grain = max64(1, kParallelWork / max64(1, g.out[2] * total));
  const int parts = parts_of(rows, grain);
  const Safe safe(taps[2], g.out[2], in.size[2]);
  const auto fast = !taps[2].consecutive() ? nullptr : taps[2].step == 1 ? depthwise_dw_row_of<T, 1>(taps[2].count)
                                                     : taps[2].step == 2 ? depthwise_dw_row_of<T, 2>(taps[2].count) : nullptr;
  const int64_t whole = g.c / lanes * lanes, piece = piece_of<T>(taps, g.c);
  T* sums = static_cast<T*>(scratch(5, parts * total * sizeof(T)));
  parallel(rows, grain, [&](int64_t begin, int64_t end, int part) {
    T* mine = sums + part * total;
    memset(mine, 0, total * sizeof(T));
    for (int64_t r = begin; r < end; r++) {
      const int64_t oh = r % g.out[1], od = r / g.out[1] % g.out[0], image = r / g.out[1] / g.out[0];
      const T* grad_row = grad.data + image * grad.stride_n + od * grad.stride[0] + oh * grad.stride[1];
      for (int64_t tap = 0; tap < g.kernel[0] * g.kernel[1]; tap++) {
        const int64_t id = od * g.stride[0] + taps[0].offset[tap / g.kernel[1]], ih = oh * g.stride[1] + taps[1].offset[tap % g.kernel[1]];
        if (id < 0 || id >= g.in[0] || ih < 0 || ih >= g.in[1]) continue;
        const T* row = in.data + image * in.stride_n + id * in.stride[0] + ih * in.stride[1];
        const auto pixels = [&](int64_t first, int64_t last, int64_t from_channel) {
          for (int64_t ow = first; ow < last; ow++)
            for (int64_t c = from_channel; c < g.c; c += lanes)
              depthwise_dw_pixel<T>(mine + tap * row_sums + c, ow, taps[2], in, row + c, grad_row + ow * g.c + c, g.c, min64(lanes, g.c - c));
        };
        if (fast == nullptr || safe.begin == safe.end) {
          pixels(0, g.out[2], 0);
          continue;
        }
        pixels(0, safe.begin, 0);
        for (int64_t ow = safe.begin; ow < safe.end; ow += piece) {
          const int64_t outputs = min64(piece, safe.end - ow);
          for (int64_t c = 0; c < whole; c += lanes)
            fast(mine + tap * row_sums + c, g.c, row + (ow * taps[2].step + taps[2].lowest()) * g.c + c, g.c, grad_row + ow * g.c + c, g.c,
                 outputs);
          pixels(ow, ow + outputs, whole);
        }
        pixels(safe.end, g.out[2], 0);
      }
    }
  });
  add_parts(dw, sums, parts, total);
}

inline bool is_depthwise(const Geometry& g) { return g.groups > 1 && g.groups == g.c && g.c == g.o; }

// The three entries of the table: they pick the form.
template <class T>
void convolution(T* y, const T* x, const T* w, const T* bias, const Geometry& g) {
  if (is_depthwise(g)) return depthwise_forward(y, x, w, bias, g);
  if constexpr (sizeof(T) == 4)
    if (winograd::fits<T>(g)) return winograd::forward(y, x, w, bias, g);
  conv_forward(y, x, w, bias, g);
}
template <class T>
void convolution_dx(T* dx, const T* dy, const T* w, const Geometry& g) {
  if (is_depthwise(g)) return depthwise_dx(dx, dy, w, g);
  if constexpr (sizeof(T) == 4)
    if (winograd::fits<T>(g)) return winograd::dx(dx, dy, w, g);
  conv_dx(dx, dy, w, g);
}
template <class T>
void convolution_dw(T* dw, Real<T>* wide, const T* x, const T* dy, const Geometry& g) {
  if (is_depthwise(g)) return depthwise_dw(dw, x, dy, g);
  if constexpr (sizeof(T) == 4)
    if (winograd::fits<T>(g)) return winograd::dw(dw, wide, x, dy, g);
  conv_dw(dw, wide, x, dy, g);
}

}  // namespace pdl::PDL_ISA
