// The gradient of convolution weights on the GEMM micro-kernel: tile rows are (tap, c), the reduction runs over output pixels, a batch entry
// per output row.
#pragma once
#include "conv.h"

namespace pdl::PDL_ISA {

// Sum of the partial results of every part, in their order.   to OUT [n], parts IN [count][n]
template <class T>
void add_parts(T* to, const T* parts, int count, int64_t n) {
  parallel(n, kParallelWork, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      T sum = parts[i];
      for (int p = 1; p < count; p++) sum += parts[p * n + i];
      to[i] = sum;
    }
  });
}

// The input of a run of output rows as the column form reads it. Whole numbers: Block serves.
template <class T>
struct PixelUnits : Block<T> {
  void place(const Grid<const T>& grid, const Taps* t, int64_t c, const int64_t* out, int64_t out_rows, int64_t planes) {
    Block<T>::place(grid, t, c, out, out_rows, planes);
  }
  int64_t k_stride() const { return this->taps[2].step * this->pixel; }
  int64_t tap_offset(int tw) const { return (this->taps[2].offset[tw] - this->taps[2].lowest()) * this->pixel; }
};

// bf16: a unit is the same channel of two output pixels, so every row is copied as pairs (pixel q, pixel q + step) for all q that any tap
// starts from; with one tap only every other output pixel starts a pair.
template <>
struct PixelUnits<bf16> {
  Block<bf16> block;
  int64_t out_width = 0, row_size = 0;  // row_size: values of one row of pairs
  bool sparse = false;
  bf16 *buffer = nullptr, *line = nullptr;

  void place(const Grid<const bf16>& grid, const Taps* t, int64_t c, const int64_t* out, int64_t out_rows, int64_t planes) {
    block.in = &grid, block.taps = t, block.channels = block.pixel = c;
    block.row_width = (out[2] - 1) * t[2].step + t[2].span();
    block.rows = (out_rows - 1) * t[1].step + t[1].span();
    out_width = out[2], sparse = t[2].count <= 1;
    row_size = 2 * c * (sparse ? (out_width + 1) / 2 : block.row_width);
    line = static_cast<bf16*>(scratch(Slot::kConvRows, (planes * t[0].count * block.rows * row_size + (block.row_width + t[2].step) * c) * sizeof(bf16)));
    buffer = line + (block.row_width + t[2].step) * c;
  }
  bool valid(int dim, int64_t out, int tap) const { return block.valid(dim, out, tap); }

  void fill(int64_t slot, int64_t n, int64_t od, int64_t row, int64_t row_end) {
    block.first_row = row;
    const Taps* taps = block.taps;
    const Grid<const bf16>& in = *block.in;
    const int64_t low_w = taps[2].lowest(), low_h = row * taps[1].step + taps[1].lowest(), width = block.row_width, c = block.channels;
    const int64_t rows_here = (row_end - row - 1) * taps[1].step + taps[1].span();
    const int64_t left = max64(0, min64(width, -low_w)), right = max64(left, min64(width, in.size[2] - low_w));
    const bool whole = left == 0 && right == width && in.stride[2] == c;
    for (int td = 0; td < taps[0].count; td++) {
      if (!block.valid(0, od, td)) continue;
      const bf16* plane = in.data + n * in.stride_n + (od * taps[0].step + taps[0].offset[td]) * in.stride[0];
      for (int64_t r = 0; r < rows_here; r++) {
        if (low_h + r < 0 || low_h + r >= in.size[1]) continue;  // taps that would read it are skipped
        const bf16* from = plane + (low_h + r) * in.stride[1] + (left + low_w) * in.stride[2];
        bf16* to = buffer + ((slot * taps[0].count + td) * block.rows + r) * row_size;
        if (sparse && whole) {
          pairs_of_outputs(to, from);
          continue;
        }
        block.copy_row(line, from, left, right);
        memset(line + width * c, 0, taps[2].step * c * sizeof(bf16));
        if (sparse) pairs_of_outputs(to, line);
        else interleave(to, line, line + taps[2].step * c, width * c);
      }
    }
  }

