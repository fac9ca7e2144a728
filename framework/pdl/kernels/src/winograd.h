// Winograd's minimal filtering F(4x4, 3x3) for 3x3 convolutions of stride 1 and their two gradients (Lavin & Gray, arXiv 1509.09308):
// Y = A^T [(G w G^T) . (B^T x B)] A over 6x6 tiles of x that give 4x4 tiles of y, so 36 multiplications stand for 144. The products over
// channels are 36 matrix products on the batch-reduce micro-kernel; the transforms are additions on whole vectors of channels.
//
// Against float64 the results are off by about ten times what direct summation is off (tests/framework/kernels/test_winograd.py).
#pragma once
#include "gemm.h"

namespace pdl::PDL_ISA::winograd {

constexpr int kOut = 4, kIn = 6, kPoints = kIn * kIn;

// -- one-dimensional transforms, over any stride ------------------------------------------------------------------------------------
#define PDL_STEP inline __attribute__((always_inline)) void
// to = B^T x: six values of x
template <class V>
PDL_STEP input_step(V* to, int ts, const V* x, int s) {
  const V a = x[4 * s] - 4 * x[2 * s], b = x[3 * s] - 4 * x[s], c = x[4 * s] - x[2 * s], d = 2 * (x[3 * s] - x[s]);
  to[0] = 4 * x[0] - 5 * x[2 * s] + x[4 * s];
  to[ts] = a + b;
  to[2 * ts] = a - b;
  to[3 * ts] = c + d;
  to[4 * ts] = c - d;
  to[5 * ts] = 4 * x[s] - 5 * x[3 * s] + x[5 * s];
}
// to = A^T m: four values of y from six products
template <class V>
PDL_STEP output_step(V* to, int ts, const V* m, int s) {
  const V a = m[s] + m[2 * s], b = m[s] - m[2 * s], c = m[3 * s] + m[4 * s], d = m[3 * s] - m[4 * s];
  to[0] = m[0] + a + c;
  to[ts] = b + 2 * d;
  to[2 * ts] = a + 4 * c;
  to[3 * ts] = b + 8 * d + m[5 * s];
}
// to = A y: the transpose of output_step
template <class V>
PDL_STEP spread_step(V* to, int ts, const V* y, int s) {
  const V a = y[0] + y[2 * s], b = y[s] + y[3 * s], c = y[0] + 4 * y[2 * s], d = 2 * y[s] + 8 * y[3 * s];
  to[0] = y[0];
  to[ts] = a + b;
  to[2 * ts] = a - b;
  to[3 * ts] = c + d;
  to[4 * ts] = c - d;
  to[5 * ts] = y[3 * s];
}
// to = G w: six values of three
template <class V>
PDL_STEP weight_step(V* to, int ts, const V* w, int s) {
  using T = __typeof__(w[0][0] + 0);
  constexpr T sixth = T(1) / 6, twelfth = T(1) / 12, fraction = T(1) / 24;
  const V even = -sixth * (w[0] + w[2 * s]), wide = fraction * w[0] + sixth * w[2 * s];
  to[0] = T(0.25) * w[0];
  to[ts] = even - sixth * w[s];
  to[2 * ts] = even + sixth * w[s];
  to[3 * ts] = wide + twelfth * w[s];
  to[4 * ts] = wide - twelfth * w[s];
  to[5 * ts] = w[2 * s];
}
// to = G^T u: the transpose of weight_step
template <class V>
PDL_STEP gather_step(V* to, int ts, const V* u, int s) {
  using T = __typeof__(u[0][0] + 0);
  constexpr T sixth = T(1) / 6, twelfth = T(1) / 12, fraction = T(1) / 24;
  const V a = u[s] + u[2 * s], b = u[2 * s] - u[s], c = u[3 * s] + u[4 * s], d = u[3 * s] - u[4 * s];
  to[0] = T(0.25) * u[0] - sixth * a + fraction * c;
  to[ts] = sixth * b + twelfth * d;
  to[2 * ts] = sixth * (c - a) + u[5 * s];
}
#undef PDL_STEP

// -- the plane of images that tiles are cut from --------------------------------------------------------------------------------------
// An array [n, height, width, channels]; tile (n, ty, tx) begins at row ty * 4 - top, column tx * 4 - left.
struct Plane {
  int64_t n, height, width, channels, top, left;
};

// The tiles of an output [n, height, width].
struct Tiles {
  int64_t down, across, count;
  Tiles(int64_t n, int64_t height, int64_t width)
      : down((height + kOut - 1) / kOut), across((width + kOut - 1) / kOut), count(n * down * across) {}
};

// Where a tile lies in a plane, and which of its rows and columns are inside.
struct Place {
  int64_t at;  // of its first element, maybe outside
  int64_t row0, row1, column0, column1;
  Place(const Plane& p, const Tiles& t, int64_t tile, int64_t size) {
    const int64_t image = tile / (t.down * t.across), y = tile / t.across % t.down * kOut - p.top, x = tile % t.across * kOut - p.left;
    at = ((image * p.height + y) * p.width + x) * p.channels;
    row0 = max64(0, -y), row1 = min64(size, p.height - y), column0 = max64(0, -x), column1 = min64(size, p.width - x);
  }
  bool whole(int64_t size) const { return row0 == 0 && row1 == size && column0 == 0 && column1 == size; }
};

// The size x size vectors of a tile; zeros outside.
template <class T, int kSize>
inline __attribute__((always_inline)) void load_tile(Vec<T>* to, const T* from, const Plane& p, const Place& place, bool whole) {
  for (int i = 0; i < kSize; i++)
#pragma GCC unroll 6
    for (int j = 0; j < kSize; j++) {
      const bool inside = whole || (i >= place.row0 && i < place.row1 && j >= place.column0 && j < place.column1);
      to[i * kSize + j] = inside ? load(from + (i * p.width + j) * p.channels) : Vec<T>{};
    }
}

// What takes a tile of images to its 36 points: B^T x B of 6x6 pixels, or A y A^T of 4x4.
//   points OUT [36] matrices [tiles, channels], `stride` apart; x IN the plane; tiles [first, last)
template <class T, int kSize>
void to_points(T* points, int64_t stride, const T* x, const Plane& p, const Tiles& tiles, int64_t first, int64_t last) {
  for (int64_t tile = first; tile < last; tile++) {
    const Place place(p, tiles, tile, kSize);
    const bool whole = place.whole(kSize);
    T* to = points + (tile - first) * p.channels;
    for (int64_t c = 0; c < p.channels; c += kLanes<T>) {
      Vec<T> in[kSize * kSize], half[kIn * kSize], line[kIn];
      load_tile<T, kSize>(in, x + place.at + c, p, place, whole);
#pragma GCC unroll 6
      for (int j = 0; j < kSize; j++)
        if constexpr (kSize == kIn) input_step(half + j, kSize, in + j, kSize);
        else spread_step(half + j, kSize, in + j, kSize);
#pragma GCC unroll 6
      for (int i = 0; i < kIn; i++) {
        if constexpr (kSize == kIn) input_step(line, 1, half + i * kSize, 1);
        else spread_step(line, 1, half + i * kSize, 1);
#pragma GCC unroll 6
        for (int j = 0; j < kIn; j++) store(to + (i * kIn + j) * stride + c, line[j]);
      }
    }
  }
}

// Tiles of y from their 36 points (+ bias), the inverse way.
template <class T>
void from_points(T* y, const T* points, int64_t stride, const T* bias, const Plane& p, const Tiles& tiles, int64_t first, int64_t last) {
  for (int64_t tile = first; tile < last; tile++) {
    const Place place(p, tiles, tile, kOut);
    const T* from = points + (tile - first) * p.channels;
    for (int64_t c = 0; c < p.channels; c += kLanes<T>) {
      Vec<T> in[kPoints], half[kOut * kIn], line[kOut];
#pragma GCC unroll 36
      for (int i = 0; i < kPoints; i++) in[i] = load(from + i * stride + c);
#pragma GCC unroll 6
      for (int j = 0; j < kIn; j++) output_step(half + j, kIn, in + j, kIn);
      const Vec<T> start = bias != nullptr ? load(bias + c) : Vec<T>{};
#pragma GCC unroll 4
      for (int i = 0; i < kOut; i++) {
        output_step(line, 1, half + i * kIn, 1);
        for (int j = 0; j < kOut; j++)
          if (i < place.row1 && j < place.column1) store(y + place.at + (i * p.width + j) * p.channels + c, line[j] + start);
      }
    }
  }
}

// -- weights --------------------------------------------------------------------------------------------------------------------------
// Where row k of the panel that holds column n begins in a packed matrix [k, columns].
template <class T>
inline int64_t packed_at(int64_t k, int64_t n, int64_t rows, int64_t columns) {
  constexpr int64_t panel = kPanel<T>;
  const int64_t first = n / panel * panel, width = min64(panel, columns - first);
  return first * rows + k * width + (n - first);
}

// 36 vectors from nine: G w G^T
template <class T>
inline __attribute__((always_inline)) void transform_weights(T* to, int64_t stride, const Vec<T>* w) {
  Vec<T> half[kIn * 3], line[kIn];
#pragma GCC unroll 3
  for (int j = 0; j < 3; j++) weight_step(half + j, 3, w + j, 3);
#pragma GCC unroll 6
  for (int i = 0; i < kIn; i++) {
    weight_step(line, 1, half + i * 3, 1);
#pragma GCC unroll 6
    for (int j = 0; j < kIn; j++) store(to + (i * kIn + j) * stride, line[j]);
  }
}

// The 36 matrices [c, o] of the weights, packed in panels.   u OUT [36, c * o], w IN [3, 3, c, o]
template <class T>
void pack_forward(T* u, const T* w, int64_t c, int64_t o) {
  parallel(c, max64(1, kParallelWork / (o * 16)), [=](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; k++)
      for (int64_t n = 0; n < o; n += kLanes<T>) {
        Vec<T> taps[9];
        for (int t = 0; t < 9; t++) taps[t] = load(w + (t * c + k) * o + n);
        transform_weights(u + packed_at<T>(k, n, c, o), c * o, taps);
      }
  });
}

