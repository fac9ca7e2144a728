// Convolution, its two gradients, and depthwise forms: channels last, one to three dimensions, on the GEMM micro-kernel.
//
// Forward and the gradient of the input are one routine, `correlate`: every output position sums taps, each an input offset and a weight
// matrix. With stride s the gradient of the input falls into s^dims phases that are correlations of stride 1.
#pragma once
#include "gemm.h"

namespace pdl::PDL_ISA {

constexpr int kDims = 3;        // depth, height, width
constexpr int kMaxTaps = 256;   // per dimension

// The taps along one dimension: output j reads input j * step + offset[t] with weight index[t]; offsets ascend.
struct Taps {
  int64_t step;
  int count;
  int64_t offset[kMaxTaps];
  int64_t index[kMaxTaps];

  int64_t span() const { return count > 0 ? offset[count - 1] - offset[0] + 1 : 0; }
  int64_t lowest() const { return count > 0 ? offset[0] : 0; }
  bool consecutive() const { return span() == count; }
};

// A channels-last array [n, d, h, w, c]; c has stride 1.
template <class T>
struct Grid {
  T* data;
  int64_t size[kDims];
  int64_t stride_n, stride[kDims];
};

// A run of output rows of some planes, and the input they read: copied into padded rows, or in place where nothing hangs over the edge.
template <class T>
struct Block {
  const Grid<const T>* in = nullptr;
  const Taps* taps = nullptr;
  int64_t channels = 0;
  bool direct = false;
  int64_t pixel = 0, row_width = 0, rows = 0;  // values per pixel (whole units); pixels per padded row; rows per depth tap
  T* buffer = nullptr;
  int64_t first_row = 0;

  void place(const Grid<const T>& grid, const Taps* t, int64_t c, const int64_t* out, int64_t out_rows, int64_t planes) {
    in = &grid, taps = t, channels = c;
    const Taps& w = t[2];
    const bool inside = w.lowest() >= 0 && (out[2] - 1) * w.step + w.lowest() + w.span() <= grid.size[2];
    const bool crowded = shares_sets(c * static_cast<int64_t>(sizeof(T)));
    direct = inside && (w.count <= 1 || grid.stride[2] == c) && c % kUnit<T> == 0 && !shares_sets(grid.stride[2] * w.step * sizeof(T));
    pixel = direct ? grid.stride[2] : round_up(c, kUnit<T>) + (crowded ? 64 / static_cast<int64_t>(sizeof(T)) : 0);
    row_width = (out[2] - 1) * w.step + w.span();
    rows = (out_rows - 1) * t[1].step + t[1].span();
    if (!direct) buffer = static_cast<T*>(scratch(Slot::kConvRows, planes * t[0].count * rows * row_width * pixel * sizeof(T)));
  }

  bool valid(int dim, int64_t out, int tap) const {
    const int64_t at = out * taps[dim].step + taps[dim].offset[tap];
    return at >= 0 && at < in->size[dim];
  }

  // Copies what output rows [row, row_end) of plane (n, od) read, as plane number `slot` of the buffer.
  void fill(int64_t slot, int64_t n, int64_t od, int64_t row, int64_t row_end) {
    first_row = row;
    if (direct) return;
    const int64_t low_w = taps[2].lowest(), low_h = row * taps[1].step + taps[1].lowest();
    const int64_t rows_here = (row_end - row - 1) * taps[1].step + taps[1].span();
    const int64_t left = max64(0, min64(row_width, -low_w)), right = max64(left, min64(row_width, in->size[2] - low_w));
    for (int td = 0; td < taps[0].count; td++) {
      if (!valid(0, od, td)) continue;
      const T* plane = in->data + n * in->stride_n + (od * taps[0].step + taps[0].offset[td]) * in->stride[0];
      for (int64_t r = 0; r < rows_here; r++) {
        if (low_h + r < 0 || low_h + r >= in->size[1]) continue;  // taps that would read it are skipped
        copy_row(buffer + ((slot * taps[0].count + td) * rows + r) * row_width * pixel,
                 plane + (low_h + r) * in->stride[1] + (left + low_w) * in->stride[2], left, right);
      }
    }
  }

  void copy_row(T* to, const T* from, int64_t left, int64_t right) const {
    memset(to, 0, left * pixel * sizeof(T));
    memset(to + right * pixel, 0, (row_width - right) * pixel * sizeof(T));
    to += left * pixel;
    if (in->stride[2] == pixel && channels == pixel) {
      memcpy(to, from, (right - left) * pixel * sizeof(T));
      return;
    }
    for (int64_t i = left; i < right; i++, to += pixel, from += in->stride[2]) {
      if (channels > 16) memcpy(to, from, channels * sizeof(T));
      else
        for (int64_t c = 0; c < channels; c++) to[c] = from[c];
      if (channels % kUnit<T> != 0) to[channels] = T{};
    }
  }

