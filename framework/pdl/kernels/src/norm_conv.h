// A convolution that normalises and activates its input while it loads it, and takes the statistics of its output while that is hot:
//   h = f((x - mean) rstd scale + shift), y = h * w, and mean and variance of y over all pixels;
// depthwise, or 1 x 1 with all channels. So between two convolutions of a net the raw output of the first is all that memory sees: it is
// written once and read once, where convolution, statistics, normalisation and convolution take five passes.
//
// The gradient takes what came for y and for its statistics, makes the gradient of the raw y from both while loading (so batch norm needs no
// pass of its own), computes h again from x, and leaves the direct part of the gradient of x with the sums for the statistics of x.
#pragma once
#include "batch_norm.h"
#include "dense.h"
#include "depthwise.h"

namespace pdl::PDL_ISA::norm_conv {

using norm::Bunch;
using norm::bunch_of;
using norm::fetch;
using norm::leave;

// Results too large to find in a cache again go to memory past it, which saves reading the lines that they overwrite.
constexpr int64_t kStreamBytes = 8 << 20;
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
template <class S>
bool streams(const S* to, int64_t values, int64_t channels) {
  return sizeof(S) >= 4 && values * static_cast<int64_t>(sizeof(S)) >= kStreamBytes && channels % kLanes<Real<S>> == 0 &&
         reinterpret_cast<uintptr_t>(to) % 64 == 0;
}
PDL_INLINE void stream(float* to, Vec<float> v) { _mm512_stream_ps(to, (__m512)v); }
PDL_INLINE void stream(double* to, Vec<double> v) { _mm512_stream_pd(to, (__m512d)v); }
PDL_INLINE void stream(bf16* to, Vec<float> v) { store(to, v); }
inline void end_stream() { _mm_sfence(); }
#else
template <class S>
bool streams(const S*, int64_t, int64_t) { return false; }
template <class S>
PDL_INLINE void stream(S* to, Vec<Real<S>> v) { store(to, v); }
inline void end_stream() {}
#endif

// Per-channel arrays of T, in whole vectors with zeros at the end.
template <class T>
struct ChannelArrays {
  int64_t channels, padded;
  norm::Scratch<T> memory;

  ChannelArrays(int64_t count, int64_t arrays) : channels(count), padded(round_up(count, kLanes<T>)), memory(arrays * padded) {}
  T* operator[](int64_t i) const { return memory + i * padded; }
};

// What the input goes through: (x - [0]) [1] + [2], then the activation.
template <class T>
struct Input : ChannelArrays<T> {
  norm::Scratch<T> rstd;

  Input(const NormInput<T>& in, int64_t channels) : ChannelArrays<T>(channels, 3), rstd(channels) {
    if (in.mean == nullptr) return;
    norm::inverse_root<T>(rstd, in.var, channels, in.eps);
    for (int64_t c = 0; c < channels; c++) {
      (*this)[0][c] = in.mean[c];
      (*this)[1][c] = norm::slope_of<T>(rstd, in.scale, c);
      (*this)[2][c] = static_cast<T>(norm::or_zero(in.shift, c));
    }
  }
};

// to[i] = f(parameters, offset of pixel first + i, lanes), channel tiles with their parameters in registers, for a few pixels at a time
//   to OUT pixels to_step apart, whole vectors
template <class T, class P, class F>
PDL_INLINE void map_pixels(T* to, int64_t to_step, int64_t first, int64_t pixels, int64_t channels, const P& prepare, const F& f) {
  constexpr int64_t kSome = 8;
  for (int64_t begin = 0; begin < pixels; begin += kSome) {
    const int64_t end = min64(pixels, begin + kSome);
    norm::tiles<T>(channels, [&](auto count, int64_t c, int lanes) {
      constexpr int N = decltype(count)::value;
      decltype(prepare(c, lanes)) ready[N];
      for (int j = 0; j < N; j++) ready[j] = prepare(c + j * kLanes<T>, lanes);
      for (int64_t i = begin; i < end; i++)
        for (int j = 0; j < N; j++)
          store(to + i * to_step + c + j * kLanes<T>, f(ready[j], (first + i) * channels + c + j * kLanes<T>, lanes));
    });
  }
}

// Something that loads pixels: load(to, to_step, first, pixels) writes pixels [first, first + pixels) as T, to_step apart in whole vectors.
// By reference and behind a pointer: the loops around it, which are long, are compiled once for all activations.
template <class T>
struct Pixels {
  const void* load;
  void (*call)(const void* load, T* to, int64_t to_step, int64_t first, int64_t pixels);

