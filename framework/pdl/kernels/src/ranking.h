// Places of scores among scores: ranks of targets, the k highest of each row, and the k highest products of queries with a table's rows.
//
// Columns below `first` and those that a row excludes are not ranked. NaN is below every number. The k highest come from a heap whose root is the
// worst of them: a row is compared with the root a vector at a time, and few scores pass (about k log(columns / k) where they come in any order).
#pragma once
#include "dense.h"
#include "vec.h"

namespace pdl::PDL_ISA::ranking {

constexpr int64_t kGrain = 32768;  // scores that a thread should at least have

// Bit i: lane i of a is greater than that of b.
template <class T>
inline __attribute__((always_inline)) uint32_t greater_lanes(Vec<T> a, Vec<T> b) {
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
  else return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ);
#else
  typedef int64_t Words __attribute__((vector_size(PDL_VECTOR_BYTES), may_alias));
  const Mask<T> mask = a > b;
  const Words words = (Words)mask;
  int64_t any = 0;
  for (int i = 0; i < PDL_VECTOR_BYTES / 8; i++) any |= words[i];
  if (any == 0) return 0;
  uint32_t bits = 0;
  for (int i = 0; i < kLanes<T>; i++) bits |= (mask[i] != 0 ? 1u : 0u) << i;
  return bits;
#endif
}

// What a row does not rank: columns in ascending order.
struct Excluded {
  const int64_t *begin, *end;

  Excluded(const int64_t* start, const int64_t* columns, int64_t row) : begin(nullptr), end(nullptr) {
    if (start != nullptr) begin = columns + start[row], end = columns + start[row + 1];
  }

  bool holds(int64_t column) const {
    const int64_t *low = begin, *high = end;
    while (low < high) {
      const int64_t* middle = low + (high - low) / 2;
      if (*middle < column) low = middle + 1;
      else high = middle;
    }
    return low < end && *low == column;
  }
};

// above, equal OUT [rows]: how many ranked columns score more than the target, and how many others the same; -1 and 0 for a target that is not
// ranked itself, or whose score is NaN or -infinity.
//   scores IN [rows, columns], targets IN [rows] in [0, columns), start IN [rows + 1] or null, excluded IN ascending in each row
template <class T>
void count(int64_t* above, int64_t* equal, const T* scores, const int64_t* targets, int64_t rows, int64_t columns, int64_t first,
           const int64_t* start, const int64_t* excluded) {
  parallel(rows, kGrain / (columns + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const T* row = scores + r * columns;
      const T own = row[targets[r]];
      const Excluded out(start, excluded, r);
      if (targets[r] < first || !(own > -static_cast<T>(__builtin_inf())) || out.holds(targets[r])) {
        above[r] = -1, equal[r] = 0;
        continue;
      }
      const Vec<T> wide = splat<T>(own);
      Mask<T> more{}, same{};
      int64_t c = first, higher = 0, level = -1;  // the target is level with itself
      for (; c + kLanes<T> <= columns; c += kLanes<T>) {
        const Vec<T> v = load(row + c);
        more -= v > wide;
        same -= v == wide;
      }
      for (int lane = 0; lane < kLanes<T>; lane++) higher += more[lane], level += same[lane];
      for (; c < columns; c++) higher += row[c] > own, level += row[c] == own;
      for (const int64_t* x = out.begin; x < out.end; x++)
        if (*x >= first) higher -= row[*x] > own, level -= row[*x] == own;
      above[r] = higher, equal[r] = level;
    }
  });
}

template <class T>
struct Entry {
  T value;
  int64_t index;
};

// Of equal scores the lower column is the better.
template <class T>
inline bool worse(const Entry<T>& a, const Entry<T>& b) { return a.value < b.value || (a.value == b.value && a.index > b.index); }

// The best entries so far, at most k; the worst of them is entries[0].
template <class T>
struct Heap {
  Entry<T>* entries;
  int64_t k, size;

  T threshold() const { return size < k ? -static_cast<T>(__builtin_inf()) : entries[0].value; }

  void sink(int64_t at, const Entry<T>& e) {
    for (int64_t child; (child = 2 * at + 1) < size; at = child) {
      if (child + 1 < size && worse(entries[child + 1], entries[child])) child++;
      if (!worse(entries[child], e)) break;
      entries[at] = entries[child];
    }
    entries[at] = e;
  }

  void add(const Entry<T>& e) {
    if (size == k) {
      if (worse(entries[0], e)) sink(0, e);
      return;
    }
    int64_t at = size++;
    for (; at > 0 && worse(e, entries[(at - 1) / 2]); at = (at - 1) / 2) entries[at] = entries[(at - 1) / 2];
    entries[at] = e;
  }

  // Best first.
  void sort() {
    const int64_t all = size;
    while (size > 1) {
      const Entry<T> last = entries[--size], worst = entries[0];
      sink(0, last);
      entries[size] = worst;
    }
    size = all;
  }
};