  // The first pixel that output row `out_row` reads through depth tap td and height tap th (of a plane filled as `slot`).
  const T* row(int64_t slot, int64_t n, int64_t od, int64_t out_row, int td, int th) const {
    if (direct)
      return in->data + n * in->stride_n + (od * taps[0].step + taps[0].offset[td]) * in->stride[0] +
             (out_row * taps[1].step + taps[1].offset[th]) * in->stride[1] + taps[2].lowest() * in->stride[2];
    const int64_t r = (out_row - first_row) * taps[1].step + taps[1].offset[th] - taps[1].lowest();
    return buffer + ((slot * taps[0].count + td) * rows + r) * row_width * pixel;
  }

  // Taps along the width whose pixels lie side by side are one long k.
  bool merged() const { return taps[2].consecutive() && pixel == round_up(channels, kUnit<T>); }
};

// How the output rows of a convolution are cut into blocks: several planes, or a piece of one.
struct Cut {
  int64_t planes, pieces, planes_per_block, rows_per_block;

  // block_bytes: of input, beside the weights, in a second-level cache
  Cut(int64_t plane_count, int64_t out_rows, int64_t row_bytes, int64_t block_bytes = 128 * 1024) {
    planes = plane_count;
    const int64_t wanted = 2 * num_threads();
    rows_per_block = min64(out_rows, max64(1, block_bytes / max64(1, row_bytes)));
    if (planes < wanted) rows_per_block = max64(1, min64(rows_per_block, out_rows * planes / wanted));
    pieces = (out_rows + rows_per_block - 1) / rows_per_block;
    if (planes < wanted && pieces > 1) {  // as many for every thread, and even ones
      const int64_t even = round_up(pieces, num_threads());
      rows_per_block = (out_rows + even - 1) / even;
      pieces = (out_rows + rows_per_block - 1) / rows_per_block;
    }
    planes_per_block = pieces > 1 ? 1 : max64(1, min64(block_bytes / max64(1, row_bytes * out_rows), planes / wanted));
  }
  int64_t blocks() const { return (planes + planes_per_block - 1) / planes_per_block * pieces; }

  // Blocks that are worth a thread, when the whole convolution takes `work` multiply-adds.
  int64_t grain(int64_t work) const { return max64(1, kParallelWork / max64(1, work / max64(1, blocks()))); }
};

// Weights [taps d][taps h][taps w][in][out] in panels of kPanel outputs: packed OUT [panel][tap][units of in][panel_width], zeros behind the
// last output and input; every panel begins at its number times count * in * kPanel, where `in` is rounded up to whole units.
//   w IN element (kernel position p, in i, out j) at p * tap_stride + i * in_stride + j * out_stride
template <class T>
void pack_weights(T* packed, const T* w, const Taps* taps, const int64_t* kernel, int64_t in, int64_t out, int64_t tap_stride,
                  int64_t in_stride, int64_t out_stride) {
  constexpr int panel = kPanel<T>;
  const int64_t panels = (out + panel - 1) / panel, count = int64_t(taps[0].count) * taps[1].count * taps[2].count;
  parallel(panels * count, max64(1, kParallelWork / 4 / max64(1, in * panel)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t at = i / count, tap = i % count;
      const int64_t d = taps[0].index[tap / taps[2].count / taps[1].count], h = taps[1].index[tap / taps[2].count % taps[1].count],
                    ww = taps[2].index[tap % taps[2].count];
      const T* from = w + ((d * kernel[1] + h) * kernel[2] + ww) * tap_stride + at * panel * out_stride;
      const int columns = static_cast<int>(min64(panel, out - at * panel)), width = panel_width<T>(columns);
      pack_panel(packed + (at * count * panel + tap * width) * round_up(in, kUnit<T>), from, in, columns, width, in_stride, out_stride);
    }
  });
}

