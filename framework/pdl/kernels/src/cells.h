// Recurrent layers: all steps of one direction in one call, forward and backward.
//
// The input's part of the gates comes in for all steps (one large product made it). A step multiplies the state with w, which is packed once
// for all steps, a tile at a time, and applies the cell to the tile while it is in the first cache. Samples are independent, so threads take
// their own rows through all steps; where w is too large for one core's cache or the rows are few, they take units of the state instead and
// meet after every step. Backward is one sweep that stores the gradients of the gates; what the weights get is one product over all steps.
#pragma once
#include "dense.h"
#include "gemm.h"
#include "vmath.h"

namespace pdl::PDL_ISA {

namespace cells {

constexpr int64_t kGroup = 56;               // rows that share one pass over w: their tiles stay in the first cache
constexpr int64_t kOwnCache = 512 * 1024;    // bytes of w that one core keeps close
constexpr int64_t kMeetingWork = 64 * 1024;  // multiply-adds of a thread and step that outweigh a meeting

template <class T>
PDL_INLINE Vec<T> get(const T* p, int64_t count) { return count == kLanes<T> ? load(p) : load_tail(p, count); }
template <class T>
PDL_INLINE void set(T* p, Vec<T> v, int64_t count) {
  if (count == kLanes<T>)
    store(p, v);
  else
    store_tail(p, v, count);
}

// The cells. `x` are the gates' parts from the input, `p` those from the state (with its bias), h and c the state (in: before, out: after).
// kActs values a unit are kept for the gradient, `a`. Backward, dh and dc go from the gradient of the state after the step to that of the
// state before it, less what comes through p; d is the gradient of x, e that of p.
template <class T>
struct Rnn {  // h' = tanh(x + p)
  static constexpr int kGates = 1, kActs = 1;
  static constexpr bool kHasC = false, kOwnLast = false;
  using V = Vec<T>;
  static PDL_INLINE void forward(const V* x, const V* p, V& h, V&, V* a) { h = a[0] = vtanh<T>(x[0] + p[0]); }
  static PDL_INLINE void backward(const V* a, V, V& dh, V&, V* d, V* e) {
    d[0] = e[0] = dh * (T(1) - a[0] * a[0]);
    dh = V{};
  }
};

template <class T>
struct Gru {  // r, z, n: n = tanh(x_n + s(x_r + p_r) p_n), h' = n + s(x_z + p_z) (h - n)
  static constexpr int kGates = 3, kActs = 4;
  static constexpr bool kHasC = false, kOwnLast = true;  // the last gate's p has a gradient of its own
  using V = Vec<T>;
  static PDL_INLINE void forward(const V* x, const V* p, V& h, V&, V* a) {
    a[0] = vsigmoid<T>(x[0] + p[0]), a[1] = vsigmoid<T>(x[1] + p[1]), a[3] = p[2];
    a[2] = vtanh<T>(x[2] + a[0] * p[2]);
    h = a[2] + a[1] * (h - a[2]);
  }
  static PDL_INLINE void backward(const V* a, V before, V& dh, V&, V* d, V* e) {
    const V r = a[0], z = a[1], n = a[2];
    d[2] = dh * (T(1) - z) * (T(1) - n * n);
    d[1] = e[1] = dh * (before - n) * z * (T(1) - z);
    d[0] = e[0] = d[2] * a[3] * r * (T(1) - r);
    e[2] = d[2] * r;
    dh = dh * z;
  }
};

template <class T>
struct Lstm {  // i, f, g, o: c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c')
  static constexpr int kGates = 4, kActs = 5;
  static constexpr bool kHasC = true, kOwnLast = false;
  using V = Vec<T>;
  static PDL_INLINE void forward(const V* x, const V* p, V& h, V& c, V* a) {
    a[0] = vsigmoid<T>(x[0] + p[0]), a[1] = vsigmoid<T>(x[1] + p[1]), a[2] = vtanh<T>(x[2] + p[2]), a[3] = vsigmoid<T>(x[3] + p[3]);
    a[4] = c;
    c = a[1] * c + a[0] * a[2];
    h = a[3] * vtanh<T>(c);
  }
  static PDL_INLINE void backward(const V* a, V, V& dh, V& dc, V* d, V* e) {
    const V i = a[0], f = a[1], g = a[2], o = a[3], squashed = vtanh<T>(f * a[4] + i * g);
    const V through = dc + dh * o * (T(1) - squashed * squashed);
    d[0] = e[0] = through * g * i * (T(1) - i);
    d[1] = e[1] = through * a[4] * f * (T(1) - f);
    d[2] = e[2] = through * i * (T(1) - g * g);
    d[3] = e[3] = dh * squashed * o * (T(1) - o);
    dh = V{};
    dc = through * f;
  }
};

// Rows of a state beside one another: an odd number of cache lines apart, so that a tile's rows do not share a set of the cache.
template <class T>
inline int64_t row_of(int64_t width) {
  constexpr int64_t line = 64 / sizeof(T);
  return ((width + line - 1) / line | 1) * line;
}

// Panels of a weight [k, blocks * gates] and where they are: unit block by unit block, gate by gate.
template <class T>
struct Panels {
  T *b, *bias;
  int64_t k, units, blocks, size;
  int gates;
  int columns(int64_t block) const { return static_cast<int>(min64(kPanel<T>, units - block * kPanel<T>)); }
  const T* at(int64_t block, int gate) const { return b + (block * gates + gate) * size; }
  const T* bias_at(int64_t block, int gate) const { return bias == nullptr ? nullptr : bias + (block * gates + gate) * kPanel<T>; }
};

// Packs element (k, gate, unit) = w[k * row + gate * units + unit * column].
template <class T>
Panels<T> pack(const T* w, const T* bias, int64_t k, int64_t units, int gates, int64_t row, int64_t column) {
  Panels<T> p{nullptr, nullptr, k, units, (units + kPanel<T> - 1) / kPanel<T>, round_up(k * kPanel<T>, 16), gates};
  const int64_t panels = p.blocks * gates;
  p.b = static_cast<T*>(scratch(Slot::kCellWeights, (panels * (p.size + kPanel<T>) + kPanel<T>) * sizeof(T)));
  if (bias != nullptr) p.bias = p.b + panels * p.size;
  parallel(panels, max64(1, kParallelWork / max64(1, p.size)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t block = i / gates, gate = i % gates, unit = block * kPanel<T>;
      const int columns = p.columns(block);
      pack_panel(p.b + i * p.size, w + gate * units + unit * column, k, columns, panel_width<T>(columns), row, column);
      if (bias == nullptr) continue;
      for (int j = 0; j < kPanel<T>; j++) p.bias[i * kPanel<T> + j] = j < columns ? bias[gate * units + unit + j] : T(0);
    }
  });
  return p;
}

// c [rows, columns] (+)= a @ panel (+ bias), in tiles
template <class T>
PDL_INLINE void multiply(T* c, int64_t c_stride, const T* a, int64_t a_stride, int64_t rows, const Panels<T>& w, int64_t block, int gate,
                         bool accumulate) {
  const int columns = w.columns(block);
  const T* b = w.at(block, gate);
  const int64_t step = even_rows(rows, max_rows<T>(columns));
  for (int64_t row = 0; row < rows; row += step) {
    const T* from = a + row * a_stride;
    const Tile<T> tile{&from, &b, 1, w.k, a_stride, panel_width<T>(columns), c + row * c_stride, c_stride, w.bias_at(block, gate), accumulate};
    tile_kernel<T, false>(static_cast<int>(min64(step, rows - row)), columns, tile);
  }
}

// c[gate] = a [1, k] @ the gates' panels of a block (+ bias): one row alone would wait for every sum, so all gates are summed at once.
// Where a panel is narrower than a vector, what is behind its columns means nothing.
template <class T, int gates, int vectors>
PDL_INLINE void multiply_row(T* const* c, const T* a, const Panels<T>& w, int64_t block, int width) {
  constexpr int lanes = kLanes<T>;
  Vec<T> sums[gates][vectors];
  for (int g = 0; g < gates; g++)
    for (int v = 0; v < vectors; v++) sums[g][v] = w.bias == nullptr ? Vec<T>{} : load(w.bias_at(block, g) + v * lanes);
  const T* b = w.at(block, 0);
  for (int64_t k = 0; k < w.k; k++, b += width) {
    const Vec<T> x = splat(a[k]);
    for (int g = 0; g < gates; g++)
      for (int v = 0; v < vectors; v++) sums[g][v] += x * load(b + g * w.size + v * lanes);
  }
  for (int g = 0; g < gates; g++)
    for (int v = 0; v < vectors; v++) store(c[g] + v * lanes, sums[g][v]);
}

// Calls body(pass, first row, last row, block of units) for passes 0, 1, ...; a pass of some rows starts when all blocks of the one before
// are done for them. Passes go to and fro over the blocks, so that the end of w, still in the cache, serves the next one first.
template <class T, class F>
void walk(const Recurrence<T>& r, int gates, int64_t passes, int64_t blocks, const F& body) {
  const int64_t threads = num_threads(), work = gates * r.hidden * (r.hidden + 32), own = (r.n + threads - 1) / threads;
  const bool crowded = gates * r.hidden * r.hidden * static_cast<int64_t>(sizeof(T)) > kOwnCache || own < 8;
  if (threads > 1 && crowded && blocks >= threads && r.n * work / threads >= kMeetingWork) {
    const int64_t group = even_rows(r.n, kGroup);
    for (int64_t pass = 0; pass < passes; pass++)
      parallel(blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; b++)
          for (int64_t row = 0, block = pass % 2 ? begin + end - 1 - b : b; row < r.n; row += group) body(pass, row, min64(r.n, row + group), block);
      });
    return;
  }
  const int64_t least = kMeetingWork / max64(1, passes * work) + 1;  // rows worth a thread
  const int64_t group = even_rows(r.n, static_cast<int>(min64(kGroup, max64(own, least))));
  parallel((r.n + group - 1) / group, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; g++)
      for (int64_t pass = 0; pass < passes; pass++)
        for (int64_t b = 0; b < blocks; b++) body(pass, g * group, min64(r.n, (g + 1) * group), pass % 2 ? blocks - 1 - b : b);
  });
}

