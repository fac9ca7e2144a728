// Products and convolutions whose weights were packed before, for nets that learn no more: what a call of gemm.h or conv.h spends on its
// weights is spent once, and threads divide the work so that, where it is the weights that have to be fetched, each is fetched once.
//
// Four forms (enum Packed in table.h). kPackedRows: a matrix product whose rows are the windows of the output pixels, in place where the
// convolution is pointwise, gathered block by block into the cache elsewhere; so tiles are full however small the images are.
// kPackedWinograd4 and kPackedWinograd2: winograd.h on points computed before. kPackedTaps: where outputs are few, one pointwise product to
// all taps of all outputs, of which every output then adds up what its window reaches: no window is copied, and registers are full.
#pragma once
#include "conv.h"
#include "winograd.h"

namespace pdl::PDL_ISA::packed {

constexpr int64_t kRowBytes = 256 * 1024;  // of windows, beside the panels of weights, in a second-level cache
constexpr int64_t kSharedBytes = 4 << 20;  // of windows that all threads read
constexpr int64_t kGatherGrain = 32 * 1024;  // values of windows that a thread gathers at least
constexpr int64_t kFarRows = 48;  // rows for which weights that no cache of a core holds are fetched once
constexpr int64_t kFewRows = 2;  // whose sums take turns
constexpr int64_t kRepeat = 8;  // tiles that one call sums
constexpr int64_t kBlock = 256;  // units along k that one pass over the windows sums, where C can be added to

inline int64_t depth_of(const Geometry& g) { return g.kernel[0] * g.kernel[1] * g.kernel[2] * g.c; }

// n values, whole vectors and the rest
template <class T>
inline void copy_values(T* to, const T* from, int64_t n) {
  constexpr int lanes = kLanes<Real<T>>;
  using R = Real<T>;
  if constexpr (kUnit<T> == 1) {
    for (; n >= lanes; n -= lanes, to += lanes, from += lanes) store(to, load(from));
    if (n > 0) store_tail(to, load_tail(from, n), n);
  } else {  // pairs, as bits
    constexpr int64_t pair = lanes * kUnit<T>;
    for (; n >= pair; n -= pair, to += pair, from += pair) store(reinterpret_cast<R*>(to), load(reinterpret_cast<const R*>(from)));
    if (n > 1) store_tail(reinterpret_cast<R*>(to), load_tail(reinterpret_cast<const R*>(from), n / 2), n / 2);
    if (n % 2 != 0) to[n - 1] = from[n - 1];
  }
}

// The windows of output pixels as rows of a matrix [n * out..., kernel... * c].
template <class T>
struct Windows {
  const T* x;
  const Geometry& g;
  int64_t depth, stride;  // values of a row in whole units, and from row to row
  bool there;             // rows are read where they lie

  Windows(const T* image, const Geometry& geometry, bool used_often) : x(image), g(geometry), depth(round_up(depth_of(g), kUnit<T>)) {
    there = is_pointwise(g) && g.c % kUnit<T> == 0 && !(used_often && shares_sets(g.c * static_cast<int64_t>(sizeof(T))));
    stride = there ? g.c : depth + 64 / static_cast<int64_t>(sizeof(T)) * (shares_sets(depth * static_cast<int64_t>(sizeof(T))) ? 1 : 0);
  }

  // Copies numbers [k, k + n) of rows [first, last) to `to`, `apart` from row to row.
  void gather_part(T* to, int64_t apart, int64_t first, int64_t last, int64_t k, int64_t n) const {
    if (is_pointwise(g)) {
      for (int64_t r = first; r < last; r++, to += apart) copy_values(to, x + r * g.c + k, n);
      return;
    }
    each_window(first, last, [&](int64_t image, int64_t d0, int64_t h0, int64_t w0) {
      part(to, image, d0, h0, w0, k, k + n);
      to += apart;
    });
  }

  // Copies rows [first, last) to `to`.
  void gather(T* to, int64_t first, int64_t last) const {
    if (is_pointwise(g)) {
      for (int64_t r = first; r < last; r++, to += stride) copy_row(to, x + r * g.c, g.c);
      return;
    }
    each_window(first, last, [&](int64_t image, int64_t d0, int64_t h0, int64_t w0) {
      window(to, image, d0, h0, w0);
      to += stride;
    });
  }

