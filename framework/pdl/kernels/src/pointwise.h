// Elementwise kernels: y = f(x), dx = g f'(x), and arithmetic of two arrays. The functions are picked by number (Unary, Binary in table.h).
//
// S is what lies in memory (float, double, bf16), T = Real<S> what is computed in.
#pragma once
#include "bf16.h"
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA {

constexpr int64_t kPointwiseGrain = 32768;

// y[i] = f(x[i]...) over [begin, end), vectors of inputs passed to f
template <class S, class F, class... In>
PDL_INLINE void map_range(int64_t begin, int64_t end, S* y, const F& f, const In*... x) {
  constexpr int L = kLanes<Real<S>>;
  int64_t i = begin;
  for (; i + L <= end; i += L) store(y + i, f(load(x + i)...));
  if (i < end) store_tail(y + i, f(load_tail(x + i, end - i)...), end - i);
}
template <class S, class F, class... In>
PDL_INLINE void map(int64_t n, S* y, const F& f, const In*... x) {
  parallel(n, kPointwiseGrain, [&](int64_t begin, int64_t end) { map_range(begin, end, y, f, x...); });
}

// x Phi(x)
PDL_INLINE Vec<float> gelu(Vec<float> x) {
  const Vec<float> t = at_most<float>(absolute<float>(x), kNormalEnd);
  return at_least<float>(x, 0.f) - t * normal_tail(t).below;
}
PDL_INLINE Vec<double> gelu(Vec<double> x) { return at_least<double>(x, -40.) * normal(x).below; }  // -inf * 0 is none
template <class T>
PDL_INLINE Vec<T> gelu_erf_slope(Vec<T> x) {
  const Normal<T> at = normal(x);
  return at.below + at_most<T>(at_least<T>(x, T(-40)), T(40)) * at.exponential * T(0.39894228040143268);
}
// x / (1 + exp(-u)), u = 2 sqrt(2 / pi) (x + 0.044715 x^3)
template <class T>
PDL_INLINE Vec<T> gelu_tanh(Vec<T> x) {
  const Vec<T> z = at_least<T>(x, T(-40));
  const Vec<T> u = z * (z * z * T(0.044715 * 1.5957691216057308) + T(1.5957691216057308));
  return z / one_plus_exp_minus<T>(at_least<T>(u, -Format<T>::exp_high));
}
template <class T>
PDL_INLINE Vec<T> gelu_tanh_slope(Vec<T> x) {
  const Vec<T> z = at_most<T>(at_least<T>(x, T(-40)), T(40)), square = z * z;
  const Vec<T> s = vsigmoid<T>(z * (square * T(0.044715) + T(1)) * T(1.5957691216057308));
  return s + z * s * (T(1) - s) * (square * T(3 * 0.044715) + T(1)) * T(1.5957691216057308);
}
template <class T>
PDL_INLINE Vec<T> silu(Vec<T> x) {
  const Vec<T> z = at_least<T>(x, -Format<T>::exp_high);
  return z / one_plus_exp_minus<T>(z);
}
template <class T>
PDL_INLINE Vec<T> silu_slope(Vec<T> x) {
  const Vec<T> s = vsigmoid<T>(x), d = s * (T(1) - s);
  return s + (d == T(0) ? Vec<T>{} : x * d);
}
// x tanh(log(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2); past 20 that is x
template <class T>
PDL_INLINE Vec<T> mish_gate(Vec<T> x) {
  const Vec<T> e = vexp<T>(at_most<T>(x, T(22))), n = e * (e + T(2));
  return n / (n + T(2));
}
template <class T>
PDL_INLINE Vec<T> mish(Vec<T> x) {
  const Vec<T> gate = mish_gate<T>(x);
  return gate == T(0) ? Vec<T>{} : x * gate;
}
template <class T>
PDL_INLINE Vec<T> mish_slope(Vec<T> x) {
  const Vec<T> gate = mish_gate<T>(x), d = vsigmoid<T>(x) * (T(1) - gate * gate);
  return gate + (d == T(0) ? Vec<T>{} : x * d);
}
template <class T>
PDL_INLINE Vec<T> clip(Vec<T> x, T low, T high) { return at_most<T>(at_least<T>(x, low), high); }
template <class T>
PDL_INLINE Vec<T> hardsigmoid(Vec<T> x) { return clip<T>(x * T(1. / 6) + T(0.5), T(0), T(1)); }
template <class T>
PDL_INLINE Vec<T> hardswish(Vec<T> x) {
  const Vec<T> s = hardsigmoid<T>(x);
  return s == T(0) ? Vec<T>{} : x * s;
}
template <class T>
PDL_INLINE Vec<T> hardswish_slope(Vec<T> x) {
  return x <= T(-3) ? Vec<T>{} : x >= T(3) ? splat<T>(1) : x * T(1. / 3) + T(0.5);
}
template <class T>
PDL_INLINE Vec<T> erf_slope(Vec<T> x) {
  return exp_minus_square<T>(at_most<T>(absolute<T>(x), Format<T>::erfc_high)) * T(1.1283791670955126);
}

// body(f), f: vector -> vector the function of that number; the meaning of a, b, c: the comments at enum Unary in table.h
template <class T, class Body>
PDL_INLINE void with_unary(int name, T a, T b, T c, const Body& body) {
  using V = Vec<T>;
  switch (name) {
    case kRelu: return body([](V v) { return at_least<T>(v, T(0)); });
    case kClip: return body([=](V v) { return clip<T>(v, a, b); });
    case kLeakyRelu: return body([=](V v) { return v < T(0) ? v * a : v; });
    case kElu: return body([=](V v) { return (v > T(0) ? v : vexpm1<T>(at_most<T>(v, T(0)) * c) * a) * b; });
    case kHardSwish: return body([](V v) { return hardswish<T>(v); });
    case kHardSigmoid: return body([](V v) { return hardsigmoid<T>(v); });
    case kSigmoid: return body([](V v) { return vsigmoid<T>(v); });
    case kLogSigmoid: return body([](V v) { return -vsoftplus<T>(-v); });
    case kSoftplus: return body([=](V v) { return vsoftplus<T>(v * a) / a; });
    case kSoftsign: return body([](V v) { return v / (absolute<T>(v) + T(1)); });
    case kGelu: return body([](V v) { return gelu(v); });
    case kGeluTanh: return body([](V v) { return gelu_tanh<T>(v); });
    case kSilu: return body([](V v) { return silu<T>(v); });
    case kMish: return body([](V v) { return mish<T>(v); });
    case kTanh: return body([](V v) { return vtanh<T>(v); });
    case kExp: return body([](V v) { return vexp<T>(v); });
    case kExpm1: return body([](V v) { return vexpm1<T>(v); });
    case kLog: return body([](V v) { return vlog<T>(v); });
    case kLog1p: return body([](V v) { return vlog1p<T>(v); });
    case kErf: return body([](V v) { return verf<T>(v); });
    case kErfc: return body([](V v) { return verfc<T>(v); });
    case kSqrt: return body([](V v) { return vsqrt<T>(v); });
    case kRsqrt: return body([](V v) { return T(1) / vsqrt<T>(v); });
    case kReciprocal: return body([](V v) { return T(1) / v; });
    case kSquare: return body([](V v) { return v * v; });
    case kNegative: return body([](V v) { return -v; });
    case kAbs: return body([](V v) { return absolute<T>(v); });
  }
}

// y = f(x)    y OUT [n], x IN [n]
template <class S>
void unary(int name, S* y, const S* x, int64_t n, Real<S> a, Real<S> b, Real<S> c) {
  with_unary<Real<S>>(name, a, b, c, [=](const auto& f) __attribute__((always_inline)) { map(n, y, f, x); });
}

// What an epilogue does to a piece of a product: `finish` in table.h
template <class S>
void finish_piece(const Epilogue<S>& how, S* y, int64_t at, int64_t stride, const Real<S>* x, int64_t x_stride, int64_t rows,
                  int64_t columns) {
  using T = Real<S>;
  constexpr int L = kLanes<T>;
  with_unary<T>(how.activation, how.a, how.b, how.c, [&](const auto& f) __attribute__((always_inline)) {
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j += L) {
        const int64_t to = at + i * stride + j, here = columns - j;
        const T* from = x + i * x_stride + j;
        Vec<T> v = here >= L ? load(from) : load_tail(from, here);
        if (how.residual != nullptr) v += here >= L ? load(how.residual + to) : load_tail(how.residual + to, here);
        if (how.before != nullptr) here >= L ? store(how.before + to, v) : store_tail(how.before + to, v, here);
        here >= L ? store(y + to, f(v)) : store_tail(y + to, f(v), here);
      }
  });
}