// Adds the scores of columns [begin, begin + n) of a row, which lie at `scores`. Columns come in ascending order, so an equal score comes too late.
template <class T>
inline void offer(Heap<T>* heap, const T* scores, int64_t begin, int64_t n, const Excluded& out) {
  constexpr int lanes = kLanes<T>, vectors = 4;
  T threshold = heap->threshold();
  const auto take = [&](int64_t c) {
    if (!(scores[c] > threshold) || out.holds(begin + c)) return;
    heap->add({scores[c], begin + c});
    threshold = heap->threshold();
  };
  int64_t c = 0;
  for (; c + vectors * lanes <= n; c += vectors * lanes) {
    const Vec<T> least = splat<T>(threshold);
    uint32_t bits[vectors], any = 0;
    for (int v = 0; v < vectors; v++) any |= bits[v] = greater_lanes<T>(load(scores + c + v * lanes), least);
    if (any == 0) continue;
    for (int v = 0; v < vectors; v++)
      for (uint32_t left = bits[v]; left != 0; left &= left - 1) take(c + v * lanes + __builtin_ctz(left));
  }
  for (; c < n; c++) take(c);
}

template <class T>
void write(T* values, int64_t* indices, const Heap<T>& heap, int64_t none) {
  for (int64_t i = 0; i < heap.k; i++) {
    values[i] = i < heap.size ? heap.entries[i].value : -static_cast<T>(__builtin_inf());
    indices[i] = i < heap.size ? heap.entries[i].index : none;
  }
}

// values, indices OUT [rows, k]: the k highest ranked scores of each row above -infinity, best first, of equal ones the lower column; where there are
// fewer, -infinity and the column first - 1.    scores IN [rows, columns]; start and excluded as in `count`
template <class T>
void top(T* values, int64_t* indices, const T* scores, int64_t rows, int64_t columns, int64_t k, int64_t first, const int64_t* start,
         const int64_t* excluded) {
  parallel(rows, kGrain / (columns + 1) + 1, [=](int64_t begin, int64_t end) {
    Heap<T> heap{static_cast<Entry<T>*>(scratch(Slot::kRankingEntries, k * sizeof(Entry<T>))), k, 0};
    for (int64_t r = begin; r < end; r++) {
      heap.size = 0;
      offer(&heap, scores + r * columns + first, first, columns - first, Excluded(start, excluded, r));
      heap.sort();
      write(values + r * k, indices + r * k, heap, first - 1);
    }
  });
}

// The same of scores = queries table^T (+ bias), which are never all in memory: each thread takes some rows of the table, block by block.
//   queries IN [rows, inputs], table IN [columns, inputs], bias IN [columns] or null
template <class T>
void products(T* values, int64_t* indices, const T* queries, const T* table, const T* bias, int64_t rows, int64_t inputs, int64_t columns,
              int64_t k, int64_t first, const int64_t* start, const int64_t* excluded) {
  constexpr int64_t near = 256 * 1024 / sizeof(T), most = 128;  // a block of the table, and its scores for `most` queries, stay in a second-level cache
  const int64_t fit = near / (inputs > most ? inputs : most) / 64 * 64, block = fit > 64 ? fit : 64;
  const int64_t blocks = (columns - first + block - 1) / block, grain = 1 + (int64_t)(1 << 20) / (block * (inputs + 1) * (rows < most ? rows : most));
  const int parts = blocks > 0 ? parts_of(blocks, grain) : 0;
  Entry<T>* entries = static_cast<Entry<T>*>(scratch(Slot::kRankingEntries, (parts + 1) * rows * k * sizeof(Entry<T>)));
  int64_t* sizes = static_cast<int64_t*>(scratch(Slot::kRankingSizes, parts * rows * sizeof(int64_t)));
  parallel_parts(blocks, parts, [=](int64_t begin, int64_t end, int part) {
    T* scores = static_cast<T*>(scratch(Slot::kRankingScores, (rows < most ? rows : most) * block * sizeof(T)));
    const auto heap_of = [=](int64_t r) { return Heap<T>{entries + (part * rows + r) * k, k, sizes[part * rows + r]}; };
    for (int64_t r = 0; r < rows; r++) sizes[part * rows + r] = 0;
    for (int64_t b = begin; b < end; b++) {
      const int64_t c = first + b * block, width = columns - c < block ? columns - c : block;
      for (int64_t r = 0; r < rows; r += most) {
        const int64_t here = rows - r < most ? rows - r : most, none[3] = {};
        const Product<T> p{here, width, inputs, scores, width, queries + r * inputs, inputs, 1, table + c * inputs, 1, inputs,
                           bias != nullptr ? bias + c : nullptr};
        matmul(p, 1, none);
        for (int64_t i = 0; i < here; i++) {
          Heap<T> heap = heap_of(r + i);
          offer(&heap, scores + i * width, c, width, Excluded(start, excluded, r + i));
          sizes[part * rows + r + i] = heap.size;
        }
      }
    }
  });
  parallel(rows, kGrain / (parts * k + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      Heap<T> best{entries + (parts * rows + r) * k, k, 0};
      for (int part = 0; part < parts; part++)
        for (int64_t i = 0; i < sizes[part * rows + r]; i++) best.add(entries[(part * rows + r) * k + i]);
      best.sort();
      write(values + r * k, indices + r * k, best, first - 1);
    }
  });
}

}  // namespace pdl::PDL_ISA::ranking
