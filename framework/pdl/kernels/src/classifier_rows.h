// classifier.h for tables whose rows are classes: w [classes, inputs], as item tables and tied embeddings are.
//
// Everything lies with the rows of x side by side in the lanes: scores are [class, row of x]. So w is read row by row as it lies, without
// packing: in front of x^T for the scores, behind their gradient for dx; a row of dw is a row of the result; and maxima and sums over the
// classes go down the lanes. Rows of x are taken in groups of `width`.
#pragma once
#include "classifier.h"

namespace pdl::PDL_ISA {
namespace classifier {

// The rows [first, first + here) of x, and the scores of one block of classes for them: [block.width, p.width].
template <class T>
struct Group {
  int64_t first, here;
  T* scores;
  Group(const Classifier<T>& p, const T* scores, const Block<T>& block, int64_t number)
      : first(number * p.width), here(min64(p.width, p.rows - first)),
        scores(const_cast<T*>(scores) + (number * p.classes + block.begin) * p.width) {}
};

// Memory of the next block, asked for piece by piece while this one is multiplied: whole tables come from beyond every cache, and what is
// one stream to the eye are many short ones to the hardware.
struct Ahead {
  const char *at, *end;
  int64_t each;
  template <class T>
  Ahead(const T* begin, const T* end, int64_t pieces)
      : at(reinterpret_cast<const char*>(begin)), end(reinterpret_cast<const char*>(end)), each(((end - begin) * sizeof(T) / 64 + pieces) / pieces) {}
  PDL_INLINE void read() {
    for (int64_t i = 0; i < each && at < end; i++, at += 64) __builtin_prefetch(at, 0, 2);
  }
  PDL_INLINE void write() {
    for (int64_t i = 0; i < each && at < end; i++, at += 64) __builtin_prefetch(at, 1, 2);
  }
};

// Integers in the lanes of T.
template <class T>
struct NumberOf {
  typedef int32_t type;
};
template <>
struct NumberOf<double> {
  typedef int64_t type;
};
template <class T>
using Number = typename NumberOf<T>::type;

// Labels of the rows of x and what the labels' classes are, [groups * width] each: -1 where a label is ignored, and behind the last row.
template <class T>
struct Owners {
  Number<T> *place, *id;
  Owners(const Classifier<T>& p, int64_t wide) : place(nullptr), id(nullptr) {
    if (p.ids == nullptr) return;
    place = static_cast<Number<T>*>(scratch(Slot::kClassifierOwners, 2 * wide * sizeof(T))), id = place + wide;
    for (int64_t r = 0; r < wide; r++) {
      const bool counts = r < p.rows && p.labels[r] != p.ignored;
      place[r] = counts ? static_cast<Number<T>>(p.labels[r]) : -1;
      id[r] = counts ? static_cast<Number<T>>(p.ids[p.labels[r]]) : -1;
    }
  }
};

// Scores of classes that take no part become -inf: all of those with a negative id, and where a class is what the row's label is, but not the
// label itself: the item looked for, drawn once more as one to compare with.    place, id IN [width]: `Owners`
template <class T>
void leave_out(T* scores, const Block<T>& block, int64_t width, const int64_t* ids, const Number<T>* place, const Number<T>* id) {
  const Vec<T> lowest = splat<T>(-static_cast<T>(__builtin_inf()));
  for (int64_t c = 0; c < block.width; c++)
    for (int64_t v = 0; v < width; v += kLanes<T>) {
      const Mask<T> out = (*reinterpret_cast<const Mask<T>*>(id + v) == static_cast<Number<T>>(ids[c])) &
                          (*reinterpret_cast<const Mask<T>*>(place + v) != static_cast<Number<T>>(block.begin + c));
      const Vec<T> s = load(scores + c * width + v);
      store(scores + c * width + v, ids[c] < 0 ? lowest : out ? lowest : s);
    }
}

// scores += bias; the maximum of each column, the sum of e^(score - maximum), and the sum of the scores.    most, exponentials, sums OUT [width]
template <class T>
void column_summaries(T* scores, int64_t classes, int64_t width, const T* bias, T* most, T* exponentials, T* sums) {
  const Vec<T> lowest = splat<T>(-static_cast<T>(__builtin_inf()));
  for (int64_t v = 0; v < width; v += kLanes<T>) {
    Vec<T> high = lowest, all{}, total{};
    for (int64_t c = 0; c < classes; c++) {
      Vec<T> s = load(scores + c * width + v);
      if (bias != nullptr) store(scores + c * width + v, s += bias[c]);
      high = at_least<T>(s, high);
      all += s;
    }
    const Vec<T> shift = high == lowest ? Vec<T>{} : high;
    for (int64_t c = 0; c < classes; c++) total += exp_negative<T>(load(scores + c * width + v) - shift);
    store(most + v, high);
    store(exponentials + v, total);
    store(sums + v, all);
  }
}

template <class T>
void forward_rows(const Classifier<T>& p) {
  constexpr int64_t panel = kPanel<T>;
  const int64_t blocks = (p.classes + p.block - 1) / p.block, groups = (p.rows + p.width - 1) / p.width, wide = groups * p.width;
  const int64_t panels = (p.width + panel - 1) / panel, size = p.inputs * panel;
  T* x = static_cast<T*>(scratch(Slot::kClassifierInputs, groups * panels * size * sizeof(T)));  // x^T in panels [inputs, panel], zeros behind the last row
  for (int64_t i = 0; i < groups * panels; i++) {
    const int64_t first = i / panels * p.width + i % panels * panel, here = max64(0, min64(panel, p.rows - first));
    pack_panel(x + i * size, p.x + (here == 0 ? 0 : first) * p.inputs, p.inputs, static_cast<int>(here), static_cast<int>(panel), int64_t(1), p.inputs);
  }
  const Summaries<T> of(blocks, wide);
  const Owners<T> owners(p, wide);
  parallel(blocks * groups, kParallelWork / max64(1, p.block * p.inputs * p.width) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t number = item / groups;
      const Block<T> block(p, number);
      const Group<T> group(p, p.scores, block, item % groups);
      const int64_t tiles = panels * ((block.width + 15) / 16), next = min64(p.classes, block.begin + 2 * p.block);
      const T* table = p.w + (block.begin + block.width) * p.inputs;
      Ahead rows(table, item % groups == 0 ? p.w + next * p.inputs : table, tiles);
      Ahead stores(group.scores + block.width * p.width, group.scores + (next - block.begin) * p.width, tiles);
      for (int64_t i = 0; i < panels; i++) {
        const int columns = static_cast<int>(min64(panel, p.width - i * panel));
        const int64_t step = even_rows(block.width, max_rows<T>(columns));
        const T* b = x + (item % groups * panels + i) * size;
        for (int64_t c = 0; c < block.width; c += step) {
          const T* a = p.w + (block.begin + c) * p.inputs;
          rows.read(), stores.write();
          const Tile<T> tile{&a, &b, 1, p.inputs, p.inputs, panel, group.scores + c * p.width + i * panel, p.width, nullptr, false};
          tile_kernel<T, false>(static_cast<int>(min64(step, block.width - c)), columns, tile);
        }
      }
      if (owners.place != nullptr)
        leave_out(group.scores, block, p.width, p.ids + block.begin, owners.place + group.first, owners.id + group.first);
      const int64_t at = number * wide + group.first;
      column_summaries(group.scores, block.width, p.width, p.bias == nullptr ? nullptr : p.bias + block.begin, of.most + at, of.exponentials + at,
                       of.sums + at);
      for (int64_t r = 0; r < group.here; r++) {
        const int64_t label = p.labels[group.first + r] - block.begin;
        if (label >= 0 && label < block.width) of.own[group.first + r] = group.scores[label * p.width + r];
      }
    }
  });
  losses(p, of);
}