// to [n, stride] = from [n, hidden], or 0 without one; and back
template <class T>
void spread(T* to, int64_t stride, const T* from, int64_t n, int64_t hidden) {
  for (int64_t i = 0; i < n; i++)
    from != nullptr ? (void)memcpy(to + i * stride, from + i * hidden, hidden * sizeof(T)) : (void)memset(to + i * stride, 0, hidden * sizeof(T));
}
template <class T>
void gather(T* to, const T* from, int64_t stride, int64_t n, int64_t hidden) {
  for (int64_t i = 0; i < n; i++) memcpy(to + i * hidden, from + i * stride, hidden * sizeof(T));
}

template <class T>
PDL_INLINE bool padding(const Recurrence<T>& r, int64_t row, int64_t t) { return r.lengths != nullptr && t >= r.lengths[row]; }

template <class T, class Cell>
void forward(const Recurrence<T>& r) {
  constexpr int gates = Cell::kGates, acts = Cell::kActs, lanes = kLanes<T>;
  constexpr int64_t panel = kPanel<T>;
  const Panels<T> w = pack(r.w, r.bias, r.hidden, r.hidden, gates, gates * r.hidden, 1);
  const int64_t stride = row_of<T>(r.hidden), hidden = r.hidden;
  T* h[2] = {static_cast<T*>(scratch(Slot::kCellStates, 3 * r.n * stride * sizeof(T)))};
  h[1] = h[0] + r.n * stride;
  T* c = h[1] + r.n * stride;
  spread(h[0], stride, r.h0, r.n, hidden);
  if (Cell::kHasC) spread(c, stride, r.c0, r.n, hidden);
  walk(r, gates, r.steps, w.blocks, [&](int64_t pass, int64_t first, int64_t last, int64_t block) {
    const int64_t t = r.reverse ? r.steps - 1 - pass : pass, unit = block * panel, columns = w.columns(block);
    const T* now = h[pass % 2];
    T* next = h[(pass + 1) % 2];
    alignas(64) T tile[gates][kGroup * panel];
    const int width = panel_width<T>(columns);
    if (last - first == 1) {
      T* rows[gates];
      for (int g = 0; g < gates; g++) rows[g] = tile[g];
      if (width <= lanes) multiply_row<T, gates, 1>(rows, now + first * stride, w, block, width);
      else multiply_row<T, gates, kMaxVectors>(rows, now + first * stride, w, block, kMaxVectors * lanes);
    } else {
      for (int g = 0; g < gates; g++) multiply(tile[g], panel, now + first * stride, stride, last - first, w, block, g, false);
    }
    for (int64_t row = first; row < last; row++) {
      const int64_t at = row * r.steps + t, place = row * stride + unit;
      const bool outside = padding(r, row, t);
      for (int64_t v = 0; v < columns; v += lanes) {
        const int64_t m = min64(lanes, columns - v), to = at * hidden + unit + v;
        T* kept = r.acts + at * acts * hidden + unit + v;
        Vec<T> state = load(now + place + v);
        if (outside) {
          store(next + place + v, state);
          set(r.y + to, Vec<T>{}, m);
          set(r.before + to, Vec<T>{}, m);
          for (int k = 0; k < acts; k++) set(kept + k * hidden, Vec<T>{}, m);
          continue;
        }
        Vec<T> x[gates], p[gates], a[acts], cell{};
        for (int g = 0; g < gates; g++) {
          x[g] = get(r.gates + (at * gates + g) * hidden + unit + v, m);
          p[g] = load(tile[g] + (row - first) * panel + v);
        }
        set(r.before + to, state, m);
        if (Cell::kHasC) cell = load(c + place + v);
        Cell::forward(x, p, state, cell, a);
        if (Cell::kHasC) store(c + place + v, cell);
        store(next + place + v, state);
        set(r.y + to, state, m);
        for (int k = 0; k < acts; k++) set(kept + k * hidden, a[k], m);
      }
    }
  });
  gather(r.h, h[r.steps % 2], stride, r.n, hidden);
  if (Cell::kHasC) gather(r.c, c, stride, r.n, hidden);
}

