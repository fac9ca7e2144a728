// The batch-reduce GEMM micro-kernel, and matmul on it.
//
// One tile of C stays in registers while sum_b A_b B_b runs over a batch of small matrices. Matmul passes one pair per block of k;
// convolution passes one pair per kernel row; its weight gradient one pair per image row (Georganas et al., arXiv 1906.06440).
#pragma once
#include "table.h"
#include "vec.h"

namespace pdl::PDL_ISA {

// Registers of half the width, for results of few columns: 6 channels in 16 lanes would waste most of the work.
#if PDL_VECTOR_BYTES == 64
constexpr int kNarrowBytes = 32;
#else
constexpr int kNarrowBytes = PDL_VECTOR_BYTES;
#endif
template <class T, int kBytes>
struct WideOf {
  typedef T type __attribute__((vector_size(kBytes), aligned(sizeof(T)), may_alias));
};

// Tiles are at most kMaxRows x (kMaxVectors * lanes): as many accumulators as the register file holds beside B and one broadcast.
#if PDL_VECTOR_BYTES == 64 || defined(__aarch64__)
template <int NRV>
constexpr int kMaxRows = NRV == 1 ? 16 : 14;
#else
template <int NRV>
constexpr int kMaxRows = NRV == 1 ? 12 : 6;
#endif
constexpr int kMaxVectors = 2;
template <class T>
constexpr int kPanel = kMaxVectors * kLanes<T>;

// The width that a panel of `columns` is packed to: whole registers.
template <class T>
inline int panel_width(int64_t columns) {
  constexpr int narrow = kNarrowBytes / sizeof(T);
  return columns <= narrow ? narrow : columns <= kLanes<T> ? kLanes<T> : kPanel<T>;
}

// One call of the micro-kernel: C[m, n] (+)= sum_b sum_k A_b[m, k] B_b[k, n] (+ bias[n]).
template <class T>
struct Tile {
  const T* const* a;  // IN [batch] A_b: element (m, k) at m * a_stride + k, or at m + k * a_stride in the column form
  const T* const* b;  // IN [batch] B_b: element (k, n) at k * b_stride + n; see Edge
  int64_t batch, k, a_stride, b_stride;
  T* c;               // OUT element (m, n) at m * c_stride + n
  int64_t c_stride;
  const T* bias;      // IN [n] or null
  bool accumulate;    // C += instead of C = (and no bias)
};

// The last vector of a row of C, B or the bias, of which `columns` values count. Where the instruction set has masks, nothing beyond them
// is touched; elsewhere the whole vector is, and tile_kernel sees to it that it may be.
template <class T, int kBytes>
struct Edge {
  using V = typename WideOf<T, kBytes>::type;
#if PDL_VECTOR_BYTES == 64
  static constexpr bool kMasked = true;
  unsigned mask;
  explicit Edge(int columns) : mask((1u << columns) - 1) {}
  __attribute__((always_inline)) V load(const T* p) const {
    if constexpr (kBytes == 64 && sizeof(T) == 4) return (V)_mm512_maskz_loadu_ps(mask, p);
    if constexpr (kBytes == 64 && sizeof(T) == 8) return (V)_mm512_maskz_loadu_pd(mask, p);
    if constexpr (kBytes == 32 && sizeof(T) == 4) return (V)_mm256_maskz_loadu_ps(mask, p);
    if constexpr (kBytes == 32 && sizeof(T) == 8) return (V)_mm256_maskz_loadu_pd(mask, p);
  }
  __attribute__((always_inline)) void store(T* p, V v) const {
    if constexpr (kBytes == 64 && sizeof(T) == 4) _mm512_mask_storeu_ps(p, mask, (__m512)v);
    if constexpr (kBytes == 64 && sizeof(T) == 8) _mm512_mask_storeu_pd(p, mask, (__m512d)v);
    if constexpr (kBytes == 32 && sizeof(T) == 4) _mm256_mask_storeu_ps(p, mask, (__m256)v);
    if constexpr (kBytes == 32 && sizeof(T) == 8) _mm256_mask_storeu_pd(p, mask, (__m256d)v);
  }
#else
  static constexpr bool kMasked = false;
  explicit Edge(int) {}
  __attribute__((always_inline)) V load(const T* p) const { return *reinterpret_cast<const V*>(p); }
  __attribute__((always_inline)) void store(T* p, V v) const { *reinterpret_cast<V*>(p) = v; }
#endif
};

// Rows of A under one pointer in the row form: 0, 1, 2, 3 and 4 strides are one addressing mode each (scale 1, 2, 4; 3 has a register).
constexpr int kRowsPerPointer = 5;

template <class T, int kBytes, int MR, int NRV, bool kColumns>
void micro_kernel(const Tile<T>& tile, int columns) {
  using V = typename WideOf<T, kBytes>::type;
  constexpr int lanes = kBytes / sizeof(T), pointers = kColumns ? 1 : (MR + kRowsPerPointer - 1) / kRowsPerPointer;
  const Tile<T> t = tile;  // a copy: stores to C cannot change it
  const Edge<T, kBytes> edge(columns - (NRV - 1) * lanes);
  V acc[MR][NRV];
  if (t.accumulate) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
      for (int j = 0; j < NRV; j++) {
        const T* c = t.c + i * t.c_stride + j * lanes;
        acc[i][j] = j == NRV - 1 ? edge.load(c) : *reinterpret_cast<const V*>(c);
      }
  } else {
#pragma GCC unroll 2
    for (int j = 0; j < NRV; j++) {
      V start{};
      if (t.bias != nullptr) start = j == NRV - 1 ? edge.load(t.bias + j * lanes) : *reinterpret_cast<const V*>(t.bias + j * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++) acc[i][j] = start;
    }
  }
  int64_t stride = t.a_stride * static_cast<int64_t>(sizeof(T)), stride3 = 3 * stride;
  asm("" : "+r"(stride), "+r"(stride3));  // two registers: the compiler would make one a row, and spill them
  for (int64_t batch = 0; batch < t.batch; batch++) {
    const char* a[pointers];
    a[0] = reinterpret_cast<const char*>(t.a[batch]);
#pragma GCC unroll 4
    for (int p = 1; p < pointers; p++) a[p] = a[p - 1] + kRowsPerPointer * stride;
    const T* b = t.b[batch];
    for (int64_t k = 0; k < t.k; k++) {
      V bv[NRV];
#pragma GCC unroll 2
      for (int j = 0; j < NRV; j++) bv[j] = j == NRV - 1 ? edge.load(b + j * lanes) : *reinterpret_cast<const V*>(b + j * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++) {
        const char* row = a[kColumns ? 0 : i / kRowsPerPointer];
        const int at = i % kRowsPerPointer;
        if constexpr (kColumns) row += i * sizeof(T);
        else row += at == 0 ? 0 : at == 1 ? stride : at == 2 ? 2 * stride : at == 3 ? stride3 : 4 * stride;
        const V av = *reinterpret_cast<const T*>(row) - V{};
#pragma GCC unroll 2
        for (int j = 0; j < NRV; j++) acc[i][j] += av * bv[j];
      }
#pragma GCC unroll 4
      for (int p = 0; p < pointers; p++) a[p] += kColumns ? stride : static_cast<int64_t>(sizeof(T));
      b += t.b_stride;
    }
  }
  T* c = t.c;
  asm("" : "+r"(c));  // the addresses of C are not worth a register during the sum
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++, c += t.c_stride)
#pragma GCC unroll 2
    for (int j = 0; j < NRV; j++) {
      if (j == NRV - 1) edge.store(c + j * lanes, acc[i][j]);
      else *reinterpret_cast<V*>(c + j * lanes) = acc[i][j];
    }
}

