// The batch-reduce GEMM micro-kernel: one tile of C stays in registers while sum_b A_b B_b runs over a batch of small matrices.
//
// Matmul passes one pair per block of k; convolution passes one pair per kernel row; its weight gradient one pair per image row
// (Georganas et al., arXiv 1906.06440). Along k numbers come in units: one float or double, or two bf16 side by side, whose products are
// summed in float: by one instruction where there is AVX512-BF16, by two multiply-adds elsewhere.
#pragma once
#include "bf16.h"
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

// Numbers in a unit, and whether a unit takes two multiply-adds.
template <class T>
constexpr int kUnit = sizeof(Real<T>) / sizeof(T);
#if defined(__AVX512BF16__)
template <class T>
constexpr bool kSplit = false;
#else
template <class T>
constexpr bool kSplit = kUnit<T> == 2;
#endif

// Tiles are at most kMaxRows x (kMaxVectors * lanes): as many accumulators as the register file holds beside B and one broadcast.
#if PDL_VECTOR_BYTES == 64 || defined(__aarch64__)
template <class T, int NRV>
constexpr int kMaxRows = kSplit<T> ? (NRV == 1 ? 14 : 12) : (NRV == 1 ? 16 : 14);
#else
template <class T, int NRV>
constexpr int kMaxRows = kSplit<T> ? (NRV == 1 ? 9 : 4) : (NRV == 1 ? 12 : 6);
#endif
constexpr int kMaxVectors = 2;
template <class T>
constexpr int kPanel = kMaxVectors * kLanes<Real<T>>;

// The width that a panel of `columns` is packed to: whole registers.
template <class T>
inline int panel_width(int64_t columns) {
  constexpr int narrow = kNarrowBytes / sizeof(Real<T>), wide = kLanes<Real<T>>;
  return columns <= narrow ? narrow : columns <= wide ? wide : kPanel<T>;
}

// What a kernel does to a value in its registers before it stores it: min(max(v, low), high), or hard swish. NaN stays.
template <class R>
struct Bounds {
  R low, high;
  bool swish = false;
};
// V: R, or a vector of it
template <class V, class R>
inline __attribute__((always_inline)) V hard_swish(V v, const R*) {
  v = v < R(-3) ? R(-3) - V{} : v;  // -infinity, too, becomes 0
  V gate = v * R(1. / 6) + R(0.5);
  gate = gate < R(0) ? V{} : gate;
  return v * (gate > R(1) ? R(1) - V{} : gate);
}
template <class V, class R>
inline __attribute__((always_inline)) V within_bounds(V v, const Bounds<R>& bounds) {
  if (bounds.swish) return hard_swish(v, &bounds.low);
  v = v < bounds.low ? bounds.low - V{} : v;
  return v > bounds.high ? bounds.high - V{} : v;
}

constexpr int kStreamed = 8;  // rows of a tile that may ask for B early; larger ones read it more slowly than it comes

// One call of the micro-kernel: C[m, n] (+)= sum_b sum_k A_b[m, k] B_b[k, n] (+ bias[n]), k counted in units.
template <class T>
struct Tile {
  const T* const* a;    // IN [batch] A_b: unit (m, k) at m * a_stride + k * kUnit, or at m * kUnit + k * a_stride in the column form
  const T* const* b;    // IN [batch] B_b: unit (k, n) at k * b_stride + n * kUnit; see Edge
  int64_t batch, k, a_stride, b_stride;
  Real<T>* c;           // OUT element (m, n) at m * c_stride + n
  int64_t c_stride;
  const Real<T>* bias;  // IN [n] or null
  bool accumulate;      // C += instead of C = (and no bias)
  T* rounded = nullptr;  // OUT in place of C, rounded to T, where not null
  // In the row form of four-byte arithmetic, before C is stored (where not null):
  const T* residual = nullptr;      // IN added, laid out as C
  const Bounds<Real<T>>* bounds = nullptr;
  // In the row form: tiles of as many rows, one under the other, and values between all A_b and what the first tile reads.
  int64_t repeat = 1, shift = 0;
  // Not 0, where a tile has few sums: repeated tiles lie beside one another, values from panel to panel of B, and units along k take turns
  // among several sums of each element, since an addition waits for the one before it. So rows differ by rounding from those of larger tiles.
  int64_t beside = 0;
  int64_t ahead = 0;  // bytes by which B is asked for early, of up to kStreamed rows
  // In the row form of more rows: what is read next. Each unit along k asks for the lines at `next` and `apart` bytes behind, and goes on by
  // `pace` bytes: they come while tiles are summed, and never so many at once that sums wait for them.
  const char* next = nullptr;
  int64_t apart = 0, pace = 0;

