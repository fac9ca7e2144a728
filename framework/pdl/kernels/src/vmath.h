// Elementary functions on vectors: exp, expm1, log, log1p, tanh, sigmoid, erfc, in float and double.
//
// The argument is reduced exactly, the rest is a polynomial (Chebyshev interpolation in 50 digits); no table, no branch. Errors, measured by
// tests/framework/kernels/test_pointwise.py: at most 4 ulp (erfc: 6) over the whole range of normal numbers. Subnormal numbers count as 0.
#pragma once
#include "vec.h"

namespace pdl::PDL_ISA {

#define PDL_INLINE inline __attribute__((always_inline))

// The bits of a number, and the constants of argument reduction.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr int32_t sign = INT32_MIN, fraction = 0x7fffff, one = 0x3f800000, coarse = ~0xfff;
  static constexpr int digits = 23, bias = 127;
  static constexpr float magic = 12582912.f;                                     // 1.5 * 2^23: x + magic rounds x to an integer
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;     // n * ln2_high is exact
  static constexpr float smallest = 1.17549435e-38f, largest = 3.40282347e38f, root2 = 1.41421356f;
  static constexpr float exp_low = -87.8f, exp_high = 89.f, erfc_high = 10.5f;  // beyond them: 0, inf, 0
};
template <>
struct Format<double> {
  static constexpr int64_t sign = INT64_MIN, fraction = 0xfffffffffffff, one = 0x3ff0000000000000, coarse = ~0x7ffffffLL;
  static constexpr int digits = 52, bias = 1023;
  static constexpr double magic = 6755399441055744.;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  static constexpr double smallest = 2.2250738585072014e-308, largest = 1.7976931348623157e308, root2 = 1.4142135623730951;
  static constexpr double exp_low = -708.9, exp_high = 710., erfc_high = 27.3;
};

// Polynomials, lowest power first. exp: (e^r - 1 - r) / r^2 on |r| <= ln2 / 2. log: (2 atanh(s) / s - 2) / s^2 as a function of s^2, |s| <= 0.172.
// erf: erf(x) / x as a function of x^2 on [0, 1]. erfc: (1 + 2x) e^(x^2) erfc(x) as a function of (x - centre) / (x + centre), x >= 0.
template <class T>
struct Series;
template <>
struct Series<float> {
  static constexpr float exp[] = {0.5f, 0.166665763f, 0.0416665524f, 0.00836323295f, 0.00139262504f};
  static constexpr float log[] = {0.666666865f, 0.399887592f, 0.295809865f};
  static constexpr float erf[] = {1.12837911f,   -0.37612626f,    0.112835944f,  -0.0268542115f,
                                  0.00518908724f, -0.00080168643f, 7.87587487e-05f};
  static constexpr float centre = 3.f;
  static constexpr float erfc[] = {1.25300801f,    -0.135621145f,   -0.0475623272f, 0.129646748f,   -0.119271725f,   0.0682929456f,
                                   -0.0237957593f, 0.00257612555f, 0.0020034695f,  -0.000785626296f, -0.000272670761f};
};
template <>
struct Series<double> {
  static constexpr double exp[] = {0.5,
                                   0.16666666666666671,
                                   0.041666666666666671,
                                   0.0083333333333260838,
                                   0.0013888888888883711,
                                   0.00019841269875002279,
                                   2.4801587325677461e-05,
                                   2.7557255170000888e-06,
                                   2.7557273478718582e-07,
                                   2.5105312729622103e-08,
                                   2.0914755325893202e-09};
  static constexpr double log[] = {0.66666666666666663, 0.40000000000000885, 0.28571428570799784, 0.22222222392581045,
                                   0.18181795547521137, 0.15386244737621665, 0.13268638369266825, 0.13088034850927555};
  static constexpr double erf[] = {1.1283791670955126,     -0.37612638903183748,    0.11283791670954879,   -0.026866170645076792,
                                   0.0052239776248180145,  -0.000854832698083379,   0.0001205533111164271, -1.4925595266831182e-05,
                                   1.6461000484121368e-06, -1.6350312701054695e-07, 1.4659775274047436e-08, -1.1372848856791674e-09,
                                   5.9571761477489113e-11};
  static constexpr double centre = 4.;
  static constexpr double erfc[] = {1.2329951186255526,      -0.13962111684056286,    0.015379652102620996,    0.068097054254734682,
                                    -0.10103906603636773,    0.093732834996872696,    -0.066330365811154465,   0.03716751556148306,
                                    -0.016197734063710445,   0.0050319697622847361,   -0.00075777330913793324, -0.00019925552619520982,
                                    0.00015062210715057866,  -2.4403165369627111e-05, -1.1224436722701745e-05, 5.7180194304286331e-06,
                                    3.0082269716067099e-07,  -8.355403600708081e-07,  6.3099318920481242e-08,  1.1579545491817747e-07,
                                    -7.770852409868655e-09,  -1.3870633436752771e-08, -1.8822551750393533e-09};
};

