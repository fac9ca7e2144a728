// Winograd's minimal filtering F(4x4, 3x3) for 3x3 convolutions of stride 1 and their two gradients (Lavin & Gray, arXiv 1509.09308):
// Y = A^T [(G w G^T) . (B^T x B)] A over 6x6 tiles of x that give 4x4 tiles of y, so 36 multiplications stand for 144. The products over
// channels are 36 matrix products on the batch-reduce micro-kernel; the transforms are additions on whole vectors of channels.
//
// Taps that lie apart (a dilation) see every so many-th row and column alone: as many images, side by side in one, each filtered for itself.
//
// Everything between loads and stores is float32, so bfloat16 images and weights are rounded nowhere else. Against float64 the results are
// off by about 11 times what direct summation in float32 is off (tests/framework/kernels/test_winograd.py).
#pragma once
#include "epilogue.h"
#include "gemm.h"
#include "winograd_steps.h"

namespace pdl::PDL_ISA::winograd {

constexpr int kOut = 4, kIn = 6, kPoints = kIn * kIn;  // of the filter that gradients and training use
constexpr int64_t kLane = kLanes<float>, kWide = kPanel<float>, kMostRows = kMaxRows<float, 2>;

// -- the plane of images that tiles are cut from --------------------------------------------------------------------------------------
// An array [n, height, width, channels] of `apart` images side by side: rows and columns (r, c), (r + apart[0], c + apart[1]), ... are one.
// Tile (n, r, c, ty, tx) begins at row ty * m - top of such an image, column tx * m - left.
struct Plane {
  int64_t n, height, width, channels, top, left, apart[2] = {1, 1};
  int64_t row() const { return apart[0] * width * channels; }
  int64_t column() const { return apart[1] * channels; }
};

// The tiles of m x m pixels of an output [n, height, width], as many of each of the images side by side.
struct Tiles {
  int64_t m, down, across, count;
  Tiles(int64_t n, int64_t height, int64_t width, int64_t side = kOut, int64_t apart0 = 1, int64_t apart1 = 1)
      : m(side), down(((height + apart0 - 1) / apart0 + m - 1) / m), across(((width + apart1 - 1) / apart1 + m - 1) / m),
        count(n * apart0 * apart1 * down * across) {}
  Tiles(const Plane& p, int64_t side) : Tiles(p.n, p.height, p.width, side, p.apart[0], p.apart[1]) {}
};

// Where a tile lies in a plane, and which of its rows and columns are inside.
struct Place {
  int64_t at;  // of its first element, maybe outside
  int64_t row0, row1, column0, column1;
  Place(const Plane& p, const Tiles& t, int64_t tile, int64_t size) {
    const int64_t images = tile / (t.down * t.across), y = tile / t.across % t.down * t.m - p.top, x = tile % t.across * t.m - p.left;
    const int64_t c = images % p.apart[1], r = images / p.apart[1] % p.apart[0], n = images / (p.apart[0] * p.apart[1]);
    at = ((n * p.height + r + y * p.apart[0]) * p.width + c + x * p.apart[1]) * p.channels;
    row0 = max64(0, -y), row1 = min64(size, (p.height - r + p.apart[0] - 1) / p.apart[0] - y);
    column0 = max64(0, -x), column1 = min64(size, (p.width - c + p.apart[1] - 1) / p.apart[1] - x);
  }
  bool whole(int64_t size) const { return row0 == 0 && row1 == size && column0 == 0 && column1 == size; }
};

// The size x size vectors of a tile; zeros outside.
template <int kSize, class S>
inline __attribute__((always_inline)) void load_tile(V* to, const S* from, const Plane& p, const Place& place, bool whole) {
  for (int i = 0; i < kSize; i++)
#pragma GCC unroll 6
    for (int j = 0; j < kSize; j++) {
      const bool inside = whole || (i >= place.row0 && i < place.row1 && j >= place.column0 && j < place.column1);
      to[i * kSize + j] = inside ? load(from + i * p.row() + j * p.column()) : V{};
    }
}

// B^T x B of the tiles of an image.
//   points OUT [kPoints] matrices [tiles, channels], `stride` apart; x IN the plane; tiles [first, last)
template <int kM, class S>
void to_points(float* points, int64_t stride, const S* x, const Plane& p, const Tiles& tiles, int64_t first, int64_t last) {
  using F = Filter<kM>;
  constexpr int side = F::kSide;
  for (int64_t tile = first; tile < last; tile++) {
    const Place place(p, tiles, tile, side);
    const bool whole = place.whole(side);
    float* to = points + (tile - first) * p.channels;
    for (int64_t c = 0; c < p.channels; c += kLane) {
      V in[side * side], half[side * side], line[side];
      load_tile<side>(in, x + place.at + c, p, place, whole);
#pragma GCC unroll 6
      for (int j = 0; j < side; j++) F::input(half + j, side, in + j, side);
#pragma GCC unroll 6
      for (int i = 0; i < side; i++) {
        F::input(line, 1, half + i * side, 1);
#pragma GCC unroll 6
        for (int j = 0; j < side; j++) store(to + (i * side + j) * stride + c, line[j]);
      }
    }
  }
}

// A y A^T of the tiles of a gradient, for F(4x4): 36 points of 4x4 pixels.
template <class S>
void spread_points(float* points, int64_t stride, const S* y, const Plane& p, const Tiles& tiles, int64_t first, int64_t last) {
  for (int64_t tile = first; tile < last; tile++) {
    const Place place(p, tiles, tile, kOut);
    const bool whole = place.whole(kOut);
    float* to = points + (tile - first) * p.channels;
    for (int64_t c = 0; c < p.channels; c += kLane) {
      V in[kOut * kOut], half[kIn * kOut], line[kIn];
      load_tile<kOut>(in, y + place.at + c, p, place, whole);
#pragma GCC unroll 4
      for (int j = 0; j < kOut; j++) spread_step(half + j, kOut, in + j, kOut);
#pragma GCC unroll 6
      for (int i = 0; i < kIn; i++) {
        spread_step(line, 1, half + i * kOut, 1);
#pragma GCC unroll 6
        for (int j = 0; j < kIn; j++) store(to + (i * kIn + j) * stride + c, line[j]);
      }
    }
  }
}

// Tiles of y = f(A^T m A (+ bias) (+ residual)) from their points m.
template <int kM, class S>
void from_points(S* y, const float* points, int64_t stride, const S* bias, const Plane& p, const Tiles& tiles, int64_t first, int64_t last,
                 const Epilogue<S>* then) {
  using F = Filter<kM>;
  constexpr int side = F::kSide;
  const Function<float> function(then);
  const S* residual = then == nullptr ? nullptr : then->residual;
  for (int64_t tile = first; tile < last; tile++) {
    const Place place(p, tiles, tile, kM);
    const int rows = static_cast<int>(place.row1), columns = static_cast<int>(place.column1);
    const float* from = points + (tile - first) * p.channels;
    for (int64_t c = 0; c < p.channels; c += kLane) {
      V in[F::kPoints], half[kM * side], line[kM];
#pragma GCC unroll 36
      for (int i = 0; i < F::kPoints; i++) in[i] = load(from + i * stride + c);
#pragma GCC unroll 6
      for (int j = 0; j < side; j++) F::output(half + j, side, in + j, side);
      const V start = bias != nullptr ? load(bias + c) : V{};
#pragma GCC unroll 4
      for (int i = 0; i < kM; i++) {
        if (i >= rows) break;
        const int64_t at = place.at + i * p.row() + c;
        F::output(line, 1, half + i * side, 1);
#pragma GCC unroll 4
        for (int j = 0; j < kM; j++) line[j] += start;
        if (residual != nullptr)
          for (int j = 0; j < columns; j++) line[j] += load(residual + at + j * p.column());
        function.apply(line, kM);
        for (int j = 0; j < columns; j++) store(y + at + j * p.column(), line[j]);
      }
    }
  }
}

// Adds the pixels of tiles [first, last) of y to the sums of its channels.
template <class T>
void count_tiles(const ColumnSums& sums, const T* y, const Plane& p, const Tiles& tiles, int64_t first, int64_t last) {
  for (int64_t tile = first; tile < last; tile++) {
    const Place place(p, tiles, tile, kOut);
    const int across = static_cast<int>(max64(0, place.column1)), pixels = static_cast<int>(max64(0, place.row1)) * across;
    add_columns<T>(sums, pixels, static_cast<int>(p.channels),
                   [&](int i) { return y + place.at + i / across * p.row() + i % across * p.column(); });
  }
}

// -- weights --------------------------------------------------------------------------------------------------------------------------
// Where row k of the panel that holds column n begins in a packed matrix [k, columns].
inline int64_t packed_at(int64_t k, int64_t n, int64_t rows, int64_t columns) {
  const int64_t first = n / kWide * kWide, width = min64(kWide, columns - first);
  return first * rows + k * width + (n - first);
}

// The points of nine taps: G w G^T
template <int kM = kOut>
inline __attribute__((always_inline)) void transform_weights(float* to, int64_t stride, const V* w) {
  using F = Filter<kM>;
  constexpr int side = F::kSide;
  V half[side * 3], line[side];
#pragma GCC unroll 3
  for (int j = 0; j < 3; j++) F::weight(half + j, 3, w + j, 3);
#pragma GCC unroll 6
  for (int i = 0; i < side; i++) {
    F::weight(line, 1, half + i * 3, 1);
#pragma GCC unroll 6
    for (int j = 0; j < side; j++) store(to + (i * side + j) * stride, line[j]);
  }
}

// The matrices [c, o] of the weights, one a point, packed in panels.   u OUT [kPoints, c * o], w IN [3, 3, c, o]
template <int kM = kOut, class S>
void pack_forward(float* u, const S* w, int64_t c, int64_t o) {
  parallel(c, max64(1, kParallelWork / (o * 16)), [=](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++)
      for (int64_t n = 0; n < o; n += kLane) {
        V taps[9];
        for (int t = 0; t < 9; t++) taps[t] = load(w + (t * c + k) * o + n);
        transform_weights<kM>(u + packed_at(k, n, c, o), c * o, taps);
      }
  });
}

