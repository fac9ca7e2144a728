// Pooling over windows of [N, D, H, W, C] arrays.
//
// A window is described per axis by tables: cell i of the output reads cells lo[i], lo[i] + step, ... < hi[i] of the input. Strided, dilated
// and adaptive pooling differ only in these tables. Gradients walk the input and ask which windows cover a cell, so that every
// thread owns what it writes and sums have one order.
#pragma once
#include "table.h"
#include "vec.h"

namespace pdl::PDL_ISA::pooling {

constexpr int64_t kGrain = 16384;  // elements of work that a thread should at least have

#define PDL_POOL_INLINE inline __attribute__((always_inline))

inline int64_t grain_of(int64_t each) { return each >= kGrain ? 1 : kGrain / (each > 0 ? each : 1) + 1; }

using Grid = PoolGrid;

struct Window {
  int64_t lo[3], hi[3];
  int64_t cell;  // flat position in `to`'s D*H*W
  int64_t at[3];
};

// L channels of type T, and masks and positions of as many int32 lanes.
template <class T, int L>
struct Lanes {
  typedef T V __attribute__((vector_size(L * sizeof(T))));
  typedef int32_t I __attribute__((vector_size(L * sizeof(int32_t))));
  template <class A>
  static A load(const void* p) { A v; memcpy(&v, p, sizeof v); return v; }
  template <class M>
  static V choose(M mask, V yes, V no) { return mask ? yes : no; }
  template <class M>
  static I narrow(M mask) { return __builtin_convertvector(mask, I); }
  static V where(I mask, V yes) {  // yes where the mask is set, else 0
    typedef decltype(yes != yes) M;
    return __builtin_convertvector(mask, M) ? yes : V{};
  }
};

template <class T>
struct Lanes<T, 1> {
  typedef T V;
  typedef int32_t I;
  template <class A>
  static A load(const T* p) { return *p; }
  template <class A>
  static A load(const int32_t* p) { return *p; }
  static V choose(bool mask, V yes, V no) { return mask ? yes : no; }
  static bool narrow(bool mask) { return mask; }
  static V where(bool mask, V yes) { return mask ? yes : T(0); }
};

template <class V, class T>
PDL_POOL_INLINE void put(T* p, V v) { memcpy(p, &v, sizeof v); }

// visit(offset of the cell in its sample, flat position, its three coordinates) for the cells of a window; H and W say the extent of a plane window known
// at compile time (0: neither is known).
template <int H, int W, class F>
PDL_POOL_INLINE void visit(const Grid& g, const Window& w, const F& f) {
  if constexpr (H > 0) {
    const int64_t base = (w.lo[0] * g.from[1] + w.lo[1]) * g.from[2] + w.lo[2];
#pragma GCC unroll 4
    for (int h = 0; h < H; h++)
#pragma GCC unroll 4
      for (int i = 0; i < W; i++) f(base + h * g.from[2] + i, w.lo[0], w.lo[1] + h, w.lo[2] + i);
  } else {
    for (int64_t d = w.lo[0]; d < w.hi[0]; d += g.step[0])
      for (int64_t h = w.lo[1]; h < w.hi[1]; h += g.step[1]) {
        const int64_t row = (d * g.from[1] + h) * g.from[2];
        for (int64_t i = w.lo[2]; i < w.hi[2]; i += g.step[2]) f(row + i, d, h, i);
      }
  }
}

// The bodies treat U * L channels of one cell: `to` and `from` are the offsets of the first of them in the cell and in the sample.

// y = max over the window, index = flat position of the winner (the first of equals; a NaN wins).
template <class T>
struct Max {
  T* y;
  int32_t* index;
  const T* x;
  static constexpr bool scatters = false;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& g, const Window& w, int64_t to, int64_t from) const {
    using A = Lanes<T, L>;
    using V = typename A::V;
    using I = typename A::I;
    V best[U];
    I where[U];
    const int32_t first = (int32_t)((w.lo[0] * g.from[1] + w.lo[1]) * g.from[2] + w.lo[2]);
    for (int u = 0; u < U; u++) best[u] = V{} - (T)__builtin_inf(), where[u] = I{} + first;
    visit<H, W>(g, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) {
        const V v = A::template load<V>(x + from + at * g.channels + u * L);
        const auto wins = (v > best[u]) | (v != v);
        best[u] = A::choose(wins, v, best[u]);
        where[u] = A::narrow(wins) ? I{} + (int32_t)at : where[u];
      }
    });
    for (int u = 0; u < U; u++) put(y + to + u * L, best[u]), put(index + to + u * L, where[u]);
  }
};

