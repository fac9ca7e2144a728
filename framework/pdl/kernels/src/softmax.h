// Softmax and cross-entropy over the rows of x [rows, columns], and their gradients.
//
// S is what lies in memory (float, double, bf16), T = Real<S> what is computed in; losses and their parts are T.
#pragma once
#include "bf16.h"
#include "norm.h"

namespace pdl::PDL_ISA {
namespace softmax_rows {

using norm::Count, norm::tiles, norm::row_sum, norm::within;

// `lanes` values (0: a whole vector) from and to memory
template <class S>
PDL_INLINE Vec<Real<S>> get(const S* p, int lanes) { return lanes ? load_tail(p, lanes) : load(p); }
template <class S>
PDL_INLINE void put_row(S* p, Vec<Real<S>> v, int lanes) { lanes ? store_tail(p, v, lanes) : store(p, v); }

// body(row) over all rows, shared out among the threads
template <class F>
PDL_INLINE void rows_of(int64_t rows, int64_t columns, const F& body) {
  parallel(rows, norm::kGrainElements / (columns > 0 ? columns : 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) body(r);
  });
}

template <class T>
PDL_INLINE Vec<T> pad_low(Vec<T> v, int lanes) { return within<T>(v, lanes, -static_cast<T>(__builtin_inf())); }
template <class S, class T = Real<S>>
PDL_INLINE T row_max(const S* x, int64_t columns) {
  Vec<T> most[4];
  for (auto& m : most) m = splat<T>(-static_cast<T>(__builtin_inf()));
  tiles<T>(columns, [&](auto count, int64_t c, int lanes) {
    for (int j = 0; j < decltype(count)::value; j++) most[j] = at_least<T>(pad_low<T>(get(x + c + j * kLanes<T>, lanes), lanes), most[j]);
  });
  const Vec<T> m = at_least<T>(at_least<T>(most[0], most[1]), at_least<T>(most[2], most[3]));
  return norm::over_lanes<T>(m, [](T a, T b) { return a < b ? b : a; });
}
// e^(x - m) at a column, 0 behind the end of the row
template <class S, class T = Real<S>>
PDL_INLINE Vec<T> exp_at(const S* x, T m, int64_t c, int lanes) { return exp_negative<T>(pad_low<T>(get(x + c, lanes), lanes) - m); }
// log(sum_c e^x[c])
template <class S, class T = Real<S>>
PDL_INLINE T row_lse(const S* x, int64_t columns) {
  const T m = row_max(x, columns);
  return m + vlog<T>(splat<T>(row_sum<T>(columns, [=](int64_t c, int lanes) { return exp_at(x, m, c, lanes); })))[0];
}
// f(column, lanes) -> vector, stored in y
template <class S, class F>
PDL_INLINE void row_put(S* y, int64_t columns, const F& f) {
  using T = Real<S>;
  tiles<T>(columns, [&](auto count, int64_t c, int lanes) {
    for (int j = 0; j < decltype(count)::value; j++) put_row(y + c + j * kLanes<T>, f(c + j * kLanes<T>, lanes), lanes);
  });
}
// weight[c] or 1
template <class T>
PDL_INLINE Vec<T> weight_at(const T* weight, int64_t c, int lanes) { return weight != nullptr ? get(weight + c, lanes) : splat<T>(1); }

}  // namespace softmax_rows

// Rows that divide a vector: as many at a time as it holds.
template <class S, int kWidth>
void softmax_short(S* y, const S* x, int64_t rows) {
  using T = Real<S>;
  constexpr int64_t lanes = kLanes<T>;
  const int64_t n = rows * kWidth;
  parallel((n + lanes - 1) / lanes, norm::kGrainElements / lanes, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int here = n - i * lanes < lanes ? static_cast<int>(n - i * lanes) : 0;
      const Vec<T> v = softmax_rows::get(x + i * lanes, here);
      const Vec<T> m = pdl::PDL_ISA::within<T, kWidth>(v, [](Vec<T> a, Vec<T> b) { return at_least<T>(a, b); });
      const Vec<T> e = exp_negative<T>(v - m);
      const Vec<T> sum = pdl::PDL_ISA::within<T, kWidth>(e, [](Vec<T> a, Vec<T> b) { return a + b; });
      softmax_rows::put_row(y + i * lanes, e * (T(1) / sum), here);
    }
  });
}

