// Losses of a logit x and its target t in [0, 1] that count easy elements less; s = sigmoid(x), p = -log(1 - s), n = -log s.
// And that of a distribution over bins whose mean is to be t.
#pragma once
#include "pack.h"
#include "pointwise.h"
#include "softmax.h"

namespace pdl::PDL_ISA::focal {

template <class T>
struct Terms {
  Vec<T> s, p, n;
  PDL_INLINE explicit Terms(Vec<T> x) {
    const Vec<T> u = exp_negative<T>(-absolute<T>(x)), rest = log1p_unit<T>(u);
    s = (x < T(0) ? u : splat<T>(1)) / (u + T(1));
    p = at_least<T>(x, T(0)) + rest, n = at_least<T>(-x, T(0)) + rest;
  }
};

// x^a for x in [0, 1]
template <class T>
PDL_INLINE Vec<T> power(Vec<T> x, T a) {
  if (a == T(2)) return x * x;
  return x > T(0) ? exp_negative<T>(vlog<T>(x) * a) : splat<T>(a == T(0) ? 1 : 0);
}

// positive t (1 - s)^gamma n + negative (1 - t) s^gamma p    (Lin et al., arXiv 1708.02002)
template <class T>
struct Sigmoid {
  T positive, negative, gamma;
  PDL_INLINE Vec<T> value(Vec<T> x, Vec<T> t) const {
    const Terms<T> at(x);
    return t * positive * exp_negative<T>(at.p * -gamma) * at.n + (T(1) - t) * negative * exp_negative<T>(at.n * -gamma) * at.p;
  }
  PDL_INLINE Vec<T> slope(Vec<T> x, Vec<T> t) const {
    const Terms<T> at(x);
    const Vec<T> rest = T(1) - at.s;
    return (T(1) - t) * negative * exp_negative<T>(at.n * -gamma) * (rest * at.p * gamma + at.s) -
           t * positive * exp_negative<T>(at.p * -gamma) * (at.s * at.n * gamma + rest);
  }
};

// |t - s|^gamma (p - x t)    (Li et al., arXiv 2006.04388)
template <class T>
struct Quality {
  T positive, negative, gamma;
  PDL_INLINE Vec<T> value(Vec<T> x, Vec<T> t) const {
    const Terms<T> at(x);
    return power<T>(absolute<T>(t - at.s), gamma) * (at.p - x * t);
  }
  PDL_INLINE Vec<T> slope(Vec<T> x, Vec<T> t) const {
    const Terms<T> at(x);
    const Vec<T> off = at.s - t, far = absolute<T>(off), share = power<T>(far, gamma);
    const Vec<T> growth = far > T(0) ? share / off * gamma : Vec<T>{};
    return growth * at.s * (T(1) - at.s) * (at.p - x * t) + share * off;
  }
};

// t (p - x t) where t > 0, else negative s^gamma p    (Zhang et al., arXiv 2008.13367)
template <class T>
struct Varied {
  T positive, negative, gamma;
  PDL_INLINE Vec<T> value(Vec<T> x, Vec<T> t) const {
    const Terms<T> at(x);
    return t > T(0) ? t * (at.p - x * t) : exp_negative<T>(at.n * -gamma) * at.p * negative;
  }
  PDL_INLINE Vec<T> slope(Vec<T> x, Vec<T> t) const {
    const Terms<T> at(x);
    return t > T(0) ? t * (at.s - t) : exp_negative<T>(at.n * -gamma) * ((T(1) - at.s) * at.p * gamma + at.s) * negative;
  }
};

template <class T, class Body>
void with_kind(int kind, double positive, double negative, double gamma, const Body& body) {
  const T a = static_cast<T>(positive), b = static_cast<T>(negative), c = static_cast<T>(gamma);
  if (kind == kSigmoidFocal) body(Sigmoid<T>{a, b, c});
  else if (kind == kQualityFocal) body(Quality<T>{a, b, c});
  else body(Varied<T>{a, b, c});
}

template <class T>
void loss(T* y, const T* x, const T* target, int64_t n, int kind, double positive, double negative, double gamma) {
  with_kind<T>(kind, positive, negative, gamma, [=](auto f) { map(n, y, [f](Vec<T> v, Vec<T> t) { return f.value(v, t); }, x, target); });
}

// dx = g times the derivative in x
template <class T>
void slope(T* dx, const T* g, const T* x, const T* target, int64_t n, int kind, double positive, double negative, double gamma) {
  with_kind<T>(kind, positive, negative, gamma,
               [=](auto f) { map(n, dx, [f](Vec<T> d, Vec<T> v, Vec<T> t) { return d * f.slope(v, t); }, g, x, target); });
}

// The weight of bin i for the target t, 1 - |i - t| or 0; NaN where t is NaN.
template <class T>
PDL_INLINE Vec<T> bin_weight(Vec<T> i, Vec<T> t) { return at_least<T>(T(1) - absolute<T>(i - t), T(0)); }
// 0, 1, 2, ...
template <class T>
PDL_INLINE Vec<T> lane_numbers() {
  Vec<T> v;
  for (int i = 0; i < kLanes<T>; i++) v[i] = static_cast<T>(i);
  return v;
}
// The sum of the weights of all bins, 1 for t in [0, bins - 1].
template <class T>
PDL_INLINE T bin_weights(T t, int64_t bins) {
  const T low = t + T(1), high = static_cast<T>(bins) - t, v = high < low ? high : low;
  return v < T(0) ? T(0) : v > T(1) ? T(1) : v;
}

// loss = sum_i w[i] (lse - x[i]), lse = log sum_i e^x[i], w[i] = max(1 - |i - target|, 0)    (Li et al., arXiv 2006.04388)
// loss, lse OUT [rows], x IN [rows, bins], target IN [rows]. As many rows at a time as a vector has lanes: bins are few.
template <class T>
void distribution(T* loss, T* lse, const T* x, const T* target, int64_t rows, int64_t bins) {
  constexpr int64_t lanes = kLanes<T>;
  parallel((rows + lanes - 1) / lanes, norm::kGrainElements / (lanes * bins) + 1, [=](int64_t begin, int64_t end) {
    T* turned = static_cast<T*>(scratch(Slot::kTurned, bins * lanes * sizeof(T)));  // [bins, lanes]
    for (int64_t first = begin * lanes; first < least(rows, end * lanes); first += lanes) {
      const int here = static_cast<int>(least(lanes, rows - first)), tail = here < lanes ? here : 0;
      transpose(turned, lanes, reinterpret_cast<const char*>(x + first * bins), bins * static_cast<int64_t>(sizeof(T)), bins, here);
      const auto at = [=](int64_t i) __attribute__((always_inline)) { return load(turned + i * lanes); };
      Vec<T> most = at(0), sum{}, all{};
      for (int64_t i = 1; i < bins; i++) most = at_least<T>(at(i), most);
      for (int64_t i = 0; i < bins; i++) sum += exp_negative<T>(at(i) - most);
      const Vec<T> l = most + vlog<T>(sum), t = norm::get(target + first, tail);
      for (int64_t i = 0; i < bins; i++) {
        const Vec<T> w = bin_weight<T>(splat<T>(static_cast<T>(i)), t);
        all += w == T(0) ? Vec<T>{} : w * (l - at(i));  // a bin that is ruled out may have x = -inf
      }
      norm::put(loss + first, all, tail), norm::put(lse + first, l, tail);
    }
  });
}

// dx[i] = g (e^(x[i] - lse) sum w - w[i])    dx OUT, x IN [rows, bins], g, lse, target IN [rows]
template <class T>
void distribution_slope(T* dx, const T* g, const T* x, const T* lse, const T* target, int64_t rows, int64_t bins) {
  using namespace softmax_rows;
  rows_of(rows, bins, [=](int64_t r) {
    const T* from = x + r * bins;
    const T d = g[r], l = lse[r], t = target[r], mass = bin_weights(t, bins);
    row_put(dx + r * bins, bins, [=](int64_t c, int tail) {
      return (exp_negative<T>(get(from + c, tail) - l) * mass - bin_weight<T>(lane_numbers<T>() + static_cast<T>(c), splat<T>(t))) * d;
    });
  });
}

}  // namespace pdl::PDL_ISA::focal