  template <class Load>
  Pixels(const Load& of)
      : load(&of), call([](const void* self, T* to, int64_t to_step, int64_t first, int64_t pixels) {
          (*static_cast<const Load*>(self))(to, to_step, first, pixels);
        }) {}
  void operator()(T* to, int64_t to_step, int64_t first, int64_t pixels) const { call(load, to, to_step, first, pixels); }
};

// Pixels of h.
template <class S, class A>
struct LoadInput {
  using T = Real<S>;
  const S* x;
  const Input<T>* in;
  A f;

  void operator()(T* to, int64_t to_step, int64_t first, int64_t pixels) const {
    const S* from = x;
    const A act = f;
    map_pixels<T>(to, to_step, first, pixels, in->channels, bunch_of<T>((*in)[0], (*in)[1], (*in)[2]),
                  [=](const Bunch<T, 3>& p, int64_t at, int lanes) { return act.value((fetch(from + at, lanes) - p.of[0]) * p.of[1] + p.of[2]); });
  }
};

// Pixels of the gradient of the raw y: g + g_mean / n + (y - mean) 2 g_var / n.
template <class S>
struct LoadGradient {
  using T = Real<S>;
  const S *g, *y;
  const ChannelArrays<T>* k;  // mean, g_mean / n, 2 g_var / n; null: g alone

  void operator()(T* to, int64_t to_step, int64_t first, int64_t pixels) const {
    const S *from = g, *with = y;
    map_pixels<T>(to, to_step, first, pixels, k->channels, bunch_of<T>((*k)[0], (*k)[1], (*k)[2]),
                  [=](const Bunch<T, 3>& p, int64_t at, int lanes) {
      return fetch(from + at, lanes) + (p.of[1] + (fetch(with + at, lanes) - p.of[0]) * p.of[2]);
    });
  }
};

// Statistics of pixels that come in runs, part by part.
template <class S>
struct Statistics {
  using T = Real<S>;
  int64_t channels;
  norm::Scratch<double> memory;
  norm::Scratch<int64_t> seen;
  int parts;

  Statistics(int64_t c, int count) : channels(c), memory(2 * count * c), seen(count), parts(count) {}

  // y IN pixels [first, last), `step` values apart
  void add(int part, const S* y, int64_t first, int64_t last, int64_t step) const {
    double* mean = memory + 2 * part * channels;
    norm::add_moments(mean, mean + channels, seen[part], y, first, last, step, channels);
    seen[part] += last - first;
  }

