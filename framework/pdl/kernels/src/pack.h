// Copies of matrices in the order in which the micro-kernel reads them.
#pragma once
#include "tile.h"

namespace pdl::PDL_ISA {

// Units along k that are copied at a time: their rows stay in the first cache while they are shared out among tiles or panels.
constexpr int64_t kStrip = 16;

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
inline __attribute__((always_inline)) void interleave(bf16* to, const bf16* low, const bf16* high, int64_t n) {
  constexpr int lanes = kLanes<float>;
  typedef uint32_t Pair __attribute__((aligned(2), may_alias));
  float* pairs = reinterpret_cast<float*>(to);
  const auto joined = [](Vec<float> a, Vec<float> b) __attribute__((always_inline)) { return (Vec<float>)((Words)a >> 16 | (Words)b); };
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) store<float>(pairs + j, joined(load(low + j), high != nullptr ? load(high + j) : Vec<float>{}));
  if (j == n) return;
  if (Edge<float, PDL_VECTOR_BYTES>::kMasked)
    store_tail<float>(pairs + j, joined(load_tail(low + j, n - j), high != nullptr ? load_tail(high + j, n - j) : Vec<float>{}), n - j);
  else
    for (; j < n; j++) reinterpret_cast<Pair*>(to)[j] = low[j].bits | (high != nullptr ? static_cast<uint32_t>(high[j].bits) << 16 : 0);
}

// n numbers, few of them.   to OUT [n], from IN [n]
template <class T>
inline __attribute__((always_inline)) void copy_few(T* to, const T* from, int64_t n) {
  constexpr int lanes = kLanes<T>;
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) store<T>(to + j, load<T>(from + j));
  if (j == n) return;
  if (Edge<T, PDL_VECTOR_BYTES>::kMasked) store_tail<T>(to + j, load_tail<T>(from + j, n - j), n - j);
  else
    for (; j < n; j++) to[j] = from[j];
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

// The same for any number of columns, panel behind panel.
//   packed OUT [panels][units(k) * kPanel * kUnit]
template <class T>
inline void pack_panels(T* packed, const T* b, int64_t k, int64_t columns, int64_t row_stride, int64_t column_stride) {
  constexpr int panel = kPanel<T>, unit = kUnit<T>;
  const int64_t units = (k + unit - 1) / unit, size = units * panel * unit;
  const int64_t whole = column_stride == 1 ? columns / panel : 0;
  for (int64_t strip = 0; whole > 0 && strip < units; strip += kStrip)
    for (int64_t i = 0; i < whole; i++)
      for (int64_t r = strip; r < min64(units, strip + kStrip); r++) {
        const T* from = b + r * unit * row_stride + i * panel;
        T* to = packed + i * size + r * panel * unit;
        if constexpr (unit == 1) copy_few(to, from, panel);
        else interleave(to, from, unit * r + 1 < k ? from + row_stride : nullptr, panel);
      }
  for (int64_t i = whole; i * panel < columns; i++) {
    const int here = static_cast<int>(min64(panel, columns - i * panel));
    pack_panel(packed + i * size, b + i * panel * column_stride, k, here, panel_width<T>(here), row_stride, column_stride);
  }
}

}  // namespace pdl::PDL_ISA