// The same of the weights turned by 180 degrees and transposed, for the gradient of the input.   u OUT [36, o * c], w IN [3, 3, c, o]
template <class S>
void pack_transposed(float* u, const S* w, int64_t c, int64_t o) {
  parallel(c / kLane, max64(1, kParallelWork / (o * kLane * 16)), [=](int64_t begin, int64_t end) {
    alignas(64) float block[9][kLane][kLane];  // [tap][o][c]
    for (int64_t n = begin * kLane; n < end * kLane; n += kLane)
      for (int64_t k = 0; k < o; k += kLane) {
        for (int t = 0; t < 9; t++)
          for (int64_t i = 0; i < kLane; i++)
            for (int64_t j = 0; j < kLane; j++) block[8 - t][j][i] = value(w[(t * c + n + i) * o + k + j]);
        for (int64_t j = 0; j < kLane; j++) {
          V taps[9];
          for (int t = 0; t < 9; t++) taps[t] = load(&block[t][j][0]);
          transform_weights(u + packed_at(k + j, n, o, c), c * o, taps);
        }
      }
  });
}

// -- products over channels -----------------------------------------------------------------------------------------------------------
// to [rows, columns] = a [rows, k] b, for the panel of b that begins at `column`. Meanwhile the one behind it comes nearer: points of weights
// are four times as many as these, and seldom near.
inline void panel_product(float* to, const float* a, const float* packed, int64_t rows, int64_t k, int64_t columns, int64_t column) {
  const int width = static_cast<int>(min64(kWide, columns - column));
  const int64_t step = even_rows(rows, max_rows<float>(width));
  const float* b = packed + column * k;
  Tile<float> t{&a, &b, 1, k, k, width, nullptr, columns, nullptr, false, nullptr};
  if (step <= kStreamed) t.ahead = kAhead;
  t.ask_for(b + k * width, k * width * static_cast<int64_t>(sizeof(float)), (rows + step - 1) / step);
  finished_tiles<float, false>(rows, step, width, t, to, column, nullptr, ColumnSums{});
}