// c[0] + c[1] x + ... (Horner: these functions wait for units, not for results, so one instruction less is worth more than a shorter chain)
template <class T, int N>
PDL_INLINE Vec<T> polynomial(Vec<T> x, const T (&c)[N]) {
  Vec<T> y = splat<T>(c[N - 1]);
#pragma GCC unroll 32
  for (int i = N - 2; i >= 0; i--) y = y * x + c[i];
  return y;
}

template <class T>
PDL_INLINE Mask<T> bits(Vec<T> x) { return (Mask<T>)x; }
template <class T>
PDL_INLINE Vec<T> from_bits(Mask<T> x) { return (Vec<T>)x; }
template <class T>
PDL_INLINE Vec<T> absolute(Vec<T> x) { return (Vec<T>)(bits<T>(x) & ~Format<T>::sign); }
template <class T>
PDL_INLINE Vec<T> vsqrt(Vec<T> x) {
  for (int i = 0; i < kLanes<T>; i++) x[i] = sizeof(T) == 4 ? __builtin_sqrtf(x[i]) : __builtin_sqrt(x[i]);
  return x;
}
// |x| with the sign of s
template <class T>
PDL_INLINE Vec<T> with_sign(Vec<T> x, Vec<T> s) { return (Vec<T>)((bits<T>(x) & ~Format<T>::sign) | (bits<T>(s) & Format<T>::sign)); }
// The smaller and the larger of two; NaN where x is NaN.
template <class T>
PDL_INLINE Vec<T> at_most(Vec<T> x, Vec<T> limit) { return x > limit ? limit : x; }
template <class T>
PDL_INLINE Vec<T> at_least(Vec<T> x, Vec<T> limit) { return x < limit ? limit : x; }
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64  // one instruction, which returns its second operand where one of them is NaN
template <>
PDL_INLINE Vec<float> at_most<float>(Vec<float> x, Vec<float> limit) { return (Vec<float>)_mm512_maskz_min_ps(0xffff, (__m512)limit, (__m512)x); }
template <>
PDL_INLINE Vec<float> at_least<float>(Vec<float> x, Vec<float> limit) { return (Vec<float>)_mm512_maskz_max_ps(0xffff, (__m512)limit, (__m512)x); }
template <>
PDL_INLINE Vec<double> at_most<double>(Vec<double> x, Vec<double> limit) { return (Vec<double>)_mm512_maskz_min_pd(0xff, (__m512d)limit, (__m512d)x); }
template <>
PDL_INLINE Vec<double> at_least<double>(Vec<double> x, Vec<double> limit) { return (Vec<double>)_mm512_maskz_max_pd(0xff, (__m512d)limit, (__m512d)x); }
#elif defined(__FMA__) && PDL_VECTOR_BYTES == 32
template <>
PDL_INLINE Vec<float> at_most<float>(Vec<float> x, Vec<float> limit) { return (Vec<float>)_mm256_min_ps((__m256)limit, (__m256)x); }
template <>
PDL_INLINE Vec<float> at_least<float>(Vec<float> x, Vec<float> limit) { return (Vec<float>)_mm256_max_ps((__m256)limit, (__m256)x); }
template <>
PDL_INLINE Vec<double> at_most<double>(Vec<double> x, Vec<double> limit) { return (Vec<double>)_mm256_min_pd((__m256d)limit, (__m256d)x); }
template <>
PDL_INLINE Vec<double> at_least<double>(Vec<double> x, Vec<double> limit) { return (Vec<double>)_mm256_max_pd((__m256d)limit, (__m256d)x); }
#endif
template <class T>
PDL_INLINE Vec<T> at_most(Vec<T> x, T limit) { return at_most<T>(x, splat<T>(limit)); }
template <class T>
PDL_INLINE Vec<T> at_least(Vec<T> x, T limit) { return at_least<T>(x, splat<T>(limit)); }
template <class T>
PDL_INLINE Vec<T> nan_like() { return splat<T>(static_cast<T>(__builtin_nan(""))); }