// dx[cell] = sum of g over the windows whose winner the cell was.
template <class T>
struct MaxGrad {
  T* dx;
  const T* g;
  const int32_t* index;
  static constexpr bool scatters = false;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& grid, const Window& w, int64_t to, int64_t from) const {
    using A = Lanes<T, L>;
    using V = typename A::V;
    using I = typename A::I;
    V sum[U];
    const I here = I{} + (int32_t)w.cell;
    for (int u = 0; u < U; u++) sum[u] = V{};
    visit<H, W>(grid, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) {
        const int64_t p = from + at * grid.channels + u * L;
        sum[u] += A::where(A::template load<I>(index + p) == here, A::template load<V>(g + p));
      }
    });
    for (int u = 0; u < U; u++) put(dx + to + u * L, sum[u]);
  }
};

// The same where windows do not overlap, window by window: dx[winner] = g, dx[the others] = 0.
template <class T>
struct MaxSpread {
  T* dx;
  const T* g;
  const int32_t* index;
  static constexpr bool scatters = true;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& grid, const Window& w, int64_t to, int64_t from) const {
    using A = Lanes<T, L>;
    using V = typename A::V;
    using I = typename A::I;
    V v[U];
    I winner[U];
    for (int u = 0; u < U; u++) v[u] = A::template load<V>(g + to + u * L), winner[u] = A::template load<I>(index + to + u * L);
    visit<H, W>(grid, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) put(dx + from + at * grid.channels + u * L, A::where(winner[u] == I{} + (int32_t)at, v[u]));
    });
  }
};

// y = scale_d * scale_h * scale_w * sum over the window; tables are indexed by the output cell.
template <class T>
struct Mean {
  T* y;
  const T* x;
  static constexpr bool scatters = false;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& g, const Window& w, int64_t to, int64_t from) const {
    using V = typename Lanes<T, L>::V;
    const T scale = (T)(g.scale[0][w.at[0]] * g.scale[1][w.at[1]] * g.scale[2][w.at[2]]);
    V sum[U];
    for (int u = 0; u < U; u++) sum[u] = V{};
    visit<H, W>(g, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) sum[u] += Lanes<T, L>::template load<V>(x + from + at * g.channels + u * L);
    });
    for (int u = 0; u < U; u++) put(y + to + u * L, sum[u] * scale);
  }
};

// dx[cell] = sum over the windows that cover it of their scale times g.
template <class T>
struct MeanGrad {
  T* dx;
  const T* g;
  static constexpr bool scatters = false;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& grid, const Window& w, int64_t to, int64_t from) const {
    using V = typename Lanes<T, L>::V;
    V sum[U];
    for (int u = 0; u < U; u++) sum[u] = V{};
    visit<H, W>(grid, w, [&](int64_t at, int64_t d, int64_t h, int64_t i) __attribute__((always_inline)) {
      const T scale = (T)(grid.scale[0][d] * grid.scale[1][h] * grid.scale[2][i]);
      for (int u = 0; u < U; u++) sum[u] += Lanes<T, L>::template load<V>(g + from + at * grid.channels + u * L) * scale;
    });
    for (int u = 0; u < U; u++) put(dx + to + u * L, sum[u]);
  }
};

// The same where windows do not overlap, window by window.
template <class T>
struct MeanSpread {
  T* dx;
  const T* g;
  static constexpr bool scatters = true;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& grid, const Window& w, int64_t to, int64_t from) const {
    using V = typename Lanes<T, L>::V;
    const T scale = (T)(grid.scale[0][w.at[0]] * grid.scale[1][w.at[1]] * grid.scale[2][w.at[2]]);
    V v[U];
    for (int u = 0; u < U; u++) v[u] = Lanes<T, L>::template load<V>(g + to + u * L) * scale;
    visit<H, W>(grid, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) put(dx + from + at * grid.channels + u * L, v[u]);
    });
  }
};