  void pairs_of_outputs(bf16* to, const bf16* from) const {
    const int64_t c = block.channels, step = block.taps[2].step * c;
    for (int64_t ow = 0; ow < out_width; ow += 2)
      interleave(to + ow * c, from + ow * step, ow + 1 < out_width ? from + (ow + 1) * step : nullptr, c);
  }

  const bf16* row(int64_t slot, int64_t, int64_t, int64_t out_row, int td, int th) const {
    const int64_t r = (out_row - block.first_row) * block.taps[1].step + block.taps[1].offset[th] - block.taps[1].lowest();
    return buffer + ((slot * block.taps[0].count + td) * block.rows + r) * row_size;
  }
  int64_t k_stride() const { return (sparse ? 1 : 2 * block.taps[2].step) * 2 * block.channels; }
  int64_t tap_offset(int tw) const { return (block.taps[2].offset[tw] - block.taps[2].lowest()) * 2 * block.channels; }
  bool merged() const { return block.taps[2].consecutive(); }
};

// One group of a weight gradient. Sums are rows (tap, c) of `columns` outputs.
template <class T>
struct WeightGradient {
  using R = Real<T>;
  Grid<const T> in, dy;
  const Taps* taps;
  const Geometry& g;
  int64_t channels, outputs;
  Cut cut;

  int64_t taps_all() const { return int64_t(taps[0].count) * taps[1].count * taps[2].count; }

  // Adds blocks [begin, end) of output rows to the sums of outputs [from, from + columns).
  //   sums IN/OUT [tap][c] rows of `stride` values, readable and writable up to whole registers where there are no masks
  void add_blocks(R* sums, int64_t stride, int64_t from, int64_t columns, int64_t begin, int64_t end) const {
    constexpr int panel = kPanel<T>;
    constexpr bool masked = Edge<R, PDL_VECTOR_BYTES>::kMasked;
    const int64_t width = masked ? columns : round_up(columns, kLanes<R>), units = (g.out[2] + kUnit<T> - 1) / kUnit<T>;
    const int64_t all_rows = taps_all() * channels;  // that use a row of dy
    const bool packs = kUnit<T> == 2 || width != columns || (all_rows > 16 * kMaxRows<T, 2> && shares_sets(dy.stride[2] * sizeof(T)));
    PixelUnits<T> block;
    block.place(in, taps, channels, g.out, cut.rows_per_block, cut.planes_per_block);
    const int64_t rows_most = cut.planes_per_block * cut.rows_per_block, depth = units * kUnit<T>;
    const T** a = static_cast<const T**>(scratch(Slot::kConvPointers, 4 * rows_most * sizeof(T*)));
    const T** first = a + rows_most;
    const T** b = first + rows_most;
    int64_t* line = reinterpret_cast<int64_t*>(b + rows_most);  // the number of the output row within the block
    T* packed = packs ? static_cast<T*>(scratch(Slot::kConvOutputs, rows_most * depth * round_up(width, panel) * sizeof(T))) : nullptr;
    const bool merged = block.merged();
    const int64_t m = (merged ? taps[2].count : 1) * channels;
    for (int64_t i = begin; i < end; i++) {
      const int64_t plane0 = i / cut.pieces * cut.planes_per_block, plane1 = min64(cut.planes, plane0 + cut.planes_per_block);
      const int64_t row0 = i % cut.pieces * cut.rows_per_block, row1 = min64(g.out[1], row0 + cut.rows_per_block);
      for (int64_t p = plane0; p < plane1; p++) {
        block.fill(p - plane0, p / g.out[0], p % g.out[0], row0, row1);
        for (int64_t oh = row0; packs && oh < row1; oh++)
          for (int64_t column = 0; column < width; column += panel) {  // panel by panel: [panel][row][unit][width of the panel]
            const int here = static_cast<int>(min64(panel, columns - column)), wide = panel_width<T>(min64(panel, width - column));
            pack_panel(packed + (column * rows_most + ((p - plane0) * cut.rows_per_block + oh - row0) * wide) * depth,
                       dy_row(p, oh) + from + column, g.out[2], here, wide, dy.stride[2], 1);
          }
      }
      for (int td = 0; td < taps[0].count; td++)
        for (int th = 0; th < taps[1].count; th++)
          for (int tw = 0; tw < (merged ? 1 : taps[2].count); tw++) {
            int64_t batch = 0;
            for (int64_t p = plane0; p < plane1; p++)
              for (int64_t oh = row0; block.valid(0, p % g.out[0], td) && oh < row1; oh++) {
                if (!block.valid(1, oh, th)) continue;
                first[batch] = block.row(p - plane0, p / g.out[0], p % g.out[0], oh, td, th) + block.tap_offset(tw);
                b[batch] = dy_row(p, oh) + from;
                line[batch++] = (p - plane0) * cut.rows_per_block + oh - row0;
              }
            if (batch == 0) continue;
            R* to = sums + ((int64_t(td) * taps[1].count + th) * taps[2].count + tw) * channels * stride;
            for (int64_t column = 0; column < width; column += panel) {
              const int here = static_cast<int>(min64(panel, width - column));
              const int64_t step = even_rows(m, max_rows<T>(here)), wide = panel_width<T>(here);
              for (int64_t k = 0; packs && k < batch; k++) b[k] = packed + (column * rows_most + line[k] * wide) * depth;
              for (int64_t row = 0; row < m; row += step) {
                for (int64_t k = 0; k < batch; k++) a[k] = first[k] + row * kUnit<T>;
                tile_kernel<T, true>(static_cast<int>(min64(step, m - row)), here,
                                     {a, b, batch, units, block.k_stride(), packs ? wide * kUnit<T> : dy.stride[2], to + row * stride + column, stride, nullptr, true, nullptr});
              }
              for (int64_t k = 0; !packs && k < batch; k++) b[k] += panel;
            }
          }
    }
  }

