// Vectors of the instruction set this file is compiled for, and a lambda form of parallel_for.
//
// Kernel headers use no function of the C++ library: inline library code would be merged across the instruction sets by the linker,
// and an old CPU could then meet AVX-512 inside a std:: function. <cmath>'s builtins (__builtin_*) are fine.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__FMA__)
#include <immintrin.h>
#endif

#include "parallel.h"

#ifndef PDL_VECTOR_BYTES
#error "set by meson.build for every instruction set"
#endif

namespace pdl::PDL_ISA {

// A vector of T as wide as the registers; loads and stores through it need no alignment.
template <class T>
struct VecOf;
template <>
struct VecOf<float> {
  typedef float type __attribute__((vector_size(PDL_VECTOR_BYTES), aligned(4), may_alias));
  typedef int32_t mask __attribute__((vector_size(PDL_VECTOR_BYTES), aligned(4), may_alias));
};
template <>
struct VecOf<double> {
  typedef double type __attribute__((vector_size(PDL_VECTOR_BYTES), aligned(8), may_alias));
  typedef int64_t mask __attribute__((vector_size(PDL_VECTOR_BYTES), aligned(8), may_alias));
};
template <class T>
using Vec = typename VecOf<T>::type;
template <class T>
using Mask = typename VecOf<T>::mask;
template <class T>
constexpr int kLanes = PDL_VECTOR_BYTES / sizeof(T);

template <class T>
inline __attribute__((always_inline)) Vec<T> load(const T* p) { return *reinterpret_cast<const Vec<T>*>(p); }
template <class T>
inline __attribute__((always_inline)) void store(T* p, Vec<T> v) { *reinterpret_cast<Vec<T>*>(p) = v; }
template <class T>
inline __attribute__((always_inline)) Vec<T> splat(T x) { return x - Vec<T>{}; }  // not 0 + x: that would turn -0 into 0, so the compiler would add

// The first n < kLanes<T> values, zeros behind them; and their counterpart. Nothing beyond them is touched.
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
inline __attribute__((always_inline)) Vec<float> load_some(const float* p, int64_t n) { return (Vec<float>)_mm512_maskz_loadu_ps((1u << n) - 1, p); }
inline __attribute__((always_inline)) Vec<double> load_some(const double* p, int64_t n) { return (Vec<double>)_mm512_maskz_loadu_pd((1u << n) - 1, p); }
inline __attribute__((always_inline)) void store_some(float* p, Vec<float> v, int64_t n) { _mm512_mask_storeu_ps(p, (1u << n) - 1, (__m512)v); }
inline __attribute__((always_inline)) void store_some(double* p, Vec<double> v, int64_t n) { _mm512_mask_storeu_pd(p, (1u << n) - 1, (__m512d)v); }
#elif defined(__FMA__) && PDL_VECTOR_BYTES == 32
constexpr int32_t kFirst[16] = {-1, -1, -1, -1, -1, -1, -1, -1};  // from kFirst + 8 - n on: n lanes set
inline __attribute__((always_inline)) __m256i first_words(int64_t n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kFirst + 8 - n));
}
inline __attribute__((always_inline)) Vec<float> load_some(const float* p, int64_t n) {
  return (Vec<float>)_mm256_maskload_ps(p, first_words(n));
}
inline __attribute__((always_inline)) Vec<double> load_some(const double* p, int64_t n) {
  return (Vec<double>)_mm256_maskload_pd(p, first_words(2 * n));
}
// Halves, quarters, ...: AMD's masked stores are slow.
inline __attribute__((always_inline)) void store_some(float* p, Vec<float> v, int64_t n) {
  __m128 part = _mm256_castps256_ps128((__m256)v);
  if (n & 4) _mm_storeu_ps(p, part), p += 4, part = _mm256_extractf128_ps((__m256)v, 1);
  if (n & 2) _mm_storel_pi(reinterpret_cast<__m64*>(p), part), p += 2, part = _mm_movehl_ps(part, part);
  if (n & 1) _mm_store_ss(p, part);
}
inline __attribute__((always_inline)) void store_some(double* p, Vec<double> v, int64_t n) {
  __m128d part = _mm256_castpd256_pd128((__m256d)v);
  if (n & 2) _mm_storeu_pd(p, part), p += 2, part = _mm256_extractf128_pd((__m256d)v, 1);
  if (n & 1) _mm_store_sd(p, part);
}
#endif
#if (defined(__AVX512F__) && PDL_VECTOR_BYTES == 64) || (defined(__FMA__) && PDL_VECTOR_BYTES == 32)
template <class T>
inline __attribute__((always_inline)) Vec<T> load_tail(const T* p, int64_t n) { return load_some(p, n); }
template <class T>
inline __attribute__((always_inline)) void store_tail(T* p, Vec<T> v, int64_t n) { store_some(p, v, n); }
#else
template <class T>
inline __attribute__((always_inline)) Vec<T> load_tail(const T* p, int64_t n) {
  Vec<T> v{};
  memcpy(&v, p, n * sizeof(T));
  return v;
}
template <class T>
inline __attribute__((always_inline)) void store_tail(T* p, Vec<T> v, int64_t n) { memcpy(p, &v, n * sizeof(T)); }
#endif