// out[n, j, o] = sum over taps and c of in[n, j * step + offset, c] w[index, c, o] (+ bias[o]), for one group.
//   w_strides IN: of kernel position, in, out; then IN what is done to the output, or null
template <class T>
void correlate(const Grid<T>& out, const Grid<const T>& in, const Taps* taps, int64_t n, int64_t channels, int64_t outputs, const T* w,
               const int64_t* kernel, const int64_t* w_strides, const T* bias, const Epilogue<T>* then) {
  using R = Real<T>;
  constexpr int panel = kPanel<T>;
  const int64_t panels = (outputs + panel - 1) / panel;
  const int64_t tap_count = int64_t(taps[0].count) * taps[1].count * taps[2].count;
  const int64_t depth1 = round_up(channels, kUnit<T>);  // of one tap
  T* packed = static_cast<T*>(scratch(Slot::kConvWeights, panels * panel * (tap_count * depth1 * sizeof(T) + sizeof(R)) + 64));
  pack_weights(packed, w, taps, kernel, channels, outputs, w_strides[0], w_strides[1], w_strides[2]);
  R* padded_bias = reinterpret_cast<R*>(packed + panels * tap_count * depth1 * panel);
  for (int64_t j = 0; bias != nullptr && j < panels * panel; j++) padded_bias[j] = j < outputs ? value(bias[j]) : R(0);

  const int64_t row_bytes = taps[1].step * taps[0].count * in.size[2] * channels * static_cast<int64_t>(sizeof(T));
  const Cut cut(n * out.size[0], out.size[1], row_bytes);
  const int64_t work = n * out.size[0] * out.size[1] * out.size[2] * tap_count * channels * outputs;
  const int parts = pieces_of(cut.blocks(), cut.grain(work));
  const Statistics statistics(then, parts, panels * panel);
  parallel_parts(cut.blocks(), parts, [&](int64_t begin, int64_t end, int part) {
    Block<T> block;
    block.place(in, taps, channels, out.size, cut.rows_per_block, cut.planes_per_block);
    const int64_t batch_most = max64(1, tap_count);
    const T** rows = static_cast<const T**>(scratch(Slot::kConvPointers, 2 * batch_most * sizeof(T*)));
    const T** b = rows + batch_most;
    const bool merged = block.merged();
    const int64_t depth = (merged ? taps[2].count : 1) * depth1 / kUnit<T>;
    for (int64_t i = begin; i < end; i++) {
      const int64_t plane0 = i / cut.pieces * cut.planes_per_block, plane1 = min64(cut.planes, plane0 + cut.planes_per_block);
      const int64_t row0 = i % cut.pieces * cut.rows_per_block, row1 = min64(out.size[1], row0 + cut.rows_per_block);
      for (int64_t p = plane0; p < plane1; p++) block.fill(p - plane0, p / out.size[0], p % out.size[0], row0, row1);
      for (int64_t at = 0; at < panels; at++) {
        const int columns = static_cast<int>(min64(panel, outputs - at * panel)), width = panel_width<T>(columns);
        const int64_t step = even_rows(out.size[2], max_rows<T>(columns));
        const ColumnSums sums = statistics.of(part, at * panel);
        const T* weights = packed + at * tap_count * depth1 * panel;
        for (int64_t p = plane0; p < plane1; p++) {
          const int64_t image = p / out.size[0], od = p % out.size[0];
          for (int64_t oh = row0; oh < row1; oh++) {
            int64_t batch = 0;
            for (int td = 0; td < taps[0].count; td++)
              for (int th = 0; block.valid(0, od, td) && th < taps[1].count; th++) {
                if (!block.valid(1, oh, th)) continue;
                const T* row = block.row(p - plane0, image, od, oh, td, th);
                for (int tw = 0; tw < (merged ? 1 : taps[2].count); tw++, batch++) {
                  rows[batch] = row + (taps[2].offset[tw] - taps[2].lowest()) * block.pixel;
                  b[batch] = weights + ((int64_t(td) * taps[1].count + th) * taps[2].count + tw) * depth1 * width;
                }
              }
            const int64_t to = image * out.stride_n + od * out.stride[0] + oh * out.stride[1] + at * panel;
            const int64_t a_step = taps[2].step * block.pixel;
            const Tile<T> tile{rows, b, batch, depth, a_step, width * kUnit<T>, nullptr, out.stride[2],
                               bias != nullptr ? padded_bias + at * panel : nullptr, false, nullptr};
            finished_tiles<T, false>(out.size[2], step, columns, tile, out.data, to, then, sums);
          }
        }
      }
    }
  });
  statistics.finish(then, outputs);
}

inline void forward_taps(Taps* taps, const Geometry& g) {
  for (int d = 0; d < kDims; d++) {
    taps[d].step = g.stride[d], taps[d].count = static_cast<int>(g.kernel[d]);
    for (int64_t t = 0; t < g.kernel[d]; t++) taps[d].index[t] = t, taps[d].offset[t] = t * g.dilation[d] - g.pad[d];
  }
}

// A dense channels-last array of `channels` values per pixel, seen from channel `first` on.
template <class T>
Grid<T> dense(T* data, const int64_t* size, int64_t channels, int64_t first) {
  return {data + first, {size[0], size[1], size[2]}, size[0] * size[1] * size[2] * channels,
          {size[1] * size[2] * channels, size[2] * channels, channels}};
}

