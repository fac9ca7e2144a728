// Products and convolutions of bytes: tiles of sums in registers over a batch of runs of pixels, as in tile.h, with int32 sums.
//
// Packed weights are one array of bytes, made once: first the weights [group][block of 16 outputs][kernel row or tap][units][16][kUnit];
// then int32 bias [groups * blocks * 16], from which the zero point of x times the sum of each output's weights has been
// taken; then the float multipliers, as many. So padding is the zero point of x like any other value, and the kernel reads one constant.
#pragma once
#include "int8.h"
#include "tile.h"

namespace pdl::PDL_ISA::int8 {

constexpr int kBlock = 16;  // outputs that lie together
#if PDL_VECTOR_BYTES == 64
constexpr int kMostRows = 12;
#elif PDL_VECTOR_BYTES == 32
constexpr int kMostRows = 6;
#else
constexpr int kMostRows = 4;
#endif
constexpr int kTileColumns = 2 * kWide;

// How the weights of a geometry are packed.
struct Layout {
  int64_t inputs, outputs, blocks;  // of one group
  bool merged;                      // the taps of a kernel row are one run of inputs
  int64_t batch, units;             // runs of inputs, and the length of one in units
  int64_t block_bytes, weight_bytes, padded;

  explicit Layout(const Geometry& g) {
    inputs = g.c / g.groups, outputs = g.o / g.groups, blocks = (outputs + kBlock - 1) / kBlock;
    merged = g.groups == 1 && g.dilation[2] == 1;
    const int64_t rows = g.kernel[0] * g.kernel[1];
    batch = merged ? rows : rows * g.kernel[2];
    units = ((merged ? g.kernel[2] : 1) * inputs + kUnit - 1) / kUnit;
    block_bytes = batch * units * kBlock * kUnit;
    weight_bytes = g.groups * blocks * block_bytes;
    padded = g.groups * blocks * kBlock;
  }
  int64_t bytes() const { return weight_bytes + padded * 8; }
  const int32_t* bias(const int8_t* packed) const { return reinterpret_cast<const int32_t*>(packed + weight_bytes); }
  const float* multiplier(const int8_t* packed) const { return reinterpret_cast<const float*>(packed + weight_bytes + padded * 4); }
};

// packed OUT; w IN [kernel..., c / groups, o], bias IN [o] or null, multiplier IN [o]
inline void pack_product(int8_t* packed, const int8_t* w, const int32_t* bias, const float* multiplier, int x_zero, const Geometry& g) {
  const Layout l(g);
  memset(packed, 0, l.bytes());
  int32_t* sums = reinterpret_cast<int32_t*>(packed + l.weight_bytes);
  float* factors = reinterpret_cast<float*>(packed + l.weight_bytes + l.padded * 4);
  const int64_t run = (l.merged ? g.kernel[2] : 1) * l.inputs;
  for (int64_t o = 0; o < g.o; o++) {
    const int64_t block = o / l.outputs * l.blocks + o % l.outputs / kBlock, lane = o % l.outputs % kBlock;
    int8_t* to = packed + block * l.block_bytes + lane * kUnit;
    int32_t sum = 0;
    for (int64_t b = 0; b < l.batch; b++)
      for (int64_t k = 0; k < run; k++) {
        const int8_t value = w[(b * run + k) * g.o + o];
        to[(b * l.units + k / kUnit) * kBlock * kUnit + k % kUnit] = value, sum += value;
      }
    sums[block * kBlock + lane] = (bias == nullptr ? 0 : bias[o]) - x_zero * sum;
    factors[block * kBlock + lane] = multiplier[o];
  }
}

// Sums of one run of pixels and at most kTileColumns outputs: of Input by bytes, or of 16-bit numbers.
//   a IN [batch] the first pixel's inputs: unit k of pixel i at i * a_step + k units
//   b IN the block of the first output, at that output; blocks are b_block numbers apart
template <class A, class B>
struct Sums {
  const A* const* a;
  int64_t batch, units, a_step;
  const B* b;
  int64_t b_block;
  const int32_t* bias;
};

// Sums and what becomes of them.
struct RunCall : Sums<Input, int8_t> {
  const float* multiplier;
  int64_t to, step;  // where the first pixel's first output goes; values between pixels
  int count;         // outputs
};

// acc [MR][NV vectors] = bias + sum over the batch and units of A[pixel + row][unit] . B[unit][column]
template <int MR, int NV, class A, class B>
PDL_INT8_INLINE void sum_tile(typename Of<kWide>::I* acc, const Sums<A, B>& t, int64_t pixel) {
  using I = typename Of<kWide>::I;
  constexpr int unit = 4 / sizeof(A);
  constexpr int pointers = (MR + kRowsPerPointer - 1) / kRowsPerPointer;
  typedef int32_t Unit __attribute__((aligned(1), may_alias));
#pragma GCC unroll 2
  for (int j = 0; j < NV; j++) {
    const I start = *reinterpret_cast<const I*>(t.bias + j * kWide);
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) acc[i * NV + j] = start;
  }
  const B* b[NV];
#pragma GCC unroll 2
  for (int j = 0; j < NV; j++) b[j] = t.b + (kWide == kBlock ? j * t.b_block : j * kWide * unit);
  int64_t stride = t.a_step, stride3 = 3 * stride;
  asm("" : "+r"(stride), "+r"(stride3));
  for (int64_t batch = 0; batch < t.batch; batch++) {
    const A* a[pointers];
    a[0] = t.a[batch] + pixel * stride;
#pragma GCC unroll 4
    for (int p = 1; p < pointers; p++) a[p] = a[p - 1] + kRowsPerPointer * stride;
    for (int64_t k = 0; k < t.units; k++) {
      I bv[NV];
#pragma GCC unroll 2
      for (int j = 0; j < NV; j++) bv[j] = weights<I>(b[j]), b[j] += kBlock * unit;
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++) {
        const int at = i % kRowsPerPointer;
        const A* row = a[i / kRowsPerPointer] + (at == 0 ? 0 : at == 1 ? stride : at == 2 ? 2 * stride : at == 3 ? stride3 : 4 * stride);
        const I av = *reinterpret_cast<const Unit*>(row) - I{};
#pragma GCC unroll 2
        for (int j = 0; j < NV; j++) acc[i * NV + j] = sizeof(B) == 2 ? dot_pairs(acc[i * NV + j], av, bv[j]) : dot(acc[i * NV + j], av, bv[j]);
      }
#pragma GCC unroll 4
      for (int p = 0; p < pointers; p++) a[p] += unit;
    }
  }
}

