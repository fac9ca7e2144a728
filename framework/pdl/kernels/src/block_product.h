// Products of small blocks, for kernels that do something else with their rows while these are in the cache. Not parallel themselves.
#pragma once
#include "gemm.h"

namespace pdl::PDL_ISA {

// Columns of the panel that begins where `left` columns are left. One vector and a half are two panels: the second has registers of half the
// width.
template <class T>
int panel_columns(int64_t left) {
  constexpr int narrow = kNarrowBytes / sizeof(T), lanes = kLanes<T>;
  if (narrow < lanes && left > lanes && left <= lanes + narrow) return lanes;
  return static_cast<int>(min64(kPanel<T>, left));
}

template <class T>
int64_t packed_size(int64_t k, int64_t n) {
  return ((n + kPanel<T> - 1) / kPanel<T> * k + 1) * kPanel<T>;
}

template <class T>
void pack_right(T* packed, const T* b, int64_t k, int64_t n, int64_t row_stride, int64_t column_stride) {
  constexpr int panel = kPanel<T>;
  parallel((n + panel - 1) / panel, max64(1, kParallelWork / (k * panel)), [&](int64_t begin, int64_t end) {
    int columns;
    for (int64_t at = begin * panel; at < min64(n, end * panel); at += columns) {
      columns = panel_columns<T>(n - at);
      pack_panel(packed + at * k, b + at * column_stride, k, columns, panel_width<T>(columns), row_stride, column_stride);
    }
  });
}

template <class T>
void block_product(T* c, int64_t c_stride, const T* a, int64_t a_stride, bool by_columns, int64_t rows, int64_t k, const T* packed, int64_t n,
                   bool accumulate) {
  int columns;
  for (int64_t at = 0; at < n; at += columns) {
    columns = panel_columns<T>(n - at);
    const int width = panel_width<T>(columns);
    const int64_t step = even_rows(rows, max_rows<T>(columns));
    for (int64_t from = 0; from == 0 || from < k; from += kBlockK) {
      const T* b = packed + at * k + from * width;
      for (int64_t row = 0; row < rows; row += step) {
        const T* left = by_columns ? a + row + from * a_stride : a + row * a_stride + from;
        const Tile<T> tile{&left, &b, 1, min64(kBlockK, k - from), a_stride, width, c + row * c_stride + at, c_stride, nullptr,
                           accumulate || from != 0};
        const int here = static_cast<int>(min64(step, rows - row));
        by_columns ? tile_kernel<T, true>(here, columns, tile) : tile_kernel<T, false>(here, columns, tile);
      }
    }
  }
}

template <class T>
void weight_product(T* sums, const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t count, int64_t m, int64_t n) {
  int columns;
  for (int64_t at = 0; at < n; at += columns) {
    columns = panel_columns<T>(n - at);
    const int64_t step = even_rows(m, max_rows<T>(columns));
    for (int64_t row = 0; row < m; row += step) {
      const T *left = a + row, *right = b + at;
      tile_kernel<T, true>(static_cast<int>(min64(step, m - row)), columns,
                           {&left, &right, 1, count, a_stride, b_stride, sums + row * n + at, n, nullptr, true});
    }
  }
}

}  // namespace pdl::PDL_ISA