  // So many bytes, while as many tiles are summed; none where these sum nothing.
  __attribute__((always_inline)) void ask_for(const void* from, int64_t bytes, int64_t tiles) {
    const int64_t steps = tiles * k;
    next = static_cast<const char*>(from), apart = bytes / 2, pace = steps > 0 ? (apart + steps - 1) / steps : 0;
  }

  // Goes on behind `rows` rows.
  __attribute__((always_inline)) void step(int64_t rows) {
    c += rows * c_stride, shift += rows * a_stride, next += k * pace;
    if (rounded != nullptr) rounded += rows * c_stride;
    if (residual != nullptr) residual += rows * c_stride;
  }
};

// A vector of numbers of the storage type.
template <int kBytes>
inline __attribute__((always_inline)) typename WideOf<float, kBytes>::type widened(const float* p) {
  return *reinterpret_cast<const typename WideOf<float, kBytes>::type*>(p);
}
template <int kBytes>
inline __attribute__((always_inline)) typename WideOf<float, kBytes>::type widened(const bf16* p) {
  using Bits = typename WideOf<uint32_t, kBytes>::type;
  using Half = typename WideOf<uint16_t, kBytes / 2>::type;
  return (typename WideOf<float, kBytes>::type)(__builtin_convertvector(*reinterpret_cast<const Half*>(p), Bits) << 16);
}

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
  __attribute__((always_inline)) V load_stored(const T* p) const { return load(p); }
  __attribute__((always_inline)) V load_stored(const bf16* p) const {
    using Bits = typename WideOf<uint32_t, kBytes>::type;
    if constexpr (kBytes == 64) return (V)((Bits)_mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi16(mask, p)) << 16);
    if constexpr (kBytes == 32) return (V)((Bits)_mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(mask, p)) << 16);
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
  template <class S>
  __attribute__((always_inline)) V load_stored(const S* p) const { return widened<kBytes>(p); }
  __attribute__((always_inline)) void store(T* p, V v) const { *reinterpret_cast<V*>(p) = v; }
#endif
};

// Whether a micro-kernel finishes what it has summed: residual and clamp.
template <class T, bool kColumns>
constexpr bool kFinishes = !kColumns && sizeof(Real<T>) == 4;

// Rows of A under one pointer in the row form: 0, 1, 2, 3 and 4 strides are one addressing mode each (scale 1, 2, 4; 3 has a register).
constexpr int kRowsPerPointer = 5;

