// The arithmetic of quantised nets, the same integers on every instruction set.
//
// Activations are bytes q in [0, 255] that stand for scale (q - zero); weights are bytes in [-128, 127], with one scale for each output. A
// sum of products is exact in int32: by VNNI's vpdpbusd where there is one, elsewhere by products of 16-bit numbers, whose pairs are summed
// in 32 bits (never vpmaddubsw, which saturates). Results are then scaled in float, rounded half to even, clamped and stored as bytes. This
// file is compiled without contraction of a * b + c, so that these floats too have the same bits everywhere, and in NumPy.
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

// L bytes as floats. GCC converts vectors of so few bytes one by one.
template <int L>
PDL_INT8_INLINE typename Of<L>::F floats_of(const uint8_t* from) {
#if defined(__AVX512F__)
  if constexpr (L == 16) return (Float16)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#endif
#if defined(__AVX2__)
  if constexpr (L == 8) return (Float8)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#endif
#if defined(__SSE4_1__)
  if constexpr (L == 4) {
    int32_t four;
    memcpy(&four, from, 4);
    return (Float4)_mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)));
  }
#endif
  return to_float(*reinterpret_cast<const typename Of<L>::B*>(from));
}
constexpr int64_t kWork = 192 * 1024;  // multiply-adds below which one more thread does not pay

// Inputs stand in units: as many as the 32 bits of a lane hold. A lane of A is a unit of one pixel, a lane of B the weights of one output
// that belong to it. Without VNNI inputs are widened to 16 bits once, where rows are copied, and weights, which stay bytes in memory, as they
// are read.
#if defined(__AVX512VNNI__)
typedef uint8_t Input;
PDL_INT8_INLINE Int16 dot(Int16 sum, Int16 a, Int16 b) { return (Int16)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b); }
PDL_INT8_INLINE Int8 dot(Int8 sum, Int8 a, Int8 b) { return (Int8)_mm256_dpbusd_epi32((__m256i)sum, (__m256i)a, (__m256i)b); }
PDL_INT8_INLINE Int4 dot(Int4 sum, Int4 a, Int4 b) { return (Int4)_mm_dpbusd_epi32((__m128i)sum, (__m128i)a, (__m128i)b); }
template <class I>
PDL_INT8_INLINE I weights(const int8_t* w) {
  I v;  // as a template argument the type has lost its alignment
  memcpy(&v, w, sizeof v);
  return v;
}
#else
typedef int16_t Input;
#if defined(__AVX512BW__)
PDL_INT8_INLINE Int16 dot(Int16 sum, Int16 a, Int16 b) { return sum + (Int16)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
PDL_INT8_INLINE void widen_weights(Int16& to, const int8_t* w) {
  to = (Int16)_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
}
#endif
#if defined(__AVX2__)
PDL_INT8_INLINE Int8 dot(Int8 sum, Int8 a, Int8 b) { return sum + (Int8)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
PDL_INT8_INLINE void widen_weights(Int8& to, const int8_t* w) {
  to = (Int8)_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w)));
}
#endif
#if defined(__x86_64__)
PDL_INT8_INLINE Int4 dot(Int4 sum, Int4 a, Int4 b) { return sum + (Int4)_mm_madd_epi16((__m128i)a, (__m128i)b); }
PDL_INT8_INLINE void widen_weights(Int4& to, const int8_t* w) {
  to = (Int4)_mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(w)));
}
#else
PDL_INT8_INLINE Int4 dot(Int4 sum, Int4 a, Int4 b) { return sum + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16); }
PDL_INT8_INLINE void widen_weights(Int4& to, const int8_t* w) {
  typedef int8_t Eight __attribute__((vector_size(8), aligned(1), may_alias));
  typedef int16_t Wide __attribute__((vector_size(16)));
  to = (Int4)__builtin_convertvector(*reinterpret_cast<const Eight*>(w), Wide);
}
#endif
template <class I>
PDL_INT8_INLINE I weights(const int8_t* w) {
  I wide;
  widen_weights(wide, w);
  return wide;
}
#endif
constexpr int kUnit = 4 / sizeof(Input);

// Keeps the compiler from adding many sums in an order of its own, which needs more registers than there are.
template <class I>
PDL_INT8_INLINE void in_this_order(I& sum) {
#if defined(__AVX512F__)
  asm("" : "+v"(sum));
#elif defined(__x86_64__)
  asm("" : "+x"(sum));
#endif
}

// Sums of pairs of 16-bit numbers, modulo 2^32 (this file is compiled so that integers wrap).
#if defined(__AVX512VNNI__)
PDL_INT8_INLINE Int16 dot_pairs(Int16 sum, Int16 a, Int16 b) { return (Int16)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b); }
#else
template <class I>
PDL_INT8_INLINE I dot_pairs(I sum, I a, I b) { return dot(sum, a, b); }
#endif

// Weights of 16 bits stand in memory as they are multiplied.
template <class I>
PDL_INT8_INLINE I weights(const int16_t* w) {
  I v;
  memcpy(&v, w, sizeof v);
  return v;
}

PDL_INT8_INLINE void widen(Input* to, const uint8_t* from, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = from[i];
}
PDL_INT8_INLINE void fill_inputs(Input* to, int value, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = static_cast<Input>(value);
}

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