  const T* dy_row(int64_t p, int64_t oh) const {
    return dy.data + p / g.out[0] * dy.stride_n + p % g.out[0] * dy.stride[0] + oh * dy.stride[1];
  }
};

template <class T>
inline void store_sums(T* dw, Real<T>* wide, int64_t at, const Real<T>* sums, int64_t n) {
  if (wide != nullptr) memcpy(wide + at, sums, n * sizeof(Real<T>));
  else
    for (int64_t i = 0; i < n; i++) put(dw + at + i, sums[i]);
}

// Many weights beside few pixels: every thread sums its own outputs over all pixels.
template <class T>
void gradient_by_outputs(T* dw, Real<T>* wide, const WeightGradient<T>& work) {
  using R = Real<T>;
  constexpr int panel = kPanel<T>;
  const int64_t panels = (work.outputs + panel - 1) / panel, rows = work.taps_all() * work.channels;
  parallel(panels, 1, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * panel, columns = min64(work.outputs, end * panel) - from, stride = round_up(columns, panel);
    R* sums = static_cast<R*>(scratch(Slot::kConvSums, rows * stride * sizeof(R)));
    memset(sums, 0, rows * stride * sizeof(R));
    work.add_blocks(sums, stride, from, columns, 0, work.cut.blocks());
    for (int64_t r = 0; r < rows; r++) store_sums(dw, wide, r * work.g.o + from, sums + r * stride, columns);
  });
}