// Stores sums [rows][vectors] of `count` outputs in floats or with a residual; rows are `step` values apart.
inline void leave_tile(const QuantThen& then, const int32_t* sums, const float* multiplier, int rows, int vectors, int count, int64_t at, int64_t step) {
  using I = typename Of<kWide>::I;
  using F = typename Of<kWide>::F;
  const QuantThen t = then;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < vectors; j++)
      leave<kWide>(t, at + i * step + j * kWide, *reinterpret_cast<const I*>(sums + (i * vectors + j) * kWide),
                   *reinterpret_cast<const F*>(multiplier + j * kWide), count - j * kWide);
}

// `tiles` tiles of MR pixels.
template <int MR, int NV>
void run_tiles(const QuantThen& then, const Rounding& rounding, const RunCall& call, int64_t pixel, int64_t tiles) {
  using I = typename Of<kWide>::I;
  using F = typename Of<kWide>::F;
  const RunCall t = call;
  for (; tiles > 0; tiles--, pixel += MR) {
    I acc[MR * NV];
    sum_tile<MR, NV, Input, int8_t>(acc, t, pixel);
    int64_t at = t.to + pixel * t.step;
    if (then.y == nullptr || then.residual != nullptr) {
      leave_tile(then, reinterpret_cast<const int32_t*>(acc), t.multiplier, MR, NV, t.count, at, t.step);
      continue;
    }
    const Rounding r = rounding;
    const F* multiplier = reinterpret_cast<const F*>(t.multiplier);
    alignas(64) uint8_t bytes[(MR * NV + 3) / 4 * 4 * kWide];
    const auto all = [&](const auto& each) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int i = 0; i < MR * NV; i += 4) {
        I of[4];
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) of[q] = i + q < MR * NV ? whole(each(to_float(acc[i + q]) * multiplier[(i + q) % NV]), r) : of[0];
        in_order4(bytes + i * kWide, of[0], of[1], of[2], of[3], r);
      }
    };
    if (then.swish) all([after = then.after](F v) __attribute__((always_inline)) { return swish(v, after); });
    else all([](F v) __attribute__((always_inline)) { return v; });
    uint8_t* y = then.y + at;
    if (t.count == NV * kWide) {
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++, y += t.step) memcpy(y, bytes + i * NV * kWide, NV * kWide);
    } else {
      for (int i = 0; i < MR; i++, y += t.step) memcpy(y, bytes + i * NV * kWide, t.count);
    }
  }
}