// dx = g f'(.)    dx OUT [n], g IN [n], ref IN [n]: y for relu, sigmoid, tanh and exp, x for all others
template <class S>
void unary_grad(int name, S* dx, const S* g, const S* ref, int64_t n, Real<S> a, Real<S> b, Real<S> c) {
  using T = Real<S>;
  using V = Vec<T>;
  switch (name) {
    case kRelu: return map(n, dx, [](V d, V y) { return y > T(0) ? d : V{}; }, g, ref);
    case kSigmoid: return map(n, dx, [](V d, V y) { return d * (y * (T(1) - y)); }, g, ref);
    case kTanh: return map(n, dx, [](V d, V y) { return d * (T(1) - y * y); }, g, ref);
    case kExp: return map(n, dx, [](V d, V y) { return d * y; }, g, ref);
    case kClip: return map(n, dx, [=](V d, V x) { return x > a ? (x < b ? d : V{}) : V{}; }, g, ref);
    case kLeakyRelu: return map(n, dx, [=](V d, V x) { return x > T(0) ? d : d * a; }, g, ref);
    case kElu: return map(n, dx, [=](V d, V x) { return (x > T(0) ? d : d * vexp<T>(at_most<T>(x, T(0)) * c) * (a * c)) * b; }, g, ref);
    case kHardSwish: return map(n, dx, [](V d, V x) { return d * hardswish_slope<T>(x); }, g, ref);
    case kHardSigmoid: return map(n, dx, [](V d, V x) { return absolute<T>(x) < T(3) ? d * T(1. / 6) : V{}; }, g, ref);
    case kLogSigmoid: return map(n, dx, [](V d, V x) { return d * vsigmoid<T>(-x); }, g, ref);
    case kSoftplus: return map(n, dx, [=](V d, V x) { return d * vsigmoid<T>(x * a); }, g, ref);
    case kSoftsign: return map(n, dx, [](V d, V x) { const V w = absolute<T>(x) + T(1); return d / (w * w); }, g, ref);
    case kGelu: return map(n, dx, [](V d, V x) { return d * gelu_erf_slope<T>(x); }, g, ref);
    case kGeluTanh: return map(n, dx, [](V d, V x) { return d * gelu_tanh_slope<T>(x); }, g, ref);
    case kSilu: return map(n, dx, [](V d, V x) { return d * silu_slope<T>(x); }, g, ref);
    case kMish: return map(n, dx, [](V d, V x) { return d * mish_slope<T>(x); }, g, ref);
    case kLog: return map(n, dx, [](V d, V x) { return d / x; }, g, ref);
    case kErf: return map(n, dx, [](V d, V x) { return d * erf_slope<T>(x); }, g, ref);
  }
}