// Bytes of the points of one tile, and between the matrices of two points: off the powers of two, whose addresses share sets of the cache.
inline int64_t tile_bytes(int64_t channels, int64_t points = kPoints) { return points * channels * static_cast<int64_t>(sizeof(float)); }
inline int64_t point_stride(int64_t tiles, int64_t channels) { return round_up(tiles * channels, kLane) + 64 / sizeof(float); }

constexpr int64_t kNear = 640 * 1024;       // points that stay in a core's second-level cache
constexpr int64_t kPieceTiles = 48;         // tiles that a piece of work has at least: each reads all weights
constexpr int64_t kShared = 8 * 1024 * 1024;  // points that stay in the cache that cores share

// y = f(correlation of x with the weights in u (+ bias) (+ residual)). Few weights and enough tiles: each thread takes tiles through all
// three stages. Else the stages follow each other over all tiles of a chunk, so that every weight is read once a chunk, by one thread.
template <int kM = kOut, class S>
void correlate(S* y, const S* x, const float* u, const S* bias, const Plane& in, const Plane& out, const Epilogue<S>* then = nullptr) {
  constexpr int points = Filter<kM>::kPoints;
  const Tiles tiles(out, kM);
  const int64_t c = in.channels, o = out.channels, each = tile_bytes(c, points) + tile_bytes(o, points), work = points * c * o;
  const int64_t weight_bytes = work * static_cast<int64_t>(sizeof(float));
  if (weight_bytes <= kNear || (weight_bytes <= 4 * kNear && tiles.count >= kMostRows * num_threads())) {
    const int64_t most = max64(kMostRows, kNear / each / kMostRows * kMostRows), grain = max64(1, kParallelWork / work);
    const int parts = pieces_of(tiles.count, grain, kPieceTiles);
    const Statistics statistics(then, parts, o);
    parallel_parts(tiles.count, parts, [&](int64_t begin, int64_t end, int part) {
      const int64_t run = even_rows(end - begin, static_cast<int>(most));
      const int64_t in_stride = point_stride(run, c), out_stride = point_stride(run, o);
      float* v = static_cast<float*>(scratch(Slot::kPartPoints, points * (in_stride + out_stride) * sizeof(float)));
      float* m = v + points * in_stride;
      for (int64_t first = begin; first < end; first += run) {
        const int64_t last = min64(end, first + run);
        to_points<kM>(v, in_stride, x, in, tiles, first, last);
        for (int i = 0; i < points; i++)
          for (int64_t column = 0; column < o; column += kWide)
            panel_product(m + i * out_stride, v + i * in_stride, u + i * c * o, last - first, c, o, column);
        from_points<kM>(y, m, out_stride, bias, out, tiles, first, last, then);
        if (statistics.memory != nullptr) count_tiles(statistics.of(part), y, out, tiles, first, last);
      }
    });
    statistics.finish(then, o);
    return;
  }
  const int64_t chunk = min64(tiles.count, max64(4 * kMostRows, kShared / each));
  const int64_t in_stride = point_stride(chunk, c), out_stride = point_stride(chunk, o), panels = (o + kWide - 1) / kWide;
  float* v = static_cast<float*>(scratch(Slot::kChunkPoints, points * (in_stride + out_stride) * sizeof(float)));
  float* m = v + points * in_stride;
  const Statistics statistics(then, num_threads() * kPieces, o);
  for (int64_t first = 0; first < tiles.count; first += chunk) {
    const int64_t count = min64(chunk, tiles.count - first), grain = max64(1, kParallelWork / work);
    parallel(count, grain, [&](int64_t begin, int64_t end) {
      to_points<kM>(v + begin * c, in_stride, x, in, tiles, first + begin, first + end);
    });
    parallel(points * panels, max64(1, kParallelWork / (count * c * kWide)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        panel_product(m + i / panels * out_stride, v + i / panels * in_stride, u + i / panels * c * o, count, c, o,
                      i % panels * kWide);
    });
    parallel_parts(count, pieces_of(count, grain), [&](int64_t begin, int64_t end, int part) {
      from_points<kM>(y, m + begin * o, out_stride, bias, out, tiles, first + begin, first + end, then);
      if (statistics.memory != nullptr) count_tiles(statistics.of(part), y, out, tiles, first + begin, first + end);
    });
  }
  statistics.finish(then, o);
}