using RunTiles = void (*)(const QuantThen&, const Rounding&, const RunCall&, int64_t, int64_t);
template <int NV>
struct TileRuns {
  RunTiles of[kMostRows + 1] = {};
  template <int MR = kMostRows>
  constexpr void fill() {
    of[MR] = run_tiles<MR, NV>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr TileRuns() { fill(); }
};

// A run of pixels and the outputs [column, column + kTileColumns) of a group.
//   rows IN [batch] where the first pixel's inputs are; weights, bias, multiplier and `to` are the group's
struct Run {
  const Input* const* rows;
  int64_t pixels, a_step;
  const int8_t* weights;
  const int32_t* bias;
  const float* multiplier;
  int64_t to, step;
};

inline void run_columns(const Layout& l, const QuantThen& then, const Rounding& rounding, const Run& run, int64_t column) {
  static constexpr TileRuns<1> one;
  static constexpr TileRuns<2> two;
  const int count = static_cast<int>(min64(kTileColumns, l.outputs - column));
  const int8_t* b = run.weights + column / kBlock * l.block_bytes + column % kBlock * kUnit;
  const RunCall call{{run.rows, l.batch, l.units, run.a_step, b, l.block_bytes, run.bias + column}, run.multiplier + column, run.to + column, run.step, count};
  const RunTiles* of = count > kWide ? two.of : one.of;
  const int64_t tile = even_rows(run.pixels, kMostRows), tiles = run.pixels / tile, rest = run.pixels % tile;
  of[tile](then, rounding, call, 0, tiles);
  if (rest > 0) of[rest](then, rounding, call, tiles * tile, 1);
}

// y [rows, outputs] from x [rows, inputs]: linear layers and pointwise convolutions.
inline void product(const QuantThen& then, const uint8_t* x, const int8_t* packed, int64_t rows, const Layout& l) {
  const Rounding rounding(then);
  const bool direct = kUnit == 4 && l.inputs % kUnit == 0;
  const int64_t k = l.inputs, step = round_up(k, kUnit), threads = num_threads(), tiles = (l.outputs + kTileColumns - 1) / kTileColumns;
  int64_t rows_each = max64(kMostRows, 8 * 1024 * kUnit / max64(1, k) / kMostRows * kMostRows);
  if (rows < threads * rows_each) rows_each = max64(1, (rows + threads - 1) / threads);
  int64_t row_chunks = (rows + rows_each - 1) / rows_each;
  const bool by_columns = rows <= 2 * kMostRows || row_chunks < threads;
  if (by_columns && rows <= 2 * kMostRows) rows_each = rows, row_chunks = 1;
  const int64_t column_chunks = by_columns ? min64(tiles, 2 * threads) : 1, each = max64(1, rows_each * k * l.outputs / column_chunks);
  parallel(row_chunks * column_chunks, max64(1, kWork / each), [&](int64_t begin, int64_t end) {
    Input* copy = direct ? nullptr : static_cast<Input*>(scratch(Slot::kByteRows, rows_each * step * sizeof(Input) + 64));
    for (int64_t i = begin; i < end; i++) {
      const int64_t row = i / column_chunks * rows_each, count = min64(rows_each, rows - row), part = i % column_chunks;
      if (!direct)
        for (int64_t r = 0; r < count; r++) widen(copy + r * step, x + (row + r) * k, k);
      const Input* from = direct ? reinterpret_cast<const Input*>(x + row * k) : copy;
      const Run run{&from, count, step, packed, l.bias(packed), l.multiplier(packed), row * l.outputs, l.outputs};
      for (int64_t t = tiles * part / column_chunks; t < tiles * (part + 1) / column_chunks; t++)
        run_columns(l, then, rounding, run, t * kTileColumns);
    }
  });
}

// Input rows of one output plane, in place or copied into rows that are padded with the zero point.
struct InputRows {
  const Geometry& g;
  const uint8_t* x;
  Input* buffer;
  bool direct;
  int64_t row_width, rows_most, first_row;  // pixels of a copied row, copied rows of a depth tap