// The same of the weights turned by 180 degrees and transposed, for the gradient of the input.   u OUT [36, o * c], w IN [3, 3, c, o]
template <class T>
void pack_transposed(T* u, const T* w, int64_t c, int64_t o) {
  constexpr int64_t lanes = kLanes<T>;
  parallel(c / lanes, max64(1, kParallelWork / (o * lanes * 16)), [=](int64_t begin, int64_t end, int) {
    alignas(64) T block[9][lanes][lanes];  // [tap][o][c]
    for (int64_t n = begin * lanes; n < end * lanes; n += lanes)
      for (int64_t k = 0; k < o; k += lanes) {
        for (int t = 0; t < 9; t++)
          for (int64_t i = 0; i < lanes; i++)
            for (int64_t j = 0; j < lanes; j++) block[8 - t][j][i] = w[(t * c + n + i) * o + k + j];
        for (int64_t j = 0; j < lanes; j++) {
          Vec<T> taps[9];
          for (int t = 0; t < 9; t++) taps[t] = load(&block[t][j][0]);
          transform_weights(u + packed_at<T>(k + j, n, o, c), c * o, taps);
        }
      }
  });
}

// -- products over channels -----------------------------------------------------------------------------------------------------------
// to [rows, columns] = a [rows, k] b, for the panel of b that begins at `column`.
template <class T>
inline void panel_product(T* to, const T* a, const T* packed, int64_t rows, int64_t k, int64_t columns, int64_t column) {
  const int width = static_cast<int>(min64(kPanel<T>, columns - column));
  const int64_t step = even_rows(rows, max_rows<T>(width));
  const T* b = packed + column * k;
  for (int64_t row = 0; row < rows; row += step) {
    const T* a_row = a + row * k;
    tile_kernel<T, false>(static_cast<int>(min64(step, rows - row)), width,
                          {&a_row, &b, 1, k, k, width, to + row * columns + column, columns, nullptr, false});
  }
}