// -- the three entries ------------------------------------------------------------------------------------------------------------------
// Whether the transforms pay: 3x3 taps, whole vectors of channels, tiles that are mostly used and enough of them.
template <class S>
inline bool fits(const Geometry& g) {
  if (sizeof(Real<S>) != 4 || g.groups != 1 || g.in[0] != 1 || g.kernel[0] != 1 || g.kernel[1] != 3 || g.kernel[2] != 3) return false;
  for (int d = 0; d < 3; d++)
    if (g.stride[d] != 1 || (d == 0 ? g.dilation[d] != 1 : g.pad[d] % g.dilation[d] != 0)) return false;
  if (g.c % kLane != 0 || g.o % kLane != 0 || g.c < 16 || g.o < 16) return false;
  // Where the CPU multiplies bf16, direct summation runs at twice the rate: few pixels would not repay the weights' 36 points.
  if (kUnit<S> == 2 && !kSplit<S> && g.n * g.out[1] * g.out[2] < 4 * (g.c + g.o)) return false;
  const Tiles tiles(g.n, g.out[1], g.out[2], kOut, g.dilation[1], g.dilation[2]);
  return tiles.count >= 2 * kMostRows && tiles.count * kOut * kOut <= g.n * g.out[1] * g.out[2] * 7 / 4;
}

