// Linear layer and cross-entropy in one, for many classes: scores = x w + bias, loss = -log softmax(scores)[label], and the gradients.
//
// Classes are taken in blocks. A block of w is packed, multiplied and used while it is in the cache: forward, each row's maximum and sum of
// exponentials are found beside the product; backward, the gradient of the scores exists for one block at a time, and from it come that block of
// dw, dbias and its share of dx. So w is read once each way, and no matrix as large as the scores is written but the scores themselves.
#pragma once
#include "dense.h"
#include "gemm.h"
#include "vmath.h"

namespace pdl::PDL_ISA {
namespace classifier {

constexpr int64_t kRows = 128;  // rows that a block of w is multiplied with at a time

template <class T>
PDL_INLINE Vec<T> get(const T* p, int64_t m) { return m == kLanes<T> ? load(p) : load_tail(p, m); }
template <class T>
PDL_INLINE void set(T* p, Vec<T> v, int64_t m) {
  if (m == kLanes<T>)
    store(p, v);
  else
    store_tail(p, v, m);
}
// v with `other` in the lanes from m on
template <class T>
PDL_INLINE Vec<T> within(Vec<T> v, int64_t m, T other) {
  if (m < kLanes<T>)
    for (int64_t i = m; i < kLanes<T>; i++) v[i] = other;
  return v;
}
template <class T, class F>
PDL_INLINE T over_lanes(Vec<T> v, const F& f) {
  T found = v[0];
  for (int i = 1; i < kLanes<T>; i++) found = f(found, v[i]);
  return found;
}

// Rows beside one another: an odd number of cache lines apart, so that the rows of a tile do not share a set of the cache.
template <class T>
inline int64_t row_of(int64_t width) {
  constexpr int64_t line = 64 / sizeof(T);
  return ((width + line - 1) / line | 1) * line;
}

template <class T>
struct Block {
  int64_t begin, width, panels;
  Block(const Classifier<T>& p, int64_t number)
      : begin(number * p.block), width(min64(p.block, p.classes - begin)), panels((width + kPanel<T> - 1) / kPanel<T>) {}
  int columns(int64_t panel) const { return static_cast<int>(min64(kPanel<T>, width - panel * kPanel<T>)); }
};

// The block of w in panels [inputs, width of the panel], read row by row    packed OUT [panels][inputs * kPanel]
template <class T>
void pack_block(T* packed, const Classifier<T>& p, const Block<T>& block) {
  constexpr int64_t panel = kPanel<T>;
  const int64_t whole = block.width / panel, size = p.inputs * panel;
  for (int64_t k = 0; k < p.inputs; k++) {
    const T* from = p.w + k * p.classes + block.begin;
    for (int64_t i = 0; i < whole; i++) memcpy(packed + i * size + k * panel, from + i * panel, panel * sizeof(T));
  }
  if (whole < block.panels)
    pack_panel(packed + whole * size, p.w + block.begin + whole * panel, p.inputs, block.columns(whole), panel_width<T>(block.columns(whole)),
               p.classes, int64_t(1));
}

// One row of scores of a block: its maximum, the sum of e^(score - maximum), and the sum of the scores.
template <class T>
PDL_INLINE void summary(const T* scores, int64_t width, T* most, T* exponentials, T* sum) {
  const T lowest = -static_cast<T>(__builtin_inf());
  Vec<T> high = splat<T>(lowest), all{}, total{};
  for (int64_t j = 0; j < width; j += kLanes<T>) {
    const int64_t m = min64(kLanes<T>, width - j);
    const Vec<T> s = get(scores + j, m);
    high = at_least<T>(within<T>(s, m, lowest), high);
    all += s;
  }
  const T found = over_lanes<T>(high, [](T a, T b) { return a < b ? b : a; }), shift = found == lowest ? T(0) : found;
  for (int64_t j = 0; j < width; j += kLanes<T>) {
    const int64_t m = min64(kLanes<T>, width - j);
    total += exp_negative<T>(within<T>(get(scores + j, m), m, lowest) - shift);
  }
  *most = found;
  *exponentials = over_lanes<T>(total, [](T a, T b) { return a + b; });
  *sum = over_lanes<T>(all, [](T a, T b) { return a + b; });
}

// What forward finds of the scores, for each block of classes and each of `wide` rows, and the scores of the labels. Zeros at first.
template <class T>
struct Summaries {
  int64_t blocks, wide;
  T *most, *exponentials, *sums;  // [blocks, wide] each
  T* own;                         // [wide]
  Summaries(int64_t blocks, int64_t wide) : blocks(blocks), wide(wide) {
    const int64_t size = (3 * blocks + 1) * wide;
    most = static_cast<T*>(scratch(Slot::kClassifierRows, size * sizeof(T)));
    exponentials = most + blocks * wide, sums = exponentials + blocks * wide, own = sums + blocks * wide;
    for (int64_t i = 0; i < size; i++) most[i] = T(0);
  }
};

// lse and loss of all rows
template <class T>
void losses(const Classifier<T>& p, const Summaries<T>& of) {
  const T spread = static_cast<T>(p.smoothing / static_cast<double>(p.classes)), rest = static_cast<T>(1 - p.smoothing);
  for (int64_t r = 0; r < p.rows; r += kLanes<T>) {
    Vec<T> high = load(of.most + r), total{}, sum{};
    for (int64_t i = 1; i < of.blocks; i++) high = at_least<T>(load(of.most + i * of.wide + r), high);
    for (int64_t i = 0; i < of.blocks; i++) {
      total += load(of.exponentials + i * of.wide + r) * exp_negative<T>(load(of.most + i * of.wide + r) - high);
      sum += load(of.sums + i * of.wide + r);
    }
    const Vec<T> lse = high + vlog<T>(total);
    Vec<T> loss = (lse - load(of.own + r)) * rest;
    if (p.smoothing != 0) loss += (lse * static_cast<T>(p.classes) - sum) * spread;
    for (int64_t i = 0; i < min64(kLanes<T>, p.rows - r); i++) {
      p.lse[r + i] = lse[i];
      p.loss[r + i] = p.labels[r + i] == p.ignored ? T(0) : loss[i];
    }
  }
}

// dx = the sum of its shares [parts, rows, inputs]
template <class T>
void sum_shares(const Classifier<T>& p, const T* shares, int parts) {
  const int64_t share = p.rows * p.inputs;
  parallel(share, kParallelWork, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += kLanes<T>) {
      const int64_t m = min64(kLanes<T>, end - j);
      Vec<T> sum = get(shares + j, m);
      for (int part = 1; part < parts; part++) sum += get(shares + part * share + j, m);
      set(p.dx + j, sum, m);
    }
  });
}