// Bytes of the points of one tile, and between the matrices of two points: off the powers of two, whose addresses share sets of the cache.
template <class T>
inline int64_t tile_bytes(int64_t channels) { return kPoints * channels * static_cast<int64_t>(sizeof(T)); }
template <class T>
inline int64_t point_stride(int64_t tiles, int64_t channels) { return round_up(tiles * channels, kLanes<T>) + 64 / sizeof(T); }

constexpr int64_t kNear = 640 * 1024;       // points that stay in a core's second-level cache
constexpr int64_t kShared = 8 * 1024 * 1024;  // points that stay in the cache that cores share

// y = correlation of x with the weights in u (+ bias). Few weights: each thread takes tiles through all three stages. Many: the
// stages follow each other over all tiles of a chunk, so that every weight is read once a chunk.
template <class T>
void correlate(T* y, const T* x, const T* u, const T* bias, const Plane& in, const Plane& out) {
  const Tiles tiles(out.n, out.height, out.width);
  const int64_t c = in.channels, o = out.channels, each = tile_bytes<T>(c) + tile_bytes<T>(o);
  const int64_t weight_bytes = kPoints * c * o * static_cast<int64_t>(sizeof(T));
  if (weight_bytes <= 4 * kNear) {
    const int64_t most = kMaxRows<2>, run = min64(tiles.count, max64(most, kNear / each / most * most));
    const int64_t runs = (tiles.count + run - 1) / run;
    parallel(runs, max64(1, kParallelWork / (run * c * o * 36)), [&](int64_t begin, int64_t end, int) {
      const int64_t in_stride = point_stride<T>(run, c), out_stride = point_stride<T>(run, o);
      T* v = static_cast<T*>(scratch(3, kPoints * (in_stride + out_stride) * sizeof(T)));
      T* m = v + kPoints * in_stride;
      for (int64_t r = begin; r < end; r++) {
        const int64_t first = r * run, last = min64(tiles.count, first + run);
        to_points<T, kIn>(v, in_stride, x, in, tiles, first, last);
        for (int i = 0; i < kPoints; i++)
          for (int64_t column = 0; column < o; column += kPanel<T>)
            panel_product(m + i * out_stride, v + i * in_stride, u + i * c * o, last - first, c, o, column);
        from_points(y, m, out_stride, bias, out, tiles, first, last);
      }
    });
    return;
  }
  const int64_t chunk = min64(tiles.count, max64(4 * kMaxRows<2>, kShared / each));
  const int64_t in_stride = point_stride<T>(chunk, c), out_stride = point_stride<T>(chunk, o), panels = (o + kPanel<T> - 1) / kPanel<T>;
  T* v = static_cast<T*>(scratch(2, kPoints * (in_stride + out_stride) * sizeof(T)));
  T* m = v + kPoints * in_stride;
  for (int64_t first = 0; first < tiles.count; first += chunk) {
    const int64_t count = min64(chunk, tiles.count - first);
    parallel(count, 1, [&](int64_t begin, int64_t end, int) {
      to_points<T, kIn>(v + begin * c, in_stride, x, in, tiles, first + begin, first + end);
    });
    parallel(kPoints * panels, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; i++)
        panel_product(m + i / panels * out_stride, v + i / panels * in_stride, u + i / panels * c * o, count, c, o,
                      i % panels * kPanel<T>);
    });
    parallel(count, 1, [&](int64_t begin, int64_t end, int) {
      from_points(y, m + begin * o, out_stride, bias, out, tiles, first + begin, first + end);
    });
  }
}