// The micro-kernels for 1 to kMaxRows rows.
template <class T>
using MicroKernel = void (*)(const Tile<T>& tile, int columns);
template <class T, int kBytes, int NRV, bool kColumns>
struct Rows {
  MicroKernel<T> of[kMaxRows<NRV> + 1] = {};
  template <int MR = kMaxRows<NRV>>
  constexpr void fill() {
    of[MR] = micro_kernel<T, kBytes, MR, NRV, kColumns>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr Rows() { fill(); }
};

template <class T, bool kColumns>
inline MicroKernel<T> micro_kernel_for(int rows, int columns) {
  static constexpr Rows<T, kNarrowBytes, 1, kColumns> narrow;
  static constexpr Rows<T, PDL_VECTOR_BYTES, 1, kColumns> one;
  static constexpr Rows<T, PDL_VECTOR_BYTES, 2, kColumns> two;
  const int width = panel_width<T>(columns);
  return width == kPanel<T> ? two.of[rows] : width == kLanes<T> ? one.of[rows] : narrow.of[rows];
}

// The whole tile, any number of columns up to kPanel. Without masks B and bias must be readable up to panel_width(columns), whatever
// stands there.
template <class T, bool kColumns>
inline void tile_kernel(int rows, int columns, Tile<T> t) {
  const MicroKernel<T> run = micro_kernel_for<T, kColumns>(rows, columns);
  const int width = panel_width<T>(columns);
  if (Edge<T, PDL_VECTOR_BYTES>::kMasked || columns == width) return run(t, columns);
  alignas(64) T edge[kMaxRows<1> * kPanel<T>];  // no masks: through a tile on the stack, so that nothing beyond `columns` is written
  T* c = t.c;
  const int64_t c_stride = t.c_stride;
  const bool accumulate = t.accumulate;
  t.c = edge;
  t.c_stride = width;
  t.accumulate = false;
  run(t, width);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      c[i * c_stride + j] = (accumulate ? c[i * c_stride + j] : T(0)) + edge[i * width + j];
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
  constexpr int64_t line = 64 / sizeof(T);  // a transposed B: take whole cache lines, their addresses may share a set of the cache
  for (int64_t begin = 0; begin < k; begin += line) {
    const int64_t end = min64(k, begin + line);
    for (int j = 0; j < columns; j++)
      for (int64_t r = begin; r < end; r++) packed[r * width + j] = b[r * row_stride + j * column_stride];
    for (int64_t r = begin; r < end; r++)
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

// The form for few rows of A beside a transposed B: both run along k, so every value of C is a dot product and nothing is packed. Four
// columns of B at a time keep the additions from waiting for each other.
template <class T>
void dots(const Product<T>& p) {
  constexpr int lanes = kLanes<T>, wide = 4;
  parallel(p.n, max64(wide, kParallelWork / max64(1, p.k * p.m)), [&](int64_t begin, int64_t end, int) {
    for (int64_t j = begin; j < end; j += wide) {
      const int columns = static_cast<int>(min64(wide, end - j));
      for (int64_t i = 0; i < p.m; i++) {
        const T *a = p.a + i * p.a_row, *b[wide];
        for (int c = 0; c < wide; c++) b[c] = p.b + (j + (c < columns ? c : 0)) * p.b_column;
        Vec<T> sum[wide] = {};
        int64_t k = 0;
        for (; k + lanes <= p.k; k += lanes)
#pragma GCC unroll 4
          for (int c = 0; c < wide; c++) sum[c] += load(a + k) * load(b[c] + k);
        for (int c = 0; c < columns; c++) {
          T total = p.bias != nullptr ? p.bias[j + c] : T(0);
          for (int64_t rest = k; rest < p.k; rest++) total += a[rest] * b[c][rest];
          for (int lane = 0; lane < lanes; lane++) total += sum[c][lane];
          p.out[i * p.out_stride + j + c] = total;
        }
      }
    }
  });
}

// out = a @ b (+ bias): panels of B are packed once (unless few rows use them and they lie well), then tiles run in parallel.
template <class T>
void matmul_one(Product<T> p) {
  if (p.n == 1 && p.out_stride == 1 && p.bias == nullptr)  // a column is a row of the transposed product
    p = {1, p.m, p.k, p.out, p.m, p.b, p.b_column, p.b_row, p.a, p.a_column, p.a_row, nullptr};
  if (p.m <= 4 && p.b_row == 1 && p.b_column != 1 && (p.a_column == 1 || p.k == 1)) return dots(p);
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
  const auto direct = [&](int columns) { return in_place && (Edge<T, PDL_VECTOR_BYTES>::kMasked || columns == panel); };
  const int64_t packed_size = round_up(max64(1, p.k) * panel, 16);
  T* packed = static_cast<T*>(scratch(1, (panels * packed_size + panel) * sizeof(T)));
  T* bias_tail = packed + panels * packed_size;
  const int tail = static_cast<int>(p.n - (panels - 1) * panel);
  for (int j = 0; j < panel; j++) bias_tail[j] = p.bias != nullptr && j < tail ? p.bias[(panels - 1) * panel + j] : T(0);
  parallel(panels, max64(1, kParallelWork / work), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) {
      const int columns = static_cast<int>(min64(panel, p.n - i * panel));
      if (direct(columns)) continue;
      pack_panel(packed + i * packed_size, p.b + i * panel * p.b_column, p.k, columns, panel_width<T>(columns), p.b_row, p.b_column);
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
      const bool there = direct(columns);
      panel_rows(p, first, last, at * panel, columns, there ? p.b + at * panel : packed + at * packed_size,
                 there ? p.b_row : panel_width<T>(columns), bias);
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
