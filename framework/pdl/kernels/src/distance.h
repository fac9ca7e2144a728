// Distances of all pairs of rows, out [rows, others] from x [rows, columns] and y [others, columns], and their gradients, without the
// [rows, others, columns] differences:
//   kL1       sum_d |x_d - y_d|
//   kL2       sqrt(sum_d (x_d - y_d)^2)
//   kComplex  sum_d |x_d - y_d| of complex numbers, whose real parts are the first half of the columns and imaginary parts the second
//
// The forward pass has a row of y in each lane: y is turned, a block of rows at a time, and no sum runs across lanes. The backward pass has columns in
// the lanes: a strip of columns of all rows is its own problem, so threads take strips, and sums over rows run in their order whatever the number of
// threads.
#pragma once
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA::distance {

constexpr int kTile = 4;              // rows of x in registers
constexpr int64_t kOthers = 512;      // rows of y that are turned at a time
constexpr int64_t kBand = 64;         // rows of y, with their gradients, that stay in the first cache
constexpr int64_t kGrain = 1 << 16;   // differences that a thread should at least have

template <class T>
constexpr T kTiny = sizeof(T) == 4 ? T(1e-30) : T(1e-280);  // added to squares, so that the root of 0 has no division by 0

// 1 / sqrt(s) for s >= kTiny
template <class T>
PDL_INLINE Vec<T> inverse_root(Vec<T> s) { return T(1) / vsqrt<T>(s); }
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
// a guess of 14 bits and one step of Newton: 2 ulp, in half the time of a root
template <>
PDL_INLINE Vec<float> inverse_root<float>(Vec<float> s) {
  const Vec<float> r = (Vec<float>)_mm512_rsqrt14_ps((__m512)s);
  return r * (1.5f - s * 0.5f * r * r);
}
#endif

// How a sum over columns grows by a difference (u, and v its imaginary part), and what the gradient of that is, over u and v.
template <class T>
struct Manhattan {
  static constexpr int parts = 1;
  static PDL_INLINE Vec<T> more(Vec<T> sum, Vec<T> u, Vec<T>) { return sum + absolute<T>(u); }
  static PDL_INLINE void slope(Vec<T>& du, Vec<T>&, T g, Vec<T> u, Vec<T>) {
    const Vec<T> zero{}, wide = splat<T>(g);
    du = u > zero ? wide : u < zero ? -wide : zero;
  }
  static PDL_INLINE Vec<T> end(Vec<T> sum) { return sum; }
};
template <class T>
struct Euclidean {  // its g is that of the root, over the root
  static constexpr int parts = 1;
  static PDL_INLINE Vec<T> more(Vec<T> sum, Vec<T> u, Vec<T>) { return sum + u * u; }
  static PDL_INLINE void slope(Vec<T>& du, Vec<T>&, T g, Vec<T> u, Vec<T>) { du = u * g; }
  static PDL_INLINE Vec<T> end(Vec<T> sum) { return vsqrt<T>(sum); }
};
template <class T>
struct Moduli {
  static constexpr int parts = 2;
  static PDL_INLINE Vec<T> more(Vec<T> sum, Vec<T> u, Vec<T> v) {
    const Vec<T> s = v * v + (u * u + kTiny<T>);
    return sum + s * inverse_root<T>(s);
  }
  static PDL_INLINE void slope(Vec<T>& du, Vec<T>& dv, T g, Vec<T> u, Vec<T> v) {
    const Vec<T> w = inverse_root<T>(v * v + (u * u + kTiny<T>)) * g;
    du = u * w, dv = v * w;
  }
  static PDL_INLINE Vec<T> end(Vec<T> sum) { return sum; }
};

// turned [columns, lanes] from y [n <= lanes, columns], zeros in the lanes behind n
template <class T>
void turn(T* turned, const T* y, int64_t n, int64_t columns) {
  constexpr int lanes = kLanes<T>;
  for (int64_t d = 0; d < columns; d++)
    for (int l = 0; l < lanes; l++) turned[d * lanes + l] = l < n ? y[l * columns + d] : T(0);
}

// out [count rows of x, lanes] of one turned block
template <class T, class Metric, int count>
PDL_INLINE void tile(T* out, int64_t stride, const T* x, const T* turned, int64_t columns, int64_t lanes_used) {
  constexpr int lanes = kLanes<T>;
  const int64_t half = columns / Metric::parts;
  Vec<T> sum[count]{};
  for (int64_t d = 0; d < half; d++) {
    const Vec<T> a = load(turned + d * lanes), b = Metric::parts == 2 ? load(turned + (half + d) * lanes) : Vec<T>{};
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
      const T* row = x + i * columns;
      sum[i] = Metric::more(sum[i], splat<T>(row[d]) - a, Metric::parts == 2 ? splat<T>(row[half + d]) - b : Vec<T>{});
    }
  }
  for (int i = 0; i < count; i++) {
    const Vec<T> found = Metric::end(sum[i]);
    if (lanes_used == lanes) store(out + i * stride, found);
    else store_tail(out + i * stride, found, lanes_used);
  }
}