 private:
  // f(image, d0, h0, w0): where the windows of rows [first, last) begin.
  template <class F>
  void each_window(int64_t first, int64_t last, const F& f) const {
    int64_t w = first % g.out[2], h = first / g.out[2] % g.out[1], d = first / g.out[2] / g.out[1] % g.out[0];
    int64_t n = first / g.out[2] / g.out[1] / g.out[0];
    for (int64_t r = first; r < last; r++) {
      f(n, d * g.stride[0] - g.pad[0], h * g.stride[1] - g.pad[1], w * g.stride[2] - g.pad[2]);
      if (++w < g.out[2]) continue;
      w = 0;
      if (++h < g.out[1]) continue;
      h = 0;
      if (++d == g.out[0]) d = 0, n++;
    }
  }

  // Numbers [k, end) of a window, tap by tap.
  void part(T* to, int64_t n, int64_t d0, int64_t h0, int64_t w0, int64_t k, int64_t end) const {
    while (k < end) {
      const int64_t tap = k / g.c, at = k - tap * g.c, count = min64(g.c - at, end - k);
      const int64_t d = d0 + tap / (g.kernel[1] * g.kernel[2]) * g.dilation[0];
      const int64_t h = h0 + tap / g.kernel[2] % g.kernel[1] * g.dilation[1], w = w0 + tap % g.kernel[2] * g.dilation[2];
      const bool inside = d >= 0 && d < g.in[0] && h >= 0 && h < g.in[1] && w >= 0 && w < g.in[2];
      if (inside) copy_values(to, x + (((n * g.in[0] + d) * g.in[1] + h) * g.in[2] + w) * g.c + at, count);
      else memset(to, 0, count * sizeof(T));
      to += count, k += count;
    }
  }

  static void copy_row(T* to, const T* from, int64_t n) {
    copy_values(to, from, n);
    if (n % kUnit<T> != 0) to[n] = T{};
  }

  void window(T* to, int64_t n, int64_t d0, int64_t h0, int64_t w0) const {
    const int64_t run = g.kernel[2] * g.c;
    const bool beside = g.dilation[2] == 1;
    const int64_t left = max64(0, min64(g.kernel[2], -w0)), right = max64(left, min64(g.kernel[2], g.in[2] - w0));
    for (int64_t kd = 0; kd < g.kernel[0]; kd++)
      for (int64_t kh = 0; kh < g.kernel[1]; kh++, to += run) {
        const int64_t d = d0 + kd * g.dilation[0], h = h0 + kh * g.dilation[1];
        if (d < 0 || d >= g.in[0] || h < 0 || h >= g.in[1]) {
          memset(to, 0, run * sizeof(T));
          continue;
        }
        const T* row = x + ((n * g.in[0] + d) * g.in[1] + h) * g.in[2] * g.c;
        if (beside) {
          if (left > 0) memset(to, 0, left * g.c * sizeof(T));
          copy_values(to + left * g.c, row + (w0 + left) * g.c, (right - left) * g.c);
          if (right < g.kernel[2]) memset(to + right * g.c, 0, (g.kernel[2] - right) * g.c * sizeof(T));
          continue;
        }
        for (int64_t kw = 0; kw < g.kernel[2]; kw++) {
          const int64_t w = w0 + kw * g.dilation[2];
          if (w < 0 || w >= g.in[2]) memset(to + kw * g.c, 0, g.c * sizeof(T));
          else copy_values(to + kw * g.c, row + w * g.c, g.c);
        }
      }
    if (depth != depth_of(g)) *to = T{};
  }
};

// How threads divide a product of m rows in tiles and of panels: into bands of rows times bands of panels, whose borders may lie within a
// panel. Each band of rows fetches the weights, each band of panels the rows: the division that takes least, a number fetched from memory
// counting as many multiply-adds.
struct Bands {
  int rows = 1, columns = 1;

  Bands(int threads, int64_t m, int64_t tile, int64_t panels, int64_t panel) {
    constexpr int64_t fetched = 24;
    const int64_t tiles = (m + tile - 1) / tile;
    int64_t least = INT64_MAX;
    for (int c = 1; c <= threads; c++) {
      const int r = threads / c;
      const int64_t high = min64(m, (tiles + r - 1) / r * tile), wide = (panels * panel + c - 1) / c;
      const int64_t cost = high * wide + fetched * (high + wide);
      if (cost < least) least = cost, rows = r, columns = c;
    }
  }
};

template <class T>
int64_t rows_size(const Geometry& g) {
  return round_up(depth_of(g), kUnit<T>) * round_up(g.o, kPanel<T>);
}

// Panels [depth, panel_width] of whole units, one after the other, each in the room of a full one.
template <class T>
void pack_rows(T* to, const T* w, const Geometry& g) {
  constexpr int panel = kPanel<T>;
  const int64_t depth = depth_of(g), units = round_up(depth, kUnit<T>);
  parallel((g.o + panel - 1) / panel, max64(1, kParallelWork / (depth * panel)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int columns = static_cast<int>(min64(panel, g.o - i * panel));
      pack_panel(to + i * panel * units, w + i * panel, depth, columns, panel_width<T>(columns), g.o, 1);
    }
  });
}

