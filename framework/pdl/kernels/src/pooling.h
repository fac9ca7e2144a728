// Pooling over windows of [N, D, H, W, C] arrays.
//
// A window is described per axis by tables: cell i of the output reads cells lo[i], lo[i] + step, ... < hi[i] of the input. Strided, dilated
// and adaptive pooling differ only in these tables. Gradients walk the input and ask which windows cover a cell, so that every
// thread owns what it writes and sums have one order.
//
// S is what lies in memory (float, double, bf16), T = Real<S> what is computed in.
#pragma once
#include "bf16.h"
#include "table.h"
#include "vec.h"

namespace pdl::PDL_ISA::pooling {

#define PDL_POOL_INLINE inline __attribute__((always_inline))

using Grid = PoolGrid;

struct Window {
  int64_t lo[3], hi[3];
  int64_t cell;  // flat position in `to`'s D*H*W
  int64_t at[3];
};

// bfloat16 as in bf16.h, for fewer lanes than a register has. GCC converts vectors only where their type depends on no template.
#define PDL_BF16_LANES(L) \
  typedef uint16_t Half##L __attribute__((vector_size(L * 2))); \
  typedef uint32_t Word##L __attribute__((vector_size(L * 4))); \
  typedef float Float##L __attribute__((vector_size(L * 4))); \
  PDL_POOL_INLINE void widen_lanes(const bf16* p, Float##L* v) { \
    Half##L h; \
    memcpy(&h, p, sizeof h); \
    *v = (Float##L)(__builtin_convertvector(h, Word##L) << 16); \
  } \
  PDL_POOL_INLINE void narrow_lanes(bf16* p, Float##L v) { \
    const Word##L u = (Word##L)v; \
    const Half##L h = __builtin_convertvector((v == v ? u + (((u >> 16) & 1) + 0x7fff) : u | 0x400000) >> 16, Half##L); \
    memcpy(p, &h, sizeof h); \
  }
PDL_BF16_LANES(4)
PDL_BF16_LANES(8)
PDL_BF16_LANES(16)
#undef PDL_BF16_LANES

// L channels of storage type S, and masks and positions of as many int32 lanes.
template <class S, int L>
struct Lanes {
  using T = Real<S>;
  typedef T V __attribute__((vector_size(L * sizeof(T))));
  typedef int32_t I __attribute__((vector_size(L * sizeof(int32_t))));
  static V load(const S* p) {
    if constexpr (sizeof(S) < sizeof(T)) {
      V v;
      if constexpr (L == kLanes<float>)
        v = (V)PDL_ISA::load(p);
      else
        widen_lanes(p, &v);
      return v;
    } else {
      V v;
      memcpy(&v, p, sizeof v);
      return v;
    }
  }
  static I load(const int32_t* p) { I v; memcpy(&v, p, sizeof v); return v; }
  static void put(S* p, V v) {
    if constexpr (sizeof(S) < sizeof(T)) {
      if constexpr (L == kLanes<float>)
        store(p, (Vec<float>)v);
      else
        narrow_lanes(p, v);
    } else {
      memcpy(p, &v, sizeof v);
    }
  }
  static void put(int32_t* p, I v) { memcpy(p, &v, sizeof v); }
  template <class M>
  static V choose(M mask, V yes, V no) { return mask ? yes : no; }
  template <class M>
  static I narrow(M mask) { return __builtin_convertvector(mask, I); }
  static V where(I mask, V yes) {  // yes where the mask is set, else 0
    typedef decltype(yes != yes) M;
    return __builtin_convertvector(mask, M) ? yes : V{};
  }
};

template <class S>
struct Lanes<S, 1> {
  using T = Real<S>;
  typedef T V;
  typedef int32_t I;
  static V load(const S* p) { return value(*p); }
  static I load(const int32_t* p) { return *p; }
  static void put(S* p, V v) { PDL_ISA::put(p, v); }
  static void put(int32_t* p, I v) { *p = v; }
  static V choose(bool mask, V yes, V no) { return mask ? yes : no; }
  static bool narrow(bool mask) { return mask; }
  static V where(bool mask, V yes) { return mask ? yes : T(0); }
};

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

// y = max over the window, index = flat position of the winner (the first of equals; a NaN wins), where it is wanted.
template <class S, bool kIndex>
struct Max {
  S* y;
  int32_t* index;
  const S* x;
  static constexpr bool scatters = false;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& g, const Window& w, int64_t to, int64_t from) const {
    using A = Lanes<S, L>;
    using V = typename A::V;
    using I = typename A::I;
    V best[U];
    I where[U];
    const int32_t first = (int32_t)((w.lo[0] * g.from[1] + w.lo[1]) * g.from[2] + w.lo[2]);
    for (int u = 0; u < U; u++) best[u] = V{} - (Real<S>)__builtin_inf(), where[u] = I{} + first;
    visit<H, W>(g, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) {
        const V v = A::load(x + from + at * g.channels + u * L);
        const auto wins = (v > best[u]) | (v != v);
        best[u] = A::choose(wins, v, best[u]);
        if constexpr (kIndex) where[u] = A::narrow(wins) ? I{} + (int32_t)at : where[u];
      }
    });
    for (int u = 0; u < U; u++) {
      A::put(y + to + u * L, best[u]);
      if constexpr (kIndex) A::put(index + to + u * L, where[u]);
    }
  }
};

