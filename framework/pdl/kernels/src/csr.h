// Sparse matrices by rows (CSR) and dense ones: products, dot products at the nonzeros, maxima.
//
// A row is computed by one thread, its nonzeros in their order, so results are the same bits for any number of threads; rows are shared out
// by their nonzeros, since a few rows of a real graph hold many of them. Rows of x lie anywhere in memory: those of the nonzeros to come are
// asked for ahead. Numbers that are used as places are checked where they are used, which costs nothing beside the fetch.
#pragma once
#include "table.h"
#include "vec.h"

namespace pdl::PDL_ISA::csr {

#define PDL_CSR_INLINE inline __attribute__((always_inline))

constexpr int64_t kGrain = 16384;       // numbers that a thread should at least have to read
constexpr int64_t kNear = 1 << 19;      // bytes of a table that need not be asked for ahead
constexpr int64_t kLinesAhead = 128;    // cache lines that are under way
constexpr int64_t kRowsAhead = 32;      // and rows, at the most
constexpr int kMostVectors = 8;         // of a row that are summed at a time

// Asks for a line that is read some hundred nanoseconds from now, into the second level: the first has half as many requests under way or fewer
// (its fill buffers), so asking for lines there takes twice as long where all come from memory.
PDL_CSR_INLINE void ask(const void* line) { __builtin_prefetch(line, 0, 2); }

// Whether rows of `bytes` bytes from x on begin anywhere in a line, so that they reach into one line more than they fill.
inline bool askew(const void* x, int64_t bytes) { return (reinterpret_cast<uintptr_t>(x) | static_cast<uintptr_t>(bytes)) % 64 != 0; }

// What a kernel answers about a broken pattern: 1 + the row whose start is wrong, or rows + 2 + the nonzero that names no row, column or value.
struct Fault {
  int64_t code = 0;
  void at(int64_t found) {
    int64_t seen = __atomic_load_n(&code, __ATOMIC_RELAXED);
    while ((seen == 0 || found < seen) && !__atomic_compare_exchange_n(&code, &seen, found, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  }
};

inline int64_t first_wrong_start(const CsrPattern& p) {
  bool wrong = p.indptr[0] != 0 || p.indptr[p.rows] != p.nonzeros;
  for (int64_t i = 0; i < p.rows; i++) wrong |= p.indptr[i] > p.indptr[i + 1];
  if (!wrong) return 0;
  if (p.indptr[0] != 0) return 1;
  for (int64_t i = 0; i < p.rows; i++)
    if (p.indptr[i] > p.indptr[i + 1]) return i + 2;
  return p.rows + 1;
}

// The first row that begins at or behind `work`, counting its nonzeros and itself.
inline int64_t row_at(const CsrPattern& p, int64_t work) {
  int64_t low = 0, high = p.rows;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (p.indptr[middle] + middle < work) low = middle + 1;
    else high = middle;
  }
  return low;
}

// body(first row, last row) over parts of about equal work; `width` numbers are read for a nonzero
template <class F>
void rows_by_work(const CsrPattern& p, int64_t width, const F& body) {
  parallel(p.rows + p.nonzeros, kGrain / (width > 0 ? width : 1) + 1, [&](int64_t begin, int64_t end) {
    body(row_at(p, begin), row_at(p, end));
  });
}

template <class T>
struct Spmm {
  T* y;                // OUT [rows, width]
  const T *x, *value;  // IN [columns, width], [nonzeros, heads] or null
  CsrPattern p;
  int64_t heads, channels, width;
  int64_t ahead;       // nonzeros ahead whose row of x is asked for; 0: none
  bool askew;
};

// How a nonzero weighs the row that it takes: not at all, by one number, by a number for each head where those fit a vector, by a number a channel
enum Weights { kOnes, kScalar, kHeads, kEach };

// `n` <= kLanes values at p, what follows them undefined; nothing at or behind `end` is touched
template <class T>
PDL_CSR_INLINE Vec<T> get_narrow(const T* p, int64_t n, [[maybe_unused]] const T* end) {
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
  return n < kLanes<T> ? load_tail(p, n) : load(p);
#else
  return p + kLanes<T> <= end ? load(p) : load_tail(p, n);
#endif
}

// Where the vectors of a block of columns begin: side by side, the last one moved back so that it ends with the block.
template <class T, int K>
struct Places {
  int64_t at[K];
  Mask<T> head[K];  // of each lane