template <class T, class Metric>
void forward_as(T* out, const T* x, const T* y, int64_t rows, int64_t others, int64_t columns) {
  constexpr int lanes = kLanes<T>;
  T* turned = static_cast<T*>(scratch(Slot::kTurned, (kOthers + lanes) * columns * sizeof(T)));
  for (int64_t first = 0; first < others; first += kOthers) {
    const int64_t n = others - first < kOthers ? others - first : kOthers, blocks = (n + lanes - 1) / lanes;
    parallel(blocks, kGrain / (columns * lanes) + 1, [=](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; b++) {
        const int64_t left = n - b * lanes;
        turn(turned + b * lanes * columns, y + (first + b * lanes) * columns, left < lanes ? left : lanes, columns);
      }
    });
    parallel((rows + kTile - 1) / kTile, kGrain / (columns * n * kTile) + 1, [=](int64_t begin, int64_t end) {
      for (int64_t b = 0; b < blocks; b++) {
        const int64_t left = n - b * lanes, used = left < lanes ? left : lanes;
        const T* block = turned + b * lanes * columns;
        for (int64_t t = begin; t < end; t++) {
          const int64_t r = t * kTile;
          T* to = out + r * others + first + b * lanes;
          if (r + kTile <= rows) tile<T, Metric, kTile>(to, others, x + r * columns, block, columns, used);
          else
            for (int64_t i = 0; r + i < rows; i++) tile<T, Metric, 1>(to + i * others, others, x + (r + i) * columns, block, columns, used);
        }
      }
    });
  }
}

// strip [n, parts, lanes] of x [n, columns]: `width` columns from `at` on, of each part; zeros behind them
template <class T, int parts>
PDL_INLINE void gather(T* strip, const T* x, int64_t n, int64_t columns, int64_t at, int64_t width) {
  for (int64_t i = 0; i < n; i++)
    for (int p = 0; p < parts; p++) {
      const T* from = x + i * columns + p * (columns / parts) + at;
      store(strip + (i * parts + p) * kLanes<T>, width == kLanes<T> ? load(from) : load_tail(from, width));
    }
}
template <class T, int parts>
PDL_INLINE void scatter(T* x, const T* strip, int64_t n, int64_t columns, int64_t at, int64_t width) {
  for (int64_t i = 0; i < n; i++)
    for (int p = 0; p < parts; p++) {
      T* to = x + i * columns + p * (columns / parts) + at;
      const Vec<T> v = load(strip + (i * parts + p) * kLanes<T>);
      if (width == kLanes<T>) store(to, v);
      else store_tail(to, v, width);
    }
}