// d = f (softmax - (1 - s) [class = label] - s / classes), zeros for ignored labels and behind the last row    d OUT [block.width, width]
template <class T>
void score_gradients(T* d, const Classifier<T>& p, const Block<T>& block, const Group<T>& group) {
  const T factor = static_cast<T>(p.factor), rest = static_cast<T>(1 - p.smoothing);
  const T spread = static_cast<T>(p.smoothing / static_cast<double>(p.classes));
  for (int64_t v = 0; v < p.width; v += kLanes<T>) {
    Vec<T> lse{}, f{};
    Mask<T> counts{};
    for (int64_t i = 0; i < min64(kLanes<T>, group.here - v); i++) {
      const int64_t row = group.first + v + i;
      counts[i] = p.labels[row] == p.ignored ? 0 : -1;
      f[i] = p.g[p.shared ? 0 : row] * factor;
      lse[i] = p.lse_in[row];
    }
    for (int64_t c = 0; c < block.width; c++) {
      const Vec<T> all = exp_negative<T>(load(group.scores + c * p.width + v) - lse) * f - f * spread;
      store(d + c * p.width + v, counts ? all : Vec<T>{});
    }
  }
  for (int64_t r = 0; r < group.here; r++) {
    const int64_t row = group.first + r, label = p.labels[row] - block.begin;
    if (p.labels[row] != p.ignored && label >= 0 && label < block.width) d[label * p.width + r] -= p.g[p.shared ? 0 : row] * factor * rest;
  }
}