// e^x = 2^n (1 + q), n the low bits of `shifted`
template <class T>
struct Exponential {
  Vec<T> shifted, q;
};
// of x = n ln 2 + r, |r| <= ln2 / 2
template <class T>
PDL_INLINE Exponential<T> exponential(Vec<T> shifted, Vec<T> r) { return {shifted, r + r * r * polynomial<T>(r, Series<T>::exp)}; }
template <class T>
PDL_INLINE Exponential<T> exponential(Vec<T> x) {
  using F = Format<T>;
  const Vec<T> shifted = x * T(1.4426950408889634) + F::magic, n = shifted - F::magic;
  return exponential<T>(shifted, (x - n * F::ln2_high) - n * F::ln2_low);
}
// 2^n, for -bias <= n <= bias + 1 (0 and infinity at the ends)
template <class T>
PDL_INLINE Vec<T> power_of_two(Vec<T> shifted) { return (Vec<T>)((bits<T>(shifted) << Format<T>::digits) + Format<T>::one); }
// 2^n (1 + q), n <= bias
template <class T>
PDL_INLINE Vec<T> value_of(Exponential<T> e) {
  const Vec<T> scale = power_of_two<T>(e.shifted);
#if defined(__FMA__)
  return scale * e.q + scale;
#else
  return scale * (e.q + T(1));  // scale * q alone may be subnormal
#endif
}

// e^x for x <= 0 (no more than 88, or 709): several multiplications less, for the many functions that need no more
template <class T>
PDL_INLINE Vec<T> exp_negative(Vec<T> x) { return value_of<T>(exponential<T>(at_least<T>(x, Format<T>::exp_low))); }

template <class T>
PDL_INLINE Vec<T> vexp(Vec<T> x) {
  using F = Format<T>;
  const Exponential<T> e = exponential<T>(at_most<T>(at_least<T>(x, F::exp_low), F::exp_high));
  const Vec<T> n = e.shifted - F::magic, half = n * T(0.5) + F::magic;  // 2^n in two halves: 2^128 is no float, but 2^128 * 0.9 is
  return (T(1) + e.q) * power_of_two<T>(half) * power_of_two<T>(n - (half - F::magic) + F::magic);
}

template <class T>
PDL_INLINE Vec<T> vexpm1(Vec<T> x) {
  const Exponential<T> e = exponential<T>(at_most<T>(at_least<T>(x, T(-60)), Format<T>::exp_high));
  const Vec<T> half = power_of_two<T>(e.shifted - T(1));
  const Vec<T> y = (half * e.q + (half - T(0.5))) * T(2);
  return x == T(0) ? x : y;
}

