// Sums over the middle of x [outer, n, inner]: biases' gradients, means over pictures, whole arrays.
//
// The order of additions follows from the sizes alone: the same bits for any number of threads. A block of rows is summed in vectors of T = Real<S>,
// blocks are added up: errors grow with the square root of n at worst.
#pragma once
#include "bf16.h"
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA {
namespace summing {

constexpr int64_t kBlock = 128;         // rows that are added before their sum is
constexpr int64_t kGrain = 32768;       // elements that are worth a thread
constexpr int64_t kMostFolded = 64;     // rows that are read as one where they are short

// sum [columns] += rows of x [rows, columns]
template <class S>
PDL_INLINE void add_rows(Real<S>* sum, const S* x, int64_t rows, int64_t columns) {
  using T = Real<S>;
  constexpr int L = kLanes<T>;
  const auto tile = [=](auto* column, int64_t c, int lanes) {
    constexpr int N = sizeof(*column) / sizeof(Vec<T>);
    for (int64_t r = 0; r < rows; r += kBlock) {
      const int64_t end = r + kBlock < rows ? r + kBlock : rows;
      Vec<T> v[N] = {};
      for (int64_t i = r; i < end; i++)
        for (int j = 0; j < N; j++) v[j] += lanes ? load_tail(x + i * columns + c, lanes) : load(x + i * columns + c + j * L);
      for (int j = 0; j < N; j++) {
        T* to = sum + c + j * L;
        lanes ? store_tail(to, load_tail(to, lanes) + v[j], lanes) : store(to, load(to) + v[j]);
      }
    }
  };
  struct Four { Vec<T> v[4]; };
  struct One { Vec<T> v[1]; };
  int64_t c = 0;
  for (; c + 4 * L <= columns; c += 4 * L) tile(static_cast<Four*>(nullptr), c, 0);
  for (; c + L <= columns; c += L) tile(static_cast<One*>(nullptr), c, 0);
  if (c < columns) tile(static_cast<One*>(nullptr), c, static_cast<int>(columns - c));
}

// Sum of x [n]
template <class S>
PDL_INLINE Real<S> total(const S* x, int64_t n) {
  using T = Real<S>;
  constexpr int L = kLanes<T>, N = 4;
  Vec<T> all[N] = {};
  int64_t i = 0;
  while (i + N * L <= n) {
    Vec<T> v[N] = {};
    for (int64_t k = 0; k < kBlock && i + N * L <= n; k++, i += N * L)
      for (int j = 0; j < N; j++) v[j] += load(x + i + j * L);
    for (int j = 0; j < N; j++) all[j] += v[j];
  }
  for (; i + L <= n; i += L) all[0] += load(x + i);
  if (i < n) all[1] += load_tail(x + i, n - i);
  const Vec<T> four = (all[0] + all[1]) + (all[2] + all[3]);
  T sum = 0;
  for (int l = 0; l < L; l++) sum += four[l];
  return sum;
}

// sum OUT [inner] of the rows [n, inner] at x; `wide` is room for kMostFolded * 4 vectors
template <class S>
PDL_INLINE void sum_rows(Real<S>* sum, const S* x, int64_t n, int64_t inner, Real<S>* wide) {
  using T = Real<S>;
  constexpr int64_t L = kLanes<T>;
  if (inner == 1) {
    *sum = total(x, n);
    return;
  }
  memset(sum, 0, inner * sizeof(T));
  int64_t fold = 1;  // short rows side by side fill whole vectors
  if (inner < 4 * L)
    while (fold < kMostFolded && fold < n && (fold * inner < 4 * L || fold * inner % L != 0)) fold++;
  if (fold == 1) return add_rows(sum, x, n, inner);
  const int64_t width = fold * inner, rows = n / fold;
  memset(wide, 0, width * sizeof(T));
  add_rows(wide, x, rows, width);
  for (int64_t i = rows * width; i < n * inner; i++) wide[i - rows * width] += value(x[i]);
  for (int64_t f = 0; f < fold; f++)
    for (int64_t c = 0; c < inner; c++) sum[c] += wide[f * inner + c];
}

}  // namespace summing

// The same of rows that divide a vector: as many at a time as it holds.   y OUT [rows], x IN [rows, kWidth]
template <class S, int kWidth>
void sums_of_short(S* y, const S* x, int64_t rows, Real<S> divisor) {
  using T = Real<S>;
  constexpr int64_t lanes = kLanes<T>, each = lanes / kWidth;
  parallel((rows + each - 1) / each, summing::kGrain / lanes, [=](int64_t begin, int64_t end) {
    T sums[lanes];
    for (int64_t i = begin * each; i < end * each && i < rows; i += each) {
      const int64_t here = rows - i < each ? rows - i : each;
      const Vec<T> v = here == each ? load(x + i * kWidth) : load_tail(x + i * kWidth, here * kWidth);
      store(sums, within<T, kWidth>(v, [](Vec<T> a, Vec<T> b) { return a + b; }));
      for (int64_t r = 0; r < here; r++) put(y + i + r, sums[r * kWidth] / divisor);
    }
  });
}

// y[o, i] = sum_r x[o, r, i] / divisor    y OUT [outer, inner], x IN [outer, n, inner]
template <class S>
void sums(S* y, const S* x, int64_t outer, int64_t n, int64_t inner, Real<S> divisor) {
  using namespace summing;
  using T = Real<S>;
  if (inner == 1 && as_short_rows<T>(n, [=](auto width) { sums_of_short<S, width()>(y, x, outer, divisor); })) return;
  // few sums of many: each in pieces
  int64_t pieces = 1;
  if (outer < 8 && n * inner >= 2 * kGrain) pieces = n * inner / kGrain < 64 ? n * inner / kGrain : 64;
  if (pieces > n) pieces = n;
  const int64_t room = kMostFolded * 4 * kLanes<T>, each = pieces > 1 ? (n + pieces - 1) / pieces : n;
  T* parts = static_cast<T*>(scratch(Slot::kPartialSums, outer * pieces * inner * sizeof(T)));
  parallel(outer * pieces, kGrain / (each * inner > 0 ? each * inner : 1) + 1, [=](int64_t begin, int64_t end) {
    T* wide = static_cast<T*>(scratch(Slot::kWideSums, room * sizeof(T)));
    for (int64_t p = begin; p < end; p++) {
      const int64_t first = p % pieces * each, last = first + each < n ? first + each : n;
      sum_rows(parts + p * inner, x + (p / pieces * n + first) * inner, last > first ? last - first : 0, inner, wide);
    }
  });
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      T sum = 0;
      for (int64_t p = 0; p < pieces; p++) sum += parts[(o * pieces + p) * inner + i];
      put(y + o * inner + i, sum / divisor);
    }
}

}  // namespace pdl::PDL_ISA