// y [rows, o] = f(windows [rows, depth] w [depth, o] (+ bias) (+ residual))
template <class T>
void rows_forward(T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>& then) {
  using R = Real<T>;
  constexpr int panel = kPanel<T>;
  const int64_t m = g.n * g.out[0] * g.out[1] * g.out[2], panels = (g.o + panel - 1) / panel;
  const Windows<T> windows(x, g, panels >= 3);
  const int64_t depth = windows.depth, tile = even_rows(m, max_rows<T>(static_cast<int>(min64(g.o, panel))));
  const int most = static_cast<int>(min64(num_threads(), max64(1, m * g.o * depth / kParallelWork)));
  const Bands bands(most, m, tile, panels, panel);
  const int64_t whole = sizeof(T) == sizeof(R) ? g.o / panel : 0;  // panels whose biases are read where they lie
  R* start = static_cast<R*>(scratch(Slot::kPanelBias, panels * panel * sizeof(R)));
  for (int64_t j = whole * panel; bias != nullptr && j < panels * panel; j++) start[j] = j < g.o ? value(bias[j]) : R(0);
  const bool few = m <= kFewRows, ends = finishes<T, false>(&then, false);
  const int64_t block = kUnit<T> == 2 || few ? depth : even_rows(depth, kBlock);
  const int64_t whole_rows = kRowBytes / (windows.stride * static_cast<int64_t>(sizeof(T)));
  // Where few whole rows fit, a block of k of many rows passes over all panels, and C grows in memory.
  const bool deep = kUnit<T> == 1 && depth > block && whole_rows < kFarRows && whole_rows < m;
  const bool by_columns = bands.columns > 1;
  const bool shared = by_columns && !windows.there && !(deep && is_pointwise(g)) && m * windows.stride * static_cast<int64_t>(sizeof(T)) <= kSharedBytes;
  const bool in_parts = deep && !windows.there && !shared;
  const int64_t span = deep ? block : depth, apart = in_parts ? block + 64 / static_cast<int64_t>(sizeof(T)) : windows.stride;
  const int64_t strip = max64(tile, (deep ? kRowBytes / (block * static_cast<int64_t>(sizeof(T))) : whole_rows) / tile * tile);
  // Bands in pieces that another thread may take over, as far as weights and windows are not fetched much more often for it.
  const int64_t tiles = (m + tile - 1) / tile;
  const bool near = panels * panel * depth * static_cast<int64_t>(sizeof(T)) <= kRowBytes;
  const int64_t of_band = by_columns ? panels * tiles / bands.columns : near ? tiles : m / kFarRows;
  const int64_t cut = most == 1 || (by_columns && !windows.there && !shared) ? 1 : max64(1, min64(kPieces, of_band / bands.rows));
  const int64_t row_bands = bands.rows * (by_columns ? 1 : cut), runs = bands.columns * (by_columns ? cut : 1);
  const T* gathered = windows.there ? x : nullptr;
  if (shared) {  // all bands of panels read all rows: they are gathered once
    T* all = static_cast<T*>(scratch(Slot::kSharedWindows, m * windows.stride * sizeof(T) + 64));
    parallel(m, kGatherGrain / depth + 1, [&](int64_t begin, int64_t end) { windows.gather(all + begin * windows.stride, begin, end); });
    gathered = all;
  }
  parallel_parts(row_bands * runs, static_cast<int>(row_bands * runs), [&](int64_t from, int64_t to, int) {
    for (int64_t cell = from; cell < to; cell++) {
      const int64_t r = cell / runs, run = cell % runs;
      const int64_t row0 = tiles * r / row_bands * tile, row1 = min64(m, tiles * (r + 1) / row_bands * tile);
      const bool by_tiles = !by_columns && depth <= block && near;
      const int64_t fit = min64(strip, max64(tile, row1 - row0));
      T* copy = gathered != nullptr ? nullptr : static_cast<T*>(scratch(Slot::kWindows, fit * apart * sizeof(T) + 64));
      for (int64_t first = row0; first < row1; first += fit)
        for (int64_t from_k = 0; from_k < depth; from_k += span) {
          const int64_t last = min64(row1, first + fit), to_k = min64(depth, from_k + span);
          const T* a = gathered != nullptr ? gathered + first * apart + from_k : copy;
          if (in_parts) windows.gather_part(copy, apart, first, last, from_k, to_k - from_k);
          else if (gathered == nullptr) windows.gather(copy, first, last);
          // Rows [row, end) of panel `at`, units of k from `k` on; where rows are few, of `count` panels. Meanwhile `bytes` come from `next`.
          const auto product = [&](int64_t at, int64_t k, int64_t row, int64_t end, int64_t count = 1, const char* next = nullptr,
                                   int64_t bytes = 0) {
            const int columns = static_cast<int>(min64(panel, g.o - at * panel)), width = panel_width<T>(columns);
            const T *left = a + (row - first) * apart + k - from_k, *b = w + at * panel * depth + k * width;
            const R* sums = at < whole ? reinterpret_cast<const R*>(bias) + at * panel : start + at * panel;
            Tile<T> t{&left, &b, 1, min64(block, depth - k) / kUnit<T>, apart, width * kUnit<T>, nullptr, g.o,
                      k == 0 && bias != nullptr ? sums : nullptr, k != 0, nullptr};
            if (m <= kStreamed) t.ahead = kAhead;
            if (next != nullptr) t.ask_for(next, bytes, (end - row + tile - 1) / tile);
            if (few) {
              t.beside = panel * depth, t.repeat = count;
              return finished_tile<T, false>(static_cast<int>(m), columns, t, y, at * panel, &then, ColumnSums{});
            }
            finished_tiles<T, false>(end - row, tile, columns, t, y, row * g.o + at * panel, k + block < depth ? nullptr : &then, ColumnSums{});
          };
          if (few) {
            const int64_t end = panels * (run + 1) / runs;
            for (int64_t at = panels * run / runs, count; at < end; at += count) {
              count = ends ? max64(1, min64(end, g.o / panel) - at) : 1;
              product(at, 0, 0, m, count);
            }
          } else if (by_tiles) {  // rows of y are written whole
            for (int64_t row = first; row < last; row += kRepeat * tile)
              for (int64_t at = 0; at < panels; at++) product(at, 0, row, min64(last, row + kRepeat * tile));
          } else {  // this cell's run of all (panel, tile of rows)
            const int64_t high = (last - first + tile - 1) / tile, pieces = panels * high;
            const int64_t unit = panels >= runs ? high : 1;  // whole panels, where there are enough
            const int64_t begin = pieces / unit * run / runs * unit, end = pieces / unit * (run + 1) / runs * unit;
            for (int64_t at = begin / high; at * high < end; at++) {
              const int64_t from_tile = max64(begin, at * high), to_tile = min64(end, (at + 1) * high);
              const int width = panel_width<T>(static_cast<int>(min64(panel, g.o - at * panel)));
              // Weights of the next block come nearer while this one's tiles are summed, a share each.
              const int64_t count = to_tile - from_tile, bytes = block * width * static_cast<int64_t>(sizeof(T));
              for (int64_t k = from_k; k < to_k; k += block) {
                const char* next = reinterpret_cast<const char*>(w + (deep ? at + 1 : at) * panel * depth + (deep ? k : k + block) * width);
                for (int64_t i = from_tile; i < to_tile; i += kRepeat) {
                  const int64_t until = min64(to_tile, i + kRepeat);
                  product(at, k, first + (i - at * high) * tile, min64(last, first + (until - at * high) * tile), 1,
                          next + bytes * (i - from_tile) / count, bytes * (until - i) / count);
                }
              }
            }
          }
        }
    }
  });
}