// sums[j] = sum over the rows of x [rows, columns], from the first to the last
template <class T>
void column_sums(T* sums, const T* x, int64_t rows, int64_t stride, int64_t columns) {
  constexpr int64_t wide = 64 / sizeof(T);
  parallel((columns + wide - 1) / wide, max64(1, kParallelWork / max64(1, rows * wide)), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin * wide; j < min64(columns, end * wide); j += kLanes<T>) {
      const int64_t m = min64(kLanes<T>, columns - j);
      Vec<T> sum{};
      for (int64_t row = 0; row < rows; row++) sum += get(x + row * stride + j, m);
      set(sums + j, sum, m);
    }
  });
}

template <class T, class Cell>
void backward(const Recurrence<T>& r) {
  constexpr int gates = Cell::kGates, acts = Cell::kActs, lanes = kLanes<T>;
  constexpr int64_t panel = kPanel<T>;
  const int64_t hidden = r.hidden, width = gates * hidden;
  const Panels<T> w = pack<T>(r.w, nullptr, width, hidden, 1, 1, width);  // transposed
  const int64_t stride = row_of<T>(hidden), wide = row_of<T>(width);
  T* dh = static_cast<T*>(scratch(Slot::kCellStates, r.n * (2 * stride + 2 * wide) * sizeof(T)));
  T* dc = dh + r.n * stride;
  T* e[2] = {dc + r.n * stride, dc + r.n * (stride + wide)};  // gradients of the products, of this step and the one after it
  spread(dh, stride, r.gh, r.n, hidden);
  spread(dc, stride, Cell::kHasC ? r.gc : nullptr, r.n, hidden);
  walk(r, gates, r.steps + 1, w.blocks, [&](int64_t pass, int64_t first, int64_t last, int64_t block) {
    const int64_t t = r.reverse ? pass : r.steps - 1 - pass, unit = block * panel, columns = w.columns(block);
    if (pass > 0) multiply(dh + first * stride + unit, stride, e[(pass - 1) % 2] + first * wide, wide, last - first, w, block, 0, true);
    if (pass == r.steps) return;
    for (int64_t row = first; row < last; row++) {
      const int64_t at = row * r.steps + t, place = row * stride + unit;
      const bool outside = padding(r, row, t);
      for (int64_t v = 0; v < columns; v += lanes) {
        const int64_t m = min64(lanes, columns - v), to = at * hidden + unit + v;
        Vec<T> d[gates] = {}, products[gates] = {};
        if (!outside) {
          Vec<T> a[acts], from_h = get(dh + place + v, m), from_c{};
          for (int k = 0; k < acts; k++) a[k] = get(r.acts_in + (at * acts + k) * hidden + unit + v, m);
          if (r.gy != nullptr) from_h += get(r.gy + to, m);
          if (Cell::kHasC) from_c = get(dc + place + v, m);
          Cell::backward(a, get(r.before_in + to, m), from_h, from_c, d, products);
          set(dh + place + v, from_h, m);
          if (Cell::kHasC) set(dc + place + v, from_c, m);
        }
        for (int g = 0; g < gates; g++) {
          set(r.dgates + (at * gates + g) * hidden + unit + v, d[g], m);
          set(e[pass % 2] + row * wide + g * hidden + unit + v, products[g], m);
        }
        if (Cell::kOwnLast) set(r.dlast + to, products[gates - 1], m);
      }
    }
  });
  gather(r.dh0, dh, stride, r.n, hidden);
  if (Cell::kHasC) gather(r.dc0, dc, stride, r.n, hidden);
  const int64_t rows = r.n * r.steps, plain = Cell::kOwnLast ? width - hidden : width, none[3] = {};
  matmul<T>({hidden, plain, rows, r.dw, width, r.before_in, 1, hidden, r.dgates, width, 1, nullptr}, 1, none);
  if (Cell::kOwnLast) matmul<T>({hidden, hidden, rows, r.dw + plain, width, r.before_in, 1, hidden, r.dlast, hidden, 1, nullptr}, 1, none);
  if (r.dbias == nullptr) return;
  column_sums(r.dbias, r.dgates, rows, width, plain);
  if (Cell::kOwnLast) column_sums<T>(r.dbias + plain, r.dlast, rows, hidden, hidden);
}

}  // namespace cells

template <class T>
void cell_forward(int cell, const Recurrence<T>& r) {
  return cell == kRnn ? cells::forward<T, cells::Rnn<T>>(r) : cell == kGru ? cells::forward<T, cells::Gru<T>>(r) : cells::forward<T, cells::Lstm<T>>(r);
}
template <class T>
void cell_backward(int cell, const Recurrence<T>& r) {
  return cell == kRnn ? cells::backward<T, cells::Rnn<T>>(r) : cell == kGru ? cells::backward<T, cells::Gru<T>>(r) : cells::backward<T, cells::Lstm<T>>(r);
}

}  // namespace pdl::PDL_ISA