// All channels of one cell, U * L or L at a time. With fewer channels than L the lanes run into the next cell, which the same thread
// writes later; `spare` says that there is room for that.
template <int L, int H, int W, class Body>
PDL_POOL_INLINE void channels(const Grid& g, const Body& body, const Window& w, int64_t to, int64_t from, bool spare) {
  if (g.channels >= L) {
    int64_t c = 0;
    if constexpr (L > 1)
      for (; c + 4 * L <= g.channels; c += 4 * L) body.template cell<L, 4, H, W>(g, w, to + c, from + c);
    for (; c + L <= g.channels; c += L) body.template cell<L, 1, H, W>(g, w, to + c, from + c);
    if (c < g.channels) body.template cell<L, 1, H, W>(g, w, to + g.channels - L, from + g.channels - L);
  } else if (spare) {
    body.template cell<L, 1, H, W>(g, w, to, from);
  } else {
    for (int64_t c = 0; c < g.channels; c++) body.template cell<1, 1, 0, 0>(g, w, to + c, from + c);
  }
}

template <int L, class Body>
__attribute__((noinline)) void walk_rows(const Grid& g, const Body& body, int64_t begin, int64_t end) {
  const int64_t from_cells = g.from[0] * g.from[1] * g.from[2], c = g.channels;
  const int64_t stop = end * g.to[2] * c, from_stop = g.batch * from_cells * c;
  const bool dense = g.step[0] == 1 && g.step[1] == 1 && g.step[2] == 1;
  for (int64_t row = begin; row < end; row++) {
    Window w;
    w.at[1] = row % g.to[1];
    w.at[0] = row / g.to[1] % g.to[0];
    for (int a = 0; a < 2; a++) w.lo[a] = g.lo[a][w.at[a]], w.hi[a] = g.hi[a][w.at[a]];
    const int64_t from = row / (g.to[1] * g.to[0]) * from_cells * c;
    const int64_t last_row = from + ((w.hi[0] - 1) * g.from[1] + w.hi[1] - 1) * g.from[2] * c;
    const int64_t height = dense && w.hi[0] - w.lo[0] == 1 ? w.hi[1] - w.lo[1] : 0;
    w.cell = (w.at[0] * g.to[1] + w.at[1]) * g.to[2];
    int64_t to = row * g.to[2] * c;
    for (int64_t i = 0; i < g.to[2]; i++, w.cell++, to += c) {
      w.at[2] = i;
      w.lo[2] = g.lo[2][i];
      w.hi[2] = g.hi[2][i];
      bool spare = last_row + (w.hi[2] - 1) * c + L <= from_stop;
      if constexpr (Body::scatters)
        spare = spare && i + 1 < g.to[2] && g.lo[2][i + 1] == w.hi[2] && to + L <= g.batch * g.to[0] * g.to[1] * g.to[2] * c;
      else
        spare = spare && to + L <= stop;
      const int64_t width = w.hi[2] - w.lo[2];
      if (height == 2 && width == 2)
        channels<L, 2, 2>(g, body, w, to, from, spare);
      else if (height == 3 && width == 3)
        channels<L, 3, 3>(g, body, w, to, from, spare);
      else
        channels<L, 0, 0>(g, body, w, to, from, spare);
    }
  }
}

// Threads own rows of `to` (and the windows behind them, which then do not overlap); the number of lanes follows from the number of channels.
template <class T, class Body>
void walk(const Grid& g, const Body& body) {
  constexpr int full = PDL_VECTOR_BYTES / sizeof(T), quarter = 16 / sizeof(T), half = full / 2 > quarter ? full / 2 : quarter;
  const int64_t c = g.channels, rows = g.batch * g.to[0] * g.to[1];
  parallel(rows, grain_of(4 * g.to[2] * c), [&](int64_t begin, int64_t end, int) {
    if (c == 1)
      walk_rows<1>(g, body, begin, end);
    else if (c <= quarter)
      walk_rows<quarter>(g, body, begin, end);
    else if (c <= half)
      walk_rows<half>(g, body, begin, end);
    else
      walk_rows<full>(g, body, begin, end);
  });
}