// The micro-kernels for 1 to kMaxRows rows.
template <class T>
using MicroKernel = void (*)(const Tile<T>& tile, int columns);
template <class T, int kBytes, int MR, int NRV, bool kColumns>
void micro_kernel(const Tile<T>& tile, int columns);  // micro_kernel.h
template <class T, int kBytes, int NRV, bool kColumns>
struct Rows {
  MicroKernel<T> of[kMaxRows<T, NRV> + 1] = {};
  template <int MR = kMaxRows<T, NRV>>
  constexpr void fill() {
    of[MR] = micro_kernel<T, kBytes, MR, NRV, kColumns>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr Rows() { fill(); }
};

// All of them: instantiated once, in tile.cpp.
template <class T, bool kColumns>
struct MicroKernels {
  Rows<T, kNarrowBytes, 1, kColumns> narrow;
  Rows<T, PDL_VECTOR_BYTES, 1, kColumns> one;
  Rows<T, PDL_VECTOR_BYTES, 2, kColumns> two;
  static const MicroKernels all;
};

template <class T, bool kColumns>
inline MicroKernel<T> micro_kernel_for(int rows, int columns) {
  const MicroKernels<T, kColumns>& all = MicroKernels<T, kColumns>::all;
  const int width = panel_width<T>(columns);
  return width == kPanel<T> ? all.two.of[rows] : width == kLanes<Real<T>> ? all.one.of[rows] : all.narrow.of[rows];
}

// `size` bytes at both ends of n numbers; the ends may overlap.
template <int size, class R>
inline __attribute__((always_inline)) void copy_ends(R* to, const R* from, int n) {
  const int64_t last = n * static_cast<int64_t>(sizeof(R)) - size;
  char first[size], second[size];
  memcpy(first, from, size), memcpy(second, reinterpret_cast<const char*>(from) + last, size);
  memcpy(to, first, size), memcpy(reinterpret_cast<char*>(to) + last, second, size);
}
// n numbers, at most two vectors of them
template <class R>
inline __attribute__((always_inline)) void copy_columns(R* to, const R* from, int n) {
  const int bytes = n * static_cast<int>(sizeof(R));
  if (bytes >= PDL_VECTOR_BYTES) copy_ends<PDL_VECTOR_BYTES>(to, from, n);
  else if (bytes >= 16) copy_ends<16>(to, from, n);
  else if (bytes >= 8) copy_ends<8>(to, from, n);
  else *to = *from;
}

// The whole tile, any number of columns up to kPanel. Without masks B and bias must be readable up to panel_width(columns), whatever
// stands there.
template <class T, bool kColumns>
inline void tile_kernel(int rows, int columns, Tile<T> t) {
  constexpr int wide = kLanes<Real<T>>, narrow = kNarrowBytes / sizeof(Real<T>);
  if (narrow < wide && columns > wide && columns <= wide + narrow && t.batch == 1) {  // a register and half of one, instead of two
    tile_kernel<T, kColumns>(rows, wide, t);
    const T* b = t.b[0] + wide * kUnit<T>;
    t.b = &b, t.c += wide;
    if (t.bias != nullptr) t.bias += wide;
    if (t.rounded != nullptr) t.rounded += wide;
    if (t.residual != nullptr) t.residual += wide;
    return tile_kernel<T, kColumns>(rows, columns - wide, t);
  }
  const MicroKernel<T> run = micro_kernel_for<T, kColumns>(rows, columns);
  const int width = panel_width<T>(columns);
  if (Edge<Real<T>, PDL_VECTOR_BYTES>::kMasked || columns == width) return run(t, columns);
  if (t.repeat > 1) {
    for (int64_t left = t.repeat; left > 0; left--, t.step(rows)) t.repeat = 1, tile_kernel<T, kColumns>(rows, columns, t);
    return;
  }
  alignas(64) Real<T> edge[kMaxRows<T, 1> * kPanel<T>];  // no masks: through a tile on the stack, so that nothing beyond `columns` is written
  const Tile<T> to = t;
  const bool whole = !to.accumulate && to.residual == nullptr;  // nothing is left to be added
  t.c = edge, t.rounded = nullptr, t.residual = nullptr;
  if (!whole) t.bounds = nullptr;
  t.c_stride = width;
  t.accumulate = false;
  run(t, width);
  if (whole && to.rounded == nullptr) {
    for (int i = 0; i < rows; i++) copy_columns(to.c + i * to.c_stride, edge + i * width, columns);
    return;
  }
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      const int64_t at = i * to.c_stride + j;
      Real<T> v = edge[i * width + j];
      if (to.accumulate) v += to.c[at];
      if (to.residual != nullptr) v += value(to.residual[at]);
      if (!whole && to.bounds != nullptr) v = within_bounds(v, *to.bounds);
      if (kUnit<T> == 2 && to.rounded != nullptr) put(to.rounded + at, v);
      else to.c[at] = v;
    }
}

template <class T>
inline int max_rows(int columns) {
  return columns <= kLanes<Real<T>> ? kMaxRows<T, 1> : kMaxRows<T, 2>;
}

// Splits n rows into the fewest tiles and those evenly: 16 rows are 8 + 8, not 14 + 2. Returns the rows of every tile but the last.
inline int64_t even_rows(int64_t n, int most) {
  const int64_t tiles = (n + most - 1) / most;
  return tiles > 0 ? (n + tiles - 1) / tiles : 1;
}

inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// Whether rows so many bytes apart crowd into few sets of a first-level cache.
inline bool shares_sets(int64_t bytes) { return bytes % 1024 == 0; }
inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

}  // namespace pdl::PDL_ISA