// Few weights: every part of the output rows sums into its own copy; the copies are added in order.
template <class T>
void gradient_by_pixels(T* dw, Real<T>* wide, const WeightGradient<T>& work) {
  using R = Real<T>;
  const int64_t stride = round_up(work.outputs, Edge<R, PDL_VECTOR_BYTES>::kMasked ? 1 : kLanes<R>), rows = work.taps_all() * work.channels;
  const int64_t grain = work.cut.grain(work.g.n * work.g.out[0] * work.g.out[1] * work.g.out[2] * rows * work.outputs);
  const int parts = parts_of(work.cut.blocks(), grain);
  R* sums = static_cast<R*>(scratch(Slot::kConvSums, (parts + 1) * rows * stride * sizeof(R)));
  parallel_parts(work.cut.blocks(), parts, [&](int64_t begin, int64_t end, int part) {
    R* mine = sums + part * rows * stride;
    memset(mine, 0, rows * stride * sizeof(R));
    work.add_blocks(mine, stride, 0, work.outputs, begin, end);
  });
  R* sum = sums + parts * rows * stride;
  add_parts(sum, sums, parts, rows * stride);
  for (int64_t r = 0; r < rows; r++) store_sums(dw, wide, r * work.g.o, sum + r * stride, work.outputs);
}

// Output rows of a pointwise convolution are cut to a length that keeps a row of x and dy near: any divisor of the pixels will do.
inline Geometry cut_pixels(Geometry g, int64_t pixel_bytes) {
  if (!is_pointwise(g)) return g;
  const int64_t pixels = g.n * g.in[0] * g.in[1] * g.in[2];
  int64_t length = max64(32, min64(1024, kNearBytes / pixel_bytes));
  while (length > 1 && (pixels % length != 0 || (length % 2 != 0 && pixels % 2 == 0))) length--;
  if (length < 24) return g;
  g.n = g.in[0] = g.out[0] = 1;
  g.in[1] = g.out[1] = pixels / length, g.in[2] = g.out[2] = length;
  return g;
}

// dw = gradient of the weights.   dw OUT [kernel..., c / groups, o] or, where not null, wide in its place; x IN [n, in..., c], dy IN [n, out..., o]
template <class T>
void conv_dw(T* dw, Real<T>* wide, const T* x, const T* dy, const Geometry& geometry) {
  using R = Real<T>;
  const int64_t c = geometry.c / geometry.groups, o = geometry.o / geometry.groups;
  const Geometry g = cut_pixels(geometry, (c + o) * sizeof(R));
  if (is_pointwise(g) && c * o * static_cast<int64_t>(sizeof(R)) > 2 * kNearBytes) {
    for (int64_t i = 0; i < g.groups; i++)
      matmul_one<T>({c, o, g.n * g.in[0] * g.in[1] * g.in[2], dw + i * o, g.o, x + i * c, 1, g.c, dy + i * o, g.o, 1, nullptr,
                     wide == nullptr ? nullptr : wide + i * o, nullptr});
    return;
  }
  Taps taps[kDims];
  forward_taps(taps, g);
  const int64_t rows = g.kernel[0] * g.kernel[1] * g.kernel[2] * c, sum_bytes = rows * o * static_cast<int64_t>(sizeof(R));
  const bool many = sum_bytes > 2 * kNearBytes;  // every block passes over all sums: fewer, larger blocks
  const int64_t row_bytes = (taps[1].step * taps[0].count * g.in[2] * c + g.out[2] * o) * static_cast<int64_t>(sizeof(R));
  const Cut cut(g.n * g.out[0], g.out[1], row_bytes, many ? 2 * kNearBytes : is_pointwise(g) ? kNearBytes : kNearBytes / 2);
  for (int64_t i = 0; i < g.groups; i++) {
    const WeightGradient<T> work{dense(x, g.in, g.c, i * c), dense(dy, g.out, g.o, i * o), taps, g, c, o, cut};
    R* wide_group = wide == nullptr ? nullptr : wide + i * o;
    if (many && o >= num_threads() * kPanel<T>) gradient_by_outputs(dw + i * o, wide_group, work);
    else gradient_by_pixels(dw + i * o, wide_group, work);
  }
}

}  // namespace pdl::PDL_ISA