template <class T>
void forward(const Classifier<T>& p) {
  constexpr int64_t panel = kPanel<T>;
  const int64_t blocks = (p.classes + p.block - 1) / p.block, groups = (p.rows + kRows - 1) / kRows, stride = row_of<T>(p.inputs);
  const Summaries<T> of(blocks, round_up(p.rows, kLanes<T>));
  T* x = static_cast<T*>(scratch(Slot::kClassifierInputs, p.rows * stride * sizeof(T)));
  for (int64_t r = 0; r < p.rows; r++) memcpy(x + r * stride, p.x + r * p.inputs, p.inputs * sizeof(T));
  parallel(blocks * groups, kParallelWork / max64(1, p.block * p.inputs * min64(p.rows, kRows)) + 1, [&](int64_t begin, int64_t end) {
    T* packed = static_cast<T*>(scratch(Slot::kClassifierBlock, (p.block + panel) * (p.inputs + 1) * sizeof(T)));
    T* bias = packed + (p.block + panel) * p.inputs;
    for (int64_t item = begin; item < end; item++) {
      const int64_t number = item / groups, first = item % groups * kRows, rows = min64(kRows, p.rows - first);
      const Block<T> block(p, number);
      if (item == begin || first == 0) {
        pack_block(packed, p, block);
        for (int64_t j = 0; j < block.panels * panel; j++) bias[j] = p.bias != nullptr && j < block.width ? p.bias[block.begin + j] : T(0);
      }
      T* scores = p.scores + (number * p.rows + first) * p.block;
      for (int64_t i = 0; i < block.panels; i++) {
        const int columns = block.columns(i);
        const int64_t step = even_rows(rows, max_rows<T>(columns));
        const T* b = packed + i * p.inputs * panel;
        for (int64_t r = 0; r < rows; r += step) {
          const T* a = x + (first + r) * stride;
          const Tile<T> tile{&a, &b, 1, p.inputs, stride, panel_width<T>(columns), scores + r * p.block + i * panel, p.block, bias + i * panel, false};
          tile_kernel<T, false>(static_cast<int>(min64(step, rows - r)), columns, tile);
        }
      }
      for (int64_t r = 0; r < rows; r++) {
        const int64_t at = number * of.wide + first + r, label = p.labels[first + r] - block.begin;
        T* row = scores + r * p.block;
        summary(row, block.width, of.most + at, of.exponentials + at, of.sums + at);
        if (label >= 0 && label < block.width) of.own[first + r] = row[label];
        for (int64_t j = block.width; j < p.block; j++) row[j] = T(0);
      }
    }
  });
  losses(p, of);
}

