// Winograd's filters F(2x2, 3x3) and F(4x4, 3x3) for 3x3 convolutions of bytes with stride 1, in integers and exact.
//
// The transforms of winograd_steps.h hold fractions; here every row of G is multiplied by the least number that makes it whole, and A^T undoes
// that as far as whole numbers can: what it gives is a power of two, times 9 in F(4x4), times the sum. All of it is arithmetic modulo 2^32,
// where 9 has an inverse, so intermediate sums may leave int32 as they like: the result is right wherever 2^6 times it (2^2 in F(2x2)) fits.
// The points of bytes and of weights stay within 16 bits (at most 17,340 and 6,272), whose pairs one instruction multiplies and adds.
#pragma once
#include "int8_product.h"
#include "winograd.h"

namespace pdl::PDL_ISA::int8 {

using winograd::Place;
using winograd::Plane;
using winograd::Tiles;

#define PDL_STEP template <class V> static PDL_INT8_INLINE void
// The one-dimensional transforms of integers, over any stride; `shift`: which power of two output i comes with.
template <int kM>
struct Points;
template <>
struct Points<4> {
  static constexpr int32_t kInverse = 954437177;  // of 9, modulo 2^32
  static constexpr int shift(int i) { return i == 0 ? 3 : i == 1 ? 2 : 1; }
  PDL_STEP input(V* to, int ts, const V* x, int s) {
    const V a = x[4 * s] - (x[2 * s] << 2), b = x[3 * s] - (x[s] << 2), c = x[4 * s] - x[2 * s], d = (x[3 * s] - x[s]) << 1;
    to[0] = (x[0] << 2) - (x[2 * s] << 2) + c;
    to[ts] = a + b;
    to[2 * ts] = a - b;
    to[3 * ts] = c + d;
    to[4 * ts] = c - d;
    to[5 * ts] = ((x[s] - x[3 * s]) << 2) - x[3 * s] + x[5 * s];
  }
  // G with its rows times 4, -6, -6, 24, 24, 1
  PDL_STEP weight(V* to, int ts, const V* w, int s) {
    const V even = w[0] + w[2 * s], wide = w[0] + (w[2 * s] << 2), middle = w[s] << 1;
    to[0] = w[0];
    to[ts] = even + w[s];
    to[2 * ts] = even - w[s];
    to[3 * ts] = wide + middle;
    to[4 * ts] = wide - middle;
    to[5 * ts] = w[2 * s];
  }
  // A^T times 24, whose rows are then divided by 1, 2, 4, 4
  PDL_STEP output(V* to, int ts, const V* m, int s) {
    const V a = m[s] + m[2 * s], b = m[s] - m[2 * s], c = m[3 * s] + m[4 * s], d = m[3 * s] - m[4 * s], end = (m[5 * s] << 1) + (m[5 * s] << 2);
    to[0] = (m[0] << 1) + ((m[0] - a) << 2) + c;
    to[ts] = d - (b << 1);
    to[2 * ts] = c - a;
    to[3 * ts] = (d << 1) - b + end;
  }
};
template <>
struct Points<2> {
  static constexpr int32_t kInverse = 1;
  static constexpr int shift(int) { return 1; }
  PDL_STEP input(V* to, int ts, const V* x, int s) {
    to[0] = x[0] - x[2 * s];
    to[ts] = x[s] + x[2 * s];
    to[2 * ts] = x[2 * s] - x[s];
    to[3 * ts] = x[s] - x[3 * s];
  }
  // G with its rows times 1, 2, 2, 1
  PDL_STEP weight(V* to, int ts, const V* w, int s) {
    const V even = w[0] + w[2 * s];
    to[0] = w[0];
    to[ts] = even + w[s];
    to[2 * ts] = even - w[s];
    to[3 * ts] = w[2 * s];
  }
  // A^T times 2
  PDL_STEP output(V* to, int ts, const V* m, int s) {
    to[0] = (m[0] << 1) + m[s] + m[2 * s];
    to[ts] = m[s] - m[2 * s] - (m[3 * s] << 1);
  }
};
#undef PDL_STEP

// -- weights --------------------------------------------------------------------------------------------------------------------------
// Packed: 16-bit weights [point][block of 16 outputs][pair of channels][16][2], then bias and multipliers as in int8_product.h.
struct PointsLayout {
  int64_t pairs, blocks, block, point, weight_bytes, outputs;  // a block and a point in numbers
  PointsLayout(const Geometry& g, int tile) {
    pairs = g.c / 2, blocks = g.o / kBlock, outputs = g.o;
    block = pairs * kBlock * 2, point = blocks * block;
    weight_bytes = (tile + 2) * (tile + 2) * point * 2;
  }
  int64_t bytes() const { return weight_bytes + outputs * 8; }
  const int32_t* bias(const int8_t* packed) const { return reinterpret_cast<const int32_t*>(packed + weight_bytes); }
  const float* multiplier(const int8_t* packed) const { return reinterpret_cast<const float*>(packed + weight_bytes + outputs * 4); }
};

// The points of nine taps of 16 outputs, w IN [9] taps `step` apart; returns the sum of the taps.
template <int kM>
inline Int16 transform_weights(Int16* to, const int8_t* w, int64_t step) {
  constexpr int side = kM + 2;
  Int16 taps[9], half[side * 3], sum{};
  for (int t = 0; t < 9; t++) {
    for (int i = 0; i < kBlock; i++) taps[t][i] = w[t * step + i];
    sum += taps[t];
  }
  for (int j = 0; j < 3; j++) Points<kM>::weight(half + j, 3, taps + j, 3);
  for (int i = 0; i < side; i++) Points<kM>::weight(to + i * side, 1, half + i * 3, 1);
  return sum;
}

template <int kM>
inline void pack_points(int8_t* packed, const int8_t* w, const int32_t* bias, const float* multiplier, int x_zero, const Geometry& g) {
  constexpr int points = (kM + 2) * (kM + 2);
  const PointsLayout l(g, kM);
  int32_t* sums = reinterpret_cast<int32_t*>(packed + l.weight_bytes);
  memcpy(packed + l.weight_bytes + l.outputs * 4, multiplier, l.outputs * 4);
  parallel(l.blocks, 1, [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) {
      Int16 total{};
      for (int64_t k = 0; k < l.pairs; k++) {
        Int16 even[points], odd[points];
        total += transform_weights<kM>(even, w + 2 * k * g.o + b * kBlock, g.c * g.o);
        total += transform_weights<kM>(odd, w + (2 * k + 1) * g.o + b * kBlock, g.c * g.o);
        for (int p = 0; p < points; p++) {
          const Int16 pair = (even[p] & 0xffff) | (odd[p] << 16);
          memcpy(packed + 2 * (p * l.point + b * l.block + k * kBlock * 2), &pair, sizeof pair);
        }
      }
      for (int i = 0; i < kBlock; i++) sums[b * kBlock + i] = (bias == nullptr ? 0 : bias[b * kBlock + i]) - x_zero * total[i];
    }
  });
}