// y = e^(x - max) / sum, or its logarithm    y OUT, x IN [rows, columns]
template <class S>
void softmax(S* y, const S* x, int64_t rows, int64_t columns, bool logarithm) {
  using namespace softmax_rows;
  using T = Real<S>;
  if (!logarithm && as_short_rows<T>(columns, [=](auto width) { softmax_short<S, width()>(y, x, rows); })) return;
  rows_of(rows, columns, [=](int64_t r) {
    const S* from = x + r * columns;
    S* to = y + r * columns;
    const T m = row_max(from, columns);
    if (logarithm) {
      const T log_sum = vlog<T>(splat<T>(row_sum<T>(columns, [=](int64_t c, int lanes) { return exp_at(from, m, c, lanes); })))[0];
      return row_put(to, columns, [=](int64_t c, int lanes) { return get(from + c, lanes) - m - log_sum; });
    }
    T* e;  // y itself, or what is rounded into it at the end
    if constexpr (sizeof(S) < sizeof(T))
      e = static_cast<T*>(scratch(Slot::kWideRow, columns * sizeof(T)));
    else
      e = to;
    const T sum = row_sum<T>(columns, [=](int64_t c, int lanes) {
      const Vec<T> v = exp_at(from, m, c, lanes);
      put_row(e + c, v, lanes);
      return v;
    });
    const T factor = T(1) / sum;
    row_put(to, columns, [=](int64_t c, int lanes) { return get(e + c, lanes) * factor; });
  });
}

// dx = y (g - sum g y), or for the logarithm dx = g - e^y sum g    dx OUT, g, y IN [rows, columns]
template <class S>
void softmax_grad(S* dx, const S* g, const S* y, int64_t rows, int64_t columns, bool logarithm) {
  using namespace softmax_rows;
  using T = Real<S>;
  rows_of(rows, columns, [=](int64_t r) {
    const S *gr = g + r * columns, *yr = y + r * columns;
    S* to = dx + r * columns;
    if (logarithm) {
      const T sum = row_sum<T>(columns, [=](int64_t c, int lanes) { return get(gr + c, lanes); });
      return row_put(to, columns, [=](int64_t c, int lanes) { return get(gr + c, lanes) - exp_negative<T>(get(yr + c, lanes)) * sum; });
    }
    const T sum = row_sum<T>(columns, [=](int64_t c, int lanes) { return get(gr + c, lanes) * get(yr + c, lanes); });
    row_put(to, columns, [=](int64_t c, int lanes) { return get(yr + c, lanes) * (get(gr + c, lanes) - sum); });
  });
}

// loss = (1 - s) w[label] (lse - x[label]) + s / columns sum_c w[c] (lse - x[c]), 0 for an ignored label; lse = log sum_c e^x[c]
// loss, lse OUT [rows], x IN [rows, columns], labels IN [rows] checked, weight IN [columns] or null (ones)
template <class S>
void cross_entropy(Real<S>* loss, Real<S>* lse, const S* x, const int64_t* labels, const Real<S>* weight, int64_t rows, int64_t columns,
                   double smoothing, int64_t ignored) {
  using namespace softmax_rows;
  using T = Real<S>;
  const T spread = static_cast<T>(smoothing / static_cast<double>(columns)), rest = static_cast<T>(1 - smoothing);
  rows_of(rows, columns, [=](int64_t r) {
    const S* from = x + r * columns;
    const int64_t label = labels[r];
    const T l = lse[r] = row_lse(from, columns);
    loss[r] = 0;
    if (label == ignored) return;
    loss[r] = rest * (weight != nullptr ? weight[label] : T(1)) * (l - value(from[label]));
    if (smoothing == 0) return;
    loss[r] += spread * row_sum<T>(columns, [=](int64_t c, int lanes) {
      return within<T>(l - get(from + c, lanes), lanes) * weight_at(weight, c, lanes);
    });
  });
}

