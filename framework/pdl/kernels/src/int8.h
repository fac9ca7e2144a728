// The arithmetic of quantised nets, the same integers on every instruction set.
//
// Activations are bytes q in [0, 255] that stand for scale (q - zero); weights are bytes in [-127, 127], with one scale for each output. A
// sum of products is exact in int32: by VNNI's vpdpbusd where there is one, elsewhere by products of 16-bit numbers (never vpmaddubsw, which
// saturates). Results are then scaled in float, clamped, rounded half to even and stored as bytes. This file is compiled without contraction of
// a * b + c, so that these floats too have the same bits everywhere, and in NumPy.
#pragma once
#include "table.h"
#include "vec.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pdl::PDL_ISA::int8 {

#define PDL_INT8_INLINE inline __attribute__((always_inline))

// Vectors of L lanes. GCC converts vectors only where their type depends on no template.
#define PDL_INT8_LANES(L) \
  typedef int32_t Int##L __attribute__((vector_size(L * 4), aligned(4), may_alias)); \
  typedef float Float##L __attribute__((vector_size(L * 4), aligned(4), may_alias)); \
  typedef uint8_t Byte##L __attribute__((vector_size(L), aligned(1), may_alias)); \
  PDL_INT8_INLINE Float##L to_float(Int##L v) { return __builtin_convertvector(v, Float##L); } \
  PDL_INT8_INLINE Float##L to_float(Byte##L v) { return __builtin_convertvector(__builtin_convertvector(v, Int##L), Float##L); } \
  PDL_INT8_INLINE Byte##L to_bytes(Int##L v) { return __builtin_convertvector(v, Byte##L); }
PDL_INT8_LANES(4)
PDL_INT8_LANES(8)
PDL_INT8_LANES(16)
#undef PDL_INT8_LANES

template <int L>
struct Of;
template <>
struct Of<4> { using I = Int4; using F = Float4; using B = Byte4; };
template <>
struct Of<8> { using I = Int8; using F = Float8; using B = Byte8; };
template <>
struct Of<16> { using I = Int16; using F = Float16; using B = Byte16; };

constexpr int kWide = kLanes<float>;
constexpr int64_t kWork = 192 * 1024;  // multiply-adds below which one more thread does not pay