// -- transforms -----------------------------------------------------------------------------------------------------------------------
constexpr int kShorts = 16;  // channels of a step
typedef int16_t Shorts __attribute__((vector_size(2 * kShorts), aligned(2), may_alias));
PDL_INT8_INLINE Shorts shorts(const uint8_t* x) { return __builtin_convertvector(*reinterpret_cast<const Byte16*>(x), Shorts); }

// B^T x B of tiles [first, last).   points OUT matrices [tiles, channels], `stride` numbers apart; x IN the plane, `zero` outside of it
template <int kM>
void to_points(int16_t* points, int64_t stride, const uint8_t* x, int zero, const Plane& p, const Tiles& tiles, int64_t first, int64_t last) {
  constexpr int side = kM + 2;
  const Shorts outside = static_cast<int16_t>(zero) - Shorts{};
  for (int64_t tile = first; tile < last; tile++) {
    const Place place(p, tiles, tile, side);
    const bool whole = place.whole(side);
    int16_t* to = points + (tile - first) * p.channels;
    for (int64_t c = 0; c < p.channels; c += kShorts) {
      Shorts in[side * side], half[side * side], line[side];
      const uint8_t* from = x + place.at + c;
      for (int i = 0; i < side; i++)
#pragma GCC unroll 6
        for (int j = 0; j < side; j++) {
          const bool inside = whole || (i >= place.row0 && i < place.row1 && j >= place.column0 && j < place.column1);
          in[i * side + j] = inside ? shorts(from + (i * p.width + j) * p.channels) : outside;
        }
#pragma GCC unroll 6
      for (int j = 0; j < side; j++) Points<kM>::input(half + j, side, in + j, side);
#pragma GCC unroll 6
      for (int i = 0; i < side; i++) {
        Points<kM>::input(line, 1, half + i * side, 1);
#pragma GCC unroll 6
        for (int j = 0; j < side; j++) *reinterpret_cast<Shorts*>(to + (i * side + j) * stride + c) = line[j];
      }
    }
  }
}

