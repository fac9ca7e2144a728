// Elementwise and pooling kernels of quantised nets.
#pragma once
#include "int8.h"

namespace pdl::PDL_ISA::int8 {

constexpr int64_t kStream = 64 * 1024;  // values that are worth a thread

// How numbers in units of the result are rounded and clamped, without a sum before them.
PDL_INT8_INLINE QuantThen rounded(uint8_t* y, int zero, float low, float high) {
  return {.y = y, .wide = nullptr, .residual = nullptr, .zero = zero, .residual_zero = 0, .residual_scale = 0, .low = low, .high = high,
          .after = 1, .swish = false};
}

// y[i] = number(i), rounded and clamped, for i in [begin, end): four registers of vector(i) at a time.
template <class Vector, class Number>
PDL_INT8_INLINE void stream(const QuantThen& t, int64_t begin, int64_t end, const Vector& vector, const Number& number) {
  const Rounding r(t);
  int64_t i = begin;
  for (; i + 4 * kWide <= end; i += 4 * kWide)
    in_order4(t.y + i, whole(vector(i), r), whole(vector(i + kWide), r), whole(vector(i + 2 * kWide), r), whole(vector(i + 3 * kWide), r), r);
  for (; i < end; i++) t.y[i] = static_cast<uint8_t>(nearest(clamped(number(i), t.low, t.high)) + t.zero);
}

PDL_INT8_INLINE void quantise_run(uint8_t* y, const float* x, int64_t n, float scale, int zero, int low, int high) {
  using F = typename Of<kWide>::F;
  const int flip = low < 0 ? 128 : 0;  // s8 is u8 with its zero moved by 128
  const QuantThen t = rounded(y, zero + flip, static_cast<float>(low - zero), static_cast<float>(high - zero));
  const F divisor = scale - F{};
  stream(t, 0, n, [&](int64_t i) __attribute__((always_inline)) { return *reinterpret_cast<const F*>(x + i) / divisor; },
         [&](int64_t i) { return x[i] / scale; });
  if (flip != 0)
    for (int64_t i = 0; i < n; i++) y[i] ^= 0x80;
}

// A zero point as it is stored.
PDL_INT8_INLINE int zero_of(const uint8_t* zero, int64_t i, bool is_signed) { return is_signed ? static_cast<int8_t>(zero[i]) : zero[i]; }

// y [outer, axis, inner] = round(x / scale) + zero, saturated to [low, high]; scale and zero IN [axis]. y and zero hold u8 or s8.
inline void quantise(uint8_t* y, const float* x, const float* scale, const uint8_t* zero, int64_t outer, int64_t axis, int64_t inner, int low, int high,
                     bool is_signed) {
  if (outer == 1 && axis == 1) {
    const int point = zero_of(zero, 0, is_signed);
    parallel(inner, kStream, [&](int64_t begin, int64_t end) { quantise_run(y + begin, x + begin, end - begin, scale[0], point, low, high); });
    return;
  }
  parallel(outer * axis, max64(1, kStream / max64(1, inner)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
      quantise_run(y + i * inner, x + i * inner, inner, scale[i % axis], zero_of(zero, i % axis, is_signed), low, high);
  });
}

// y [outer, axis, inner] = (q - zero) scale; q and zero hold u8 or s8.
inline void dequantise(float* y, const uint8_t* q, const float* scale, const uint8_t* zero, int64_t outer, int64_t axis, int64_t inner, bool is_signed) {
  const int flip = is_signed ? 0x80 : 0;  // s8 as u8 with its zero moved by 128
  const auto run = [=](int64_t at, int64_t n, int64_t point) {
    using F = typename Of<kWide>::F;
    const float shift = static_cast<float>(zero_of(zero, point, is_signed) + flip), s = scale[point];
    int64_t i = at;
    if (!is_signed)
      for (; i + kWide <= at + n; i += kWide) *reinterpret_cast<F*>(y + i) = (floats_of<kWide>(q + i) - shift) * s;
    for (; i < at + n; i++) y[i] = (static_cast<float>(q[i] ^ flip) - shift) * s;
  };
  if (outer == 1 && axis == 1) return parallel(inner, kStream, [&](int64_t begin, int64_t end) { run(begin, end - begin, 0); });
  parallel(outer * axis, max64(1, kStream / max64(1, inner)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) run(i * inner, inner, i % axis);
  });
}

// y = round((a - a_zero) a_scale + (b - b_zero) b_scale) + zero, clamped; scales are already divided by that of y.
inline void add_bytes(uint8_t* y, const uint8_t* a, const uint8_t* b, int64_t n, int a_zero, float a_scale, int b_zero, float b_scale, int zero,
                      float low, float high) {
  const float az = static_cast<float>(a_zero), bz = static_cast<float>(b_zero);
  const QuantThen t = rounded(y, zero, low, high);
  parallel(n, kStream, [&](int64_t begin, int64_t end) {
    const auto vector = [=](int64_t i) __attribute__((always_inline)) {
      return (floats_of<kWide>(a + i) - az) * a_scale + (floats_of<kWide>(b + i) - bz) * b_scale;
    };
    const auto number = [=](int64_t i) {
      return (static_cast<float>(a[i]) - az) * a_scale + (static_cast<float>(b[i]) - bz) * b_scale;
    };
    stream(t, begin, end, vector, number);
  });
}

// y = table[x]
inline void look_up(uint8_t* y, const uint8_t* x, const uint8_t* table, int64_t n) {
  parallel(n, kStream, [=](int64_t begin, int64_t end) {
    const uint8_t *of = table, *from = x;  // y may alias what the closure holds, as far as the compiler knows
    uint8_t* to = y;
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      uint8_t eight[8];
#pragma GCC unroll 8
      for (int k = 0; k < 8; k++) eight[k] = of[from[i + k]];
      memcpy(to + i, eight, 8);
    }
    for (; i < end; i++) to[i] = of[from[i]];
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

typedef uint8_t Bytes __attribute__((vector_size(PDL_VECTOR_BYTES), aligned(1), may_alias));

inline void max_pool(uint8_t* y, const uint8_t* x, const PoolGrid& g) {
  each_window(g, g.channels * 9, [&](int64_t i, int64_t n, int64_t d, int64_t h, int64_t w) {
    uint8_t* to = y + i * g.channels;
    memset(to, 0, g.channels);
    each_cell(g, n, d, h, w, [&](int64_t at) {
      const uint8_t* from = x + at;
      int64_t c = 0;
      for (; c + PDL_VECTOR_BYTES <= g.channels; c += PDL_VECTOR_BYTES) {
        Bytes& most = *reinterpret_cast<Bytes*>(to + c);
        const Bytes other = *reinterpret_cast<const Bytes*>(from + c);
        most = other > most ? other : most;
      }
      for (; c < g.channels; c++) to[c] = from[c] > to[c] ? from[c] : to[c];
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