// The gradient of one row's scores in a block: d = f (softmax - (1 - s) [class = label] - s / classes)
template <class T>
PDL_INLINE void score_gradient(T* d, const T* scores, int64_t width, T lse, T f, T spread) {
  for (int64_t j = 0; j < width; j += kLanes<T>) {
    const int64_t m = min64(kLanes<T>, width - j);
    set(d + j, exp_negative<T>(get(scores + j, m) - lse) * f - spread, m);
  }
}

template <class T>
void backward(const Classifier<T>& p) {
  constexpr int64_t panel = kPanel<T>;
  const int64_t blocks = (p.classes + p.block - 1) / p.block, wide = row_of<T>(p.block), input_panels = (p.inputs + panel - 1) / panel;
  const int64_t grain = kParallelWork / max64(1, p.block * p.inputs * p.rows) + 1, share = p.rows * p.inputs;
  const int parts = parts_of(blocks, grain);
  T* shares = static_cast<T*>(scratch(Slot::kClassifierInputs, parts * share * sizeof(T)));  // of dx, one for each part
  const T factor = static_cast<T>(p.factor), rest = static_cast<T>(1 - p.smoothing);
  const T spread = static_cast<T>(p.smoothing / static_cast<double>(p.classes));
  parallel_parts(blocks, parts, [&](int64_t begin, int64_t end, int part) {
    T* transposed = static_cast<T*>(scratch(Slot::kClassifierBlock, (input_panels * panel * p.block + (kRows + 1) * wide) * sizeof(T)));
    T* d = transposed + input_panels * panel * p.block;
    T* dx = shares + part * share;
    for (int64_t number = begin; number < end; number++) {
      const Block<T> block(p, number);
      for (int64_t i = 0; i < input_panels; i++) {
        const int columns = static_cast<int>(min64(panel, p.inputs - i * panel));
        pack_panel(transposed + i * panel * p.block, p.w + i * panel * p.classes + block.begin, block.width, columns, panel_width<T>(columns),
                   int64_t(1), p.classes);
      }
      for (int64_t first = 0; first < p.rows; first += kRows) {
        const int64_t rows = min64(kRows, p.rows - first);
        for (int64_t r = 0; r < rows; r++) {
          const int64_t row = first + r, label = p.labels[row] - block.begin;
          const T f = p.labels[row] == p.ignored ? T(0) : p.g[p.shared ? 0 : row] * factor;
          score_gradient(d + r * wide, p.scores_in + (number * p.rows + row) * p.block, block.width, p.lse_in[row], f, f * spread);
          if (p.labels[row] == p.ignored) memset(d + r * wide, 0, block.width * sizeof(T));
          else if (label >= 0 && label < block.width) d[r * wide + label] -= f * rest;
        }
        if (p.dbias != nullptr)
          for (int64_t j = 0; j < block.width; j += kLanes<T>) {
            const int64_t m = min64(kLanes<T>, block.width - j);
            Vec<T> sum = first == 0 ? Vec<T>{} : get(p.dbias + block.begin + j, m);
            for (int64_t r = 0; r < rows; r++) sum += get(d + r * wide + j, m);
            set(p.dbias + block.begin + j, sum, m);
          }
        for (int64_t i = 0; i < input_panels; i++) {  // dx += d w^T
          const int columns = static_cast<int>(min64(panel, p.inputs - i * panel));
          const int64_t step = even_rows(rows, max_rows<T>(columns));
          const T* b = transposed + i * panel * p.block;
          for (int64_t r = 0; r < rows; r += step) {
            const T* a = d + r * wide;
            const Tile<T> tile{&a, &b, 1, block.width, wide, panel_width<T>(columns), dx + (first + r) * p.inputs + i * panel, p.inputs,
                               nullptr, number != begin};
            tile_kernel<T, false>(static_cast<int>(min64(step, rows - r)), columns, tile);
          }
        }
        const int64_t step = even_rows(p.inputs, max_rows<T>(static_cast<int>(min64(block.width, panel))));
        for (int64_t c = 0; c < p.inputs; c += step)  // dw = x^T d
          for (int64_t i = 0; i < block.panels; i++) {
            const T *a = p.x + first * p.inputs + c, *b = d + i * panel;
            const Tile<T> tile{&a, &b, 1, rows, p.inputs, wide, p.dw + c * p.classes + block.begin + i * panel, p.classes, nullptr, first != 0};
            tile_kernel<T, true>(static_cast<int>(min64(step, p.inputs - c)), block.columns(i), tile);
          }
      }
    }
  });
  sum_shares(p, shares, parts);
}

}  // namespace classifier

}  // namespace pdl::PDL_ISA