// Tiles [first, last) of y from their points.   points IN matrices [tiles, outputs], `stride` numbers apart
template <int kM>
void from_points(const QuantThen& then, const Rounding& rounding, const int32_t* points, int64_t stride, const int32_t* bias,
                 const float* multiplier, const Plane& p, const Tiles& tiles, int64_t first, int64_t last) {
  using I = typename Of<kWide>::I;
  using F = typename Of<kWide>::F;
  constexpr int side = kM + 2;
  const QuantThen t = then;
  const Rounding r = rounding;
  const bool plain = t.y != nullptr && t.residual == nullptr;
  for (int64_t tile = first; tile < last; tile++) {
    const Place place(p, tiles, tile, kM);
    const int32_t* from = points + (tile - first) * p.channels;
    for (int64_t c = 0; c < p.channels; c += kWide) {
      I half[kM * side], y[kM * kM];
#pragma GCC unroll 6
      for (int j = 0; j < side; j++) {
        I in[side];
#pragma GCC unroll 6
        for (int i = 0; i < side; i++) in[i] = *reinterpret_cast<const I*>(from + (i * side + j) * stride + c);
        Points<kM>::output(half + j, side, in, 1);
      }
      const I start = *reinterpret_cast<const I*>(bias + c);
      const F factor = *reinterpret_cast<const F*>(multiplier + c);
#pragma GCC unroll 4
      for (int i = 0; i < kM; i++) {
        Points<kM>::output(y + i * kM, 1, half + i * side, 1);
#pragma GCC unroll 4
        for (int j = 0; j < kM; j++)
          y[i * kM + j] = ((y[i * kM + j] * Points<kM>::kInverse) >> (Points<kM>::shift(i) + Points<kM>::shift(j))) + start;
      }
      alignas(64) uint8_t bytes[kM * kM * kWide];
      if (plain) {
#pragma GCC unroll 4
        for (int i = 0; i < kM * kM; i += 4) {
          I of[4];
#pragma GCC unroll 4
          for (int q = 0; q < 4; q++) {
            const F v = to_float(y[i + q]) * factor;
            of[q] = whole(t.swish ? swish(v, t.after) : v, r);
          }
          in_order4(bytes + i * kWide, of[0], of[1], of[2], of[3], r);
        }
      }
      for (int i = 0; i < place.row1; i++)
        for (int j = 0; j < place.column1; j++) {
          const int64_t at = place.at + (i * p.width + j) * p.channels + c;
          if (plain) memcpy(t.y + at, bytes + (i * kM + j) * kWide, kWide);
          else leave<kWide>(t, at, y[i * kM + j], factor, kWide);
        }
    }
  }
}

// -- products over channels -----------------------------------------------------------------------------------------------------------
using PointSums = Sums<int16_t, int16_t>;
template <int MR, int NV>
void point_tile(int32_t* to, int64_t step, const PointSums& sums, int64_t row) {
  using I = typename Of<kWide>::I;
  I acc[MR * NV];
  const PointSums t = sums;
  sum_tile<MR, NV, int16_t, int16_t>(acc, t, row);
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
    for (int j = 0; j < NV; j++) *reinterpret_cast<I*>(to + (row + i) * step + j * kWide) = acc[i * NV + j];
}