// log x; -inf at 0, NaN below
template <class T>
PDL_INLINE Vec<T> vlog(Vec<T> x) {
  using F = Format<T>;
  Vec<T> m = (Vec<T>)((bits<T>(x) & F::fraction) | F::one);
  const Mask<T> high = m > F::root2;
  m = high ? m * T(0.5) : m;
  // the exponent as a number: its bits in the low end of `magic`; `high` is -1 where true
  const Mask<T> exponent = ((bits<T>(x) >> F::digits) & (2 * F::bias + 1)) - F::bias - high;
  const Vec<T> n = (Vec<T>)(exponent + bits<T>(splat<T>(F::magic))) - F::magic;
  const Vec<T> f = m - T(1), s = f / (m + T(1)), z = s * s, half = f * f * T(0.5);
  const Vec<T> y = n * F::ln2_high - ((half - (s * (half + z * polynomial<T>(z, Series<T>::log)) + n * F::ln2_low)) - f);
  const Vec<T> special = x > F::largest ? x : x < T(0) || x != x ? nan_like<T>() : splat<T>(-__builtin_inf());
  return x >= F::smallest && x <= F::largest ? y : special;
}

// log(1 + x): the rounding of 1 + x is put right to first order
template <class T>
PDL_INLINE Vec<T> vlog1p(Vec<T> x) {
  const Vec<T> w = x + T(1), y = vlog<T>(w);
  const Vec<T> fixed = y + (x - (w - T(1))) / w;
  return w > T(0) && w <= Format<T>::largest ? (x == T(0) ? x : fixed) : y;
}
// log(1 + u) for u in [0, 1]
template <class T>
PDL_INLINE Vec<T> log1p_unit(Vec<T> u) {
  const Vec<T> w = u + T(1);
  return vlog<T>(w) + (u - (w - T(1))) / w;
}

template <class T>
PDL_INLINE Vec<T> vtanh(Vec<T> x) {
  const Exponential<T> e = exponential<T>(at_least<T>(absolute<T>(x) * T(-2), T(-60)));
  const Vec<T> scale = power_of_two<T>(e.shifted);
  const Vec<T> em1 = scale * e.q + (scale - T(1));  // e^(-2|x|) - 1
  return with_sign<T>(em1 / (em1 + T(2)), x);
}

// 1 + e^-x for x >= -exp_high; infinite at that end
template <class T>
PDL_INLINE Vec<T> one_plus_exp_minus(Vec<T> x) {
  using F = Format<T>;
  const Vec<T> z = at_most<T>(x, -F::exp_low), shifted = z * T(-1.4426950408889634) + F::magic, n = shifted - F::magic;
  const Vec<T> r = (-z - n * F::ln2_high) - n * F::ln2_low;
  return power_of_two<T>(shifted) * ((polynomial<T>(r, Series<T>::exp) * r + T(1)) * r + T(1)) + T(1);
}
template <class T>
PDL_INLINE Vec<T> vsigmoid(Vec<T> x) { return T(1) / one_plus_exp_minus<T>(at_least<T>(x, -Format<T>::exp_high)); }

// log(1 + e^x)
template <class T>
PDL_INLINE Vec<T> vsoftplus(Vec<T> x) { return at_least<T>(x, T(0)) + log1p_unit<T>(exp_negative<T>(-absolute<T>(x))); }

// e^(-factor x^2), factor a power of 2: the square of the coarse part of x is exact, what is left out goes in as a correction
template <class T>
PDL_INLINE Vec<T> exp_minus_square(Vec<T> x, T factor = T(1)) {
  using F = Format<T>;
  const Vec<T> coarse = (Vec<T>)(bits<T>(x) & Format<T>::coarse);
  const Vec<T> large = at_least<T>(coarse * coarse * -factor, F::exp_low);
  const Vec<T> shifted = large * T(1.4426950408889634) + F::magic, n = shifted - F::magic;
  return value_of<T>(exponential<T>(shifted, (large - n * F::ln2_high) - n * F::ln2_low + (coarse - x) * (coarse + x) * factor));
}

