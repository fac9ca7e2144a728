// bfloat16 as storage: the upper half of a float. Arithmetic is float32; a value is rounded once, to nearest even, where it is stored.
//
// A kernel over storage type S (float, double, bf16) computes in Real<S> and writes load(p), store(p, v), load_tail, store_tail, value(x) and
// put(p, x) without template arguments: the overloads below then serve bf16 and those of vec.h the rest.
#pragma once
#include <cstdint>

namespace pdl {

struct bf16 {
  uint16_t bits;
};

// What a stored S is computed in.
template <class S>
struct RealOf { using type = S; };
template <>
struct RealOf<bf16> { using type = float; };
template <class S>
using Real = typename RealOf<S>::type;

}  // namespace pdl

#if defined(PDL_VECTOR_BYTES)
#include "vec.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace pdl::PDL_ISA {

#define PDL_BF16_INLINE inline __attribute__((always_inline))

// As many bfloat16 values as a register holds floats, and the bits of floats.
typedef uint16_t Halves __attribute__((vector_size(PDL_VECTOR_BYTES / 2), aligned(2), may_alias));
typedef uint32_t Words __attribute__((vector_size(PDL_VECTOR_BYTES), aligned(4), may_alias));

// The compiler's own conversion goes by halves of a register: the instructions that take a whole one are named.
PDL_BF16_INLINE Words longer(Halves h) {
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
  return (Words)_mm512_maskz_cvtepu16_epi32(0xffff, (__m256i)h);  // maskz: GCC 12 warns of its own header otherwise
#elif defined(__AVX2__) && PDL_VECTOR_BYTES == 32
  return (Words)_mm256_cvtepu16_epi32((__m128i)h);
#else
  return __builtin_convertvector(h, Words);
#endif
}
PDL_BF16_INLINE Halves shorter(Words w) {
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
  return (Halves)_mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)w);
#else
  return __builtin_convertvector(w, Halves);
#endif
}

PDL_BF16_INLINE Vec<float> widen(Halves h) { return (Vec<float>)(longer(h) << 16); }

// To nearest, ties to even; NaN keeps its upper bits and becomes quiet; infinities and what rounds beyond the largest number become infinite.
PDL_BF16_INLINE Halves narrow(Vec<float> v) {
#if defined(__AVX512BF16__) && PDL_VECTOR_BYTES == 64
  return (Halves)_mm512_cvtneps_pbh((__m512)v);
#else
  const Words u = (Words)v, odd = (u >> 16) & 1;
  return shorter((v == v ? u + (odd + 0x7fff) : u | 0x400000) >> 16);
#endif
}

PDL_BF16_INLINE Vec<float> load(const bf16* p) { return widen(*reinterpret_cast<const Halves*>(p)); }
PDL_BF16_INLINE void store(bf16* p, Vec<float> v) { *reinterpret_cast<Halves*>(p) = narrow(v); }

// The first n < kLanes<float> values, zeros behind them; and their counterpart. Nothing beyond them is touched.
#if defined(__AVX512BW__) && defined(__AVX512VL__) && PDL_VECTOR_BYTES == 64
PDL_BF16_INLINE Vec<float> load_tail(const bf16* p, int64_t n) { return widen((Halves)_mm256_maskz_loadu_epi16((1u << n) - 1, p)); }
PDL_BF16_INLINE void store_tail(bf16* p, Vec<float> v, int64_t n) { _mm256_mask_storeu_epi16(p, (1u << n) - 1, (__m256i)narrow(v)); }
#else
PDL_BF16_INLINE Vec<float> load_tail(const bf16* p, int64_t n) {
  Halves h{};
  memcpy(&h, p, n * sizeof(bf16));
  return widen(h);
}
PDL_BF16_INLINE void store_tail(bf16* p, Vec<float> v, int64_t n) {
  const Halves h = narrow(v);
  memcpy(p, &h, n * sizeof(bf16));
}
#endif

// One number, and one number stored.
PDL_BF16_INLINE float value(bf16 x) {
  const uint32_t u = static_cast<uint32_t>(x.bits) << 16;
  float y;
  memcpy(&y, &u, sizeof y);
  return y;
}
PDL_BF16_INLINE float value(float x) { return x; }
PDL_BF16_INLINE double value(double x) { return x; }
PDL_BF16_INLINE void put(bf16* p, float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  p->bits = static_cast<uint16_t>((x == x ? u + (((u >> 16) & 1) + 0x7fff) : u | 0x400000) >> 16);
}
PDL_BF16_INLINE void put(float* p, float x) { *p = x; }
PDL_BF16_INLINE void put(double* p, double x) { *p = x; }

#undef PDL_BF16_INLINE

}  // namespace pdl::PDL_ISA
#endif