// L scaled sums before they are clamped; of a residual, `count` bytes are read.
template <int L>
PDL_INT8_INLINE typename Of<L>::F scaled(const QuantThen& t, int64_t at, typename Of<L>::I sum, typename Of<L>::F multiplier, int count) {
  typename Of<L>::F v = to_float(sum) * multiplier;
  if (t.residual != nullptr) {
    uint8_t some[L] = {};
    const uint8_t* from = t.residual + at;
    if (count < L) from = static_cast<const uint8_t*>(memcpy(some, from, count));
    v += (floats_of<L>(from) - static_cast<float>(t.residual_zero)) * t.residual_scale;
  }
  return t.swish ? swish(v, t.after) : v;
}

// Values of L lanes, of which `count` are stored.
template <int L>
PDL_INT8_INLINE void leave(const QuantThen& t, int64_t at, typename Of<L>::I sum, typename Of<L>::F multiplier, int count) {
  using I = typename Of<L>::I;
  using F = typename Of<L>::F;
  using B = typename Of<L>::B;
  const F v = clamped(scaled<L>(t, at, sum, multiplier, count), t.low, t.high);
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

// Many values at once are rounded first: rounding keeps the order of numbers, so clamping before it and after it are one. Whole numbers
// beyond 16 bits are saturated on the way, as nothing below -255 or above 255 differs there.
struct Rounding {
  float most;  // numbers above it would leave int32
  int zero, low, high;
  PDL_INT8_INLINE explicit Rounding(const QuantThen& t)
      : most(t.high), zero(t.zero), low(nearest(t.low) + zero), high(nearest(t.high) + zero) {}
};

template <class I, class F>
PDL_INT8_INLINE I whole_between(F v, const Rounding& r) {
  return nearest_bytes<I>(clamped(v, static_cast<float>(r.low - r.zero), static_cast<float>(r.high - r.zero)), 0);
}

// whole: v rounded, NaN and what lies below int32 to its least number. narrow4: bytes of four registers of whole numbers, those of each 128
// bits together, as `interleave` of int8_depthwise.h leaves channels; in_order4: stored register after register.
#if defined(__x86_64__)
#define PDL_INT8_WHOLE(L, F, prefix) \
  PDL_INT8_INLINE Int##L whole(Float##L v, const Rounding& r) { \
    const Float##L most = r.most - Float##L{}; \
    return (Int##L)prefix##cvtps_epi32((F)(most < v ? most : v)); \
  }
#define PDL_INT8_NARROW(L, V, prefix, ...) \
  PDL_INT8_INLINE V narrow4(Int##L a, Int##L b, Int##L c, Int##L d, const Rounding& r) { \
    const V zero = prefix##set1_epi16(static_cast<int16_t>(r.zero)); \
    const V ab = prefix##adds_epi16(prefix##packs_epi32((V)a, (V)b), zero); \
    const V cd = prefix##adds_epi16(prefix##packs_epi32((V)c, (V)d), zero); \
    const V low = prefix##set1_epi8(static_cast<char>(r.low)), high = prefix##set1_epi8(static_cast<char>(r.high)); \
    return prefix##min_epu8(prefix##max_epu8(prefix##packus_epi16(ab, cd), low), high); \
  } \
  PDL_INT8_INLINE void in_order4(uint8_t* to, Int##L a, Int##L b, Int##L c, Int##L d, const Rounding& r) { \
    const Int##L bytes = __builtin_shuffle((Int##L)narrow4(a, b, c, d, r), Int##L{__VA_ARGS__}); \
    memcpy(to, &bytes, sizeof bytes); \
  }
PDL_INT8_WHOLE(4, __m128, _mm_)
PDL_INT8_NARROW(4, __m128i, _mm_, 0, 1, 2, 3)
#if PDL_VECTOR_BYTES >= 32
PDL_INT8_WHOLE(8, __m256, _mm256_)
PDL_INT8_NARROW(8, __m256i, _mm256_, 0, 4, 1, 5, 2, 6, 3, 7)
#endif
#if PDL_VECTOR_BYTES >= 64
PDL_INT8_INLINE Int16 whole(Float16 v, const Rounding& r) { return whole_between<Int16>(v, r); }
PDL_INT8_NARROW(16, __m512i, _mm512_, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
#endif
#undef PDL_INT8_WHOLE
#undef PDL_INT8_NARROW
#else
PDL_INT8_INLINE Int4 whole(Float4 v, const Rounding& r) { return whole_between<Int4>(v, r); }
typedef uint8_t Bytes16 __attribute__((vector_size(16)));
PDL_INT8_INLINE Bytes16 narrow4(Int4 a, Int4 b, Int4 c, Int4 d, const Rounding& r) {
  const Byte4 parts[4] = {to_bytes(a + r.zero), to_bytes(b + r.zero), to_bytes(c + r.zero), to_bytes(d + r.zero)};
  Bytes16 bytes;
  memcpy(&bytes, parts, 16);
  return bytes;
}
PDL_INT8_INLINE void in_order4(uint8_t* to, Int4 a, Int4 b, Int4 c, Int4 d, const Rounding& r) {
  const Bytes16 bytes = narrow4(a, b, c, d, r);
  memcpy(to, &bytes, 16);
}
#endif

}  // namespace pdl::PDL_ISA::int8
