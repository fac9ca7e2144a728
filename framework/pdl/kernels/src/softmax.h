// Softmax and cross-entropy over the rows of x [rows, columns], and their gradients.
#pragma once
#include "norm.h"

namespace pdl::PDL_ISA {
namespace softmax_rows {

using norm::Count, norm::get, norm::put, norm::tiles, norm::row_sum, norm::within;

// body(row) over all rows, shared out among the threads
template <class F>
PDL_INLINE void rows_of(int64_t rows, int64_t columns, const F& body) {
  parallel(rows, norm::kGrainElements / (columns > 0 ? columns : 1) + 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) body(r);
  });
}

template <class T>
PDL_INLINE Vec<T> pad_low(Vec<T> v, int lanes) { return within<T>(v, lanes, -static_cast<T>(__builtin_inf())); }
template <class T>
PDL_INLINE T row_max(const T* x, int64_t columns) {
  Vec<T> most[4];
  for (auto& m : most) m = splat<T>(-static_cast<T>(__builtin_inf()));
  tiles<T>(columns, [&](auto count, int64_t c, int lanes) {
    for (int j = 0; j < decltype(count)::value; j++) most[j] = at_least<T>(pad_low<T>(get<T>(x + c + j * kLanes<T>, lanes), lanes), most[j]);
  });
  const Vec<T> m = at_least<T>(at_least<T>(most[0], most[1]), at_least<T>(most[2], most[3]));
  return norm::over_lanes<T>(m, [](T a, T b) { return a < b ? b : a; });
}
// log(sum_c e^x[c]), and the row's maximum
template <class T>
PDL_INLINE T row_lse(const T* x, int64_t columns) {
  const T m = row_max<T>(x, columns);
  const T sum = row_sum<T>(columns, [=](int64_t c, int lanes) { return exp_negative<T>(pad_low<T>(get<T>(x + c, lanes), lanes) - m); });
  return m + vlog<T>(splat<T>(sum))[0];
}
// f(column, lanes) -> vector, stored in y
template <class T, class F>
PDL_INLINE void row_put(T* y, int64_t columns, const F& f) {
  tiles<T>(columns, [&](auto count, int64_t c, int lanes) {
    for (int j = 0; j < decltype(count)::value; j++) put<T>(y + c + j * kLanes<T>, f(c + j * kLanes<T>, lanes), lanes);
  });
}

}  // namespace softmax_rows

// y = e^(x - max) / sum, or its logarithm    y OUT, x IN [rows, columns]
template <class T>
void softmax(T* y, const T* x, int64_t rows, int64_t columns, bool logarithm) {
  using namespace softmax_rows;
  rows_of(rows, columns, [=](int64_t r) {
    const T* from = x + r * columns;
    T* to = y + r * columns;
    if (logarithm) {
      const T m = row_max<T>(from, columns);
      const T sum = row_sum<T>(columns, [=](int64_t c, int lanes) { return exp_negative<T>(pad_low<T>(get<T>(from + c, lanes), lanes) - m); });
      const T log_sum = vlog<T>(splat<T>(sum))[0];
      return row_put<T>(to, columns, [=](int64_t c, int lanes) { return get<T>(from + c, lanes) - m - log_sum; });
    }
    const T m = row_max<T>(from, columns);
    const T sum = row_sum<T>(columns, [=](int64_t c, int lanes) {
      const Vec<T> e = exp_negative<T>(pad_low<T>(get<T>(from + c, lanes), lanes) - m);
      put<T>(to + c, e, lanes);
      return e;
    });
    const T factor = T(1) / sum;
    row_put<T>(to, columns, [=](int64_t c, int lanes) { return get<T>(to + c, lanes) * factor; });
  });
}