// f over all lanes, pairwise: lane i with lane i ^ step for step = half, quarter, ... 1.
template <class T, int step = kLanes<T> / 2, class F>
inline __attribute__((always_inline)) T across(Vec<T> v, const F& f) {
  Mask<T> partner;
  for (int i = 0; i < kLanes<T>; i++) partner[i] = i ^ step;
  v = f(v, __builtin_shuffle(v, partner));
  if constexpr (step > 1) return across<T, step / 2>(v, f);
  else return v[0];
}
// The same within every `width` lanes side by side, a power of two: every lane has what its neighbours make.
template <class T, int width, class F>
inline __attribute__((always_inline)) Vec<T> within(Vec<T> v, const F& f) {
  if constexpr (width > 1) {
    Mask<T> partner;
    for (int i = 0; i < kLanes<T>; i++) partner[i] = i ^ (width / 2);
    return within<T, width / 2>(f(v, __builtin_shuffle(v, partner)), f);
  }
  return v;
}
// body(width as a constant), where rows of so many numbers divide a vector of several
template <class T, class F>
inline bool as_short_rows(int64_t width, const F& body) {
  const auto run = [&](auto constant) {
    if constexpr (constant() <= kLanes<T>) body(constant);
    return constant() <= kLanes<T>;
  };
  switch (width) {
    case 2: return run([] { return 2; });
    case 4: return run([] { return 4; });
    case 8: return run([] { return 8; });
    case 16: return run([] { return 16; });
    default: return false;
  }
}
template <class T>
inline __attribute__((always_inline)) T across_sum(Vec<T> v) {
  return across<T>(v, [](Vec<T> a, Vec<T> b) { return a + b; });
}

// std::min and std::max would be compiled for one instruction set and linked for all.
template <class T>
inline __attribute__((always_inline)) T least(T a, T b) { return b < a ? b : a; }
template <class T>
inline __attribute__((always_inline)) T largest(T a, T b) { return a < b ? b : a; }

// How many items of `each` elements of work a thread should at least have.
constexpr int64_t kThreadWork = 16384;
inline int64_t grain_of(int64_t each) { return each >= kThreadWork ? 1 : kThreadWork / (each > 0 ? each : 1) + 1; }

// Bytes by which weights that a product of a few rows reads once are asked for early. Left to itself, a core gets half of what memory can give.
constexpr int64_t kAhead = 4096;

// body(begin, end, part) over `parts` parts of [0, n); see parallel.h.
template <class F>
inline void parallel_parts(int64_t n, int parts, const F& body) {
  parallel_for(
      n, parts, [](void* f, int64_t begin, int64_t end, int part) { (*static_cast<const F*>(f))(begin, end, part); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// body(begin, end) over [0, n) in pieces, where each thread gets at least `grain`.
template <class F>
inline void parallel(int64_t n, int64_t grain, const F& body, int64_t least = 0) {
  parallel_parts(n, pieces_of(n, grain, least), [&](int64_t begin, int64_t end, int) { body(begin, end); });
}

}  // namespace pdl::PDL_ISA