// dx[cell] = sum of g over the windows whose winner the cell was.
template <class S>
struct MaxGrad {
  S* dx;
  const S* g;
  const int32_t* index;
  static constexpr bool scatters = false;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& grid, const Window& w, int64_t to, int64_t from) const {
    using A = Lanes<S, L>;
    using V = typename A::V;
    using I = typename A::I;
    V sum[U];
    const I here = I{} + (int32_t)w.cell;
    for (int u = 0; u < U; u++) sum[u] = V{};
    visit<H, W>(grid, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) {
        const int64_t p = from + at * grid.channels + u * L;
        sum[u] += A::where(A::load(index + p) == here, A::load(g + p));
      }
    });
    for (int u = 0; u < U; u++) Lanes<S, L>::put(dx + to + u * L, sum[u]);
  }
};

// The same where windows do not overlap, window by window: dx[winner] = g, dx[the others] = 0.
template <class S>
struct MaxSpread {
  S* dx;
  const S* g;
  const int32_t* index;
  static constexpr bool scatters = true;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& grid, const Window& w, int64_t to, int64_t from) const {
    using A = Lanes<S, L>;
    using V = typename A::V;
    using I = typename A::I;
    V v[U];
    I winner[U];
    for (int u = 0; u < U; u++) v[u] = A::load(g + to + u * L), winner[u] = A::load(index + to + u * L);
    visit<H, W>(grid, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) Lanes<S, L>::put(dx + from + at * grid.channels + u * L, A::where(winner[u] == I{} + (int32_t)at, v[u]));
    });
  }
};

// y = scale_d * scale_h * scale_w * sum over the window; tables are indexed by the output cell.
template <class S>
struct Mean {
  S* y;
  const S* x;
  static constexpr bool scatters = false;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& g, const Window& w, int64_t to, int64_t from) const {
    using V = typename Lanes<S, L>::V;
    const Real<S> scale = (Real<S>)(g.scale[0][w.at[0]] * g.scale[1][w.at[1]] * g.scale[2][w.at[2]]);
    V sum[U];
    for (int u = 0; u < U; u++) sum[u] = V{};
    visit<H, W>(g, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) sum[u] += Lanes<S, L>::load(x + from + at * g.channels + u * L);
    });
    for (int u = 0; u < U; u++) Lanes<S, L>::put(y + to + u * L, sum[u] * scale);
  }
};