// -- the three entries ------------------------------------------------------------------------------------------------------------------
// Whether the transforms pay: 3x3 taps side by side, whole vectors of channels, tiles that are mostly used and enough of them.
template <class T>
inline bool fits(const Geometry& g) {
  if (sizeof(T) != 4 || g.groups != 1 || g.in[0] != 1 || g.kernel[0] != 1 || g.kernel[1] != 3 || g.kernel[2] != 3) return false;
  for (int d = 0; d < 3; d++)
    if (g.stride[d] != 1 || g.dilation[d] != 1) return false;
  if (g.c % kLanes<T> != 0 || g.o % kLanes<T> != 0 || g.c < 16 || g.o < 16) return false;
  const Tiles tiles(g.n, g.out[1], g.out[2]);
  return tiles.count >= 2 * kMaxRows<2> && tiles.down * tiles.across * kOut * kOut <= g.out[1] * g.out[2] * 7 / 4;
}

inline Plane input_plane(const Geometry& g) { return {g.n, g.in[1], g.in[2], g.c, g.pad[1], g.pad[2]}; }
inline Plane output_plane(const Geometry& g) { return {g.n, g.out[1], g.out[2], g.o, 0, 0}; }

template <class T>
void forward(T* y, const T* x, const T* w, const T* bias, const Geometry& g) {
  T* u = static_cast<T*>(scratch(1, kPoints * g.c * g.o * sizeof(T)));
  pack_forward(u, w, g.c, g.o);
  correlate(y, x, u, bias, input_plane(g), output_plane(g));
}

template <class T>
void dx(T* dx, const T* dy, const T* w, const Geometry& g) {
  T* u = static_cast<T*>(scratch(1, kPoints * g.c * g.o * sizeof(T)));
  pack_transposed(u, w, g.c, g.o);
  const Plane in{g.n, g.out[1], g.out[2], g.o, 2 - g.pad[1], 2 - g.pad[2]}, out{g.n, g.in[1], g.in[2], g.c, 0, 0};
  correlate<T>(dx, dy, u, nullptr, in, out);
}

