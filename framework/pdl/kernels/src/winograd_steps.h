// The one-dimensional transforms of Winograd's filters F(m x m, 3x3), m = 2 or 4, over any stride.
#pragma once
#include "vec.h"

namespace pdl::PDL_ISA::winograd {

using V = Vec<float>;

#define PDL_STEP inline __attribute__((always_inline)) void
// F(4x4, 3x3)
// to = B^T x: six values of x
PDL_STEP input_step(V* to, int ts, const V* x, int s) {
  const V a = x[4 * s] - 4 * x[2 * s], b = x[3 * s] - 4 * x[s], c = x[4 * s] - x[2 * s], d = 2 * (x[3 * s] - x[s]);
  to[0] = 4 * x[0] - 5 * x[2 * s] + x[4 * s];
  to[ts] = a + b;
  to[2 * ts] = a - b;
  to[3 * ts] = c + d;
  to[4 * ts] = c - d;
  to[5 * ts] = 4 * x[s] - 5 * x[3 * s] + x[5 * s];
}
// to = A^T m: four values of y from six products
PDL_STEP output_step(V* to, int ts, const V* m, int s) {
  const V a = m[s] + m[2 * s], b = m[s] - m[2 * s], c = m[3 * s] + m[4 * s], d = m[3 * s] - m[4 * s];
  to[0] = m[0] + a + c;
  to[ts] = b + 2 * d;
  to[2 * ts] = a + 4 * c;
  to[3 * ts] = b + 8 * d + m[5 * s];
}
// to = A y: the transpose of output_step
PDL_STEP spread_step(V* to, int ts, const V* y, int s) {
  const V a = y[0] + y[2 * s], b = y[s] + y[3 * s], c = y[0] + 4 * y[2 * s], d = 2 * y[s] + 8 * y[3 * s];
  to[0] = y[0];
  to[ts] = a + b;
  to[2 * ts] = a - b;
  to[3 * ts] = c + d;
  to[4 * ts] = c - d;
  to[5 * ts] = y[3 * s];
}
// to = G w: six values of three
PDL_STEP weight_step(V* to, int ts, const V* w, int s) {
  constexpr float sixth = 1.0f / 6, twelfth = 1.0f / 12, fraction = 1.0f / 24;
  const V even = -sixth * (w[0] + w[2 * s]), wide = fraction * w[0] + sixth * w[2 * s];
  to[0] = 0.25f * w[0];
  to[ts] = even - sixth * w[s];
  to[2 * ts] = even + sixth * w[s];
  to[3 * ts] = wide + twelfth * w[s];
  to[4 * ts] = wide - twelfth * w[s];
  to[5 * ts] = w[2 * s];
}
// to = G^T u: the transpose of weight_step
PDL_STEP gather_step(V* to, int ts, const V* u, int s) {
  constexpr float sixth = 1.0f / 6, twelfth = 1.0f / 12, fraction = 1.0f / 24;
  const V a = u[s] + u[2 * s], b = u[2 * s] - u[s], c = u[3 * s] + u[4 * s], d = u[3 * s] - u[4 * s];
  to[0] = 0.25f * u[0] - sixth * a + fraction * c;
  to[ts] = sixth * b + twelfth * d;
  to[2 * ts] = sixth * (c - a) + u[5 * s];
}

// F(2x2, 3x3): four values of x, four products, two values of y.
PDL_STEP input_step2(V* to, int ts, const V* x, int s) {
  to[0] = x[0] - x[2 * s];
  to[ts] = x[s] + x[2 * s];
  to[2 * ts] = x[2 * s] - x[s];
  to[3 * ts] = x[s] - x[3 * s];
}
PDL_STEP output_step2(V* to, int ts, const V* m, int s) {
  to[0] = m[0] + m[s] + m[2 * s];
  to[ts] = m[s] - m[2 * s] - m[3 * s];
}
PDL_STEP weight_step2(V* to, int ts, const V* w, int s) {
  const V ends = 0.5f * (w[0] + w[2 * s]), middle = 0.5f * w[s];
  to[0] = w[0];
  to[ts] = ends + middle;
  to[2 * ts] = ends - middle;
  to[3 * ts] = w[2 * s];
}

// The filter that gives m x m values of y.
template <int kM>
struct Filter {
  static constexpr int kSide = kM + 2, kPoints = kSide * kSide;  // values of x, and products, in a row of a tile and in a tile
  static PDL_STEP input(V* to, int ts, const V* x, int s) {
    if constexpr (kM == 4) input_step(to, ts, x, s);
    else input_step2(to, ts, x, s);
  }
  static PDL_STEP output(V* to, int ts, const V* m, int s) {
    if constexpr (kM == 4) output_step(to, ts, m, s);
    else output_step2(to, ts, m, s);
  }
  static PDL_STEP weight(V* to, int ts, const V* w, int s) {
    if constexpr (kM == 4) weight_step(to, ts, w, s);
    else weight_step2(to, ts, w, s);
  }
};
#undef PDL_STEP

}  // namespace pdl::PDL_ISA::winograd