inline Plane input_plane(const Geometry& g) {
  return {g.n, g.in[1], g.in[2], g.c, g.pad[1] / g.dilation[1], g.pad[2] / g.dilation[2], {g.dilation[1], g.dilation[2]}};
}
inline Plane output_plane(const Geometry& g) { return {g.n, g.out[1], g.out[2], g.o, 0, 0, {g.dilation[1], g.dilation[2]}}; }

template <class S>
void forward(S* y, const S* x, const S* w, const S* bias, const Geometry& g, const Epilogue<S>* then = nullptr) {
  float* u = static_cast<float*>(scratch(Slot::kFilterPoints, kPoints * g.c * g.o * sizeof(float)));
  pack_forward(u, w, g.c, g.o);
  correlate(y, x, u, bias, input_plane(g), output_plane(g), then);
}

template <class S>
void dx(S* dx, const S* dy, const S* w, const Geometry& g) {
  float* u = static_cast<float*>(scratch(Slot::kFilterPoints, kPoints * g.c * g.o * sizeof(float)));
  pack_transposed(u, w, g.c, g.o);
  Plane in = output_plane(g), out = input_plane(g);
  in.top = 2 - out.top, in.left = 2 - out.left, out.top = out.left = 0;
  correlate<kOut, S>(dx, dy, u, nullptr, in, out);
}

// du [36, c, o] (+)= sum over tiles of v [36, tiles, c]^T m [36, tiles, o], for one point and one panel of o.
inline void point_product(float* du, const float* v, const float* m, int64_t tiles, int64_t c, int64_t o, int64_t column, bool accumulate) {
  const int width = static_cast<int>(min64(kWide, o - column));
  const int64_t step = even_rows(c, max_rows<float>(width));
  for (int64_t k = 0; k < tiles; k += kBlockK)
    for (int64_t row = 0; row < c; row += step) {
      const float *a = v + k * c + row, *b = m + k * o + column;
      tile_kernel<float, true>(static_cast<int>(min64(step, c - row)), width,
                           {&a, &b, 1, min64(kBlockK, tiles - k), c, o, du + row * o + column, o, nullptr, accumulate || k > 0, nullptr});
    }
}