// A lane of A is four bytes of one pixel, a lane of B the four weights of one output that belong to them.
#if defined(__AVX512VNNI__)
PDL_INT8_INLINE Int16 dot(Int16 sum, Int16 a, Int16 b) { return (Int16)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b); }
PDL_INT8_INLINE Int8 dot(Int8 sum, Int8 a, Int8 b) { return (Int8)_mm256_dpbusd_epi32((__m256i)sum, (__m256i)a, (__m256i)b); }
PDL_INT8_INLINE Int4 dot(Int4 sum, Int4 a, Int4 b) { return (Int4)_mm_dpbusd_epi32((__m128i)sum, (__m128i)a, (__m128i)b); }
template <class I>
struct Left {
  I value;
  PDL_INT8_INLINE explicit Left(I raw) : value(raw) {}
};
template <class I>
struct Right {
  I value;
  PDL_INT8_INLINE Right() {}
  PDL_INT8_INLINE explicit Right(I raw) : value(raw) {}
};
template <class I>
PDL_INT8_INLINE void add(I& sum, const Left<I>& a, const Right<I>& b) { sum = dot(sum, a.value, b.value); }
#elif defined(__x86_64__)
#if defined(__AVX512BW__)
PDL_INT8_INLINE Int16 pairs(Int16 a, Int16 b) { return (Int16)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
PDL_INT8_INLINE Int16 sign_low(Int16 b) { return (Int16)_mm512_srai_epi16(_mm512_slli_epi16((__m512i)b, 8), 8); }
PDL_INT8_INLINE Int16 sign_high(Int16 b) { return (Int16)_mm512_srai_epi16((__m512i)b, 8); }
#endif
#if defined(__AVX2__)
PDL_INT8_INLINE Int8 pairs(Int8 a, Int8 b) { return (Int8)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
PDL_INT8_INLINE Int8 sign_low(Int8 b) { return (Int8)_mm256_srai_epi16(_mm256_slli_epi16((__m256i)b, 8), 8); }
PDL_INT8_INLINE Int8 sign_high(Int8 b) { return (Int8)_mm256_srai_epi16((__m256i)b, 8); }
#endif
PDL_INT8_INLINE Int4 pairs(Int4 a, Int4 b) { return (Int4)_mm_madd_epi16((__m128i)a, (__m128i)b); }
PDL_INT8_INLINE Int4 sign_low(Int4 b) { return (Int4)_mm_srai_epi16(_mm_slli_epi16((__m128i)b, 8), 8); }
PDL_INT8_INLINE Int4 sign_high(Int4 b) { return (Int4)_mm_srai_epi16((__m128i)b, 8); }
// Bytes 0 and 2, and bytes 1 and 3, as 16-bit numbers.
template <class I>
struct Left {
  I even, odd;
  PDL_INT8_INLINE explicit Left(I raw) : even(raw & 0x00ff00ff), odd((raw >> 8) & 0x00ff00ff) {}
};
template <class I>
struct Right {
  I even, odd;
  PDL_INT8_INLINE Right() {}
  PDL_INT8_INLINE explicit Right(I raw) : even(sign_low(raw)), odd(sign_high(raw)) {}
};
template <class I>
PDL_INT8_INLINE void add(I& sum, const Left<I>& a, const Right<I>& b) { sum += pairs(a.even, b.even), sum += pairs(a.odd, b.odd); }
#else
template <class I>
struct Left {
  I value;
  PDL_INT8_INLINE explicit Left(I raw) : value(raw) {}
};
template <class I>
struct Right {
  I value;
  PDL_INT8_INLINE Right() {}
  PDL_INT8_INLINE explicit Right(I raw) : value(raw) {}
};
template <class I>
PDL_INT8_INLINE void add(I& sum, const Left<I>& a, const Right<I>& b) {
#pragma GCC unroll 4
  for (int byte = 0; byte < 4; byte++) sum += ((a.value >> (8 * byte)) & 0xff) * ((b.value << (24 - 8 * byte)) >> 24);
}
#endif

// v within [low, high]; NaN becomes low.
template <class F>
PDL_INT8_INLINE F clamped(F v, float low, float high) {
  const F l = low - F{}, h = high - F{};
  v = v > l ? v : l;
  return v < h ? v : h;
}
PDL_INT8_INLINE float clamped(float v, float low, float high) { v = v > low ? v : low; return v < high ? v : high; }

// The integer nearest to v, halves to even, for |v| < 2^22: the sum's last bit is worth 1.
constexpr float kMagic = 12582912.0f;
constexpr int32_t kMagicBits = 0x4b400000;
PDL_INT8_INLINE int32_t nearest(float v) {
  v += kMagic;
  int32_t bits;
  memcpy(&bits, &v, 4);
  return bits - kMagicBits;
}
template <class I, class F>
PDL_INT8_INLINE I nearest_bytes(F v, int zero) { return (I)(v + kMagic) + (zero - kMagicBits); }

// hardswish of v, times a factor
template <class F>
PDL_INT8_INLINE F swish(F v, float after) { return v * clamped(v * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f) * after; }

// What is stored for a scaled sum, where nothing is added to it: one value.
PDL_INT8_INLINE void leave_one(const QuantThen& t, int64_t at, int32_t sum, float multiplier) {
  float v = static_cast<float>(sum) * multiplier;
  if (t.residual != nullptr) v += static_cast<float>(t.residual[at] - t.residual_zero) * t.residual_scale;
  if (t.swish) v = swish(v, t.after);
  v = clamped(v, t.low, t.high);
  if (t.y != nullptr) t.y[at] = static_cast<uint8_t>(nearest(v) + t.zero);
  else t.wide[at] = v;
}

// Values of L lanes, of which `count` are stored.
template <int L>
PDL_INT8_INLINE void leave(const QuantThen& t, int64_t at, typename Of<L>::I sum, typename Of<L>::F multiplier, int count) {
  using I = typename Of<L>::I;
  using F = typename Of<L>::F;
  using B = typename Of<L>::B;
  F v = to_float(sum) * multiplier;
  if (t.residual != nullptr) {
    B r{};
    if (count >= L) r = *reinterpret_cast<const B*>(t.residual + at);
    else memcpy(&r, t.residual + at, count);
    v += (to_float(r) - static_cast<float>(t.residual_zero)) * t.residual_scale;
  }
  if (t.swish) v = swish(v, t.after);
  v = clamped(v, t.low, t.high);
  if (t.y != nullptr) {
    const B bytes = to_bytes(nearest_bytes<I>(v, t.zero));
    if (count >= L) *reinterpret_cast<B*>(t.y + at) = bytes;
    else memcpy(t.y + at, &bytes, count);
  } else if (count >= L) {
    *reinterpret_cast<F*>(t.wide + at) = v;
  } else {
    memcpy(t.wide + at, &v, count * sizeof(float));
  }
}

}  // namespace pdl::PDL_ISA::int8
