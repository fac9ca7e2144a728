// Operands of attention as the micro-kernel reads them: packed once per head, whatever their strides and storage.
#pragma once
#include "pack.h"
#include "tile.h"
#include "vmath.h"

namespace pdl::PDL_ISA {
namespace attention {

// What the products multiply: bf16 in pairs where the CPU has an instruction for that, else numbers of the arithmetic.
template <class S>
struct OperandOf { typedef Real<S> type; };
#if defined(__AVX512BF16__)
template <>
struct OperandOf<bf16> { typedef bf16 type; };
#endif
template <class S>
using Operand = typename OperandOf<S>::type;
template <class S>
constexpr bool kPaired = kUnit<Operand<S>> == 2;

template <class P>
inline int64_t units_of(int64_t numbers) { return (numbers + kUnit<P> - 1) / kUnit<P>; }

// Rows of one head lie a page apart where heads are side by side: the hardware foresees none of them.
constexpr int64_t kAhead = 8;
template <class S>
PDL_INLINE void prefetch(const S* row, int64_t columns) {
  for (int64_t c = 0; c < columns; c += static_cast<int64_t>(64 / sizeof(S))) __builtin_prefetch(row + c);
  __builtin_prefetch(row + columns - 1);
}

template <class P>
PDL_INLINE void clear(P* to, int64_t n) { memset(to, 0, n * sizeof(P)); }

// out OUT [rows, width] = x [rows, columns], times `factor` where P is not stored as bf16; zeros behind the last column
template <class P, class S>
void pack_rows(P* out, const S* x, int64_t rows, int64_t columns, int64_t width, int64_t stride, Real<P> factor) {
  constexpr int lanes = kLanes<Real<P>>;
  for (int64_t r = 0; r < rows; r++) {
    P* to = out + r * width;
    const S* from = x + r * stride;
    if (r + kAhead < rows) prefetch(from + kAhead * stride, columns);
    if constexpr (kUnit<P> == 2) {
      memcpy(to, from, columns * sizeof(P));
      clear(to + columns, width - columns);
    } else {
      int64_t c = 0;
      for (; c + lanes <= columns; c += lanes) store(to + c, load(from + c) * factor);
      if (c < columns && c + lanes <= width) store(to + c, load_tail(from + c, columns - c) * factor), c += lanes;
      for (; c < width; c++) to[c] = c < columns ? value(from[c]) * factor : P(0);
    }
  }
}

// Pairs of rows side by side: unit (r, c) is x[2r, c], x[2r + 1, c].   out OUT [units(rows), width][2], x IN [rows, width] packed
PDL_INLINE void pair_rows(bf16* out, const bf16* x, int64_t rows, int64_t width) {
  constexpr int lanes = kLanes<float>;
  for (int64_t r = 0; r < rows; r += 2) {
    const bf16 *low = x + r * width, *high = r + 1 < rows ? low + width : nullptr;
    if (width % lanes != 0) interleave(out + r * width, low, high, width);
    else
      for (int64_t c = 0; c < width; c += lanes) {
        const Words a = (Words)load(low + c) >> 16, b = high != nullptr ? (Words)load(high + c) : Words{};
        store<float>(reinterpret_cast<float*>(out + r * width + 2 * c), (Vec<float>)(a | b));
      }
  }
}
// The same of floats, rounded.   x IN [rows, width]; whole vectors up to `columns` are written
PDL_INLINE void pair_rows(bf16* out, const float* x, int64_t rows, int64_t columns, int64_t width) {
  for (int64_t r = 0; r < rows; r += 2) {
    const float *low = x + r * width, *high = low + width;
    for (int64_t c = 0; c < columns; c += kLanes<float>) {
      const Words a = __builtin_convertvector(narrow(load<float>(low + c)), Words);
      const Words b = r + 1 < rows ? __builtin_convertvector(narrow(load<float>(high + c)), Words) : Words{};
      store<float>(reinterpret_cast<float*>(out + r * width + 2 * c), (Vec<float>)(a | b << 16));
    }
  }
}
PDL_INLINE void round_rows(bf16* out, const float* x, int64_t rows, int64_t columns, int64_t width) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c += kLanes<float>) store(out + r * width + c, load<float>(x + r * width + c));
}

// Packed rows x [rows, width] transposed into panels of kPanel of them: unit (u, r) at r / kPanel panel_size + u kPanel + r % kPanel.
template <class P>
void pack_transposed(P* out, const P* x, int64_t rows, int64_t units, int64_t width) {
  for (int64_t r = 0; r < rows; r += kPanel<P>)
    transpose<Real<P>>(reinterpret_cast<Real<P>*>(out + r * units * kUnit<P>), kPanel<P>, reinterpret_cast<const char*>(x + r * width),
                       width * sizeof(P), units, static_cast<int>(min64(kPanel<P>, rows - r)));
}

// out OUT [rows, columns] = factor x [rows, width]
template <class T, class S>
void put_rows(S* out, const T* x, int64_t rows, int64_t columns, int64_t width, int64_t stride, T factor) {
  constexpr int lanes = kLanes<T>;
  for (int64_t r = 0; r < rows; r++) {
    S* to = out + r * stride;
    const T* from = x + r * width;
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) store(to + c, load<T>(from + c) * factor);
    if (c < columns) store_tail(to + c, load_tail(from + c, columns - c) * factor, columns - c);
  }
}

// c OUT [m, n] (+)= a b, k in units. a: unit (m, k) at m a_stride + k, or in the column form at m + k a_stride; b: unit (k, n) at
// k b_width + n, or, where b_panel is not 0, in panels of kPanel columns, b_panel apart. a_stride is in numbers, what concerns b in units.
template <bool kColumns, class P>
void product(Real<P>* c, int64_t c_stride, const P* a, int64_t a_stride, const P* b, int64_t b_width, int64_t b_panel, int64_t m, int64_t n,
             int64_t k, bool accumulate) {
  for (int64_t j = 0; j < n; j += kPanel<P>) {
    const int columns = static_cast<int>(min64(kPanel<P>, n - j));
    const int64_t step = even_rows(m, max_rows<P>(columns));
    const P* b_at = b + (b_panel != 0 ? j / kPanel<P> * b_panel : j) * kUnit<P>;
    for (int64_t i = 0; i < m; i += step) {
      const P* a_at = a + (kColumns ? i * kUnit<P> : i * a_stride);
      const Tile<P> tile{&a_at, &b_at, 1, k, a_stride, b_width * kUnit<P>, c + i * c_stride + j, c_stride, nullptr, accumulate, nullptr};
      tile_kernel<P, kColumns>(static_cast<int>(min64(step, m - i)), columns, tile);
    }
  }
}

// Scratch memory, cut into pieces: first counted, with no memory, then taken.
struct Cut {
  int64_t used = 0;
  char* base = nullptr;
  template <class T>
  void take(T*& piece, int64_t n) {
    piece = reinterpret_cast<T*>(base + used);
    used += round_up(n * static_cast<int64_t>(sizeof(T)), 64);
  }
};

}  // namespace attention
}  // namespace pdl::PDL_ISA
