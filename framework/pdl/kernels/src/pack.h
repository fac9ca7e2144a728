// Copies of matrices in the order in which the micro-kernel reads them.
#pragma once
#include "tile.h"

namespace pdl::PDL_ISA {

// A block of lanes x lanes transposed in registers: in step s bit s of the row and of the column change places.
template <class T>
inline __attribute__((always_inline)) void transpose_registers(Vec<T>* r) {
  constexpr int lanes = kLanes<T>;
#pragma GCC unroll 4
  for (int s = 1; s < lanes; s *= 2) {
    Mask<T> low, high;
#pragma GCC unroll 16
    for (int j = 0; j < lanes; j++) low[j] = (j & s) == 0 ? j : lanes + j - s, high[j] = (j & s) == 0 ? j + s : lanes + j;
#pragma GCC unroll 16
    for (int i = 0; i < lanes; i++) {
      if ((i & s) != 0) continue;
      const Vec<T> a = r[i], b = r[i + s];
      r[i] = __builtin_shuffle(a, b, low);
      r[i + s] = __builtin_shuffle(a, b, high);
    }
  }
}

// to[r, j] = from[j, r] for r < rows, j < columns, and 0 for the columns up to `width`.
//   to OUT element (r, j) at r * width + j, from IN element (j, r) at j * stride + r
template <class T>
inline void transpose(T* to, int64_t width, const char* from, int64_t stride_bytes, int64_t rows, int columns) {
  constexpr int lanes = kLanes<T>;
  const auto row = [&](int64_t j) { return reinterpret_cast<const T*>(from + j * stride_bytes); };
  for (int64_t r = 0; r < rows; r += lanes)
    for (int64_t j = 0; j < width; j += lanes) {
      const int64_t height = min64(lanes, rows - r), here = min64(lanes, columns - j);
      Vec<T> v[lanes];
#pragma GCC unroll 16
      for (int i = 0; i < lanes; i++) v[i] = i >= here ? Vec<T>{} : height == lanes ? load(row(j + i) + r) : load_tail(row(j + i) + r, height);
      transpose_registers<T>(v);
      for (int64_t i = 0; i < height; i++) {
        if (j + lanes <= width) store(to + (r + i) * width + j, v[i]);
        else store_tail(to + (r + i) * width + j, v[i], width - j);
      }
    }
}

// to[j] = the pair (low[j], high[j]); a null `high` counts as zeros.   to OUT [n][2], low IN [n], high IN [n]
inline void interleave(bf16* to, const bf16* low, const bf16* high, int64_t n) {
  uint32_t* pairs = reinterpret_cast<uint32_t*>(to);
  typedef uint32_t Pair __attribute__((aligned(2), may_alias));
  Pair* out = reinterpret_cast<Pair*>(pairs);
  if (high == nullptr)
    for (int64_t j = 0; j < n; j++) out[j] = low[j].bits;
  else
    for (int64_t j = 0; j < n; j++) out[j] = low[j].bits | static_cast<uint32_t>(high[j].bits) << 16;
}

// Packs columns [0, columns) of B into rows of `width` units, zeros behind the last column and the last row.
//   packed OUT [units(k), width], b IN element (k, n) at k * row_stride + n * column_stride
template <class T>
inline void pack_panel(T* packed, const T* b, int64_t k, int columns, int width, int64_t row_stride, int64_t column_stride) {
  using R = Real<T>;
  if (column_stride == 1 && kUnit<T> == 1) {
    for (int64_t r = 0; r < k; r++) {
      memcpy(packed + r * width, b + r * row_stride, columns * sizeof(T));
      for (int j = columns; j < width; j++) packed[r * width + j] = T{};
    }
    return;
  }
  const int64_t whole = k / kUnit<T>;
  if (row_stride == 1) {
    transpose<R>(reinterpret_cast<R*>(packed), width, reinterpret_cast<const char*>(b), column_stride * sizeof(T), whole, columns);
  } else if constexpr (kUnit<T> == 2) {
    for (int64_t r = 0; r < whole; r++) {
      bf16* to = packed + r * width * 2;
      const bf16 *low = b + 2 * r * row_stride, *high = low + row_stride;
      if (column_stride == 1) interleave(to, low, high, columns);
      else
        for (int j = 0; j < columns; j++) to[2 * j] = low[j * column_stride], to[2 * j + 1] = high[j * column_stride];
      memset(to + 2 * columns, 0, (width - columns) * sizeof(R));
    }
  } else {
    for (int64_t r = 0; r < k; r++)
      for (int j = 0; j < width; j++) packed[r * width + j] = j < columns ? b[r * row_stride + j * column_stride] : T{};
  }
  if constexpr (kUnit<T> == 2)
    if (k % 2 != 0) {
      bf16* to = packed + whole * width * 2;
      memset(to, 0, width * sizeof(R));
      for (int j = 0; j < columns; j++) to[2 * j] = b[(k - 1) * row_stride + j * column_stride];
    }
}

}  // namespace pdl::PDL_ISA
