// Elementwise and pooling kernels of quantised nets.
#pragma once
#include "int8.h"

namespace pdl::PDL_ISA::int8 {

constexpr int64_t kStream = 64 * 1024;  // values that are worth a thread

PDL_INT8_INLINE void quantise_run(uint8_t* y, const float* x, int64_t n, float scale, int zero, int low, int high) {
  using I = typename Of<kWide>::I;
  using F = typename Of<kWide>::F;
  using B = typename Of<kWide>::B;
  const float bottom = static_cast<float>(low - zero), top = static_cast<float>(high - zero);
  const F divisor = scale - F{};
  int64_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    const F v = clamped(*reinterpret_cast<const F*>(x + i) / divisor, bottom, top);
    *reinterpret_cast<B*>(y + i) = to_bytes(nearest_bytes<I>(v, zero));
  }
  for (; i < n; i++) y[i] = static_cast<uint8_t>(nearest(clamped(x[i] / scale, bottom, top)) + zero);
}

// y [outer, axis, inner] = round(x / scale) + zero, saturated to [low, high]; scale and zero IN [axis]. y holds the low byte: u8 or s8.
inline void quantise(uint8_t* y, const float* x, const float* scale, const int32_t* zero, int64_t outer, int64_t axis, int64_t inner, int low, int high) {
  if (outer == 1 && axis == 1) {
    parallel(inner, kStream, [&](int64_t begin, int64_t end) { quantise_run(y + begin, x + begin, end - begin, scale[0], zero[0], low, high); });
    return;
  }
  parallel(outer * axis, max64(1, kStream / max64(1, inner)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) quantise_run(y + i * inner, x + i * inner, inner, scale[i % axis], zero[i % axis], low, high);
  });
}

// y [outer, axis, inner] = (q - zero) scale; q holds u8, or s8 where `is_signed`.
inline void dequantise(float* y, const uint8_t* q, const float* scale, const int32_t* zero, int64_t outer, int64_t axis, int64_t inner, bool is_signed) {
  const int flip = is_signed ? 0x80 : 0;  // s8 as u8 with its zero moved by 128
  const auto run = [&](int64_t at, int64_t n, float s, int z) {
    const float shift = static_cast<float>(z + flip);
    for (int64_t i = at; i < at + n; i++) y[i] = (static_cast<float>(q[i] ^ flip) - shift) * s;
  };
  if (outer == 1 && axis == 1) return parallel(inner, kStream, [&](int64_t begin, int64_t end) { run(begin, end - begin, scale[0], zero[0]); });
  parallel(outer * axis, max64(1, kStream / max64(1, inner)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) run(i * inner, inner, scale[i % axis], zero[i % axis]);
  });
}

// y = round((a - a_zero) a_scale + (b - b_zero) b_scale) + zero, clamped; scales are already divided by that of y.
inline void add_bytes(uint8_t* y, const uint8_t* a, const uint8_t* b, int64_t n, int a_zero, float a_scale, int b_zero, float b_scale, int zero,
                      float low, float high) {
  using I = typename Of<kWide>::I;
  using F = typename Of<kWide>::F;
  using B = typename Of<kWide>::B;
  const float az = static_cast<float>(a_zero), bz = static_cast<float>(b_zero);
  parallel(n, kStream, [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kWide <= end; i += kWide) {
      const F left = (to_float(*reinterpret_cast<const B*>(a + i)) - az) * a_scale, right = (to_float(*reinterpret_cast<const B*>(b + i)) - bz) * b_scale;
      *reinterpret_cast<B*>(y + i) = to_bytes(nearest_bytes<I>(clamped(left + right, low, high), zero));
    }
    for (; i < end; i++) {
      const float left = (static_cast<float>(a[i]) - az) * a_scale, right = (static_cast<float>(b[i]) - bz) * b_scale;
      y[i] = static_cast<uint8_t>(nearest(clamped(left + right, low, high)) + zero);
    }
  });
}

// y = table[x]
inline void look_up(uint8_t* y, const uint8_t* x, const uint8_t* table, int64_t n) {
  parallel(n, kStream, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) y[i] = table[x[i]];
  });
}

// The windows of one output cell, as tables: see pooling.h.
template <class F>
PDL_INT8_INLINE void each_window(const PoolGrid& g, int64_t work, const F& body) {
  const int64_t cells = g.to[0] * g.to[1] * g.to[2];
  parallel(g.batch * cells, max64(1, kStream / max64(1, work)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t n = i / cells, d = i % cells / (g.to[1] * g.to[2]), h = i / g.to[2] % g.to[1], w = i % g.to[2];
      body(i, n, d, h, w);
    }
  });
}

template <class F>
PDL_INT8_INLINE void each_cell(const PoolGrid& g, int64_t n, int64_t d, int64_t h, int64_t w, const F& body) {
  for (int64_t z = g.lo[0][d]; z < g.hi[0][d]; z += g.step[0])
    for (int64_t y = g.lo[1][h]; y < g.hi[1][h]; y += g.step[1])
      for (int64_t x = g.lo[2][w]; x < g.hi[2][w]; x += g.step[2]) body((((n * g.from[0] + z) * g.from[1] + y) * g.from[2] + x) * g.channels);
}

inline void max_pool(uint8_t* y, const uint8_t* x, const PoolGrid& g) {
  each_window(g, g.channels * 9, [&](int64_t i, int64_t n, int64_t d, int64_t h, int64_t w) {
    uint8_t* to = y + i * g.channels;
    memset(to, 0, g.channels);
    each_cell(g, n, d, h, w, [&](int64_t at) {
      for (int64_t c = 0; c < g.channels; c++) to[c] = x[at + c] > to[c] ? x[at + c] : to[c];
    });
  });
}

// The mean over each window: sums are exact, the factor (1 / cells, times x's scale over y's, or times x's scale) is the grid's, in double.
inline void avg_pool(const QuantThen& then, const uint8_t* x, int x_zero, float factor, const PoolGrid& g) {
  const int64_t window = g.from[0] * g.from[1] * g.from[2] / max64(1, g.to[0] * g.to[1] * g.to[2]);
  each_window(g, g.channels * max64(1, window), [&](int64_t i, int64_t n, int64_t d, int64_t h, int64_t w) {
    int32_t* sums = static_cast<int32_t*>(scratch(Slot::kByteRows, g.channels * 4));
    memset(sums, 0, g.channels * 4);
    int32_t cells = 0;
    each_cell(g, n, d, h, w, [&](int64_t at) {
      for (int64_t c = 0; c < g.channels; c++) sums[c] += x[at + c];
      cells++;
    });
    const float share = static_cast<float>(g.scale[0][d] * g.scale[1][h] * g.scale[2][w]) * factor;
    for (int64_t c = 0; c < g.channels; c++) leave_one(then, i * g.channels + c, sums[c] - x_zero * cells, share);
  });
}

}  // namespace pdl::PDL_ISA::int8