  void finish(T* mean, T* var) const {
    for (int64_t c = 0; c < channels; c++) {
      double count = 0, m = 0, q = 0;
      for (int part = 0; part < parts; part++) {
        if (seen[part] == 0) continue;
        const double* from = memory + 2 * part * channels + c;
        norm::merge(count, m, q, static_cast<double>(seen[part]), from[0], from[channels]);
        count += static_cast<double>(seen[part]);
      }
      mean[c] = static_cast<T>(m);
      var[c] = static_cast<T>(q / count);
    }
  }
};

// From dh, the gradient of h, to that of x: dx = dh f' slope, and the sums of dh f' and of dh f' (x - mean).
//   dx OUT pixels [first, first + pixels), dh IN pixels dh_step apart, sums OUT [2][channels], added to
template <class S, class A>
void pull_pixels(const A& f, S* dx, const Real<S>* dh, int64_t dh_step, const S* x, int64_t first, int64_t pixels, const Input<Real<S>>& in,
                 double* sums, bool streaming) {
  using T = Real<S>;
  const auto prepare = bunch_of<T>(in[0], in[1], in[2]);
  norm::tiles<T>(in.channels, [&](auto count, int64_t c, int lanes) {
    constexpr int N = decltype(count)::value;
    Bunch<T, 3> p[N];
    for (int j = 0; j < N; j++) p[j] = prepare(c + j * kLanes<T>, lanes);
    Vec<T> u[N] = {}, v[N] = {};
    for (int64_t i = 0; i < pixels; i++)
      for (int j = 0; j < N; j++) {
        const int64_t at = (first + i) * in.channels + c + j * kLanes<T>;
        const Vec<T> d = fetch(x + at, lanes) - p[j].of[0];
        const Vec<T> g = f.pull(load(dh + i * dh_step + c + j * kLanes<T>), d * p[j].of[1] + p[j].of[2]);
        streaming ? stream(dx + at, g * p[j].of[1]) : leave(dx + at, g * p[j].of[1], lanes);
        u[j] += g;
        v[j] += g * d;
      }
    T us[N * kLanes<T>], vs[N * kLanes<T>];
    for (int j = 0; j < N; j++) store<T>(us + j * kLanes<T>, u[j]), store<T>(vs + j * kLanes<T>, v[j]);
    const int here = lanes ? lanes : N * kLanes<T>;
    for (int j = 0; j < here; j++) sums[c + j] += us[j], sums[in.channels + c + j] += vs[j];
  });
}

// pull_pixels with an activation, behind a pointer as Pixels are.
template <class S>
struct Pull {
  const void* f;
  void (*call)(const void* f, S* dx, const Real<S>* dh, int64_t dh_step, const S* x, int64_t first, int64_t pixels, const Input<Real<S>>& in,
               double* sums, bool streaming);

  template <class A>
  Pull(const A& of)
      : f(&of), call([](const void* self, S* dx, const Real<S>* dh, int64_t dh_step, const S* x, int64_t first, int64_t pixels,
                        const Input<Real<S>>& in, double* sums, bool streaming) {
          pull_pixels(*static_cast<const A*>(self), dx, dh, dh_step, x, first, pixels, in, sums, streaming);
        }) {}
  void operator()(S* dx, const Real<S>* dh, int64_t dh_step, const S* x, int64_t first, int64_t pixels, const Input<Real<S>>& in, double* sums,
                  bool streaming) const {
    call(f, dx, dh, dh_step, x, first, pixels, in, sums, streaming);
  }
};

// Everything that backward reads and writes.
template <class S, class T = Real<S>>
struct Gradients {
  S* dx;
  T *dw, *dmean, *dvar, *dscale, *dshift;
  const S *g, *y;
  const ChannelArrays<T>* raw;  // for LoadGradient
  const S* x;
  const NormInput<T>* norm;
  const T* w;
  bool streaming;  // dx goes past the caches