// dw = G^T [(B^T x B) . (A dy A^T)] G, the product summed over tiles. Few weights: every part of the tiles sums into a copy of its own,
// and the copies are added in order. Many: the parts share one, point by point. Written to `wide` where that is not null.
template <class S>
void dw(S* dw, float* wide, const S* x, const S* dy, const Geometry& g) {
  const Plane in = input_plane(g), out = output_plane(g);
  const Tiles tiles(out, kOut);
  const int64_t c = g.c, o = g.o, total = kPoints * c * o, each = tile_bytes(c) + tile_bytes(o);
  const bool few = total * static_cast<int64_t>(sizeof(float)) <= kNear;
  const int64_t run = min64(tiles.count, few ? max64(32, kNear / 2 / each) : max64(64, kShared / each)), runs = (tiles.count + run - 1) / run;
  const int64_t in_stride = point_stride(run, c), out_stride = point_stride(run, o), panels = (o + kWide - 1) / kWide;
  const int64_t grain = max64(1, kParallelWork / (run * c * o * 36));
  const int parts = few ? parts_of(runs, grain) : 1;
  float* sums = static_cast<float*>(scratch(Slot::kFilterPoints, parts * total * sizeof(float)));
  const auto points = [&](float* v, float* m, int64_t first, int64_t last) {
    to_points<kOut>(v, in_stride, x, in, tiles, first, last);
    spread_points(m, out_stride, dy, out, tiles, first, last);
  };
  if (few) {
    parallel_parts(runs, parts, [&](int64_t begin, int64_t end, int part) {
      float *v = static_cast<float*>(scratch(Slot::kPartPoints, kPoints * (in_stride + out_stride) * sizeof(float))), *m = v + kPoints * in_stride;
      for (int64_t r = begin; r < end; r++) {
        const int64_t first = r * run, last = min64(tiles.count, first + run);
        points(v, m, first, last);
        for (int64_t i = 0; i < kPoints * panels; i++)
          point_product(sums + part * total + i / panels * c * o, v + i / panels * in_stride, m + i / panels * out_stride, last - first, c, o,
                        i % panels * kWide, r > begin);
      }
    });
  } else {
    float *v = static_cast<float*>(scratch(Slot::kChunkPoints, kPoints * (in_stride + out_stride) * sizeof(float))), *m = v + kPoints * in_stride;
    for (int64_t first = 0; first < tiles.count; first += run) {
      const int64_t count = min64(run, tiles.count - first);
      parallel(count, 1, [&](int64_t begin, int64_t end) { points(v + begin * c, m + begin * o, first + begin, first + end); });
      parallel(kPoints * panels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
          point_product(sums + i / panels * c * o, v + i / panels * in_stride, m + i / panels * out_stride, count, c, o,
                        i % panels * kWide, first > 0);
      });
    }
  }
  parallel(c, max64(1, kParallelWork / (o * 16)), [=](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++)
      for (int64_t n = 0; n < o; n += kLane) {
        V sum[kPoints], half[3 * kIn], line[3];
        for (int i = 0; i < kPoints; i++) {
          const float* from = sums + (i * c + k) * o + n;
          sum[i] = load(from);
          for (int p = 1; p < parts; p++) sum[i] += load(from + p * total);
        }
        for (int j = 0; j < kIn; j++) gather_step(half + j, kIn, sum + j, kIn);
        for (int i = 0; i < 3; i++) {
          gather_step(line, 1, half + i * kIn, 1);
          for (int j = 0; j < 3; j++) {
            const int64_t at = ((i * 3 + j) * c + k) * o + n;
            wide != nullptr ? store(wide + at, line[j]) : store(dw + at, line[j]);
          }
        }
      }
  });
}

// -- channels that are no whole vectors ---------------------------------------------------------------------------------------------------
// The same convolution with channels that fill the vectors.
inline Geometry filled(Geometry g) {
  g.c = round_up(g.c, kLane), g.o = round_up(g.o, kLane);
  return g;
}

// Whether it pays to copy the images into such channels, of which at most a fifth are no channels.
template <class S>
inline bool fits_filled(const Geometry& g) {
  const Geometry wide = filled(g);
  return g.c >= 16 && g.o >= 16 && 4 * wide.c * wide.o <= 5 * g.c * g.o && fits<S>(wide);
}

// Rows of another width: zeros behind what there is, or without what lies behind.
template <class S>
void copy_rows(S* to, const S* from, int64_t rows, int64_t width, int64_t from_width) {
  const int64_t both = min64(width, from_width);
  parallel(rows, max64(1, kParallelWork / width), [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      memcpy(to + r * width, from + r * from_width, both * sizeof(S));
      memset(to + r * width + both, 0, (width - both) * sizeof(S));
    }
  });
}

