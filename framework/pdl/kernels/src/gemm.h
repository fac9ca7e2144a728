// The batch-reduce GEMM micro-kernel, and matmul on it.
//
// One tile of C stays in registers while sum_b A_b B_b runs over a batch of small matrices. Matmul passes one pair per block of k;
// convolution passes one pair per kernel row; its weight gradient one pair per image row (Georganas et al., arXiv 1906.06440).
#pragma once
#include "table.h"
#include "vec.h"

namespace pdl::PDL_ISA {

// Tiles are at most kMaxRows x (kMaxVectors * lanes): as many accumulators as the register file holds beside B and one broadcast.
#if PDL_VECTOR_BYTES == 64 || defined(__aarch64__)
template <int NRV>
constexpr int kMaxRows = 14;
#else
template <int NRV>
constexpr int kMaxRows = NRV == 1 ? 12 : 6;
#endif
constexpr int kMaxVectors = 2;
template <class T>
constexpr int kPanel = kMaxVectors * kLanes<T>;

// One call of the micro-kernel: C[m, n] (+)= sum_b sum_k A_b[m, k] B_b[k, n] (+ bias[n]).
template <class T>
struct Tile {
  const T* const* a;  // IN [batch] A_b: element (m, k) at m * a_stride + k, or at m + k * a_stride in the column form
  const T* const* b;  // IN [batch] B_b: element (k, n) at k * b_stride + n; whole vectors are read
  int64_t batch, k, a_stride, b_stride;
  T* c;               // OUT element (m, n) at m * c_stride + n
  int64_t c_stride;
  const T* bias;      // IN [n] or null
  bool accumulate;    // C += instead of C =
};

template <class T, int MR, int NRV, bool kColumns>
inline void micro_kernel(const Tile<T>& t) {
  using V = Vec<T>;
  constexpr int lanes = kLanes<T>;
  V acc[MR][NRV];
#pragma GCC unroll 2
  for (int j = 0; j < NRV; j++) {
    const V start = t.bias != nullptr ? load(t.bias + j * lanes) : V{};
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) acc[i][j] = start;
  }
  for (int64_t batch = 0; batch < t.batch; batch++) {
    const T* a = t.a[batch];
    const T* b = t.b[batch];
    for (int64_t k = 0; k < t.k; k++) {
      V bv[NRV];
#pragma GCC unroll 2
      for (int j = 0; j < NRV; j++) bv[j] = load(b + j * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++) {
        const V av = splat(kColumns ? a[i] : a[i * t.a_stride]);
#pragma GCC unroll 2
        for (int j = 0; j < NRV; j++) acc[i][j] += av * bv[j];
      }
      a += kColumns ? t.a_stride : 1;
      b += t.b_stride;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
    for (int j = 0; j < NRV; j++) {
      T* c = t.c + i * t.c_stride + j * lanes;
      store(c, t.accumulate ? load(c) + acc[i][j] : acc[i][j]);
    }
}

template <class T, int NRV, bool kColumns, int MR = kMaxRows<NRV>>
inline void rows_kernel(int rows, const Tile<T>& t) {
  if constexpr (MR > 0) {
    if (rows == MR) return micro_kernel<T, MR, NRV, kColumns>(t);
    rows_kernel<T, NRV, kColumns, MR - 1>(rows, t);
  }
}

template <class T, bool kColumns>
using RowsKernel = void (*)(int rows, const Tile<T>& t);

// The whole tile, any number of columns up to kPanel: the last partial vector goes through a tile on the stack, so that nothing
// beyond `columns` is written. B (and bias) must be readable, and zero-padded or don't-care, up to whole vectors.
template <class T, bool kColumns>
inline void tile_kernel(int rows, int columns, Tile<T> t) {
  constexpr int lanes = kLanes<T>;
  const int vectors = (columns + lanes - 1) / lanes;
  const auto run = vectors == 1 ? rows_kernel<T, 1, kColumns> : rows_kernel<T, 2, kColumns>;
  if (columns == vectors * lanes) return run(rows, t);
  alignas(64) T edge[kMaxRows<1> * kPanel<T>];
  T* c = t.c;
  const int64_t c_stride = t.c_stride;
  const bool accumulate = t.accumulate;
  t.c = edge;
  t.c_stride = vectors * lanes;
  t.accumulate = false;
  run(rows, t);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      c[i * c_stride + j] = (accumulate ? c[i * c_stride + j] : T(0)) + edge[i * t.c_stride + j];
}

template <class T>
inline int max_rows(int columns) {
  return columns <= kLanes<T> ? kMaxRows<1> : kMaxRows<2>;
}

// Splits n rows into the fewest tiles and those evenly: 16 rows are 8 + 8, not 14 + 2. Returns the rows of every tile but the last.
inline int64_t even_rows(int64_t n, int most) {
  const int64_t tiles = (n + most - 1) / most;
  return tiles > 0 ? (n + tiles - 1) / tiles : 1;
}

inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Packs columns [0, columns) of B into rows of `width` values, zeros behind the last column.
//   packed OUT [k, width], b IN element (k, n) at k * row_stride + n * column_stride
template <class T>
inline void pack_panel(T* packed, const T* b, int64_t k, int columns, int width, int64_t row_stride, int64_t column_stride) {
  if (column_stride == 1 && columns == width) {
    for (int64_t r = 0; r < k; r++) memcpy(packed + r * width, b + r * row_stride, width * sizeof(T));
    return;
  }
  for (int64_t r = 0; r < k; r++) {
    for (int j = 0; j < columns; j++) packed[r * width + j] = b[r * row_stride + j * column_stride];
    for (int j = columns; j < width; j++) packed[r * width + j] = T(0);
  }
}

constexpr int64_t kBlockK = 512;               // rows of B per pass: a panel block of 64 KiB
constexpr int64_t kParallelWork = 64 * 1024;   // multiply-adds below which one more thread does not pay

// Multiplies rows [first, last) with one panel of B (packed or in place), block of k by block of k.
template <class T>
inline void panel_rows(const Product<T>& p, int64_t first, int64_t last, int64_t column, int columns, const T* b, int64_t b_stride,
                       const T* bias) {
  const bool by_columns = p.a_column != 1;  // the packed or transposed form of A has consecutive rows
  const int64_t step = even_rows(last - first, max_rows<T>(columns));
  for (int64_t k = 0; k == 0 || k < p.k; k += kBlockK) {
    const T* b_block = b + k * b_stride;
    for (int64_t row = first; row < last; row += step) {
      const T* a_block = p.a + row * p.a_row + k * p.a_column;
      const Tile<T> tile{&a_block, &b_block, 1, min64(kBlockK, p.k - k), by_columns ? p.a_column : p.a_row, b_stride,
                         p.out + row * p.out_stride + column, p.out_stride, k == 0 ? bias : nullptr, k != 0};
      const int rows = static_cast<int>(min64(step, last - row));
      by_columns ? tile_kernel<T, true>(rows, columns, tile) : tile_kernel<T, false>(rows, columns, tile);
    }
  }
}

// out = a @ b (+ bias): panels of B are packed once (unless few rows use them and they lie well), then tiles run in parallel.
template <class T>
void matmul_one(Product<T> p) {
  constexpr int panel = kPanel<T>;
  const int64_t panels = (p.n + panel - 1) / panel;
  const int64_t work = max64(1, p.k * panel);
  if (p.a_row != 1 && p.a_column != 1) {  // neither form of the micro-kernel reads such an A: make its rows contiguous
    T* copy = static_cast<T*>(scratch(0, p.m * p.k * sizeof(T)));
    parallel(p.m, max64(1, kParallelWork / max64(1, p.k)), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++)
        for (int64_t k = 0; k < p.k; k++) copy[i * p.k + k] = p.a[i * p.a_row + k * p.a_column];
    });
    p.a = copy, p.a_row = p.k, p.a_column = 1;
  }
  const bool in_place = p.b_column == 1 && p.m <= 2 * kMaxRows<2>;
  const int64_t packed_size = round_up(max64(1, p.k) * panel, 16);
  T* packed = static_cast<T*>(scratch(1, (panels * packed_size + panel) * sizeof(T)));
  T* bias_tail = packed + panels * packed_size;
  const int tail = static_cast<int>(p.n - (panels - 1) * panel);
  for (int j = 0; j < panel; j++) bias_tail[j] = p.bias != nullptr && j < tail ? p.bias[(panels - 1) * panel + j] : T(0);
  parallel(panels, max64(1, kParallelWork / work), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) {
      const int columns = static_cast<int>(min64(panel, p.n - i * panel));
      if (in_place && columns == panel) continue;
      pack_panel(packed + i * packed_size, p.b + i * panel * p.b_column, p.k, columns, panel, p.b_row, p.b_column);
    }
  });
  // Few panels: cut the rows finer, so that every thread finds work.
  const int64_t most_rows = max64(kMaxRows<2>, min64(8 * kMaxRows<2>, p.m * panels / (4 * num_threads())));
  const int64_t chunk = even_rows(p.m, static_cast<int>(most_rows)), chunks = (p.m + chunk - 1) / chunk;
  parallel(panels * chunks, max64(1, kParallelWork / (work * chunk)), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t at = i / chunks, first = i % chunks * chunk, last = min64(p.m, first + chunk);
      const int columns = static_cast<int>(min64(panel, p.n - at * panel));
      const T* bias = p.bias == nullptr ? nullptr : columns == panel ? p.bias + at * panel : bias_tail;
      const bool direct = in_place && columns == panel;
      panel_rows(p, first, last, at * panel, columns, direct ? p.b + at * panel : packed + at * packed_size,
                 direct ? p.b_row : panel, bias);
    }
  });
}

// A batch of products: many small ones run side by side, few large ones one after another.
//   batch_strides IN [batch, 3]: offsets of out, a and b for every product
template <class T>
void matmul(const Product<T>& first, int64_t batch, const int64_t* offsets) {
  const int64_t work = first.m * first.n * max64(1, first.k);
  const auto run = [&](int64_t i) {
    Product<T> p = first;
    p.out += offsets[3 * i], p.a += offsets[3 * i + 1], p.b += offsets[3 * i + 2];
    matmul_one(p);
  };
  if (batch >= 2 * num_threads() && work < 64 * kParallelWork) {
    parallel(batch, max64(1, kParallelWork / max64(1, work)), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++) run(i);
    });
  } else {
    for (int64_t i = 0; i < batch; i++) run(i);
  }
}

}  // namespace pdl::PDL_ISA