// The product [pixels, c] by [c, taps * o] of one image.
inline Geometry tap_product(const Geometry& g) {
  Geometry p = g;
  p.n = 1, p.o = g.o * g.kernel[0] * g.kernel[1] * g.kernel[2];
  for (int d = 0; d < kDims; d++) p.out[d] = p.in[d], p.kernel[d] = p.stride[d] = p.dilation[d] = 1, p.pad[d] = 0;
  return p;
}

template <class T>
void pack_taps(T* to, const T* w, const Geometry& g) {
  const Geometry p = tap_product(g);
  T* turned = static_cast<T*>(scratch(Slot::kTapProducts, g.c * p.o * sizeof(T)));
  for (int64_t tap = 0; tap < p.o / g.o; tap++)
    for (int64_t c = 0; c < g.c; c++) memcpy(turned + c * p.o + tap * g.o, w + (tap * g.c + c) * g.o, g.o * sizeof(T));
  pack_rows(to, turned, p);
}

// The outputs [first, last) along a dimension whose inputs at this tap are there.
inline void reached(const Geometry& g, int d, int64_t tap, int64_t& first, int64_t& last) {
  const int64_t offset = tap * g.dilation[d] - g.pad[d], step = g.stride[d];
  first = offset < 0 ? (-offset + step - 1) / step : 0;
  last = g.in[d] <= offset ? 0 : min64(g.out[d], (g.in[d] - 1 - offset) / step + 1);
}

