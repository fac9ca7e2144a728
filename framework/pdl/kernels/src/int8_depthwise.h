// Depthwise convolution of bytes: every channel on its own, so the inputs of a unit are neighbours along the width.
//
// Input rows are kept interleaved: for a chunk of channels and every position, the unit x[p], x[p + d], ... of each channel side by side,
// made once and read by every kernel row. A kernel row of up to kUnit taps is then one instruction for as many channels as a register has lanes.
// Interleaving permutes channels inside a chunk of 4 * lanes (it works within 128 bits), narrowing four registers of sums to bytes permutes
// them back; weights, bias and multipliers are packed in the permuted order.
#pragma once
#include "int8_product.h"

namespace pdl::PDL_ISA::int8 {

inline bool is_depthwise(const Geometry& g) {
  return g.groups > 1 && g.groups == g.c && g.groups == g.o && g.kernel[0] == 1 && g.in[0] == g.out[0] && g.stride[0] == 1 && g.pad[0] == 0;
}

// Channels of the chunk that begins where `left` are left: the narrowest that holds them, at most four registers.
inline int chunk_width(int64_t left) {
  int width = 16;
  while (width < left && width < PDL_VECTOR_BYTES) width *= 2;
  return width;
}
inline int64_t chunked(int64_t channels) { return channels / PDL_VECTOR_BYTES * PDL_VECTOR_BYTES + (channels % PDL_VECTOR_BYTES ? chunk_width(channels % PDL_VECTOR_BYTES) : 0); }

// Where channel c of a chunk stands among its sums: register c % 16 / 4, lane c / 16 * 4 + c % 4.
inline int64_t permuted(int64_t c, int width) { return c % 16 / 4 * (width / 4) + c / 16 * 4 + c % 4; }

// Packed: weights [chunk][kernel row][unit of taps][permuted channel][kUnit], then bias and multipliers [chunk][permuted channel].
struct DepthwiseLayout {
  int64_t units, rows, padded, weight_bytes;
  explicit DepthwiseLayout(const Geometry& g) {
    units = (g.kernel[2] + kUnit - 1) / kUnit, rows = g.kernel[1] * units;
    padded = chunked(g.c), weight_bytes = padded * rows * kUnit;
  }
  int64_t bytes() const { return weight_bytes + padded * 8; }
};

inline void pack_depthwise(int8_t* packed, const int8_t* w, const int32_t* bias, const float* multiplier, int x_zero, const Geometry& g) {
  const DepthwiseLayout l(g);
  memset(packed, 0, l.bytes());
  int32_t* sums = reinterpret_cast<int32_t*>(packed + l.weight_bytes);
  float* factors = reinterpret_cast<float*>(packed + l.weight_bytes + l.padded * 4);
  for (int64_t first = 0, width = 0; first < g.c; first += width) {
    width = chunk_width(g.c - first);
    for (int64_t c = first; c < min64(g.c, first + width); c++) {
      const int64_t at = permuted(c - first, static_cast<int>(width));
      int32_t sum = 0;
      for (int64_t h = 0; h < g.kernel[1]; h++)
        for (int64_t t = 0; t < g.kernel[2]; t++) {
          const int8_t value = w[(h * g.kernel[2] + t) * g.c + c];
          packed[first * l.rows * kUnit + ((h * l.units + t / kUnit) * width + at) * kUnit + t % kUnit] = value, sum += value;
        }
      sums[first + at] = (bias == nullptr ? 0 : bias[c]) - x_zero * sum;
      factors[first + at] = multiplier[c];
    }
  }
}

// to [4 registers] = units of 4 * lanes channels: those of the first tap begin at `from`, those of the next one `tap` bytes on.
#if defined(__x86_64__)
#if defined(__AVX512VNNI__)
#define PDL_INT8_INTERLEAVE(L, V, prefix, zeros) \
  PDL_INT8_INLINE void interleave(Int##L* to, const uint8_t* from, int64_t tap) { \
    V va, vb, vc, vd; \
    memcpy(&va, from, sizeof va), memcpy(&vb, from + tap, sizeof vb); \
    memcpy(&vc, from + 2 * tap, sizeof vc), memcpy(&vd, from + 3 * tap, sizeof vd); \
    const V ab0 = prefix##unpacklo_epi8(va, vb), ab1 = prefix##unpackhi_epi8(va, vb); \
    const V cd0 = prefix##unpacklo_epi8(vc, vd), cd1 = prefix##unpackhi_epi8(vc, vd); \
    to[0] = (Int##L)prefix##unpacklo_epi16(ab0, cd0), to[1] = (Int##L)prefix##unpackhi_epi16(ab0, cd0); \
    to[2] = (Int##L)prefix##unpacklo_epi16(ab1, cd1), to[3] = (Int##L)prefix##unpackhi_epi16(ab1, cd1); \
  }
#else
#define PDL_INT8_INTERLEAVE(L, V, prefix, zeros) \
  PDL_INT8_INLINE void interleave(Int##L* to, const uint8_t* from, int64_t tap) { \
    V va, vb; \
    memcpy(&va, from, sizeof va), memcpy(&vb, from + tap, sizeof vb); \
    const V ab0 = prefix##unpacklo_epi8(va, vb), ab1 = prefix##unpackhi_epi8(va, vb), zero = zeros(); \
    to[0] = (Int##L)prefix##unpacklo_epi8(ab0, zero), to[1] = (Int##L)prefix##unpackhi_epi8(ab0, zero); \
    to[2] = (Int##L)prefix##unpacklo_epi8(ab1, zero), to[3] = (Int##L)prefix##unpackhi_epi8(ab1, zero); \
  }
#endif
PDL_INT8_INTERLEAVE(4, __m128i, _mm_, _mm_setzero_si128)
#if PDL_VECTOR_BYTES >= 32
PDL_INT8_INTERLEAVE(8, __m256i, _mm256_, _mm256_setzero_si256)
#endif
#if PDL_VECTOR_BYTES >= 64
PDL_INT8_INTERLEAVE(16, __m512i, _mm512_, _mm512_setzero_si512)
#endif
#undef PDL_INT8_INTERLEAVE
#else
PDL_INT8_INLINE void interleave(Int4* to, const uint8_t* from, int64_t tap) {
  Input inputs[16 * kUnit];
  for (int i = 0; i < 16; i++)
    for (int t = 0; t < kUnit; t++) inputs[kUnit * i + t] = from[i + t * tap];
  memcpy(to, inputs, sizeof inputs);
}
#endif

// Rows of one chunk of channels, interleaved.
struct Interleaved {
  const Geometry& g;
  int64_t step, positions, shift, width;  // input pixels between positions; positions of a row; positions between units of taps; channels
  uint8_t *line, *rows;
  int64_t line_pixels, slots, next;

  Interleaved(const Geometry& geometry, const DepthwiseLayout& l) : g(geometry), width(0), next(0) {
    const int64_t apart = kUnit * g.dilation[2];  // pixels between units of taps
    step = l.units == 1 || apart % g.stride[2] == 0 ? g.stride[2] : 1;
    shift = apart / step;
    positions = (g.out[2] - 1) * (g.stride[2] / step) + 1 + (l.units - 1) * shift;
    line_pixels = (positions - 1) * step + (kUnit - 1) * g.dilation[2] + 1;
    slots = (g.kernel[1] - 1) * g.dilation[1] + g.stride[1];
    line = static_cast<uint8_t*>(scratch(Slot::kByteRows, (line_pixels + slots * positions * 4) * PDL_VECTOR_BYTES));
    rows = line + line_pixels * PDL_VECTOR_BYTES;
  }
  uint8_t* row(int64_t r) const { return rows + (r + g.pad[1]) % slots * positions * 4 * width; }

  template <int L>
  void make(const uint8_t* x, int64_t r, int64_t channels, int zero) const {
    const int64_t left = min64(line_pixels, g.pad[2]), right = max64(left, min64(line_pixels, g.in[2] + left));
    const bool outside = r < 0 || r >= g.in[1];
    memset(line, zero, (outside ? line_pixels : left) * width);
    if (!outside) {
      for (int64_t i = left; i < right; i++) {
        const uint8_t* from = x + (r * g.in[2] + i - left) * g.c;
        if (channels == 4 * L) memcpy(line + i * width, from, 4 * L);
        else memcpy(line + i * width, from, channels);
      }
      memset(line + right * width, zero, (line_pixels - right) * width);
    }
    const int64_t next_tap = g.dilation[2] * width;
    uint8_t* to = row(r);
    for (int64_t p = 0; p < positions; p++, to += 16 * L) {
      typename Of<L>::I made[4];
      interleave(made, line + p * step * width, next_tap);
      memcpy(to, made, sizeof made);
    }
  }
};

// P pixels of a chunk, `x_step` bytes of units apart: kRows rows of units of taps where that is known, else `some`.
//   x IN [rows] interleaved positions, w IN [rows][4 registers], sum OUT [P][4 registers]
template <int L, int kRows, int P>
PDL_INT8_INLINE void sum_taps(typename Of<L>::I* sum, const uint8_t* const* x, int64_t offset, int64_t x_step, const int8_t* w, const int32_t* bias,
                              int64_t some) {
  using I = typename Of<L>::I;
  const int64_t count = kRows ? kRows : some;
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) {
    I acc[P];
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) acc[p] = *reinterpret_cast<const I*>(bias + v * L);
#pragma GCC unroll 6
    for (int64_t r = 0; r < count; r++) {
      const I taps = weights<I>(w + (r * 4 + v) * L * kUnit);
      const uint8_t* from = x[r] + offset + v * 4 * L;
#pragma GCC unroll 4
      for (int p = 0; p < P; p++) acc[p] = dot(acc[p], *reinterpret_cast<const I*>(from + p * x_step), taps), in_this_order(acc[p]);
    }
#pragma GCC unroll 4
    for (int p = 0; p < P; p++) sum[p * 4 + v] = acc[p];
  }
}

// Stores the sums of one pixel: `plain` ones are bytes without a residual.
template <int L>
PDL_INT8_INLINE void leave_pixel(const QuantThen& t, const Rounding& r, bool plain, typename Of<L>::I* sum, const float* multiplier,
                                 int64_t channels, int64_t at) {
  using F = typename Of<L>::F;
  if (!plain) {
    alignas(64) int32_t sums[4 * L];
    memcpy(sums, sum, sizeof sums);
    for (int64_t c = 0; c < channels; c++) {
      const int64_t p = permuted(c, 4 * L);
      leave_one(t, at + c, sums[p], multiplier[p]);
    }
    return;
  }
#pragma GCC unroll 4
  for (int v = 0; v < 4; v++) {
    F value = to_float(sum[v]) * *reinterpret_cast<const F*>(multiplier + v * L);
    if (t.swish) value = swish(value, t.after);
    sum[v] = whole(value, r);
  }
  const auto bytes = narrow4(sum[0], sum[1], sum[2], sum[3], r);
  if (channels == 4 * L) memcpy(t.y + at, &bytes, 4 * L);
  else memcpy(t.y + at, &bytes, channels);
}

template <int L, int kRows>
void depthwise_pixels(const QuantThen& then, const uint8_t* const* x, int64_t x_step, int64_t pixels, const int8_t* w, const int32_t* bias,
                      const float* multiplier, int64_t some, int64_t channels, int64_t at, int64_t step) {
  constexpr int P = 4;
  const QuantThen t = then;
  const Rounding r(t);
  const bool plain = t.residual == nullptr && t.y != nullptr;
  typename Of<L>::I sum[P * 4];
  int64_t i = 0;
  for (; i + P <= pixels; i += P) {
    sum_taps<L, kRows, P>(sum, x, i * x_step, x_step, w, bias, some);
    for (int p = 0; p < P; p++) leave_pixel<L>(t, r, plain, sum + p * 4, multiplier, channels, at + (i + p) * step);
  }
  for (; i < pixels; i++) {
    sum_taps<L, kRows, 1>(sum, x, i * x_step, x_step, w, bias, some);
    leave_pixel<L>(t, r, plain, sum, multiplier, channels, at + i * step);
  }
}

// Output rows [row0, row1) of image n and the channels of one chunk.
template <int L>
void depthwise_rows(const QuantThen& then, const uint8_t* x, int x_zero, const int8_t* packed, const Geometry& g, const DepthwiseLayout& l,
                    Interleaved& input, int64_t n, int64_t first, int64_t row0, int64_t row1) {
  const int64_t channels = min64(4 * L, g.c - first), reach = (g.kernel[1] - 1) * g.dilation[1];
  const int8_t* w = packed + first * l.rows * kUnit;
  const int32_t* bias = reinterpret_cast<const int32_t*>(packed + l.weight_bytes) + first;
  const float* multiplier = reinterpret_cast<const float*>(packed + l.weight_bytes + l.padded * 4) + first;
  const uint8_t** rows = static_cast<const uint8_t**>(scratch(Slot::kBytePointers, l.rows * sizeof(uint8_t*)));
  const uint8_t* from = x + n * g.in[1] * g.in[2] * g.c + first;
  input.width = 4 * L, input.next = row0 * g.stride[1] - g.pad[1];
  const int64_t x_step = g.stride[2] / input.step * 16 * L;
  for (int64_t oh = row0; oh < row1; oh++) {
    const int64_t low = oh * g.stride[1] - g.pad[1];
    if (input.next < low) input.next = low;
    for (; input.next <= low + reach; input.next++) input.make<L>(from, input.next, channels, x_zero);
    int64_t k = 0;
    for (int64_t h = 0; h < g.kernel[1]; h++)
      for (int64_t t = 0; t < l.units; t++) rows[k++] = input.row(low + h * g.dilation[1]) + t * input.shift * 16 * L;
    const int64_t at = ((n * g.out[1] + oh) * g.out[2]) * g.o + first;
    constexpr int usual = 3 * ((3 + kUnit - 1) / kUnit);  // of 3 x 3 taps
    if (l.rows == usual) depthwise_pixels<L, usual>(then, rows, x_step, g.out[2], w, bias, multiplier, usual, channels, at, g.o);
    else depthwise_pixels<L, 0>(then, rows, x_step, g.out[2], w, bias, multiplier, l.rows, channels, at, g.o);
  }
}

inline void depthwise(const QuantThen& then, const uint8_t* x, int x_zero, const int8_t* packed, const Geometry& g) {
  const DepthwiseLayout l(g);
  const int64_t chunks = (g.c + PDL_VECTOR_BYTES - 1) / PDL_VECTOR_BYTES, planes = g.n * g.in[0] * chunks, wanted = 2 * num_threads();
  const int64_t pieces = planes >= wanted ? 1 : min64(g.out[1], (wanted + planes - 1) / planes), items = planes * pieces;
  Geometry flat = g;
  flat.n = g.n * g.in[0];
  const int64_t each = g.out[1] * g.out[2] * l.rows * kUnit * PDL_VECTOR_BYTES / pieces;
  parallel(items, max64(1, kWork / max64(1, each)), [&](int64_t begin, int64_t end) {
    Interleaved input(flat, l);
    for (int64_t i = begin; i < end; i++) {
      const int64_t piece = i % pieces, plane = i / pieces, n = plane / chunks, first = plane % chunks * PDL_VECTOR_BYTES;
      const int64_t row0 = g.out[1] * piece / pieces, row1 = g.out[1] * (piece + 1) / pieces;
      const int width = chunk_width(g.c - first);
#if PDL_VECTOR_BYTES >= 64
      if (width == 64) depthwise_rows<16>(then, x, x_zero, packed, flat, l, input, n, first, row0, row1);
#endif
#if PDL_VECTOR_BYTES >= 32
      if (width == 32) depthwise_rows<8>(then, x, x_zero, packed, flat, l, input, n, first, row0, row1);
#endif
      if (width == 16) depthwise_rows<4>(then, x, x_zero, packed, flat, l, input, n, first, row0, row1);
    }
  });
}

}  // namespace pdl::PDL_ISA::int8