// dx[cell] = sum over the windows that cover it of their scale times g.
template <class S>
struct MeanGrad {
  S* dx;
  const S* g;
  static constexpr bool scatters = false;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& grid, const Window& w, int64_t to, int64_t from) const {
    using V = typename Lanes<S, L>::V;
    V sum[U];
    for (int u = 0; u < U; u++) sum[u] = V{};
    visit<H, W>(grid, w, [&](int64_t at, int64_t d, int64_t h, int64_t i) __attribute__((always_inline)) {
      const Real<S> scale = (Real<S>)(grid.scale[0][d] * grid.scale[1][h] * grid.scale[2][i]);
      for (int u = 0; u < U; u++) sum[u] += Lanes<S, L>::load(g + from + at * grid.channels + u * L) * scale;
    });
    for (int u = 0; u < U; u++) Lanes<S, L>::put(dx + to + u * L, sum[u]);
  }
};

// The same where windows do not overlap, window by window.
template <class S>
struct MeanSpread {
  S* dx;
  const S* g;
  static constexpr bool scatters = true;

  template <int L, int U, int H, int W>
  PDL_POOL_INLINE void cell(const Grid& grid, const Window& w, int64_t to, int64_t from) const {
    using V = typename Lanes<S, L>::V;
    const Real<S> scale = (Real<S>)(grid.scale[0][w.at[0]] * grid.scale[1][w.at[1]] * grid.scale[2][w.at[2]]);
    V v[U];
    for (int u = 0; u < U; u++) v[u] = Lanes<S, L>::load(g + to + u * L) * scale;
    visit<H, W>(grid, w, [&](int64_t at, int64_t, int64_t, int64_t) __attribute__((always_inline)) {
      for (int u = 0; u < U; u++) Lanes<S, L>::put(dx + from + at * grid.channels + u * L, v[u]);
    });
  }
};

// All channels of one cell, 4 L (where there may be so many) or L at a time. The last L overlap those before; with fewer channels than L the
// lanes run into the next cell, which the same thread writes later.
template <int L, bool kMany, int H, int W, class Body>
PDL_POOL_INLINE void channels(const Grid& g, const Body& body, const Window& w, int64_t to, int64_t from) {
  if constexpr (L == 1) return body.template cell<1, 1, H, W>(g, w, to, from);  // one channel
  int64_t c = 0;
  if constexpr (kMany)
    for (; c + 4 * L <= g.channels; c += 4 * L) body.template cell<L, 4, H, W>(g, w, to + c, from + c);
  for (; c < g.channels; c += L) {
    const int64_t at = c == 0 || c + L <= g.channels ? c : g.channels - L;
    body.template cell<L, 1, H, W>(g, w, to + at, from + at);
  }
}

template <int L, bool kMany, class Body>
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
      bool spare = last_row + (w.hi[2] - 1) * c + L <= from_stop;  // room for lanes behind the last channel
      if constexpr (Body::scatters)
        spare = spare && i + 1 < g.to[2] && g.lo[2][i + 1] == w.hi[2] && to + L <= g.batch * g.to[0] * g.to[1] * g.to[2] * c;
      else
        spare = spare && to + L <= stop;
      const int64_t width = w.hi[2] - w.lo[2];
      if (c < L && !spare)
        for (int64_t k = 0; k < c; k++) body.template cell<1, 1, 0, 0>(g, w, to + k, from + k);
      else if (height == 2 && width == 2)
        channels<L, kMany, 2, 2>(g, body, w, to, from);
      else if (height == 3 && width == 3)
        channels<L, kMany, 3, 3>(g, body, w, to, from);
      else
        channels<L, kMany, 0, 0>(g, body, w, to, from);
    }
  }
}