// dx[c] = g (a e^(x[c] - lse) - (1 - s) w[label] [c = label] - s / columns w[c]), a the sum of the two weights; 0 for an ignored label
// dx OUT [rows, columns]; g IN [rows], or [1] for all if `shared`; the others as in cross_entropy
template <class S>
void cross_entropy_grad(S* dx, const Real<S>* g, const S* x, const Real<S>* lse, const int64_t* labels, const Real<S>* weight, int64_t rows,
                        int64_t columns, double smoothing, int64_t ignored, double factor, bool shared) {
  using namespace softmax_rows;
  using T = Real<S>;
  const T spread = static_cast<T>(smoothing / static_cast<double>(columns)), rest = static_cast<T>(1 - smoothing);
  T all = static_cast<T>(columns);
  if (weight != nullptr) {
    all = 0;
    for (int64_t c = 0; c < columns; c++) all += weight[c];
  }
  rows_of(rows, columns, [=](int64_t r) {
    const S* from = x + r * columns;
    S* to = dx + r * columns;
    const int64_t label = labels[r];
    if (label == ignored) {
      memset(to, 0, columns * sizeof(S));
      return;
    }
    const T d = g[shared ? 0 : r] * static_cast<T>(factor), l = lse[r], own = rest * (weight != nullptr ? weight[label] : T(1));
    const T a = d * (own + spread * all);
    const auto at = [=](Vec<T> v, Vec<T> w) { return exp_negative<T>(v - l) * a - w * (spread * d); };
    const T chosen = at(splat<T>(value(from[label])), splat<T>(weight != nullptr ? weight[label] : T(1)))[0];
    row_put(to, columns, [=](int64_t c, int lanes) {
      return smoothing == 0 ? exp_negative<T>(get(from + c, lanes) - l) * a : at(get(from + c, lanes), weight_at(weight, c, lanes));
    });
    put(to + label, chosen - d * own);
  });
}

// loss = sum_c q[c] (lse - x[c]), q[c] = w[c] ((1 - s) target[c] + s / columns), mass = sum_c q[c]
// loss, lse, mass OUT [rows], x, target IN [rows, columns], weight IN [columns] or null (ones)
template <class S>
void soft_cross_entropy(Real<S>* loss, Real<S>* lse, Real<S>* mass, const S* x, const Real<S>* target, const Real<S>* weight, int64_t rows,
                        int64_t columns, double smoothing) {
  using namespace softmax_rows;
  using T = Real<S>;
  const T spread = static_cast<T>(smoothing / static_cast<double>(columns)), rest = static_cast<T>(1 - smoothing);
  rows_of(rows, columns, [=](int64_t r) {
    const S* from = x + r * columns;
    const T* goal = target + r * columns;
    const T l = lse[r] = row_lse(from, columns);
    Vec<T> all{};
    loss[r] = row_sum<T>(columns, [&](int64_t c, int lanes) {
      const Vec<T> q = within<T>((get(goal + c, lanes) * rest + spread) * weight_at(weight, c, lanes), lanes);
      all += q;
      return q == T(0) ? Vec<T>{} : q * (l - get(from + c, lanes));  // a class that is ruled out may have x = -inf
    });
    mass[r] = norm::total<T>(all);
  });
}

// dx[c] = g factor (mass e^(x[c] - lse) - q[c])    dx OUT [rows, columns]; g IN [rows], or [1] if `shared`; the others as above
template <class S>
void soft_cross_entropy_grad(S* dx, const Real<S>* g, const S* x, const Real<S>* lse, const Real<S>* mass, const Real<S>* target,
                             const Real<S>* weight, int64_t rows, int64_t columns, double smoothing, double factor, bool shared) {
  using namespace softmax_rows;
  using T = Real<S>;
  const T spread = static_cast<T>(smoothing / static_cast<double>(columns)), rest = static_cast<T>(1 - smoothing);
  rows_of(rows, columns, [=](int64_t r) {
    const S* from = x + r * columns;
    const T* goal = target + r * columns;
    const T d = g[shared ? 0 : r] * static_cast<T>(factor), l = lse[r], a = mass[r];
    row_put(dx + r * columns, columns, [=](int64_t c, int lanes) {
      const Vec<T> q = (get(goal + c, lanes) * rest + spread) * weight_at(weight, c, lanes);
      return (exp_negative<T>(get(from + c, lanes) - l) * a - q) * d;
    });
  });
}

}  // namespace pdl::PDL_ISA