  Places(int64_t first, int64_t n, int64_t channels) {
    for (int k = 0; k < K; k++) {
      const int64_t back = n - kLanes<T>;
      at[k] = first + (k * kLanes<T> < back || back < 0 ? k * kLanes<T> : back);
      for (int i = 0; i < kLanes<T>; i++) head[k][i] = (at[k] + i) / channels;
    }
  }
};

// One weight for each of the channels `first`... of nonzero e, where heads are many.
template <class T>
PDL_CSR_INLINE const T* spread(T* room, const Spmm<T>& s, int64_t e, int64_t first, int64_t n) {
  if (s.channels == 1) return s.value + e * s.heads + first;
  for (int64_t c = 0; c < n; c++) room[c] = s.value[e * s.heads + (first + c) / s.channels];
  return room;
}

// y[i] = sum over the nonzeros e of row i of value[e] x[column e], for columns [c0, c0 + n) of the rows [first, last). Returns a fault, or 0.
template <class T, Weights W, int K>
int64_t sum_rows(const Spmm<T>& s, int64_t first, int64_t last, int64_t c0, int64_t n) {
  constexpr int U = K == 1 ? 4 : K == 2 ? 2 : 1;  // sums under way at once: one alone would wait for itself
  const Places<T, K> places(c0, n, s.channels);
  const bool narrow = K == 1 && n < kLanes<T>;
  const CsrPattern p = s.p;
  const T *x_end = s.x + p.columns * s.width, *value_end = s.value + p.nonzeros * s.heads;
  const int64_t final = p.nonzeros - 1;
  T room[W == kEach ? K * kLanes<T> : 1];
  const auto add = [&](int64_t e, Vec<T>(&sum)[K]) __attribute__((always_inline)) {
    const uint64_t column = static_cast<uint32_t>(p.indices[e]), from = p.edges != nullptr ? static_cast<uint32_t>(p.edges[e]) : e;
    if (column >= static_cast<uint64_t>(p.columns) || from >= static_cast<uint64_t>(p.nonzeros)) return false;
    if (s.ahead != 0) {
      const int64_t later = e + s.ahead < final ? e + s.ahead : final;
      const char* line = reinterpret_cast<const char*>(s.x + static_cast<int64_t>(p.indices[later]) * s.width + c0);
      for (int b = 0; b < K * PDL_VECTOR_BYTES; b += 64) ask(line + b);
      if (s.askew) ask(line + n * static_cast<int64_t>(sizeof(T)) - 1);
      if (W != kOnes && p.edges != nullptr) ask(s.value + static_cast<int64_t>(p.edges[later]) * s.heads);
    }
    const T* row = s.x + column * s.width;
    Vec<T> weights{};
    T weight = 0;
    const T* each = nullptr;
    if constexpr (W == kScalar) weight = s.value[from];
    if constexpr (W == kHeads) weights = get_narrow(s.value + from * s.heads, s.heads, value_end);
    if constexpr (W == kEach) each = spread(room, s, from, c0, n) - c0;
#pragma GCC unroll 8
    for (int k = 0; k < K; k++) {
      const Vec<T> v = narrow ? get_narrow(row + places.at[k], n, x_end) : load(row + places.at[k]);
      if constexpr (W == kOnes) sum[k] += v;
      if constexpr (W == kScalar) sum[k] += v * weight;
      if constexpr (W == kHeads) sum[k] += v * __builtin_shuffle(weights, places.head[k]);
      if constexpr (W == kEach) sum[k] += v * (narrow ? load_tail(each + places.at[k], n) : load(each + places.at[k]));
    }
    return true;
  };
  for (int64_t row = first; row < last; row++) {
    Vec<T> sum[U][K] = {};
    int64_t e = p.indptr[row];
    const int64_t end = p.indptr[row + 1];
    for (; e + U <= end; e += U) {
#pragma GCC unroll 4
      for (int u = 0; u < U; u++)
        if (!add(e + u, sum[u])) return p.rows + 2 + e + u;
    }
    for (; e < end; e++)
      if (!add(e, sum[0])) return p.rows + 2 + e;
    T* to = s.y + row * s.width;
    for (int k = 0; k < K; k++) {
      for (int u = 1; u < U; u++) sum[0][k] += sum[u][k];
      narrow ? store_tail(to + places.at[k], sum[0][k], n) : store(to + places.at[k], sum[0][k]);
    }
  }
  return 0;
}

// The same for x [columns, 1] and at most one weight for a nonzero.
template <class T>
int64_t sum_numbers(const Spmm<T>& s, int64_t first, int64_t last) {
  constexpr int U = 4;
  const CsrPattern& p = s.p;
  for (int64_t row = first; row < last; row++) {
    T sum[U] = {};
    const int64_t begin = p.indptr[row], end = p.indptr[row + 1];
    for (int64_t e = begin; e < end; e++) {
      const uint64_t column = static_cast<uint32_t>(p.indices[e]), from = p.edges != nullptr ? static_cast<uint32_t>(p.edges[e]) : e;
      if (column >= static_cast<uint64_t>(p.columns) || from >= static_cast<uint64_t>(p.nonzeros)) return p.rows + 2 + e;
      sum[(e - begin) % U] += s.value != nullptr ? s.x[column] * s.value[from] : s.x[column];
    }
    s.y[row] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  return 0;
}

template <class T, Weights W>
int64_t sum_block(const Spmm<T>& s, int64_t first, int64_t last, int64_t c0, int64_t n) {
  switch ((n + kLanes<T> - 1) / kLanes<T>) {
    case 1: return sum_rows<T, W, 1>(s, first, last, c0, n);
    case 2: return sum_rows<T, W, 2>(s, first, last, c0, n);
    case 3: return sum_rows<T, W, 3>(s, first, last, c0, n);
    case 4: return sum_rows<T, W, 4>(s, first, last, c0, n);
    case 5: return sum_rows<T, W, 5>(s, first, last, c0, n);
    case 6: return sum_rows<T, W, 6>(s, first, last, c0, n);
    case 7: return sum_rows<T, W, 7>(s, first, last, c0, n);
    default: return sum_rows<T, W, 8>(s, first, last, c0, n);
  }
}

template <class T>
int64_t sum_block_of(const Spmm<T>& s, int64_t first, int64_t last, int64_t c0, int64_t n) {
  if (s.value == nullptr) return sum_block<T, kOnes>(s, first, last, c0, n);
  if (s.heads == 1) return sum_block<T, kScalar>(s, first, last, c0, n);
  if (s.heads <= kLanes<T> && s.channels > 1) return sum_block<T, kHeads>(s, first, last, c0, n);
  return sum_block<T, kEach>(s, first, last, c0, n);
}

// How many nonzeros ahead rows of a table [rows, width] are asked for, of which `n` numbers are taken at a time.
template <class T>
int64_t rows_ahead(int64_t rows, int64_t width, int64_t n) {
  if (rows * width * static_cast<int64_t>(sizeof(T)) <= kNear) return 0;
  const int64_t fit = kLinesAhead / ((n * static_cast<int64_t>(sizeof(T)) + 63) / 64);
  return fit < 1 ? 1 : fit < kRowsAhead ? fit : kRowsAhead;
}

// y[i, h] = sum over the nonzeros e of row i of value[e, h] x[column e, h]    y OUT [rows, heads, channels], x IN [columns, heads, channels],
// value IN [nonzeros, heads] or null, taken at edges[e] where the pattern has those
template <class T>
int64_t spmm(T* y, const T* x, const T* value, const CsrPattern& p, int64_t heads, int64_t channels) {
  if (const int64_t wrong = first_wrong_start(p)) return wrong;
  Spmm<T> s{y, x, value, p, heads, channels, heads * channels, 0, askew(x, heads * channels * static_cast<int64_t>(sizeof(T)))};
  constexpr int64_t most = kMostVectors * kLanes<T>;
  s.ahead = rows_ahead<T>(p.columns, s.width, s.width < most ? s.width : most);
  Fault fault;
  rows_by_work(p, s.width, [&](int64_t first, int64_t last) {
    if (s.width == 1) {
      if (const int64_t found = sum_numbers(s, first, last)) fault.at(found);
      return;
    }
    for (int64_t c = 0; c < s.width; c += most) {
      int64_t n = s.width - c < most ? s.width - c : most, from = c;
      if (n < kLanes<T> && c > 0) from = s.width - kLanes<T>, n = kLanes<T>;
      if (const int64_t found = sum_block_of(s, first, last, from, n)) return fault.at(found);
    }
  });
  return fault.code;
}

// Adds value[e] x[row e] to the row of `sums` [columns, pitch] that nonzero e names, for rows [first, last) and vectors [v0, v0 + K).
template <class T, int K, bool weighted>
int64_t scatter_rows(T* sums, int64_t pitch, const Spmm<T>& s, int64_t first, int64_t last, int64_t v0) {
  const CsrPattern& p = s.p;
  const int64_t c0 = v0 * kLanes<T>, rest = s.width - c0 - (K - 1) * kLanes<T>;  // of the last vector
  for (int64_t row = first; row < last; row++) {
    const T* from = s.x + row * s.width + c0;
    Vec<T> v[K];
    for (int k = 0; k < K; k++) v[k] = k < K - 1 || rest >= kLanes<T> ? load(from + k * kLanes<T>) : load_tail(from + k * kLanes<T>, rest);
    for (int64_t e = p.indptr[row]; e < p.indptr[row + 1]; e++) {
      const uint64_t column = static_cast<uint32_t>(p.indices[e]);
      if (column >= static_cast<uint64_t>(p.columns)) return p.rows + 2 + e;
      T* to = sums + column * pitch + c0;
      const T weight = weighted ? s.value[e] : T(1);
#pragma GCC unroll 8
      for (int k = 0; k < K; k++) store(to + k * kLanes<T>, load(to + k * kLanes<T>) + (weighted ? v[k] * weight : v[k]));
    }
  }
  return 0;
}

template <class T, bool weighted>
int64_t scatter_block(T* sums, int64_t pitch, const Spmm<T>& s, int64_t first, int64_t last) {
  for (int64_t v = 0; v < pitch / kLanes<T>;) {
    const int64_t left = pitch / kLanes<T> - v;
    const int64_t fault = left >= 4   ? scatter_rows<T, 4, weighted>(sums, pitch, s, first, last, v)
                          : left >= 2 ? scatter_rows<T, 2, weighted>(sums, pitch, s, first, last, v)
                                      : scatter_rows<T, 1, weighted>(sums, pitch, s, first, last, v);
    if (fault != 0) return fault;
    v += left >= 4 ? 4 : left >= 2 ? 2 : 1;
  }
  return 0;
}

// y[j] = sum over the nonzeros e of column j of value[e] x[row e]: the transposed product from the matrix by its rows, for y so small that it
// stays in the caches while values and x are read as they lie.    y OUT [columns, width], x IN [rows, width], value IN [nonzeros] or null
//
// Rows are taken in blocks, whose number follows from the sizes alone, with sums of their own, which are added in the end.
template <class T>
int64_t spmm_scattered(T* y, const T* x, const T* value, const CsrPattern& p, int64_t width) {
  if (const int64_t wrong = first_wrong_start(p)) return wrong;
  const Spmm<T> s{y, x, value, p, 1, width, width, 0, false};
  const int64_t pitch = (width + kLanes<T> - 1) / kLanes<T> * kLanes<T>, size = p.columns * pitch;
  const int64_t fit = p.nonzeros / (4 * (p.columns > 0 ? p.columns : 1)), blocks = fit < 1 ? 1 : fit < 16 ? fit : 16, work = p.rows + p.nonzeros;
  T* sums = static_cast<T*>(scratch(Slot::kScatteredSums, blocks * size * sizeof(T)));
  Fault fault;
  parallel(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) {
      T* mine = sums + b * size;
      memset(mine, 0, size * sizeof(T));
      const int64_t first = row_at(p, work * b / blocks), last = row_at(p, work * (b + 1) / blocks);
      const int64_t found = value != nullptr ? scatter_block<T, true>(mine, pitch, s, first, last) : scatter_block<T, false>(mine, pitch, s, first, last);
      if (found != 0) fault.at(found);
    }
  });
  parallel(p.columns, kGrain / (blocks * pitch) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j++)
      for (int64_t c = 0; c < width; c += kLanes<T>) {
        Vec<T> sum = load(sums + j * pitch + c);
        for (int64_t b = 1; b < blocks; b++) sum += load(sums + b * size + j * pitch + c);
        c + kLanes<T> <= width ? store(y + j * width + c, sum) : store_tail(y + j * width + c, sum, width - c);
      }
  });
  return fault.code;
}

}  // namespace pdl::PDL_ISA::csr