// dx = y (g - sum g y), or for the logarithm dx = g - e^y sum g    dx OUT, g, y IN [rows, columns]
template <class T>
void softmax_grad(T* dx, const T* g, const T* y, int64_t rows, int64_t columns, bool logarithm) {
  using namespace softmax_rows;
  rows_of(rows, columns, [=](int64_t r) {
    const T *gr = g + r * columns, *yr = y + r * columns;
    T* to = dx + r * columns;
    if (logarithm) {
      const T sum = row_sum<T>(columns, [=](int64_t c, int lanes) { return get<T>(gr + c, lanes); });
      return row_put<T>(to, columns, [=](int64_t c, int lanes) { return get<T>(gr + c, lanes) - exp_negative<T>(get<T>(yr + c, lanes)) * sum; });
    }
    const T sum = row_sum<T>(columns, [=](int64_t c, int lanes) { return get<T>(gr + c, lanes) * get<T>(yr + c, lanes); });
    row_put<T>(to, columns, [=](int64_t c, int lanes) { return get<T>(yr + c, lanes) * (get<T>(gr + c, lanes) - sum); });
  });
}

// loss = (1 - s) w[label] (lse - x[label]) + s / columns sum_c w[c] (lse - x[c]), 0 for an ignored label; lse = log sum_c e^x[c]
// loss, lse OUT [rows], x IN [rows, columns], labels IN [rows] checked, weight IN [columns] or null (ones)
template <class T>
void cross_entropy(T* loss, T* lse, const T* x, const int64_t* labels, const T* weight, int64_t rows, int64_t columns, double smoothing,
                   int64_t ignored) {
  using namespace softmax_rows;
  const T spread = static_cast<T>(smoothing / static_cast<double>(columns)), rest = static_cast<T>(1 - smoothing);
  rows_of(rows, columns, [=](int64_t r) {
    const T* from = x + r * columns;
    const int64_t label = labels[r];
    const T l = lse[r] = row_lse<T>(from, columns);
    loss[r] = 0;
    if (label == ignored) return;
    loss[r] = rest * (weight != nullptr ? weight[label] : T(1)) * (l - from[label]);
    if (smoothing == 0) return;
    loss[r] += spread * row_sum<T>(columns, [=](int64_t c, int lanes) {
      const Vec<T> d = within<T>(l - get<T>(from + c, lanes), lanes);
      return weight != nullptr ? d * get<T>(weight + c, lanes) : d;
    });
  });
}

// dx[c] = g (a e^(x[c] - lse) - (1 - s) w[label] [c = label] - s / columns w[c]), a the sum of the two weights; 0 for an ignored label
// dx OUT [rows, columns]; g IN [rows], or [1] for all if `shared`; the others as in cross_entropy
template <class T>
void cross_entropy_grad(T* dx, const T* g, const T* x, const T* lse, const int64_t* labels, const T* weight, int64_t rows, int64_t columns,
                        double smoothing, int64_t ignored, double factor, bool shared) {
  using namespace softmax_rows;
  const T spread = static_cast<T>(smoothing / static_cast<double>(columns)), rest = static_cast<T>(1 - smoothing);
  T all = static_cast<T>(columns);
  if (weight != nullptr) {
    all = 0;
    for (int64_t c = 0; c < columns; c++) all += weight[c];
  }
  rows_of(rows, columns, [=](int64_t r) {
    const T* from = x + r * columns;
    T* to = dx + r * columns;
    const int64_t label = labels[r];
    if (label == ignored) {
      memset(to, 0, columns * sizeof(T));
      return;
    }
    const T d = g[shared ? 0 : r] * static_cast<T>(factor), l = lse[r], own = rest * (weight != nullptr ? weight[label] : T(1));
    const T a = d * (own + spread * all);
    row_put<T>(to, columns, [=](int64_t c, int lanes) {
      const Vec<T> p = exp_negative<T>(get<T>(from + c, lanes) - l) * a;
      if (smoothing == 0) return p;
      return p - (weight != nullptr ? get<T>(weight + c, lanes) : splat<T>(1)) * (spread * d);
    });
    to[label] -= d * own;
  });
}

}  // namespace pdl::PDL_ISA