// c [rows, inputs] (+)= a b for one block or group: a in the row form or (kColumns) the column form, b [k, inputs] as it lies
template <class T, bool kColumns>
void onto_inputs(T* c, const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t rows, int64_t k, int64_t inputs, bool accumulate,
                 Ahead& reads, Ahead& writes) {
  constexpr int64_t panel = kPanel<T>;
  for (int64_t i = 0; i < inputs; i += panel) {
    const int columns = static_cast<int>(min64(panel, inputs - i));
    const int64_t step = even_rows(rows, max_rows<T>(columns));
    const T* right = b + i;
    for (int64_t r = 0; r < rows; r += step) {
      const T* left = a + (kColumns ? r : r * a_stride);
      reads.read(), writes.write();
      const Tile<T> tile{&left, &right, 1, k, a_stride, b_stride, c + r * inputs + i, inputs, nullptr, accumulate};
      tile_kernel<T, kColumns>(static_cast<int>(min64(step, rows - r)), columns, tile);
    }
  }
}

template <class T>
void backward_rows(const Classifier<T>& p) {
  constexpr int64_t panel = kPanel<T>;
  const int64_t blocks = (p.classes + p.block - 1) / p.block, groups = (p.rows + p.width - 1) / p.width, stride = row_of<T>(p.inputs);
  const int64_t grain = kParallelWork / max64(1, p.block * p.inputs * p.rows) + 1, share = p.rows * p.inputs;
  const int parts = parts_of(blocks, grain);
  T* shares = static_cast<T*>(scratch(Slot::kClassifierInputs, parts * share * sizeof(T)));  // of dx, one for each part
  T* x = static_cast<T*>(scratch(Slot::kClassifierRows, (p.rows * stride + panel) * sizeof(T)));
  for (int64_t r = 0; r < p.rows; r++) memcpy(x + r * stride, p.x + r * p.inputs, p.inputs * sizeof(T));
  parallel_parts(blocks, parts, [&](int64_t begin, int64_t end, int part) {
    T* d = static_cast<T*>(scratch(Slot::kClassifierBlock, (p.block * p.width + p.block * p.inputs + panel) * sizeof(T)));
    for (int64_t number = begin; number < end; number++) {
      const Block<T> block(p, number);
      const T* w = p.w + block.begin * p.inputs;
      if (!Edge<T, PDL_VECTOR_BYTES>::kMasked && number == blocks - 1)  // a panel may reach beyond the last row
        w = static_cast<const T*>(memcpy(d + p.block * p.width, w, block.width * p.inputs * sizeof(T)));
      const int64_t next = min64(p.classes, block.begin + 2 * p.block), after = block.begin + block.width;
      const int64_t panels = (p.inputs + panel - 1) / panel, tiles = panels * ((block.width + 15) / 16);
      Ahead table(p.w + after * p.inputs, p.w + next * p.inputs, panels * (p.width / 16)), result(p.dw + after * p.inputs, p.dw + next * p.inputs, tiles);
      for (int64_t i = 0; i < groups; i++) {
        const Group<T> group(p, p.scores_in, block, i);
        Ahead scores(group.scores + block.width * p.width, group.scores + (next - block.begin) * p.width, tiles), none(p.x, p.x, 1);
        score_gradients(d, p, block, group);
        if (p.dbias != nullptr)
          for (int64_t c = 0; c < block.width; c++) {
            Vec<T> sum{};
            for (int64_t v = 0; v < p.width; v += kLanes<T>) sum += load(d + c * p.width + v);
            p.dbias[block.begin + c] = (i == 0 ? T(0) : p.dbias[block.begin + c]) + across_sum<T>(sum);
          }
        onto_inputs<T, true>(shares + part * share + group.first * p.inputs, d, p.width, w, p.inputs, group.here, block.width, p.inputs,
                             number != begin, table, none);
        onto_inputs<T, false>(p.dw + block.begin * p.inputs, d, p.width, x + group.first * stride, stride, block.width, group.here, p.inputs, i != 0,
                              scores, result);
      }
    }
  });
  sum_shares(p, shares, parts);
}

}  // namespace classifier

template <class T>
void classifier_forward(const Classifier<T>& p) { p.width != 0 ? classifier::forward_rows(p) : classifier::forward(p); }
template <class T>
void classifier_backward(const Classifier<T>& p) { p.width != 0 ? classifier::backward_rows(p) : classifier::backward(p); }

}  // namespace pdl::PDL_ISA
