// Activations that kernels apply on the way, each with `value(z)` and `pull(g, z)`, the gradient g f'(z).
#pragma once
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA {

// kOfValue: z of `pull` may be the value of the function.
template <class T>
struct NoActivation {
  static constexpr bool kOfValue = false;
  PDL_INLINE Vec<T> value(Vec<T> z) const { return z; }
  PDL_INLINE Vec<T> pull(Vec<T> g, Vec<T>) const { return g; }
};

// min(max(z, 0), high); its gradient is 0 at both ends
template <class T>
struct Clamp {
  static constexpr bool kOfValue = true;
  T high;
  PDL_INLINE Vec<T> value(Vec<T> z) const { return at_most<T>(at_least<T>(z, T(0)), high); }
  PDL_INLINE Vec<T> pull(Vec<T> g, Vec<T> z) const { return z > T(0) ? (z < high ? g : Vec<T>{}) : Vec<T>{}; }
};

// z min(max(z / 6 + 1/2, 0), 1)
template <class T>
struct HardSwish {
  static constexpr bool kOfValue = false;
  PDL_INLINE Vec<T> value(Vec<T> z) const { return z * at_most<T>(at_least<T>(z * T(1.0 / 6) + T(0.5), T(0)), T(1)); }
  PDL_INLINE Vec<T> pull(Vec<T> g, Vec<T> z) const {
    return z <= T(-3) ? Vec<T>{} : z >= T(3) ? g : g * (z * T(1.0 / 3) + T(0.5));
  }
};

// z sigmoid(z)
template <class T>
struct Silu {
  static constexpr bool kOfValue = false;
  PDL_INLINE Vec<T> value(Vec<T> z) const { return z * vsigmoid<T>(z); }
  PDL_INLINE Vec<T> pull(Vec<T> g, Vec<T> z) const {
    const Vec<T> s = vsigmoid<T>(z);
    return g * (s * (z * (T(1) - s) + T(1)));
  }
};

// body(f) with the activation that `act` (an Act) names.
template <class T, class F>
PDL_INLINE void with_activation(int act, const F& body) {
  switch (act) {
    case kActRelu:
    case kActRelu6: return body(Clamp<T>{act == kActRelu ? static_cast<T>(__builtin_inf()) : T(6)});
    case kActHardSwish: return body(HardSwish<T>{});
    case kActSilu: return body(Silu<T>{});
  }
  body(NoActivation<T>{});
}

}  // namespace pdl::PDL_ISA
