// Batch norm of x [rows, columns], with an activation behind it. S is what x, y and their gradients are stored in; per-channel values are
// Real<S>.
//
// No pass over memory for the activation: forward applies it before y is stored, backward finds its slope again from x (after a residual:
// from y). Statistics and sums are as exact as in norm.h.
#pragma once
#include "activation.h"
#include "norm.h"

namespace pdl::PDL_ISA {

namespace norm {

// Per-channel values, repeated for folded rows: y = f((x - centre) slope + shift), and what a gradient needs beside them.
template <class S>
struct Channels {
  using T = Real<S>;
  Shape shape;
  Scratch<T> memory;
  T *centre, *slope, *shift, *b, *c0;

  Channels(int64_t rows, int64_t columns, const T* mean, const T* rstd, const T* scale, const T* offset)
      : shape(folded<T>(rows, columns)), memory(5 * shape.columns) {
    centre = memory, slope = centre + shape.columns, shift = slope + shape.columns, b = shift + shape.columns, c0 = b + shape.columns;
    spread<T>(centre, shape, [=](int64_t c) { return mean[c]; });
    spread<T>(slope, shape, [=](int64_t c) { return slope_of(rstd, scale, c); });
    spread<T>(shift, shape, [=](int64_t c) { return static_cast<T>(or_zero(offset, c)); });
  }
};

// y = f((x - centre) slope + shift (+ residual))
template <class S>
void normalise(S* y, const S* x, const S* residual, const Channels<S>& k, int64_t rows, int64_t columns, int act) {
  using T = Real<S>;
  with_activation<T>(act, [&](auto f) {
    const auto run = [&](const auto& more) {
      each<T>(rows, columns, bunch_of<T>(k.centre, k.slope, k.shift), [=](const Bunch<T, 3>& p, int64_t at, int lanes) {
        leave(y + at, f.value(more((fetch(x + at, lanes) - p.of[0]) * p.of[1] + p.of[2], at, lanes)), lanes);
      });
    };
    if (residual == nullptr) return run([](Vec<T> z, int64_t, int) { return z; });
    run([=](Vec<T> z, int64_t at, int lanes) { return z + fetch(residual + at, lanes); });
  });
}

template <class T>
void inverse_root(T* rstd, const T* var, int64_t columns, double eps) {
  for (int64_t c = 0; c < columns; c++) rstd[c] = static_cast<T>(1.0 / __builtin_sqrt(static_cast<double>(var[c]) + eps));
}

// From sums of g' (dg) and g' (x - mean) (dgx) to the gradients of the per-channel inputs of batch_norm_apply.
template <class T>
void statistics_gradient(T* dmean, T* dvar, T* dscale, T* dshift, const double* dg, const double* dgx, const T* rstd, const T* scale,
                         int64_t columns) {
  for (int64_t c = 0; c < columns; c++) {
    const double r = static_cast<double>(rstd[c]);
    dmean[c] = static_cast<T>(-dg[c] * or_one(scale, c) * r);
    dvar[c] = static_cast<T>(dgx[c] * or_one(scale, c) * r * r * r * -0.5);
    dscale[c] = static_cast<T>(dgx[c] * r);
    dshift[c] = static_cast<T>(dg[c]);
  }
}

}  // namespace norm

// y = f((x - mean) rstd scale + shift (+ residual)), f the activation; var is the biased variance, rstd = 1 / sqrt(var + eps)
// y OUT [rows, columns], mean, var, rstd OUT [columns]; x, residual (or null) IN [rows, columns]; scale, shift (or null) IN [columns]
template <class S>
void batch_norm(S* y, Real<S>* mean, Real<S>* var, Real<S>* rstd, const S* x, const Real<S>* scale, const Real<S>* shift, const S* residual,
                int64_t rows, int64_t columns, double eps, int act) {
  using namespace norm;
  using T = Real<S>;
  Scratch<double> stats(2 * columns);
  double *m = stats, *q = m + columns;
  moments(m, q, x, rows, columns);
  for (int64_t c = 0; c < columns; c++) {
    q[c] = q[c] / static_cast<double>(rows);
    mean[c] = static_cast<T>(m[c]);
    var[c] = static_cast<T>(q[c]);
    rstd[c] = static_cast<T>(1.0 / __builtin_sqrt(q[c] + eps));
  }
  normalise(y, x, residual, Channels<S>(rows, columns, mean, rstd, scale, shift), rows, columns, act);
}

// The same with given statistics.   y OUT; x, residual (or null) IN [rows, columns]; mean, var, scale, shift (or null) IN [columns]
template <class S>
void batch_norm_apply(S* y, const S* x, const Real<S>* mean, const Real<S>* var, const Real<S>* scale, const Real<S>* shift,
                      const S* residual, int64_t rows, int64_t columns, double eps, int act) {
  using namespace norm;
  Scratch<Real<S>> rstd(columns);
  inverse_root<Real<S>>(rstd, var, columns, eps);
  normalise(y, x, residual, Channels<S>(rows, columns, mean, rstd, scale, shift), rows, columns, act);
}

// The gradient of batch_norm, with g' = g f'(.): dshift = sum g', dscale = sum g' xhat, dresidual = g',
// dx = scale rstd (g' - dshift / rows - xhat dscale / rows). f' comes from x, or from y where there was a residual (then f is relu or relu6).
// dx, dresidual (or null) OUT [rows, columns], dscale, dshift OUT [columns]; g, x, y IN [rows, columns] (y with dresidual);
// mean, rstd, scale, shift (or null) IN [columns]
template <class S>
void batch_norm_grad(S* dx, Real<S>* dscale, Real<S>* dshift, S* dresidual, const S* g, const S* x, const S* y, const Real<S>* mean,
                     const Real<S>* rstd, const Real<S>* scale, const Real<S>* shift, int64_t rows, int64_t columns, int act) {
  using namespace norm;
  using T = Real<S>;
  const Channels<S> k(rows, columns, mean, rstd, scale, shift);
  Scratch<double> sums(2 * columns);
  double *dg = sums, *dgx = dg + columns;
  with_activation<T>(act, [&](auto f) {
    // u_of(offset, lanes, z): g' where the normalised value is z
    const auto reduce = [&](const auto& u_of) {
      column_sums<T>(dg, dgx, rows, columns, bunch_of<T>(k.centre, k.slope, k.shift),
                     [=](const Bunch<T, 3>& p, int64_t at, int lanes, Vec<T>& u, Vec<T>& v) {
        const Vec<T> d = fetch(x + at, lanes) - p.of[0];
        u = u_of(at, lanes, d * p.of[1] + p.of[2]);
        v = u * d;
      });
      for (int64_t c = 0; c < columns; c++) {
        dgx[c] *= static_cast<double>(rstd[c]);
        dscale[c] = static_cast<T>(dgx[c]);
        dshift[c] = static_cast<T>(dg[c]);
      }
      const double share = 1.0 / static_cast<double>(rows);
      const auto a = [&](int64_t c) { return -static_cast<double>(k.slope[c]) * share; };
      spread<T>(k.b, k.shape, [&](int64_t c) { return static_cast<T>(a(c) * static_cast<double>(rstd[c]) * dgx[c]); });
      spread<T>(k.c0, k.shape, [&](int64_t c) { return static_cast<T>(a(c) * dg[c]); });
    };
    const auto spread_out = [&](const auto& u_of) {
      each<T>(rows, columns, bunch_of<T>(k.centre, k.slope, k.shift, k.b, k.c0), [=](const Bunch<T, 5>& p, int64_t at, int lanes) {
        const Vec<T> d = fetch(x + at, lanes) - p.of[0];
        leave(dx + at, u_of(at, lanes, d * p.of[1] + p.of[2]) * p.of[1] + (d * p.of[3] + p.of[4]), lanes);
      });
    };
    if constexpr (decltype(f)::kOfValue)
      if (dresidual != nullptr) {
        reduce([=](int64_t at, int lanes, Vec<T>) {
          const Vec<T> kept = f.pull(fetch(g + at, lanes), fetch(y + at, lanes));
          leave(dresidual + at, kept, lanes);
          return kept;
        });
        return spread_out([=](int64_t at, int lanes, Vec<T>) { return fetch(dresidual + at, lanes); });
      }
    const auto again = [=](int64_t at, int lanes, Vec<T> z) { return f.pull(fetch(g + at, lanes), z); };
    reduce(again);
    spread_out(again);
  });
}

// The gradient of batch_norm_apply, in one pass, with g' as above: dx = g' scale rstd, dshift = sum g', dscale = sum g' xhat,
// dmean = -sum g' scale rstd, dvar = -sum g' (x - mean) scale rstd^3 / 2, dresidual = g'
// dx, dresidual (or null) OUT [rows, columns], dmean, dvar, dscale, dshift OUT [columns]; g, x, y IN [rows, columns] (y with dresidual);
// mean, var, scale, shift (or null) IN [columns]
template <class S>
void batch_norm_apply_grad(S* dx, Real<S>* dmean, Real<S>* dvar, Real<S>* dscale, Real<S>* dshift, S* dresidual, const S* g, const S* x,
                           const S* y, const Real<S>* mean, const Real<S>* var, const Real<S>* scale, const Real<S>* shift, int64_t rows,
                           int64_t columns, double eps, int act) {
  using namespace norm;
  using T = Real<S>;
  Scratch<T> rstd(columns);
  inverse_root<T>(rstd, var, columns, eps);
  const Channels<S> k(rows, columns, mean, rstd, scale, shift);
  Scratch<double> sums(2 * columns);
  double *dg = sums, *dgx = dg + columns;
  with_activation<T>(act, [&](auto f) {
    const auto run = [&](const auto& u_of) {
      column_sums<T>(dg, dgx, rows, columns, bunch_of<T>(k.centre, k.slope, k.shift),
                     [=](const Bunch<T, 3>& p, int64_t at, int lanes, Vec<T>& u, Vec<T>& v) {
        const Vec<T> d = fetch(x + at, lanes) - p.of[0];
        u = u_of(at, lanes, d * p.of[1] + p.of[2]);
        v = u * d;
        leave(dx + at, u * p.of[1], lanes);
      });
    };
    if constexpr (decltype(f)::kOfValue)
      if (dresidual != nullptr)
        return run([=](int64_t at, int lanes, Vec<T>) {
          const Vec<T> kept = f.pull(fetch(g + at, lanes), fetch(y + at, lanes));
          leave(dresidual + at, kept, lanes);
          return kept;
        });
    run([=](int64_t at, int lanes, Vec<T> z) { return f.pull(fetch(g + at, lanes), z); });
  });
  statistics_gradient<T>(dmean, dvar, dscale, dshift, dg, dgx, rstd, scale, columns);
}

}  // namespace pdl::PDL_ISA
