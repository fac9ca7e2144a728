// The largest or smallest of the middle of x [outer, n, inner], NaN if one is: maxima over channels or places.
#pragma once
#include "bf16.h"
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA {
namespace extremes {

constexpr int64_t kGrain = 32768;  // elements that are worth a thread

// Each lane's larger (smaller) one; NaN if one of both is.
template <class T, bool kLargest>
PDL_INLINE Vec<T> further(Vec<T> a, Vec<T> b) {
  return (kLargest ? b > a : b < a) | (b != b) ? b : a;
}

// of x [n], n > 0
template <class S, bool kLargest>
PDL_INLINE Real<S> of_row(const S* x, int64_t n) {
  using T = Real<S>;
  constexpr int L = kLanes<T>, N = 4;
  const auto both = [](Vec<T> a, Vec<T> b) { return further<T, kLargest>(a, b); };
  Vec<T> most = value(x[0]) - Vec<T>{};
  int64_t i = 0;
  if (n >= N * L) {
    Vec<T> v[N];
    for (int j = 0; j < N; j++) v[j] = load(x + j * L);
    for (i = N * L; i + N * L <= n; i += N * L)
      for (int j = 0; j < N; j++) v[j] = both(v[j], load(x + i + j * L));
    most = both(both(v[0], v[1]), both(v[2], v[3]));
  }
  for (; i + L <= n; i += L) most = both(most, load(x + i));
  for (; i < n; i++) most = both(most, value(x[i]) - Vec<T>{});
  return across<T>(most, both);
}

// y OUT [columns] of x [n, columns] with rows of `inner`, columns <= 4 vectors
template <class S, bool kLargest>
PDL_INLINE void of_columns(S* y, const S* x, int64_t n, int64_t inner, int64_t columns) {
  using T = Real<S>;
  constexpr int64_t L = kLanes<T>;
  for (int64_t c = 0; c < columns; c += L) {
    const int64_t here = columns - c < L ? columns - c : L;
    const auto get = [=](int64_t r) { return here == L ? load(x + r * inner + c) : load_tail(x + r * inner + c, here); };
    Vec<T> most = get(0);
    for (int64_t r = 1; r < n; r++) most = further<T, kLargest>(most, get(r));
    here == L ? store(y + c, most) : store_tail(y + c, most, here);
  }
}

template <class S, bool kLargest>
void run(S* y, const S* x, int64_t outer, int64_t n, int64_t inner) {
  if (inner == 1)
    return parallel(outer, 1 + kGrain / n, [=](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; o++) put(y + o, of_row<S, kLargest>(x + o * n, n));
    });
  constexpr int64_t width = 4 * kLanes<Real<S>>;
  const int64_t blocks = (inner + width - 1) / width;
  parallel(outer * blocks, 1 + kGrain / (n * (inner < width ? inner : width)), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t o = i / blocks, c = i % blocks * width;
      of_columns<S, kLargest>(y + o * inner + c, x + o * n * inner + c, n, inner, inner - c < width ? inner - c : width);
    }
  });
}

}  // namespace extremes

// y[o, i] = max or min over r of x[o, r, i]    y OUT [outer, inner], x IN [outer, n, inner], n > 0
template <class S>
void extremes_of(S* y, const S* x, int64_t outer, int64_t n, int64_t inner, bool largest) {
  largest ? extremes::run<S, true>(y, x, outer, n, inner) : extremes::run<S, false>(y, x, outer, n, inner);
}

}  // namespace pdl::PDL_ISA
