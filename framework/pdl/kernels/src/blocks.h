// Products whose weights are mostly zeros: of [depth, o] only blocks are kept of one row by kBlockWide outputs in which there is another
// number. A block costs what its row of a dense panel does, and the list of rows one load for a tile: so it is not the zeros that make a
// product fast, but that they lie side by side (1 x 16; cf. Gray, Radford and Kingma, "GPU kernels for block-sparse weights", 2017).
#pragma once
#include "epilogue.h"
#include "gemm.h"
#include "packed.h"

namespace pdl::PDL_ISA::blocks {

constexpr int kVectors = kBlockWide / kLanes<float>;
static_assert(kVectors * kLanes<float> == kBlockWide);
// Rows of a tile: as many accumulators as the register file holds beside a block and one broadcast, of rows in the first-level cache.
#if PDL_VECTOR_BYTES == 64 || defined(__aarch64__)
constexpr int kRows = kVectors == 1 ? 14 : 24 / kVectors;
#else
constexpr int kRows = 12 / kVectors;
#endif

// packed: begin int32 [panels + 1], the first block of each panel of kBlockWide outputs; row int32 [kept], ascending in a panel; from the
// next multiple of kBlockWide numbers on the blocks [kept, kBlockWide], zeros behind the last output.
struct Blocks {
  int64_t panels;
  const int32_t *begin, *row;
  const float* values;

  Blocks(const float* packed, int64_t o) : panels((o + kBlockWide - 1) / kBlockWide), begin(reinterpret_cast<const int32_t*>(packed)) {
    row = begin + panels + 1;
    values = packed + round_up(panels + 1 + begin[panels], kBlockWide);
  }
};

struct Panel {
  const float* a;       // IN rows of the product, a_stride apart
  const int32_t* row;   // IN [count]
  const float* values;  // IN [count, kBlockWide]
  const float* bias;    // IN [kBlockWide] or null
  float* c;             // OUT [rows, columns], c_stride apart
  int64_t a_stride, c_stride, count;
  int columns;
  const Bounds<float>* bounds;  // IN or null
};

template <int MR>
void panel_tile(const Panel& panel) {
  using V = Vec<float>;
  constexpr int lanes = kLanes<float>, pointers = (MR + kRowsPerPointer - 1) / kRowsPerPointer;
  constexpr int turns = MR * kVectors <= 2 ? 4 : MR * kVectors <= 4 ? 2 : 1;  // an addition waits for the one before it
  const Panel t = panel;
  int64_t stride = t.a_stride * static_cast<int64_t>(sizeof(float)), stride3 = 3 * stride;
  asm("" : "+r"(stride), "+r"(stride3));  // as in micro_kernel.h
  V acc[turns][MR][kVectors] = {};
  if (t.bias != nullptr)
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; j++) acc[0][i][j] = load(t.bias + j * lanes);
  const float* values = t.values;
  const auto step = [&](V(&sums)[MR][kVectors], int64_t k) __attribute__((always_inline)) {
    const char* a[pointers];
    a[0] = reinterpret_cast<const char*>(t.a + t.row[k]);
#pragma GCC unroll 4
    for (int p = 1; p < pointers; p++) a[p] = a[p - 1] + kRowsPerPointer * stride;
    V b[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; j++) b[j] = load(values + j * lanes);
    values += kBlockWide;
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
      const int at = i % kRowsPerPointer;
      const char* from = a[i / kRowsPerPointer] + (at == 0 ? 0 : at == 1 ? stride : at == 2 ? 2 * stride : at == 3 ? stride3 : 4 * stride);
      const V left = splat<float>(*reinterpret_cast<const float*>(from));
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; j++) sums[i][j] += left * b[j];
    }
  };
  int64_t k = 0;
  if constexpr (turns > 1)
    for (; k + turns <= t.count; k += turns)
#pragma GCC unroll 4
      for (int p = 0; p < turns; p++) step(acc[p], k + p);
  for (; k < t.count; k++) step(acc[0], k);