  bool normed() const { return norm->mean != nullptr; }
  void finish(double* sums, int parts, const Input<T>& in) const {
    for (int64_t c = 0; c < 2 * in.channels; c++)
      for (int p = 1; p < parts; p++) sums[c] += sums[2 * p * in.channels + c];
    norm::statistics_gradient<T>(dmean, dvar, dscale, dshift, sums, sums + in.channels, in.rstd, norm->scale, in.channels);
  }
};

// -- depthwise
template <class S>
void depthwise_forward(S* y, Real<S>* mean, Real<S>* var, const Depthwise<Real<S>>& d, const Pixels<Real<S>>& pixels) {
  using T = Real<S>;
  constexpr int64_t kRun = 64;  // pixels of y that are taken together into the statistics
  const Geometry& g = d.g;
  const int64_t rows = d.images() * g.out[1];
  const int parts = pieces_of(rows, d.grain(g.out[2]), kPieceRows);
  Statistics<S> statistics(g.c, parts);
  parallel_parts(rows, parts, [&](int64_t begin, int64_t end, int part) {
    RowRing<T> ring = d.ring_of_inputs();
    ring.place(static_cast<T*>(scratch(Slot::kChannelRows, ring.size() * sizeof(T))));
    int64_t counted = begin;
    for (int64_t r = begin; r < end; r++) {
      const int64_t n = r / g.out[1];
      d.output_row(y + r * g.out[2] * g.c, ring, n, r % g.out[1],
                   [&](int64_t ih, T* to) { pixels(to, d.padded, (n * g.in[1] + ih) * g.in[2], g.in[2]); });
      if (mean == nullptr || ((r + 1 - counted) * g.out[2] < kRun && r + 1 < end)) continue;
      statistics.add(part, y, counted * g.out[2], (r + 1) * g.out[2], g.c);
      counted = r + 1;
    }
  });
  if (mean != nullptr) statistics.finish(mean, var);
}

template <class S>
void depthwise_backward(const Gradients<S>& to, const Depthwise<Real<S>>& d, const Input<Real<S>>& in, const Pull<S>& pull,
                        const Pixels<Real<S>>& h_pixels, const Pixels<Real<S>>& g_pixels) {
  using T = Real<S>;
  const Geometry& g = d.g;
  const int64_t rows = d.images() * g.in[1], total = d.taps() * d.padded, wide = g.in[2] * d.padded;
  const int parts = parts_of(rows, d.grain(g.in[2]));
  norm::Scratch<T> sums(parts * total);
  norm::Scratch<double> channel_sums(parts * 2 * g.c);
  parallel_parts(rows, parts, [&](int64_t begin, int64_t end, int part) {
    RowRing<T> ring = d.ring_of_outputs(), row = d.ring_of_inputs();
    row.slots = 1;
    T* memory = static_cast<T*>(scratch(Slot::kChannelRows, (ring.size() + row.size() + wide) * sizeof(T)));
    ring.place(memory), row.place(memory + ring.size());
    T* dh = memory + ring.size() + row.size();
    for (int64_t r = begin; r < end; r++) {
      const int64_t n = r / g.in[1], ih = r % g.in[1];
      int64_t first, last;
      d.output_rows(ih, first, last);
      ring.need(n, first, last, [&](int64_t oh, T* at) { g_pixels(at, d.padded, (n * g.out[1] + oh) * g.out[2], g.out[2]); });
      h_pixels(row.row(0), d.padded, r * g.in[2], g.in[2]);
      d.add_weights(sums + part * total, row.row(0), ring, ih);
      if (to.normed()) {
        d.input_row(dh, d.padded, d.padded, ring, ih);
        pull(to.dx, dh, d.padded, to.x, r * g.in[2], g.in[2], in, channel_sums + part * 2 * g.c, to.streaming);
      } else {
        d.input_row(to.dx + r * g.in[2] * g.c, g.c, g.c, ring, ih);
      }
    }
    if (to.streaming) end_stream();
  });
  d.finish_weights(to.dw, static_cast<const T*>(sums), parts);
  if (to.normed()) to.finish(channel_sums, parts, in);
}

// -- 1 x 1
// Blocks are taken from the last to the first, where depthwise kernels take rows from the first to the last: each finds in the cache what the
// one before it touched last.
// Rows of pixels, cut so that a block of inputs, gradients and outputs stays in the second-level cache.
template <class T>
struct Pointwise {
  int64_t rows, c, o, padded_c, padded_o, block, blocks, grain;

