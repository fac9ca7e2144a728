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

// c[0] + c[1] x + ... (Horner)
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
template <class T>
PDL_INLINE Vec<T> at_most(Vec<T> x, T limit) { return at_most<T>(x, splat<T>(limit)); }
template <class T>
PDL_INLINE Vec<T> at_least(Vec<T> x, T limit) { return at_least<T>(x, splat<T>(limit)); }
template <class T>
PDL_INLINE Vec<T> nan_like() { return splat<T>(static_cast<T>(__builtin_nan(""))); }

// e^(x + low) = 2^n (1 + q): `exponent` is n as integers.
template <class T>
struct Exponential {
  Vec<T> n, q;
  Mask<T> exponent;
};
template <class T>
PDL_INLINE Exponential<T> reduce(Vec<T> x, Vec<T> low = Vec<T>{}) {
  using F = Format<T>;
  const Vec<T> shifted = x * T(1.4426950408889634) + F::magic;
  const Vec<T> n = shifted - F::magic;
  const Vec<T> r = (x - n * F::ln2_high) - n * F::ln2_low + low;
  return {n, r + r * r * polynomial<T>(r, Series<T>::exp), bits<T>(shifted) - bits<T>(splat<T>(F::magic))};
}
// 2^exponent, for -bias <= exponent <= bias (0 at the lower end)
template <class T>
PDL_INLINE Vec<T> power_of_two(Mask<T> exponent) { return (Vec<T>)((exponent + Format<T>::bias) << Format<T>::digits); }

// e^(x + low) for x <= 0: one multiplication less, for the many functions that need no more
template <class T>
PDL_INLINE Vec<T> exp_negative(Vec<T> x, Vec<T> low = Vec<T>{}) {
  const Exponential<T> e = reduce<T>(at_least<T>(x, Format<T>::exp_low), low);
  const Vec<T> scale = power_of_two<T>(e.exponent);
  return scale * (e.q + T(1));
}

template <class T>
PDL_INLINE Vec<T> vexp(Vec<T> x) {
  using F = Format<T>;
  const Exponential<T> e = reduce<T>(at_most<T>(at_least<T>(x, F::exp_low), F::exp_high));
  const Vec<T> shifted = e.n * T(0.5) + F::magic;  // 2^n in two halves: 2^128 is no float, but 2^128 * 0.9 is
  const Mask<T> half = bits<T>(shifted) - bits<T>(splat<T>(F::magic));
  return (T(1) + e.q) * power_of_two<T>(half) * power_of_two<T>(e.exponent - half);
}

template <class T>
PDL_INLINE Vec<T> vexpm1(Vec<T> x) {
  const Exponential<T> e = reduce<T>(at_most<T>(at_least<T>(x, T(-60)), Format<T>::exp_high));
  const Vec<T> half = power_of_two<T>(e.exponent - 1);
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
  const Exponential<T> e = reduce<T>(at_least<T>(absolute<T>(x) * T(-2), T(-60)));
  const Vec<T> scale = power_of_two<T>(e.exponent);
  const Vec<T> em1 = scale * e.q + (scale - T(1));  // e^(-2|x|) - 1
  return with_sign<T>(em1 / (em1 + T(2)), x);
}

template <class T>
PDL_INLINE Vec<T> vsigmoid(Vec<T> x) {
  const Vec<T> e = exp_negative<T>(-absolute<T>(x));
  return (x < T(0) ? e : splat<T>(1)) / (e + T(1));
}

// log(1 + e^x)
template <class T>
PDL_INLINE Vec<T> vsoftplus(Vec<T> x) { return at_least<T>(x, T(0)) + log1p_unit<T>(exp_negative<T>(-absolute<T>(x))); }

// e^(-factor x^2), factor a power of 2: the square of the coarse part of x is exact, what is left out goes in as a correction
template <class T>
PDL_INLINE Vec<T> exp_minus_square(Vec<T> x, T factor = T(1)) {
  const Vec<T> coarse = (Vec<T>)(bits<T>(x) & Format<T>::coarse);
  return exp_negative<T>(coarse * coarse * -factor, (coarse - x) * (coarse + x) * factor);
}

// Phi(x) and e^(-x^2 / 2), the tails of Phi through erfc so that they keep their digits
template <class T>
struct Normal {
  Vec<T> below, exponential;
};
// x^2 - square, square being x^2 rounded
PDL_INLINE Vec<float> square_error(Vec<float> x, Vec<float> square) {
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
  return (Vec<float>)_mm512_fmsub_ps((__m512)x, (__m512)x, (__m512)square);
#elif defined(__FMA__) && PDL_VECTOR_BYTES == 32
  return (Vec<float>)_mm256_fmsub_ps((__m256)x, (__m256)x, (__m256)square);
#else
  const Vec<float> high = (Vec<float>)(bits<float>(x) & Format<float>::coarse);  // high^2 is exact
  return (high * high - square) + (x - high) * (x + high);
#endif
}
// Phi(-t) e^(t^2 / 2) is s times a polynomial in s = 1 / (t + 3), t >= 0: one division, and one exponential that shares its argument's square
PDL_INLINE Normal<float> normal(Vec<float> x) {
  using F = Format<float>;
  constexpr float series[] = {0.398856876f, 1.20259556f, 3.02585113f, 9.82880964f, -13.8155556f, 163.420253f, -603.557868f, 865.58025f, -457.729033f};
  const Vec<float> t = at_most<float>(absolute<float>(x), 13.26f), square = t * t, s = 1.f / (t + 3.f);  // e^(-13.26^2 / 2) counts as 0
  const Vec<float> shifted = square * -0.72134752f + F::magic, n = shifted - F::magic;
  const Vec<float> r = ((square * -0.5f - n * F::ln2_high) - n * F::ln2_low) - square_error(t, square) * 0.5f;
  const Vec<float> scale = (Vec<float>)((bits<float>(shifted) << F::digits) + F::one);  // 2^n: the sum has n in its low bits
  const Vec<float> q = r + r * r * polynomial<float>(r, Series<float>::exp);
#if defined(__FMA__)
  const Vec<float> e = scale * q + scale;
#else
  const Vec<float> e = scale * (q + 1.f);  // scale * q alone may be subnormal
#endif
  const Vec<float> tail = e * (s * polynomial<float>(s, series));
  return {x < 0.f ? tail : 1.f - tail, e};
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