// A pointwise convolution is a product of matrices: [pixels, c] times [c, o], group by group.
inline bool is_pointwise(const Geometry& g) {
  for (int d = 0; d < kDims; d++)
    if (g.kernel[d] != 1 || g.stride[d] != 1 || g.pad[d] != 0 || g.in[d] != g.out[d]) return false;
  return true;
}

// y = correlation of x with w (+ bias)
//   y OUT [n, out..., o], x IN [n, in..., c], w IN [kernel..., c / groups, o], bias IN [o] or null; then IN or null
template <class T>
void conv_forward(T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>* then = nullptr) {
  const int64_t c = g.c / g.groups, o = g.o / g.groups, w_strides[] = {c * g.o, g.o, 1};
  Taps taps[kDims];
  if (!is_pointwise(g)) forward_taps(taps, g);
  for (int64_t i = 0; i < g.groups; i++) {
    const T* added = bias == nullptr ? nullptr : bias + i * o;
    const Epilogue<T> own = then == nullptr ? Epilogue<T>{} : from_column(*then, i * o), *how = then == nullptr ? nullptr : &own;
    if (is_pointwise(g))
      matmul_one<T>({g.n * g.in[0] * g.in[1] * g.in[2], o, c, y + i * o, g.o, x + i * c, g.c, 1, w + i * o, g.o, 1, added, nullptr, how});
    else
      correlate<T>(dense(y, g.out, g.o, i * o), dense(x, g.in, g.c, i * c), taps, g.n, c, o, w + i * o, g.kernel, w_strides, added, how);
  }
}

// The taps of phase `phase` along one dimension of the input gradient: input positions phase, phase + stride, ... read g at stride 1.
inline void phase_taps(Taps& taps, int64_t phase, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  taps.step = 1, taps.count = 0;
  for (int64_t t = kernel - 1; t >= 0; t--) {
    const int64_t from = phase + pad - t * dilation;
    if (from % stride != 0) continue;
    taps.offset[taps.count] = from / stride, taps.index[taps.count] = t, taps.count++;
  }
}

// The grid of input positions that belong to one phase.
template <class T>
Grid<T> phase_grid(T* dx, const Geometry& g, const int64_t* at, int64_t channels, int64_t first) {
  Grid<T> to = dense(dx, g.in, channels, first);
  for (int d = 0; d < kDims; d++) {
    to.data += at[d] * to.stride[d];
    to.size[d] = (g.in[d] - at[d] + g.stride[d] - 1) / g.stride[d];
    to.stride[d] *= g.stride[d];
  }
  return to;
}

// body(taps, phase) for every phase that has input positions.
template <class F>
void each_phase(const Geometry& g, const F& body) {
  Taps taps[kDims];
  for (int64_t phase = 0; phase < g.stride[0] * g.stride[1] * g.stride[2]; phase++) {
    const int64_t at[] = {phase / g.stride[2] / g.stride[1], phase / g.stride[2] % g.stride[1], phase % g.stride[2]};
    bool any = true, taps_everywhere = true;
    for (int d = 0; d < kDims; d++) {
      phase_taps(taps[d], at[d], g.kernel[d], g.stride[d], g.pad[d], g.dilation[d]);
      any = any && at[d] < g.in[d];
      taps_everywhere = taps_everywhere && taps[d].count > 0;
    }
    for (int d = 0; d < kDims && !taps_everywhere; d++) taps[d].count = 0;  // no weight reaches this phase: zeros
    if (any) body(taps, at);
  }
}

// dx = gradient of the input: every output gradient goes back through the weights it came from.
//   dx OUT [n, in..., c], dy IN [n, out..., o], w IN [kernel..., c / groups, o]
template <class T>
void conv_dx(T* dx, const T* dy, const T* w, const Geometry& g) {
  const int64_t c = g.c / g.groups, o = g.o / g.groups, w_strides[] = {c * g.o, 1, g.o};
  if (is_pointwise(g)) {
    for (int64_t i = 0; i < g.groups; i++)
      matmul_one<T>({g.n * g.in[0] * g.in[1] * g.in[2], c, o, dx + i * c, g.c, dy + i * o, g.o, 1, w + i * o, 1, g.o, nullptr, nullptr, nullptr});
    return;
  }
  each_phase(g, [&](const Taps* taps, const int64_t* at) {
    for (int64_t i = 0; i < g.groups; i++)
      correlate<T>(phase_grid(dx, g, at, g.c, i * c), dense(dy, g.out, g.o, i * o), taps, g.n, o, c, w + i * o, g.kernel, w_strides,
                   static_cast<const T*>(nullptr), static_cast<const Epilogue<T>*>(nullptr));
  });
}

}  // namespace pdl::PDL_ISA