  Pointwise(const Geometry& g) : rows(g.n * g.in[0] * g.in[1] * g.in[2]), c(g.c), o(g.o) {
    padded_c = round_up(c, kLanes<T>), padded_o = round_up(o, 2 * kLanes<T>);
    const int64_t bytes = (2 * padded_c + padded_o) * static_cast<int64_t>(sizeof(T)), threads = num_threads();
    const int64_t fits = max64(28, min64(252, 384 * 1024 / bytes));
    blocks = round_up((rows + fits - 1) / fits, threads);
    block = (rows + blocks - 1) / blocks;
    blocks = (rows + block - 1) / block;
    grain = max64(1, kParallelWork / max64(1, block * c * o));
  }
};

template <class S>
void pointwise_forward(S* y, Real<S>* mean, Real<S>* var, const Pointwise<Real<S>>& p, const Real<S>* w, const S* direct,
                       const Pixels<Real<S>>& pixels) {
  using T = Real<S>;
  constexpr bool kStored = sizeof(S) == sizeof(T);
  T* packed = static_cast<T*>(scratch(Slot::kChannelWeights, packed_size<T>(p.c, p.o) * sizeof(T)));
  pack_right(packed, w, p.c, p.o, p.o, int64_t{1});
  const int parts = pieces_of(p.blocks, p.grain);
  Statistics<S> statistics(p.o, parts);
  const bool streaming = streams(y, p.rows * p.o, p.o);
  parallel_parts(p.blocks, parts, [&](int64_t begin, int64_t end, int part) {
    T *in = static_cast<T*>(scratch(Slot::kChannelRows, p.block * (p.padded_c + p.padded_o) * sizeof(T))), *out = in + p.block * p.padded_c;
    for (int64_t b = end - 1; b >= begin; b--) {
      const int64_t first = b * p.block, count = min64(p.block, p.rows - first);
      const T* from = in;
      int64_t step = p.padded_c;
      if constexpr (kStored)
        if (direct != nullptr) from = direct + first * p.c, step = p.c;
      if (from == in) pixels(in, p.padded_c, first, count);
      bool done = false;
      if constexpr (kStored) {
        if (!streaming) block_product(y + first * p.o, p.o, from, step, false, count, p.c, packed, p.o, false), done = true;
      }
      if (!done) {
        block_product(out, p.padded_o, from, step, false, count, p.c, packed, p.o, false);
        for (int64_t i = 0; i < count; i++)
          for (int64_t c = 0; c < p.o; c += kLanes<T>) {
            const Vec<T> v = load(out + i * p.padded_o + c);
            S* at = y + (first + i) * p.o + c;
            streaming ? stream(at, v) : leave(at, v, p.o - c < kLanes<T> ? static_cast<int>(p.o - c) : 0);
          }
      }
      if (mean == nullptr) continue;
      if constexpr (kStored)
        if (streaming) {
          statistics.add(part, out, 0, count, p.padded_o);
          continue;
        }
      statistics.add(part, y, first, first + count, p.o);
    }
    if (streaming) end_stream();
  });
  if (mean != nullptr) statistics.finish(mean, var);
}

template <class S>
void pointwise_backward(const Gradients<S>& to, const Pointwise<Real<S>>& p, const Input<Real<S>>& in, const Pull<S>& pull,
                        const Pixels<Real<S>>& h_pixels, const Pixels<Real<S>>& g_pixels) {
  using T = Real<S>;
  constexpr bool kStored = sizeof(S) == sizeof(T);
  T* packed = static_cast<T*>(scratch(Slot::kChannelWeights, packed_size<T>(p.o, p.c) * sizeof(T)));
  pack_right(packed, to.w, p.o, p.c, int64_t{1}, p.o);
  const int parts = parts_of(p.blocks, p.grain);
  norm::Scratch<T> sums(parts * p.c * p.o);
  norm::Scratch<double> channel_sums(parts * 2 * p.c);
  parallel_parts(p.blocks, parts, [&](int64_t begin, int64_t end, int part) {
    T* h = static_cast<T*>(scratch(Slot::kChannelRows, (p.block * (2 * p.padded_c + p.padded_o) + 2 * kLanes<T>) * sizeof(T)));
    T *dh = h + p.block * p.padded_c, *dy = dh + p.block * p.padded_c;
    for (int64_t b = end - 1; b >= begin; b--) {
      const int64_t first = b * p.block, count = min64(p.block, p.rows - first);
      const T* from = h;
      int64_t step = p.padded_c;
      if constexpr (kStored)
        if (!to.normed()) from = to.x + first * p.c, step = p.c;
      if (from == h) h_pixels(h, p.padded_c, first, count);
      g_pixels(dy, p.padded_o, first, count);
      weight_product(sums + part * p.c * p.o, from, step, dy, p.padded_o, count, p.c, p.o);
      if constexpr (kStored) {
        if (!to.normed()) {
          block_product(to.dx + first * p.c, p.c, dy, p.padded_o, false, count, p.o, packed, p.c, false);
          continue;
        }
      }
      block_product(dh, p.padded_c, dy, p.padded_o, false, count, p.o, packed, p.c, false);
      if (to.normed()) {
        pull(to.dx, dh, p.padded_c, to.x, first, count, in, channel_sums + part * 2 * p.c, to.streaming);
      } else {
        for (int64_t i = 0; i < count; i++)
          for (int64_t c = 0; c < p.c; c += kLanes<T>)
            leave(to.dx + (first + i) * p.c + c, load(dh + i * p.padded_c + c), p.c - c < kLanes<T> ? static_cast<int>(p.c - c) : 0);
      }
    }
    if (to.streaming) end_stream();
  });
  add_parts(to.dw, static_cast<const T*>(sums), parts, p.c * p.o);
  if (to.normed()) to.finish(channel_sums, parts, in);
}

// Pixels as they are.
template <class S>
struct LoadPlain {
  const S* x;
  int64_t channels;
  void operator()(Real<S>* to, int64_t to_step, int64_t first, int64_t pixels) const { PlainRows<S>{x, channels}(to, to_step, first, pixels); }
};

// y = h * w, and (where mean is not null) its statistics
//   y OUT [n, out..., o], mean, var OUT [o] or null, x IN [n, in..., c], w IN [kernel..., c / groups, o]
template <class S>
void forward(S* y, Real<S>* mean, Real<S>* var, const S* x, const NormInput<Real<S>>& in, const Real<S>* w, const Geometry& g) {
  using T = Real<S>;
  const Input<T> k(in, g.c);
  const auto run = [&](const Pixels<T>& pixels) {
    if (!is_depthwise(g)) return pointwise_forward(y, mean, var, Pointwise<T>(g), w, in.mean == nullptr ? x : nullptr, pixels);
    Depthwise<T> d(g);
    norm::Scratch<T> packed(d.packed_size());
    d.pack(static_cast<T*>(packed), w, static_cast<const T*>(nullptr));
    depthwise_forward(y, mean, var, d, pixels);
  };
  if (in.mean == nullptr) return run(LoadPlain<S>{x, g.c});
  with_activation<T>(in.act, [&](auto f) { run(LoadInput<S, decltype(f)>{x, &k, f}); });
}

// The gradients of forward for g (of y), g_mean and g_var (of its statistics, or null): dx is the part of the gradient of x that does not
// go through its own statistics; those get dmean and dvar.
//   dx OUT like x, dw OUT like w, dmean, dvar, dscale, dshift OUT [c] (where the input was normed)
//   g, y IN [n, out..., o], y_mean, g_mean, g_var IN [o] (y and these where there are statistics), x, in, w as in forward
template <class S>
void backward(S* dx, Real<S>* dw, Real<S>* dmean, Real<S>* dvar, Real<S>* dscale, Real<S>* dshift, const S* g, const S* y,
              const Real<S>* y_mean, const Real<S>* g_mean, const Real<S>* g_var, const S* x, const NormInput<Real<S>>& in, const Real<S>* w,
              const Geometry& geometry) {
  using T = Real<S>;
  const Geometry& s = geometry;
  const Input<T> k(in, s.c);
  const ChannelArrays<T> raw(s.o, 3);
  const double n = static_cast<double>(s.n * s.out[0] * s.out[1] * s.out[2]);
  for (int64_t c = 0; c < s.o && g_mean != nullptr; c++) {
    raw[0][c] = y_mean[c];
    raw[1][c] = static_cast<T>(static_cast<double>(g_mean[c]) / n);
    raw[2][c] = static_cast<T>(2.0 * static_cast<double>(g_var[c]) / n);
  }
  const bool streaming = streams(dx, s.n * s.in[1] * s.in[2] * s.c, s.c);
  const Gradients<S> to{dx, dw, dmean, dvar, dscale, dshift, g, y, &raw, x, &in, w, streaming};
  const auto run = [&](const Pull<S>& pull, const Pixels<T>& h_pixels, const Pixels<T>& g_pixels) {
    if (!is_depthwise(s)) return pointwise_backward(to, Pointwise<T>(s), k, pull, h_pixels, g_pixels);
    Depthwise<T> d(s);
    norm::Scratch<T> packed(d.packed_size());
    d.pack_back(static_cast<T*>(packed), w);
    depthwise_backward(to, d, k, pull, h_pixels, g_pixels);
  };
  const auto with_g = [&](const Pull<S>& pull, const Pixels<T>& h_pixels) {
    if (g_mean == nullptr) run(pull, h_pixels, LoadPlain<S>{g, s.o});
    else run(pull, h_pixels, LoadGradient<S>{g, y, &raw});
  };
  if (in.mean == nullptr) return with_g(NoActivation<T>{}, LoadPlain<S>{x, s.c});
  with_activation<T>(in.act, [&](auto f) { with_g(f, LoadInput<S, decltype(f)>{x, &k, f}); });
}

// Mean and variance over the rows of x [rows, columns].
template <class S>
void moments(Real<S>* mean, Real<S>* var, const S* x, int64_t rows, int64_t columns) {
  norm::Scratch<double> stats(2 * columns);
  norm::moments(stats.data, stats + columns, x, rows, columns);
  for (int64_t c = 0; c < columns; c++) {
    mean[c] = static_cast<Real<S>>(stats[c]);
    var[c] = static_cast<Real<S>>(stats[columns + c] / static_cast<double>(rows));
  }
}

// dx = g + g_mean / rows + (x - mean) 2 g_var / rows: the gradient of a value and of its statistics.   dx OUT, g (may be dx), x IN [rows, columns]
template <class S>
void moments_grad(S* dx, const S* g, const S* x, const Real<S>* mean, const Real<S>* g_mean, const Real<S>* g_var, int64_t rows,
                  int64_t columns) {
  using T = Real<S>;
  const norm::Shape s = norm::folded<T>(rows, columns);
  norm::Scratch<T> wide(3 * s.columns);
  T *centre = wide, *a = centre + s.columns, *b = a + s.columns;
  const double n = static_cast<double>(rows);
  norm::spread<T>(centre, s, [=](int64_t c) { return mean[c]; });
  norm::spread<T>(a, s, [=](int64_t c) { return static_cast<T>(static_cast<double>(g_mean[c]) / n); });
  norm::spread<T>(b, s, [=](int64_t c) { return static_cast<T>(2.0 * static_cast<double>(g_var[c]) / n); });
  norm::each<T>(rows, columns, bunch_of<T>(centre, a, b), [=](const Bunch<T, 3>& p, int64_t at, int lanes) {
    leave(dx + at, fetch(g + at, lanes) + (p.of[1] + (fetch(x + at, lanes) - p.of[0]) * p.of[2]), lanes);
  });
}

}  // namespace pdl::PDL_ISA::norm_conv