template <class T>
void taps_forward(T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>& then) {
  const Geometry p = tap_product(g);
  const int64_t pixels = g.in[0] * g.in[1] * g.in[2], lines = g.out[0] * g.out[1], line = g.out[2] * g.o;
  T* products = static_cast<T*>(scratch(Slot::kTapProducts, pixels * p.o * sizeof(T)));
  const RowEpilogue<T> finish(&then);
  const auto at_line = [&](int64_t n, int64_t r) {
    const int64_t at = (n * lines + r) * line, place[2] = {r / g.out[1], r % g.out[1]};
    T* to = y + at;
    for (int64_t i = 0; i < line; i++) to[i] = bias == nullptr ? T(0) : bias[i % g.o];
    const T* of_tap = products;
    for (int64_t i = 0; i < g.kernel[0] * g.kernel[1]; i++, of_tap += g.kernel[2] * g.o) {
      const int64_t tap[2] = {i / g.kernel[1], i % g.kernel[1]};
      int64_t from = 0;
      bool there = true;
      for (int d = 0; d < 2; d++) {
        const int64_t k = place[d] * g.stride[d] + tap[d] * g.dilation[d] - g.pad[d];
        there = there && k >= 0 && k < g.in[d], from = from * g.in[d] + k;
      }
      for (int64_t t = 0; there && t < g.kernel[2]; t++) {
        int64_t first, last;
        reached(g, 2, t, first, last);
        const T* source = of_tap + (from * g.in[2] + t * g.dilation[2] - g.pad[2] + first * g.stride[2]) * p.o + t * g.o;
        for (int64_t k = first; k < last; k++, source += g.stride[2] * p.o)
          for (int64_t j = 0; j < g.o; j++) to[k * g.o + j] += source[j];
      }
    }
    if (finish.bounds() != nullptr)
      for (int64_t i = 0; i < line; i++) to[i] = within_bounds(to[i], *finish.bounds());
    finish(y, at, line);
  };
  for (int64_t n = 0; n < g.n; n++) {
    rows_forward(products, x + n * pixels * g.c, w, static_cast<const T*>(nullptr), p, Epilogue<T>{.activation = -1});
    parallel(lines, max64(1, kParallelWork / (line * p.o / g.o)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r++) at_line(n, r);
    });
  }
}

// Values of T that the packed weights take.
template <class T>
int64_t size(int form, const Geometry& g) {
  if (form == kPackedRows) return rows_size<T>(g);
  if (form == kPackedTaps) return rows_size<T>(tap_product(g));
  return (form == kPackedWinograd4 ? 36 : 16) * g.c * g.o * static_cast<int64_t>(sizeof(float) / sizeof(T));
}

//   to OUT [size], w IN [kernel..., c, o]
template <class T>
void pack(int form, T* to, const T* w, const Geometry& g) {
  if (form == kPackedRows) return pack_rows(to, w, g);
  if constexpr (sizeof(Real<T>) == sizeof(T))
    if (form == kPackedTaps) return pack_taps(to, w, g);
  if constexpr (sizeof(Real<T>) == 4) {
    if (form == kPackedWinograd4) winograd::pack_forward<4>(reinterpret_cast<float*>(to), w, g.c, g.o);
    else winograd::pack_forward<2>(reinterpret_cast<float*>(to), w, g.c, g.o);
  }
}

//   y OUT [n, out..., o], x IN [n, in..., c], w IN packed, bias IN [o] or null; `then` without statistics and `before`
template <class T>
void forward(int form, T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>& then) {
  if (form == kPackedRows) return rows_forward(y, x, w, bias, g, then);
  if constexpr (sizeof(Real<T>) == sizeof(T))
    if (form == kPackedTaps) return taps_forward(y, x, w, bias, g, then);
  if constexpr (sizeof(Real<T>) == 4) {
    const winograd::Plane in = winograd::input_plane(g), out = winograd::output_plane(g);
    const float* u = reinterpret_cast<const float*>(w);
    if (form == kPackedWinograd4) winograd::correlate<4>(y, x, u, bias, in, out, &then);
    else winograd::correlate<2>(y, x, u, bias, in, out, &then);
  }
}

}  // namespace pdl::PDL_ISA::packed