  InputRows(const Geometry& geometry, const uint8_t* data, const Layout& l, int64_t out_rows) : g(geometry), x(data), first_row(0) {
    const int64_t reach = (g.kernel[2] - 1) * g.dilation[2] + 1, per = l.merged ? g.kernel[2] * l.inputs : l.inputs;
    direct = kUnit == 4 && per % kUnit == 0;
    for (int d = 0; d < 3; d++)
      direct = direct && g.pad[d] == 0 && (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] < g.in[d];
    row_width = (g.out[2] - 1) * g.stride[2] + reach;
    rows_most = (out_rows - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1;
    buffer = direct ? nullptr : static_cast<Input*>(scratch(Slot::kByteRows, g.kernel[0] * rows_most * row_width * g.c * sizeof(Input) + 64));
  }

  // Copies what output rows [row, row_end) of plane (n, od) read.
  void fill(int64_t n, int64_t od, int64_t row, int64_t row_end, int zero) {
    first_row = row;
    if (direct) return;
    const int64_t low = row * g.stride[1] - g.pad[1], count = (row_end - row - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1;
    const int64_t left = min64(row_width, g.pad[2]), right = max64(left, min64(row_width, g.in[2] + g.pad[2]));
    for (int64_t td = 0; td < g.kernel[0]; td++) {
      const int64_t d = od * g.stride[0] + td * g.dilation[0] - g.pad[0];
      for (int64_t r = 0; r < count; r++) {
        Input* to = buffer + (td * rows_most + r) * row_width * g.c;
        const int64_t h = low + r;
        if (d < 0 || d >= g.in[0] || h < 0 || h >= g.in[1]) {
          fill_inputs(to, zero, row_width * g.c);
          continue;
        }
        fill_inputs(to, zero, left * g.c);
        widen(to + left * g.c, x + (((n * g.in[0] + d) * g.in[1] + h) * g.in[2]) * g.c, (right - left) * g.c);
        fill_inputs(to + right * g.c, zero, (row_width - right) * g.c);
      }
    }
  }

  // The first pixel that output row `row` of plane (n, od) reads through depth tap td and height tap th.
  const Input* row(int64_t n, int64_t od, int64_t row, int64_t td, int64_t th) const {
    if (direct)
      return reinterpret_cast<const Input*>(x) + (((n * g.in[0] + od * g.stride[0] + td * g.dilation[0]) * g.in[1] + row * g.stride[1] + th * g.dilation[1]) * g.in[2]) * g.c;
    return buffer + (td * rows_most + (row - first_row) * g.stride[1] + th * g.dilation[1]) * row_width * g.c;
  }
};

// y = what `then` makes of the correlation of x with packed weights; x [n, in..., c], y [n, out..., o]
inline void correlate(const QuantThen& then, const uint8_t* x, int x_zero, const int8_t* packed, const Geometry& g, const Layout& l) {
  const Rounding rounding(then);
  const int64_t planes = g.n * g.out[0], threads = num_threads(), tiles = (l.outputs + kTileColumns - 1) / kTileColumns;
  const int64_t row_bytes = max64(1, g.stride[1] * g.kernel[0] * g.in[2] * g.c);
  int64_t rows_each = max64(1, min64(g.out[1], 64 * 1024 / row_bytes)), column_chunks = 1;
  if (planes < 2 * threads) {
    if (l.weight_bytes > 2 * g.in[1] * row_bytes && tiles * g.groups >= threads) column_chunks = min64(tiles, threads);
    else rows_each = max64(1, min64(rows_each, (g.out[1] * planes + 2 * threads - 1) / (2 * threads)));
  }
  const int64_t pieces = (g.out[1] + rows_each - 1) / rows_each, items = planes * pieces * column_chunks;
  const int64_t work = planes * g.out[1] * g.out[2] * l.batch * l.units * kUnit * g.o;
  parallel(items, max64(1, kWork / max64(1, work / max64(1, items))), [&](int64_t begin, int64_t end) {
    InputRows input(g, x, l, rows_each);
    const Input** rows = static_cast<const Input**>(scratch(Slot::kBytePointers, l.batch * sizeof(Input*)));
    for (int64_t i = begin; i < end; i++) {
      const int64_t part = i % column_chunks, at = i / column_chunks, plane = at / pieces, n = plane / g.out[0], od = plane % g.out[0];
      const int64_t row0 = at % pieces * rows_each, row1 = min64(g.out[1], row0 + rows_each);
      if (part == 0 || i == begin) input.fill(n, od, row0, row1, x_zero);
      for (int64_t group = 0; group < g.groups; group++) {
        const int64_t padded = group * l.blocks * kBlock;
        for (int64_t t = tiles * part / column_chunks; t < tiles * (part + 1) / column_chunks; t++)
          for (int64_t oh = row0; oh < row1; oh++) {
            int64_t k = 0;
            for (int64_t td = 0; td < g.kernel[0]; td++)
              for (int64_t th = 0; th < g.kernel[1]; th++) {
                const Input* row = input.row(n, od, oh, td, th) + group * l.inputs;
                for (int64_t tw = 0; tw < (l.merged ? 1 : g.kernel[2]); tw++) rows[k++] = row + tw * g.dilation[2] * g.c;
              }
            const Run run{rows, g.out[2], g.stride[2] * g.c, packed + group * l.blocks * l.block_bytes, l.bias(packed) + padded,
                              l.multiplier(packed) + padded, ((plane * g.out[1] + oh) * g.out[2]) * g.o + group * l.outputs, g.o};
            run_columns(l, then, rounding, run, t * kTileColumns);
          }
      }
    }
  });
}

}  // namespace pdl::PDL_ISA::int8