// Phi(x) and e^(-x^2 / 2), the tails of Phi through erfc so that they keep their digits
template <class T>
struct Normal {
  Vec<T> below, exponential;
};
// -x^2 - rest, rounded once
PDL_INLINE Vec<float> minus_square(Vec<float> x, Vec<float> rest) {
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
  return (Vec<float>)_mm512_fnmsub_ps((__m512)x, (__m512)x, (__m512)rest);
#elif defined(__FMA__) && PDL_VECTOR_BYTES == 32
  return (Vec<float>)_mm256_fnmsub_ps((__m256)x, (__m256)x, (__m256)rest);
#else
  const Vec<float> high = (Vec<float>)(bits<float>(x) & Format<float>::coarse);  // high^2 is exact
  return (-high * high - rest) - (x - high) * (x + high);
#endif
}
// Phi(-t) and e^(-t^2 / 2), t >= 0. Phi(-t) e^(t^2 / 2) is s times a polynomial in s = 1 / (t + 3): one division, and one exponential of an
// argument that is exact.
PDL_INLINE Normal<float> normal_tail(Vec<float> t) {
  using F = Format<float>;
  constexpr float series[] = {0.398856876f, 1.20259556f, 3.02585113f, 9.82880964f, -13.8155556f, 163.420253f, -603.557868f, 865.58025f, -457.729033f};
  const Vec<float> s = 1.f / (t + 3.f), shifted = t * t * -0.72134752f + F::magic, n = shifted - F::magic;
  const Vec<float> r = minus_square(t, n * (2 * F::ln2_high)) * 0.5f - n * F::ln2_low;
  const Vec<float> e = value_of<float>(exponential<float>(shifted, r));
  return {e * (s * polynomial<float>(s, series)), e};
}
constexpr float kNormalEnd = 13.26f;  // e^(-13.26^2 / 2) counts as 0
PDL_INLINE Normal<float> normal(Vec<float> x) {
  const Normal<float> tail = normal_tail(at_most<float>(absolute<float>(x), kNormalEnd));
  return {x < 0.f ? tail.below : 1.f - tail.below, tail.exponential};
}

// erf(x), |x| <= 1
template <class T>
PDL_INLINE Vec<T> erf_small(Vec<T> x) { return x * polynomial<T>(x * x, Series<T>::erf); }
// erfc(x) for 0 <= x <= erfc_high, given e^(-x^2)
template <class T>
PDL_INLINE Vec<T> erfc_positive(Vec<T> x, Vec<T> exponential) {
  using S = Series<T>;
  return exponential * polynomial<T>((x - S::centre) / (x + S::centre), S::erfc) / (x * T(2) + T(1));
}
template <class T>
PDL_INLINE Vec<T> erfc_positive(Vec<T> x) {
  const Vec<T> z = at_most<T>(x, Format<T>::erfc_high);
  return erfc_positive<T>(z, exp_minus_square<T>(z));
}
PDL_INLINE Normal<double> normal(Vec<double> x) {
  const Vec<double> z = at_most<double>(absolute<double>(x), Format<double>::erfc_high * 1.414), e = exp_minus_square<double>(z, 0.5);
  const Vec<double> tail = erfc_positive<double>(z * 0.70710678118654752, e) * 0.5;
  return {x < 0.0 ? tail : 1.0 - tail, e};
}
template <class T>
PDL_INLINE Vec<T> verf(Vec<T> x) {
  const Vec<T> z = absolute<T>(x);
  return z < T(1) ? erf_small<T>(x) : with_sign<T>(T(1) - erfc_positive<T>(z), x);
}
template <class T>
PDL_INLINE Vec<T> verfc(Vec<T> x) {
  const Vec<T> tail = erfc_positive<T>(absolute<T>(x));
  return x < T(0) ? T(2) - tail : tail;
}

}  // namespace pdl::PDL_ISA