// du [36, c, o] (+)= sum over tiles of v [36, tiles, c]^T m [36, tiles, o], for one point and one panel of o.
template <class T>
inline void point_product(T* du, const T* v, const T* m, int64_t tiles, int64_t c, int64_t o, int64_t column, bool accumulate) {
  const int width = static_cast<int>(min64(kPanel<T>, o - column));
  const int64_t step = even_rows(c, max_rows<T>(width));
  for (int64_t k = 0; k < tiles; k += kBlockK)
    for (int64_t row = 0; row < c; row += step) {
      const T *a = v + k * c + row, *b = m + k * o + column;
      tile_kernel<T, true>(static_cast<int>(min64(step, c - row)), width,
                           {&a, &b, 1, min64(kBlockK, tiles - k), c, o, du + row * o + column, o, nullptr, accumulate || k > 0});
    }
}

// dw = G^T [(B^T x B) . (A dy A^T)] G, the product summed over tiles. Few weights: every part of the tiles sums into a copy of its own,
// and the copies are added in order. Many: the parts share one, point by point.
template <class T>
void dw(T* dw, const T* x, const T* dy, const Geometry& g) {
  const Plane in = input_plane(g), out = output_plane(g);
  const Tiles tiles(g.n, g.out[1], g.out[2]);
  const int64_t c = g.c, o = g.o, total = kPoints * c * o, each = tile_bytes<T>(c) + tile_bytes<T>(o);
  const bool few = total * static_cast<int64_t>(sizeof(T)) <= kNear;
  const int64_t run = min64(tiles.count, few ? max64(32, kNear / 2 / each) : max64(64, kShared / each)), runs = (tiles.count + run - 1) / run;
  const int64_t in_stride = point_stride<T>(run, c), out_stride = point_stride<T>(run, o), panels = (o + kPanel<T> - 1) / kPanel<T>;
  const int64_t grain = max64(1, kParallelWork / (run * c * o * 36));
  const int parts = few ? parts_of(runs, grain) : 1;
  T* sums = static_cast<T*>(scratch(1, parts * total * sizeof(T)));
  const auto points = [&](T* v, T* m, int64_t first, int64_t last) {
    to_points<T, kIn>(v, in_stride, x, in, tiles, first, last);
    to_points<T, kOut>(m, out_stride, dy, out, tiles, first, last);
  };
  if (few) {
    parallel(runs, grain, [&](int64_t begin, int64_t end, int part) {
      T *v = static_cast<T*>(scratch(3, kPoints * (in_stride + out_stride) * sizeof(T))), *m = v + kPoints * in_stride;
      for (int64_t r = begin; r < end; r++) {
        const int64_t first = r * run, last = min64(tiles.count, first + run);
        points(v, m, first, last);
        for (int64_t i = 0; i < kPoints * panels; i++)
          point_product(sums + part * total + i / panels * c * o, v + i / panels * in_stride, m + i / panels * out_stride, last - first, c, o,
                        i % panels * kPanel<T>, r > begin);
      }
    });
  } else {
    T *v = static_cast<T*>(scratch(2, kPoints * (in_stride + out_stride) * sizeof(T))), *m = v + kPoints * in_stride;
    for (int64_t first = 0; first < tiles.count; first += run) {
      const int64_t count = min64(run, tiles.count - first);
      parallel(count, 1, [&](int64_t begin, int64_t end, int) { points(v + begin * c, m + begin * o, first + begin, first + end); });
      parallel(kPoints * panels, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; i++)
          point_product(sums + i / panels * c * o, v + i / panels * in_stride, m + i / panels * out_stride, count, c, o,
                        i % panels * kPanel<T>, first > 0);
      });
    }
  }
  parallel(c, max64(1, kParallelWork / (o * 16)), [=](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; k++)
      for (int64_t n = 0; n < o; n += kLanes<T>) {
        Vec<T> sum[kPoints], half[3 * kIn], line[3];
        for (int i = 0; i < kPoints; i++) {
          const T* from = sums + (i * c + k) * o + n;
          sum[i] = load(from);
          for (int p = 1; p < parts; p++) sum[i] += load(from + p * total);
        }
        for (int j = 0; j < kIn; j++) gather_step(half + j, kIn, sum + j, kIn);
        for (int i = 0; i < 3; i++) {
          gather_step(line, 1, half + i * kIn, 1);
          for (int j = 0; j < 3; j++) store(dw + ((i * 3 + j) * c + k) * o + n, line[j]);
        }
      }
  });
}

}  // namespace pdl::PDL_ISA::winograd
