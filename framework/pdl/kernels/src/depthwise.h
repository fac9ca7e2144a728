// Depthwise convolution (every channel on its own): no matrix product in it, so channels fill the vectors and taps are summed directly.
#pragma once
#include "conv.h"

namespace pdl::PDL_ISA {

// The range of outputs [first, last) along one dimension that read inside the input through tap `offset`.
inline void inside(int64_t offset, int64_t step, int64_t size, int64_t out, int64_t& first, int64_t& last) {
  first = offset >= 0 ? 0 : min64(out, (-offset + step - 1) / step);
  last = offset >= size ? first : max64(first, min64(out, (size - 1 - offset) / step + 1));
}

// to[j, c] = sum over taps of from[j * step + offset, c] w[index, c] (+ bias[c]), for a row of outputs and a vector of channels at a time.
template <class T>
void depthwise_correlate(const Grid<T>& to, const Grid<const T>& from, const Taps* taps, int64_t n, int64_t channels, const T* w,
                         const int64_t* kernel, const T* bias) {
  constexpr int lanes = kLanes<T>, kWide = 8;  // outputs whose sums stay in registers
  const int64_t rows = n * to.size[0] * to.size[1];
  const int64_t work = max64(1, to.size[2] * channels * taps[0].count * taps[1].count * taps[2].count);
  parallel(rows, max64(1, kParallelWork / work), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      const int64_t oh = r % to.size[1], od = r / to.size[1] % to.size[0], image = r / to.size[1] / to.size[0];
      T* out_row = to.data + image * to.stride_n + od * to.stride[0] + oh * to.stride[1];
      for (int64_t c = 0; c < channels; c += lanes) {
        const int64_t here = min64(lanes, channels - c);
        const bool whole = here == lanes;
        const Vec<T> start = bias == nullptr ? Vec<T>{} : whole ? load(bias + c) : load_tail(bias + c, here);
        for (int64_t ow = 0; ow < to.size[2]; ow += kWide) {
          const int64_t wide = min64(kWide, to.size[2] - ow);
          Vec<T> sum[kWide];
          for (int i = 0; i < kWide; i++) sum[i] = start;
          for (int td = 0; td < taps[0].count; td++) {
            const int64_t id = od * taps[0].step + taps[0].offset[td];
            if (id < 0 || id >= from.size[0]) continue;
            for (int th = 0; th < taps[1].count; th++) {
              const int64_t ih = oh * taps[1].step + taps[1].offset[th];
              if (ih < 0 || ih >= from.size[1]) continue;
              const T* row = from.data + image * from.stride_n + id * from.stride[0] + ih * from.stride[1] + c;
              for (int tw = 0; tw < taps[2].count; tw++) {
                const T* weight = w + ((taps[0].index[td] * kernel[1] + taps[1].index[th]) * kernel[2] + taps[2].index[tw]) * channels + c;
                const Vec<T> wv = whole ? load(weight) : load_tail(weight, here);
                int64_t first, last;
                inside(ow * taps[2].step + taps[2].offset[tw], taps[2].step, from.size[2], wide, first, last);
                const T* pixel = row + (ow * taps[2].step + taps[2].offset[tw]) * from.stride[2];
                const int64_t jump = taps[2].step * from.stride[2];
                if (whole && first == 0 && last == kWide) {
#pragma GCC unroll 8
                  for (int i = 0; i < kWide; i++) sum[i] += load(pixel + i * jump) * wv;
                } else {
                  for (int64_t i = first; i < last; i++)
                    sum[i] += (whole ? load(pixel + i * jump) : load_tail(pixel + i * jump, here)) * wv;
                }
              }
            }
          }
          for (int64_t i = 0; i < wide; i++) {
            T* out = out_row + (ow + i) * to.stride[2] + c;
            whole ? store(out, sum[i]) : store_tail(out, sum[i], here);
          }
        }
      }
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

template <class T>
void depthwise_dw(T* dw, const T* x, const T* dy, const Geometry& g) {
  constexpr int lanes = kLanes<T>;
  Taps taps[kDims];
  forward_taps(taps, g);
  const Grid<const T> in = dense(x, g.in, g.c, 0), grad = dense(dy, g.out, g.o, 0);
  const int64_t tap_count = g.kernel[0] * g.kernel[1] * g.kernel[2], total = tap_count * g.c, rows = g.n * g.out[0] * g.out[1];
  const int64_t grain = max64(1, kParallelWork / max64(1, g.out[2] * total));
  const int parts = parts_of(rows, grain);
  T* sums = static_cast<T*>(scratch(5, parts * total * sizeof(T)));
  parallel(rows, grain, [&](int64_t begin, int64_t end, int part) {
    T* mine = sums + part * total;
    memset(mine, 0, total * sizeof(T));
    for (int64_t r = begin; r < end; r++) {
      const int64_t oh = r % g.out[1], od = r / g.out[1] % g.out[0], image = r / g.out[1] / g.out[0];
      const T* grad_row = grad.data + image * grad.stride_n + od * grad.stride[0] + oh * grad.stride[1];
      for (int64_t tap = 0; tap < tap_count; tap++) {
        const int64_t tw = tap % g.kernel[2], th = tap / g.kernel[2] % g.kernel[1], td = tap / g.kernel[2] / g.kernel[1];
        const int64_t id = od * g.stride[0] + taps[0].offset[td], ih = oh * g.stride[1] + taps[1].offset[th];
        if (id < 0 || id >= g.in[0] || ih < 0 || ih >= g.in[1]) continue;
        int64_t first, last;
        inside(taps[2].offset[tw], g.stride[2], g.in[2], g.out[2], first, last);
        const int64_t jump = g.stride[2] * g.c;
        const T* row = in.data + image * in.stride_n + id * in.stride[0] + ih * in.stride[1] + taps[2].offset[tw] * g.c;
        for (int64_t c = 0; c < g.c; c += lanes) {
          const int64_t here = min64(lanes, g.c - c);
          if (here == lanes) {
            Vec<T> a{}, b{};
            int64_t i = first;
            for (; i + 2 <= last; i += 2) {
              a += load(row + i * jump + c) * load(grad_row + i * g.c + c);
              b += load(row + (i + 1) * jump + c) * load(grad_row + (i + 1) * g.c + c);
            }
            if (i < last) a += load(row + i * jump + c) * load(grad_row + i * g.c + c);
            store(mine + tap * g.c + c, load(mine + tap * g.c + c) + a + b);
          } else {
            for (int64_t i = first; i < last; i++)
              for (int64_t j = c; j < g.c; j++) mine[tap * g.c + j] += row[i * jump + j] * grad_row[i * g.c + j];
          }
        }
      }
    }
  });
  add_parts(dw, sums, parts, total);
}

inline bool is_depthwise(const Geometry& g) { return g.groups > 1 && g.groups == g.c && g.c == g.o; }

// The three entries of the table: they pick the form.
template <class T>
void convolution(T* y, const T* x, const T* w, const T* bias, const Geometry& g) {
  is_depthwise(g) ? depthwise_forward(y, x, w, bias, g) : conv_forward(y, x, w, bias, g);
}
template <class T>
void convolution_dx(T* dx, const T* dy, const T* w, const Geometry& g) {
  is_depthwise(g) ? depthwise_dx(dx, dy, w, g) : conv_dx(dx, dy, w, g);
}
template <class T>
void convolution_dw(T* dw, const T* x, const T* dy, const Geometry& g) {
  is_depthwise(g) ? depthwise_dw(dw, x, dy, g) : conv_dw(dw, x, dy, g);
}

}  // namespace pdl::PDL_ISA