// A few images at a time, of x and y and of their gradients, and all weights, with channels that are filled up.
template <class S>
struct Filled {
  const Geometry& g;
  Geometry wide;
  int64_t run, in, out;  // images; pixels of one
  S *x, *y, *w, *bias;
  float *part, *sum;

  explicit Filled(const Geometry& geometry)
      : g(geometry), wide(filled(geometry)), in(g.in[1] * g.in[2]), out(g.out[1] * g.out[2]) {
    const int64_t each = in * wide.c + out * wide.o, weights = 9 * wide.c * wide.o;
    run = max64(1, min64(g.n, kShared / 2 / (each * static_cast<int64_t>(sizeof(float)))));
    const int64_t bytes = 2 * weights * sizeof(float) + (run * each + weights + wide.o) * sizeof(S);
    part = static_cast<float*>(scratch(Slot::kFilledImages, bytes)), sum = part + weights;
    x = reinterpret_cast<S*>(sum + weights), y = x + run * in * wide.c, w = y + run * out * wide.o, bias = w + weights;
  }

  void take_weights(const S* from) const {
    memset(w, 0, 9 * wide.c * wide.o * sizeof(S));
    for (int t = 0; t < 9; t++) copy_rows(w + t * wide.c * wide.o, from + t * g.c * g.o, g.c, wide.o, g.o);
  }

  // Calls body(first image) for every run, with wide.n images.
  template <class F>
  void runs(const F& body) {
    for (int64_t n = 0; n < g.n; n += run) {
      wide.n = min64(run, g.n - n);
      body(n);
    }
  }
};

template <class S>
void forward_filled(S* to, const S* from, const S* w, const S* bias, const Geometry& g) {
  Filled<S> f(g);
  const Geometry& wide = f.wide;
  f.take_weights(w);
  if (bias != nullptr) copy_rows(f.bias, bias, 1, wide.o, g.o);
  float* u = static_cast<float*>(scratch(Slot::kFilterPoints, kPoints * wide.c * wide.o * sizeof(float)));
  pack_forward(u, f.w, wide.c, wide.o);
  f.runs([&](int64_t n) {
    copy_rows(f.x, from + n * f.in * g.c, wide.n * f.in, wide.c, g.c);
    correlate<kOut, S>(f.y, f.x, u, bias != nullptr ? f.bias : nullptr, input_plane(wide), output_plane(wide));
    copy_rows(to + n * f.out * g.o, f.y, wide.n * f.out, g.o, wide.o);
  });
}

template <class S>
void dx_filled(S* to, const S* dy, const S* w, const Geometry& g) {
  Filled<S> f(g);
  f.take_weights(w);
  f.runs([&](int64_t n) {
    copy_rows(f.y, dy + n * f.out * g.o, f.wide.n * f.out, f.wide.o, g.o);
    dx(f.x, f.y, f.w, f.wide);
    copy_rows(to + n * f.in * g.c, f.x, f.wide.n * f.in, g.c, f.wide.c);
  });
}

template <class S>
void dw_filled(S* to, float* wide_to, const S* x, const S* dy, const Geometry& g) {
  Filled<S> f(g);
  const int64_t c = f.wide.c, o = f.wide.o;
  f.runs([&](int64_t n) {
    copy_rows(f.x, x + n * f.in * g.c, f.wide.n * f.in, c, g.c);
    copy_rows(f.y, dy + n * f.out * g.o, f.wide.n * f.out, o, g.o);
    dw<S>(nullptr, n == 0 ? f.sum : f.part, f.x, f.y, f.wide);
    for (int64_t i = 0; n > 0 && i < 9 * c * o; i++) f.sum[i] += f.part[i];
  });
  for (int64_t t = 0; t < 9; t++)
    for (int64_t k = 0; k < g.c; k++)
      for (int64_t j = 0; j < g.o; j++) {
        const int64_t at = (t * g.c + k) * g.o + j;
        const float sum = f.sum[(t * c + k) * o + j];
        wide_to != nullptr ? void(wide_to[at] = sum) : put(to + at, sum);
      }
}

}  // namespace pdl::PDL_ISA::winograd