// dx [count] += and dy [n] += of one strip; g [count, n] lies `stride` apart
template <class T, class Metric, int count>
PDL_INLINE void strip_tile(T* dx, T* dy, const T* x, const T* y, const T* g, int64_t stride, int64_t n) {
  constexpr int lanes = kLanes<T>, parts = Metric::parts, last = parts - 1;
  Vec<T> own[count][parts], sum[count][parts];
  for (int i = 0; i < count; i++)
    for (int p = 0; p < parts; p++) own[i][p] = load(x + (i * parts + p) * lanes), sum[i][p] = load(dx + (i * parts + p) * lanes);
  for (int64_t k = 0; k < n; k++) {
    const T* other = y + k * parts * lanes;
    T* to = dy + k * parts * lanes;
    const Vec<T> a = load(other), b = load(other + last * lanes);
    Vec<T> da = load(to), db = load(to + last * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
      Vec<T> du, dv;
      Metric::slope(du, dv, g[i * stride + k], own[i][0] - a, own[i][last] - b);
      sum[i][0] += du, da -= du;
      if (parts == 2) sum[i][last] += dv, db -= dv;
    }
    store(to, da);
    if (parts == 2) store(to + last * lanes, db);
  }
  for (int i = 0; i < count; i++)
    for (int p = 0; p < parts; p++) store(dx + (i * parts + p) * lanes, sum[i][p]);
}

template <class T, class Metric>
void backward_as(T* dx, T* dy, const T* g, const T* x, const T* y, int64_t rows, int64_t others, int64_t columns) {
  constexpr int lanes = kLanes<T>, parts = Metric::parts;
  const int64_t each = columns / parts, strips = (each + lanes - 1) / lanes, step = parts * lanes;
  parallel(strips, kGrain / (rows * others * lanes + 1) + 1, [=](int64_t begin, int64_t end) {
    T* x_strip = static_cast<T*>(scratch(Slot::kStrips, 2 * (rows + others) * step * sizeof(T)));
    T *y_strip = x_strip + rows * step, *dx_strip = y_strip + others * step, *dy_strip = dx_strip + rows * step;
    for (int64_t s = begin; s < end; s++) {
      const int64_t at = s * lanes, width = each - at < lanes ? each - at : lanes;
      gather<T, parts>(x_strip, x, rows, columns, at, width);
      gather<T, parts>(y_strip, y, others, columns, at, width);
      __builtin_memset(dx_strip, 0, (rows + others) * step * sizeof(T));
      for (int64_t k = 0; k < others; k += kBand) {
        const int64_t n = others - k < kBand ? others - k : kBand;
        int64_t r = 0;
        for (; r + kTile <= rows; r += kTile)
          strip_tile<T, Metric, kTile>(dx_strip + r * step, dy_strip + k * step, x_strip + r * step, y_strip + k * step, g + r * others + k, others, n);
        for (; r < rows; r++)
          strip_tile<T, Metric, 1>(dx_strip + r * step, dy_strip + k * step, x_strip + r * step, y_strip + k * step, g + r * others + k, others, n);
      }
      scatter<T, parts>(dx, dx_strip, rows, columns, at, width);
      scatter<T, parts>(dy, dy_strip, others, columns, at, width);
    }
  });
}

// out OUT [rows, others]; x IN [rows, columns], y IN [others, columns], columns even for kComplex
template <class T>
void forward(int metric, T* out, const T* x, const T* y, int64_t rows, int64_t others, int64_t columns) {
  switch (metric) {
    case kL1: return forward_as<T, Manhattan<T>>(out, x, y, rows, others, columns);
    case kL2: return forward_as<T, Euclidean<T>>(out, x, y, rows, others, columns);
    case kComplex: return forward_as<T, Moduli<T>>(out, x, y, rows, others, columns);
  }
}

// dx OUT [rows, columns], dy OUT [others, columns]: the gradients, g [rows, others] being that of `out` (of kL2 over `out`: a distance of 0 has none)
template <class T>
void backward(int metric, T* dx, T* dy, const T* g, const T* x, const T* y, int64_t rows, int64_t others, int64_t columns) {
  switch (metric) {
    case kL1: return backward_as<T, Manhattan<T>>(dx, dy, g, x, y, rows, others, columns);
    case kL2: return backward_as<T, Euclidean<T>>(dx, dy, g, x, y, rows, others, columns);
    case kComplex: return backward_as<T, Moduli<T>>(dx, dy, g, x, y, rows, others, columns);
  }
}

}  // namespace pdl::PDL_ISA::distance