// How b lies beside an array [outer, rows, columns]: like it, [outer, columns], [outer], or one value
enum class Beside { same, row, column, one };

template <class S, class F>
PDL_INLINE void binary_of(S* out, const S* a, const S* b, int64_t outer, int64_t rows, int64_t columns, Beside beside, const F& f) {
  using T = Real<S>;
  if (beside == Beside::same) return map(outer * rows * columns, out, f, a, b);
  if (beside == Beside::one) {
    const Vec<T> one = splat<T>(value(*b));
    return map(outer * rows * columns, out, [&](Vec<T> v) { return f(v, one); }, a);
  }
  if (beside == Beside::column)
    return parallel(outer, kPointwiseGrain / (rows * columns) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin, n = rows * columns; o < end; o++) {
        const Vec<T> one = splat<T>(value(b[o]));
        map_range(0, n, out + o * n, [&](Vec<T> v) { return f(v, one); }, a + o * n);
      }
    });
  parallel(outer * rows, kPointwiseGrain / columns + 1, [&](int64_t begin, int64_t end) {
    int64_t left = rows - begin % rows;
    const S* other = b + begin / rows * columns;
    for (int64_t r = begin; r < end; r++) {
      map_range(0, columns, out + r * columns, f, a + r * columns, other);
      if (--left == 0) left = rows, other += columns;
    }
  });
}

// out = a o b, or b o a where `swapped`    out OUT [outer, rows, columns], a IN like it, b IN as `beside` says
template <class S>
void binary(int name, S* out, const S* a, const S* b, int64_t outer, int64_t rows, int64_t columns, int beside, bool swapped) {
  using V = Vec<Real<S>>;
  const auto run = [=](const auto& f) { binary_of(out, a, b, outer, rows, columns, static_cast<Beside>(beside), f); };
  switch (name) {
    case kAdd: return run([](V p, V q) { return p + q; });
    case kMultiply: return run([](V p, V q) { return p * q; });
    case kSubtract: return swapped ? run([](V p, V q) { return q - p; }) : run([](V p, V q) { return p - q; });
    case kDivide: return swapped ? run([](V p, V q) { return q / p; }) : run([](V p, V q) { return p / q; });
    case kMaximum: return run([](V p, V q) { return p > q || p != p ? p : q; });
    case kMinimum: return run([](V p, V q) { return p < q || p != p ? p : q; });
  }
}

// y = x in another storage type    y OUT [n], x IN [n]
inline void narrow_all(bf16* y, const float* x, int64_t n) {
  map(n, y, [](Vec<float> v) { return v; }, x);
}
inline void widen_all(float* y, const bf16* x, int64_t n) {
  map(n, y, [](Vec<float> v) { return v; }, x);
}

}  // namespace pdl::PDL_ISA