#pragma GCC unroll 4
  for (int p = 1; p < turns; p++)
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; j++) acc[0][i][j] += acc[p][i][j];
  if (t.bounds != nullptr) {
    const Bounds<float> bounds = *t.bounds;
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; j++) acc[0][i][j] = within_bounds(acc[0][i][j], bounds);
  }
  float* c = t.c;
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++, c += t.c_stride)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; j++) {
      const int left = t.columns - j * lanes;
      if (left >= lanes) store(c + j * lanes, acc[0][i][j]);
      else if (left > 0) store_tail(c + j * lanes, acc[0][i][j], left);
    }
}

struct PanelTiles {
  void (*of[kRows + 1])(const Panel&) = {};
  template <int MR = kRows>
  constexpr void fill() {
    of[MR] = panel_tile<MR>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr PanelTiles() { fill(); }
};
inline constexpr PanelTiles panel_tiles;

//   y OUT [n, out..., o], x IN [n, in..., c], packed IN as above, bias IN [o] or null; `then` without statistics and `before`
inline void forward(float* y, const float* x, const float* packed, const float* bias, const Geometry& g, const Epilogue<float>& then) {
  const Blocks blocks(packed, g.o);
  const int64_t m = g.n * g.out[0] * g.out[1] * g.out[2], kept = blocks.begin[blocks.panels];
  const packed::Windows<float> windows(x, g, blocks.panels >= 3);
  const int64_t step = even_rows(m, kRows), tiles = (m + step - 1) / step;
  const int64_t work = m * kept * kBlockWide / kParallelWork;
  const int most = static_cast<int>(min64(num_threads(), max64(1, work)));
  // Bands of rows, and of blocks where there are too few rows for all threads; a tile of rows stays near while the blocks pass by.
  const int64_t by_rows = min64(tiles, most), by_blocks = min64(blocks.panels, most / by_rows);
  const int64_t cut = by_blocks > 1 || most == 1 ? by_rows : min64(tiles, by_rows * kPieces), cells = cut * by_blocks;
  const auto border = [&](int64_t part) {  // the panel at which this part of all blocks begins
    if (part == by_blocks) return blocks.panels;
    int64_t p = 0;
    while (p < blocks.panels && blocks.begin[p] * by_blocks < kept * part) p++;
    return p;
  };
  alignas(64) float last[kBlockWide] = {};
  for (int64_t j = blocks.panels * kBlockWide - kBlockWide; bias != nullptr && j < g.o; j++) last[j % kBlockWide] = bias[j];
  const RowEpilogue<float> finish(&then);
  parallel_parts(cells, static_cast<int>(cells), [&](int64_t from, int64_t to, int) {
    for (int64_t cell = from; cell < to; cell++) {
      const int64_t band = cell / by_blocks, first = border(cell % by_blocks), end = border(cell % by_blocks + 1);
      const int64_t begin = tiles * band / cut, until = tiles * (band + 1) / cut;
      float* copy = windows.there ? nullptr : static_cast<float*>(scratch(Slot::kWindows, step * windows.stride * sizeof(float) + 64));
      for (int64_t tile = begin; tile < until; tile++) {
        const int64_t row = tile * step, rows = min64(m, row + step) - row;
        if (rows <= 0) break;
        if (copy != nullptr) windows.gather(copy, row, row + rows);
        const float* a = copy != nullptr ? copy : x + row * windows.stride;
        for (int64_t p = first; p < end; p++) {
          const int64_t at = blocks.begin[p], column = p * kBlockWide;
          const float* sums = bias == nullptr ? nullptr : p + 1 == blocks.panels ? last : bias + column;
          panel_tiles.of[rows]({a, blocks.row + at, blocks.values + at * kBlockWide, sums, y + row * g.o + column, windows.stride, g.o,
                                blocks.begin[p + 1] - at, static_cast<int>(min64(kBlockWide, g.o - column)), finish.bounds()});
        }
        const int64_t left = first * kBlockWide, wide = min64(g.o, end * kBlockWide) - left;
        if (wide == g.o) finish(y, row * g.o, rows * g.o);
        else
          for (int64_t r = row; r < row + rows; r++) finish(y, r * g.o + left, wide);
      }
    }
  });
}

}  // namespace pdl::PDL_ISA::blocks
