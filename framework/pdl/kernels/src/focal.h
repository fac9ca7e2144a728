// Losses of a logit x and its target t in [0, 1] that count easy elements less; s = sigmoid(x), p = -log(1 - s), n = -log s.
#pragma once
#include "pointwise.h"

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

}  // namespace pdl::PDL_ISA::focal