// Threads own rows of `to` (and the windows behind them, which then do not overlap); the number of lanes follows from the number of channels.
template <class S, class Body>
void walk(const Grid& g, const Body& body) {
  constexpr int full = kLanes<Real<S>>, quarter = 16 / sizeof(Real<S>), half = full / 2 > quarter ? full / 2 : quarter;
  const int64_t c = g.channels, rows = g.batch * g.to[0] * g.to[1];
  parallel(rows, grain_of(4 * g.to[2] * c), [&](int64_t begin, int64_t end) {
    if (c == 1)
      walk_rows<1, false>(g, body, begin, end);
    else if (c <= quarter)
      walk_rows<quarter, quarter == full>(g, body, begin, end);
    else if (c <= half)
      walk_rows<half, half == full>(g, body, begin, end);
    else
      walk_rows<full, true>(g, body, begin, end);
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
  parallel(n, kThreadWork, [=](int64_t begin, int64_t end) { memset(p + begin, 0, (end - begin) * sizeof(T)); });
}

template <class S>
void max_pool(S* y, int32_t* index, const S* x, const Grid& grid) {
  index != nullptr ? walk<S>(grid, Max<S, true>{y, index, x}) : walk<S>(grid, Max<S, false>{y, index, x});
}

// `cells` walks dx (which windows may cover a cell?), `windows` walks g (which cells does it read?): the latter where windows lie apart.
template <class S>
void max_pool_dx(S* dx, const S* g, const int32_t* index, const Grid& cells, const Grid& windows) {
  bool covered;
  if (!apart(windows, &covered)) return walk<S>(cells, MaxGrad<S>{dx, g, index});
  if (!covered) zero(dx, cells.batch * cells.to[0] * cells.to[1] * cells.to[2] * cells.channels);
  walk<S>(windows, MaxSpread<S>{dx, g, index});
}

template <class S>
void avg_pool(S* y, const S* x, const Grid& grid) { walk<S>(grid, Mean<S>{y, x}); }
template <class S>
void avg_pool_dx(S* dx, const S* g, const Grid& cells, const Grid& windows) {
  bool covered;
  if (!apart(windows, &covered)) return walk<S>(cells, MeanGrad<S>{dx, g});
  if (!covered) zero(dx, cells.batch * cells.to[0] * cells.to[1] * cells.to[2] * cells.channels);
  walk<S>(windows, MeanSpread<S>{dx, g});
}

// y[n, o, c] = x[n, index[n, o, c], c], 0 where the index is negative.
template <class S>
void pick(S* y, const S* x, const int32_t* index, int64_t batch, int64_t out, int64_t in, int64_t channels) {
  parallel(batch * out, grain_of(channels), [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const S* source = x + r / out * in * channels;
      for (int64_t c = 0; c < channels; c++) {
        const int64_t at = index[r * channels + c];
        y[r * channels + c] = at < 0 ? S{} : source[at * channels + c];
      }
    }
  });
}

// dx[n, index[n, o, c], c] += g[n, o, c] over o in order, from zero; negative indices add nothing. Threads own (sample, block of channels).
template <class S>
void place(S* dx, const S* g, const int32_t* index, int64_t batch, int64_t out, int64_t in, int64_t channels) {
  const int64_t width = batch >= 16 ? channels : 16, blocks = (channels + width - 1) / width;
  parallel(batch * blocks, grain_of((out + in) * width), [=](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t n = item / blocks, c0 = item % blocks * width, c1 = c0 + width < channels ? c0 + width : channels;
      S* target = dx + n * in * channels + c0;
      Real<S>* sum;  // the target itself, or what is rounded into it at the end
      int64_t stride = channels;
      if constexpr (sizeof(S) < sizeof(Real<S>))
        stride = c1 - c0, sum = static_cast<Real<S>*>(scratch(Slot::kWideRow, in * stride * sizeof(Real<S>)));
      else
        sum = target;
      for (int64_t r = 0; r < in; r++) memset(sum + r * stride, 0, (c1 - c0) * sizeof(Real<S>));
      for (int64_t r = n * out; r < (n + 1) * out; r++)
        for (int64_t c = c0; c < c1; c++) {
          const int64_t at = index[r * channels + c];
          if (at >= 0) sum[at * stride + c - c0] += value(g[r * channels + c]);
        }
      if constexpr (sizeof(S) < sizeof(Real<S>))
        for (int64_t r = 0; r < in; r++)
          for (int64_t c = 0; c < c1 - c0; c++) put(target + r * channels + c, sum[r * stride + c]);
    }
  });
}

}  // namespace pdl::PDL_ISA::pooling