// True where no cell lies in two windows; `covered`: and every cell in one.
inline bool apart(const Grid& g, bool* covered) {
  *covered = true;
  for (int a = 0; a < 3; a++) {
    if (g.step[a] != 1) return false;
    *covered = *covered && g.lo[a][0] == 0 && g.hi[a][g.to[a] - 1] == g.from[a];
    for (int64_t o = 0; o + 1 < g.to[a]; o++) {
      if (g.lo[a][o + 1] < g.hi[a][o]) return false;
      *covered = *covered && g.lo[a][o + 1] == g.hi[a][o];
    }
  }
  return true;
}

template <class T>
void zero(T* p, int64_t n) {
  parallel(n, kGrain, [=](int64_t begin, int64_t end, int) { memset(p + begin, 0, (end - begin) * sizeof(T)); });
}

template <class T>
void max_pool(T* y, int32_t* index, const T* x, const Grid& grid) { walk<T>(grid, Max<T>{y, index, x}); }

// `cells` walks dx (which windows may cover a cell?), `windows` walks g (which cells does it read?): the latter where windows lie apart.
template <class T>
void max_pool_dx(T* dx, const T* g, const int32_t* index, const Grid& cells, const Grid& windows) {
  bool covered;
  if (!apart(windows, &covered)) return walk<T>(cells, MaxGrad<T>{dx, g, index});
  if (!covered) zero(dx, cells.batch * cells.to[0] * cells.to[1] * cells.to[2] * cells.channels);
  walk<T>(windows, MaxSpread<T>{dx, g, index});
}

template <class T>
void avg_pool(T* y, const T* x, const Grid& grid) { walk<T>(grid, Mean<T>{y, x}); }
template <class T>
void avg_pool_dx(T* dx, const T* g, const Grid& cells, const Grid& windows) {
  bool covered;
  if (!apart(windows, &covered)) return walk<T>(cells, MeanGrad<T>{dx, g});
  if (!covered) zero(dx, cells.batch * cells.to[0] * cells.to[1] * cells.to[2] * cells.channels);
  walk<T>(windows, MeanSpread<T>{dx, g});
}

// y[n, o, c] = x[n, index[n, o, c], c], 0 where the index is negative.
template <class T>
void pick(T* y, const T* x, const int32_t* index, int64_t batch, int64_t out, int64_t in, int64_t channels) {
  parallel(batch * out, grain_of(channels), [=](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++) {
      const T* source = x + r / out * in * channels;
      for (int64_t c = 0; c < channels; c++) {
        const int64_t at = index[r * channels + c];
        y[r * channels + c] = at < 0 ? T(0) : source[at * channels + c];
      }
    }
  });
}

// dx[n, index[n, o, c], c] += g[n, o, c] over o in order, from zero; negative indices add nothing. Threads own (sample, block of channels).
template <class T>
void place(T* dx, const T* g, const int32_t* index, int64_t batch, int64_t out, int64_t in, int64_t channels) {
  const int64_t width = batch >= 16 ? channels : 16, blocks = (channels + width - 1) / width;
  parallel(batch * blocks, grain_of((out + in) * width), [=](int64_t begin, int64_t end, int) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t n = item / blocks, c0 = item % blocks * width, c1 = c0 + width < channels ? c0 + width : channels;
      T* target = dx + n * in * channels;
      for (int64_t r = 0; r < in; r++)
        for (int64_t c = c0; c < c1; c++) target[r * channels + c] = 0;
      for (int64_t r = n * out; r < (n + 1) * out; r++)
        for (int64_t c = c0; c < c1; c++) {
          const int64_t at = index[r * channels + c];
          if (at >= 0) target[at * channels + c] += g[r * channels + c];
        }
    }
  });
}

}  // namespace pdl::PDL_ISA::pooling