using PointTile = void (*)(int32_t*, int64_t, const PointSums&, int64_t);
template <int NV>
struct PointTiles {
  PointTile of[kMostRows + 1] = {};
  template <int MR = kMostRows>
  constexpr void fill() {
    of[MR] = point_tile<MR, NV>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr PointTiles() { fill(); }
};

// m [rows, outputs] = v [rows, channels] by the weights of one point, for the kTileColumns outputs from `column` on
inline void point_product(int32_t* m, const int16_t* v, const int16_t* weights, int64_t rows, const PointsLayout& l, int64_t column) {
  static constexpr PointTiles<1> one;
  static constexpr PointTiles<2> two;
  alignas(64) static constexpr int32_t none[kTileColumns] = {};
  const PointSums sums{&v, 1, l.pairs, 2 * l.pairs, weights + column / kBlock * l.block + column % kBlock * 2, l.block, none};
  const PointTile* of = l.outputs - column > kWide ? two.of : one.of;
  const int64_t step = even_rows(rows, kMostRows);
  int64_t row = 0;
  for (; row + step <= rows; row += step) of[step](m + column, l.outputs, sums, row);
  if (row < rows) of[rows - row](m + column, l.outputs, sums, row);
}

constexpr int64_t kPointsNear = 256 * 1024;  // points that stay in a core's second-level cache beside the weights
constexpr int64_t kWeightsNear = 640 * 1024;
constexpr int64_t kPointsShared = 8 * 1024 * 1024;  // points that stay in the cache that cores share

// y = what `then` makes of the correlation of x with packed weights; by the stages of winograd::correlate
template <int kM>
void winograd(const QuantThen& then, const uint8_t* x, int x_zero, const int8_t* packed, const Geometry& g) {
  constexpr int points = (kM + 2) * (kM + 2);
  const PointsLayout l(g, kM);
  const Rounding rounding(then);
  const Plane in{g.n, g.in[1], g.in[2], g.c, g.pad[1], g.pad[2]}, out{g.n, g.out[1], g.out[2], g.o, 0, 0};
  const Tiles tiles(g.n, g.out[1], g.out[2], kM);
  const int16_t* u = reinterpret_cast<const int16_t*>(packed);
  const int32_t* bias = l.bias(packed);
  const float* multiplier = l.multiplier(packed);
  // off the powers of two, whose addresses share sets of the cache
  const auto stride = [](int64_t numbers) { return round_up(numbers, 32) + 32; };
  const int64_t each = points * (g.c * 2 + g.o * 4), work = points * g.c * g.o, grain = max64(1, kWork / work);
  if (l.weight_bytes <= kWeightsNear || (l.weight_bytes <= 4 * kWeightsNear && tiles.count >= kMostRows * num_threads())) {
    const int64_t most = max64(2 * kMostRows, kPointsNear / each / kMostRows * kMostRows);
    parallel(tiles.count, grain, [&](int64_t begin, int64_t end) {
      const int64_t run = even_rows(end - begin, static_cast<int>(most)), v_stride = stride(run * g.c), m_stride = stride(run * g.o);
      int32_t* m = static_cast<int32_t*>(scratch(Slot::kPartPoints, points * (v_stride * 2 + m_stride * 4)));
      int16_t* v = reinterpret_cast<int16_t*>(m + points * m_stride);
      for (int64_t first = begin; first < end; first += run) {
        const int64_t last = min64(end, first + run);
        to_points<kM>(v, v_stride, x, x_zero, in, tiles, first, last);
        for (int i = 0; i < points; i++)
          for (int64_t column = 0; column < g.o; column += kTileColumns)
            point_product(m + i * m_stride, v + i * v_stride, u + i * l.point, last - first, l, column);
        from_points<kM>(then, rounding, m, m_stride, bias, multiplier, out, tiles, first, last);
      }
    }, most);
    return;
  }
  const int64_t chunk = min64(tiles.count, max64(4 * kMostRows, kPointsShared / each)), panels = (g.o + kTileColumns - 1) / kTileColumns;
  const int64_t v_stride = stride(chunk * g.c), m_stride = stride(chunk * g.o);
  int32_t* m = static_cast<int32_t*>(scratch(Slot::kChunkPoints, points * (v_stride * 2 + m_stride * 4)));
  int16_t* v = reinterpret_cast<int16_t*>(m + points * m_stride);
  for (int64_t first = 0; first < tiles.count; first += chunk) {
    const int64_t count = min64(chunk, tiles.count - first);
    parallel(count, grain, [&](int64_t begin, int64_t end) {
      to_points<kM>(v + begin * g.c, v_stride, x, x_zero, in, tiles, first + begin, first + end);
    });
    parallel(points * panels, max64(1, kWork / (count * g.c * kTileColumns)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++)
        point_product(m + i / panels * m_stride, v + i / panels * v_stride, u + i / panels * l.point, count, l, i % panels * kTileColumns);
    });
    parallel(count, grain, [&](int64_t begin, int64_t end) {
      from_points<kM>(then, rounding, m + begin * g.o, m_stride, bias, multiplier, out, tiles, first + begin, first + end);
    });
  }
}

}  // namespace pdl::PDL_ISA::int8
