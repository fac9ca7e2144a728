// Transforms of real frames of signals: STFT, spectrograms, mel spectrograms, and the adjoint of the first.
//
// As many frames as a vector has lanes are transformed at once, one in each lane, so that no step of the transform moves numbers between lanes:
// frames are turned into lanes as they are loaded and windowed, and only what is stored is turned back. Powers and sums over bands of a filter
// bank are made in between: a block of frames is in the first cache from the samples to the bands.
//
// n real points, n even, are n / 2 complex ones: z_j = x_2j + i x_2j+1, whose transform Z gives X_k = E_k + w^k O_k, where
// E_k = (Z_k + conj Z_(n/2-k)) / 2, O_k = (Z_k - conj Z_(n/2-k)) / 2i, w = e^(-2 pi i / n). The factor 1/2 goes into the window. The transform
// of Z is decimation in frequency in place, of radices 4, 2, 3, 5 and any other prime; what is read at the end is read where it lies (`place`).
#pragma once
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA::fft {

constexpr int64_t kGrainPoints = 1 << 14;  // points that a thread should at least have
constexpr int64_t kFirstCache = 24 << 10;  // bytes of points that stay in it
constexpr int64_t kChunk = 4096;           // samples of a signal that are summed at a time

template <class T>
struct Complex {
  Vec<T> re, im;
};
template <class T>
PDL_INLINE Complex<T> operator+(Complex<T> a, Complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T>
PDL_INLINE Complex<T> operator-(Complex<T> a, Complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T>
PDL_INLINE Complex<T> operator*(Complex<T> a, T s) { return {a.re * s, a.im * s}; }
// a - i b and a + i b
template <class T>
PDL_INLINE Complex<T> minus_i(Complex<T> a, Complex<T> b) { return {a.re + b.im, a.im - b.re}; }
template <class T>
PDL_INLINE Complex<T> plus_i(Complex<T> a, Complex<T> b) { return {a.re - b.im, a.im + b.re}; }
template <class T>
PDL_INLINE Complex<T> times(Complex<T> a, T c, T s) { return {a.re * c - a.im * s, a.im * c + a.re * s}; }
template <class T>
PDL_INLINE Complex<T> load_point(const T* z) { return {load(z), load(z + kLanes<T>)}; }
template <class T>
PDL_INLINE void store_point(T* z, Complex<T> a) { store(z, a.re), store(z + kLanes<T>, a.im); }
template <class T>
constexpr int64_t kPoint = 2 * kLanes<T>;  // numbers of a complex point in all lanes

// v[i][l] and v[l][i] exchanged
template <class T, int step = 1>
PDL_INLINE void turn(Vec<T> (&v)[kLanes<T>]) {
  constexpr int lanes = kLanes<T>;
  if constexpr (step < lanes) {
    Mask<T> low{}, high{};
    for (int l = 0; l < lanes; l++) low[l] = l & step ? lanes + l - step : l, high[l] = l & step ? lanes + l : l + step;
#pragma GCC unroll 16
    for (int i = 0; i < lanes; i++) {
      if (i & step) continue;
      const Vec<T> a = v[i], b = v[i + step];
      v[i] = __builtin_shuffle(a, b, low), v[i + step] = __builtin_shuffle(a, b, high);
    }
    turn<T, 2 * step>(v);
  }
}

// -- the transform of complex points in lanes ---------------------------------------------------------------------------------------------
// The sums of R points that lie `step` apart, each times its twiddle factor (`twisted`: those of the first position are 1)
template <class T, int R, bool twisted>
PDL_INLINE void butterfly(T* z, int64_t step, const T* w) {
  Complex<T> a[R], b[R];
#pragma GCC unroll 8
  for (int k = 0; k < R; k++) a[k] = load_point(z + k * step);
  if constexpr (R == 2) {
    b[0] = a[0] + a[1], b[1] = a[0] - a[1];
  } else if constexpr (R == 3) {
    const Complex<T> sum = a[1] + a[2], half = a[0] - sum * T(0.5), side = (a[1] - a[2]) * T(0.86602540378443864676);
    b[0] = a[0] + sum, b[1] = minus_i(half, side), b[2] = plus_i(half, side);
  } else if constexpr (R == 4) {
    const Complex<T> even = a[0] + a[2], other = a[0] - a[2], odd = a[1] + a[3], side = a[1] - a[3];
    b[0] = even + odd, b[1] = minus_i(other, side), b[2] = even - odd, b[3] = plus_i(other, side);
  } else {
    static_assert(R == 5);
    constexpr T c1 = T(0.30901699437494742410), c2 = T(-0.80901699437494742410);  // cos 2 pi k / 5
    constexpr T s1 = T(0.95105651629515357212), s2 = T(0.58778525229247312917);   // sin 2 pi k / 5
    const Complex<T> p = a[1] + a[4], q = a[2] + a[3], u = a[1] - a[4], v = a[2] - a[3];
    const Complex<T> first = a[0] + p * c1 + q * c2, second = a[0] + p * c2 + q * c1;
    const Complex<T> x = u * s1 + v * s2, y = u * s2 - v * s1;
    b[0] = a[0] + p + q, b[1] = minus_i(first, x), b[2] = minus_i(second, y), b[3] = plus_i(second, y), b[4] = plus_i(first, x);
  }
  store_point(z, b[0]);
#pragma GCC unroll 8
  for (int k = 1; k < R; k++) store_point(z + k * step, twisted ? times<T>(b[k], w[2 * k - 2], w[2 * k - 1]) : b[k]);
}
template <class T, int R>
void stage(T* z, const T* w, int64_t points, int64_t length) {
  const int64_t m = length / R, step = m * kPoint<T>;
  for (int64_t at = 0; at < points; at += length) butterfly<T, R, false>(z + at * kPoint<T>, step, w);
  for (int64_t j = 1; j < m; j++)
    for (int64_t at = j; at < points; at += length) butterfly<T, R, true>(z + at * kPoint<T>, step, w + j * 2 * (R - 1));
}
// A prime radix: roots [radix, 2] are e^(2 pi i k / radix), and stand in front of the twiddle factors; `held` has room for the points.
template <class T>
void stage_of_prime(T* z, const T* roots, T* held, int64_t points, int64_t length, int64_t radix) {
  const int64_t m = length / radix, step = m * kPoint<T>;
  for (int64_t j = 0; j < m; j++) {
    const T* w = roots + 2 * radix + j * 2 * (radix - 1);
    for (int64_t at = j; at < points; at += length) {
      T* own = z + at * kPoint<T>;
      const Complex<T> first = load_point(own);
      Complex<T> whole = first;
      for (int64_t k = 1; 2 * k < radix; k++) {  // sums and differences of the points k and radix - k
        const Complex<T> a = load_point(own + k * step), b = load_point(own + (radix - k) * step);
        store_point(held + k * kPoint<T>, a + b), store_point(held + (radix - k) * kPoint<T>, a - b);
        whole = whole + (a + b);
      }
      store_point(own, whole);
      for (int64_t q = 1; 2 * q < radix; q++) {
        Complex<T> even = first, odd{};
        for (int64_t k = 1, turned = q; 2 * k < radix; k++) {
          even = even + load_point(held + k * kPoint<T>) * roots[2 * turned];
          odd = odd + load_point(held + (radix - k) * kPoint<T>) * roots[2 * turned + 1];
          turned += q, turned -= turned >= radix ? radix : 0;
        }
        const int64_t p = radix - q;
        store_point(own + q * step, times<T>(minus_i(even, odd), w[2 * q - 2], w[2 * q - 1]));
        store_point(own + p * step, times<T>(plus_i(even, odd), w[2 * p - 2], w[2 * p - 1]));
      }
    }
  }
}
// The stages of z [points] from the s-th on, in place. More points than the first cache holds go through one stage, and then each of the parts that
// this leaves by itself.
template <class T>
void transform_part(T* z, const T* w, int64_t points, int64_t s, const FftCall& call, T* held) {
  const bool split = points * kPoint<T> * static_cast<int64_t>(sizeof(T)) > kFirstCache;
  int64_t length = points;
  for (; s < call.stages; s++) {
    const int64_t radix = call.radix[s];
    switch (radix) {
      case 2: stage<T, 2>(z, w, points, length); break;
      case 3: stage<T, 3>(z, w, points, length); break;
      case 4: stage<T, 4>(z, w, points, length); break;
      case 5: stage<T, 5>(z, w, points, length); break;
      default: stage_of_prime(z, w, held, points, length, radix), w += 2 * radix;
    }
    length /= radix;
    w += length * 2 * (radix - 1);
    if (!split) continue;
    for (int64_t at = 0; at < points; at += length) transform_part(z + at * kPoint<T>, w, length, s + 1, call, held);
    return;
  }
}
// Z of z [points] in place; Z_k lies at place[k]
template <class T>
void transform(T* z, const FftCall& call, T* held) {
  transform_part(z, static_cast<const T*>(call.twiddles), call.points, 0, call, held);
}

// -- frames into lanes, and out of them ---------------------------------------------------------------------------------------------------
// Where the sample i of a signal of n lies, which is padded: -1 for a zero. Padding reaches no further than the signal is long.
inline int64_t source(int64_t i, int64_t n, int mode) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case kPadReflect: return i < 0 ? -i : 2 * (n - 1) - i;
    case kPadSymmetric: return i < 0 ? -1 - i : 2 * n - 1 - i;
    case kPadEdge: return i < 0 ? 0 : n - 1;
    default: return -1;
  }
}
// The rows [lanes] of `size` samples that are frames first, first + 1, ...: where they lie, or copies at `edges` [lanes, size] of those that reach
// beyond their signal; zeros of those behind the last.
template <class T>
void find_rows(const T* (&rows)[kLanes<T>], T* edges, const T* x, int64_t first, int64_t count, const FftCall& call) {
  for (int64_t l = 0; l < kLanes<T>; l++) {
    T* edge = edges + l * call.size;
    rows[l] = edge;
    if (l >= count) {
      memset(edge, 0, call.size * sizeof(T));
      continue;
    }
    const int64_t signal = (first + l) / call.frames, begin = (first + l) % call.frames * call.hop - call.left;
    const T* from = x + signal * call.samples;
    if (begin >= 0 && begin + call.size <= call.samples) {
      rows[l] = from + begin;
      continue;
    }
    for (int64_t i = 0; i < call.size; i++) {
      const int64_t at = source(begin + i, call.samples, call.mode);
      edge[i] = at < 0 ? T(0) : from[at];
    }
  }
}
// z [size, lanes], `apart` vectors from one to the next, from rows of `size` numbers, times `scale` and `window` (or null)
template <class T>
PDL_INLINE void rows_to_lanes(T* z, int64_t apart, const T* const (&rows)[kLanes<T>], int64_t size, const T* window, T scale) {
  constexpr int lanes = kLanes<T>;
  Vec<T> v[lanes];
  for (int64_t i = 0; i < size; i += lanes) {
    const int64_t n = size - i < lanes ? size - i : lanes;
    const Vec<T> w = window == nullptr ? splat<T>(scale) : (n == lanes ? load(window + i) : load_tail(window + i, n)) * scale;
    if (n == lanes) {
#pragma GCC unroll 16
      for (int l = 0; l < lanes; l++) v[l] = load(rows[l] + i) * w;
    } else {
      for (int l = 0; l < lanes; l++) v[l] = load_tail(rows[l] + i, n) * w;
    }
    turn<T>(v);
    T* to = z + i * apart * lanes;
    if (n == lanes) {
#pragma GCC unroll 16
      for (int l = 0; l < lanes; l++) store(to + l * apart * lanes, v[l]);
    } else {
      for (int l = 0; l < n; l++) store(to + l * apart * lanes, v[l]);
    }
  }
}
// y [count, columns] from block [columns, lanes]
template <class T>
PDL_INLINE void lanes_to_rows(T* y, int64_t count, const T* block, int64_t columns) {
  constexpr int lanes = kLanes<T>;
  Vec<T> v[lanes];
  for (int64_t i = 0; i < columns; i += lanes) {
    const int64_t n = columns - i < lanes ? columns - i : lanes;
#pragma GCC unroll 16
    for (int l = 0; l < lanes; l++) v[l] = n == lanes || l < n ? load(block + (i + l) * lanes) : Vec<T>{};
    turn<T>(v);
    if (n == lanes && count == lanes) {
#pragma GCC unroll 16
      for (int l = 0; l < lanes; l++) store(y + l * columns + i, v[l]);
    } else {
      for (int l = 0; l < count; l++) {
        if (n == lanes) store(y + l * columns + i, v[l]);
        else store_tail(y + l * columns + i, v[l], n);
      }
    }
  }
}
// A frame in lanes, `apart` vectors from one sample to the next: less its mean, x_j - preemphasis x_(j-1) (x_0 follows itself), times the window.
template <class T>
void shape_frame(T* z, int64_t apart, const T* window, const FftCall& call) {
  const int64_t step = apart * kLanes<T>;
  Vec<T> mean{};
  if (call.remove_dc) {
    for (int64_t j = 0; j < call.size; j++) mean += load(z + j * step);
    mean *= T(1) / static_cast<T>(call.size);
  }
  const T c = static_cast<T>(call.preemphasis);
  for (int64_t j = call.size - 1; j >= 0; j--) {
    const Vec<T> before = load(z + (j > 0 ? j - 1 : 0) * step) - mean, own = load(z + j * step) - mean;
    store(z + j * step, (own - before * c) * (window == nullptr ? T(1) : window[j]));
  }
}
// The adjoint, of a frame [size, lanes]
template <class T>
void shape_back(T* z, const T* window, const FftCall& call) {
  constexpr int lanes = kLanes<T>;
  const T c = static_cast<T>(call.preemphasis);
  Vec<T> mean{}, own = load(z) * (window == nullptr ? T(1) : window[0]), first = own * c;
  for (int64_t j = 0; j < call.size; j++) {
    const Vec<T> next = j + 1 < call.size ? load(z + (j + 1) * lanes) * (window == nullptr ? T(1) : window[j + 1]) : Vec<T>{};
    const Vec<T> made = own - next * c - (j == 0 ? first : Vec<T>{});
    store(z + j * lanes, made);
    mean += made, own = next;
  }
  if (!call.remove_dc) return;
  mean *= T(1) / static_cast<T>(call.size);
  for (int64_t j = 0; j < call.size; j++) store(z + j * lanes, load(z + j * lanes) - mean);
}

// -- spectra ------------------------------------------------------------------------------------------------------------------------------
template <class T, int what>
PDL_INLINE void put_bin(T* block, int64_t k, Complex<T> x) {
  if constexpr (what == kSpectrum) store_point(block + k * kPoint<T>, x);
  else {
    const Vec<T> power = x.re * x.re + x.im * x.im;
    store(block + k * kLanes<T>, what == kPower ? power : vsqrt<T>(power));
  }
}
// The bins [n / 2 + 1] of real frames, from the transform of z
template <class T, int what>
void spectrum(T* block, const T* z, const FftCall& call) {
  const int64_t m = call.points;
  const auto at = [&](int64_t k) { return load_point(z + call.place[k] * kPoint<T>); };
  if (call.n % 2) {
    for (int64_t k = 0; k <= m / 2; k++) put_bin<T, what>(block, k, at(k));
    return;
  }
  const T* turns = static_cast<const T*>(call.turns);
  const Complex<T> both = at(0);
  put_bin<T, what>(block, 0, Complex<T>{(both.re + both.im) * T(2), Vec<T>{}});
  put_bin<T, what>(block, m, Complex<T>{(both.re - both.im) * T(2), Vec<T>{}});
  for (int64_t k = 1; 2 * k <= m; k++) {
    const Complex<T> a = at(k), b = at(m - k), even{a.re + b.re, a.im - b.im};
    const Complex<T> odd = times<T>(Complex<T>{a.im + b.im, b.re - a.re}, turns[2 * k], turns[2 * k + 1]);
    put_bin<T, what>(block, k, even + odd);
    put_bin<T, what>(block, m - k, Complex<T>{even.re - odd.re, odd.im - even.im});
  }
}

// The columns of a filter bank [bins, bands] as runs of weights: the rows from `first` on, `count` of them, whose weights begin at `weights`.
struct Band {
  int64_t first, count, weights;
};
template <class T>
const T* find_bands(Band*& bands, const T* bank, int64_t bins, int64_t width) {
  constexpr int lanes = kLanes<T>;
  const int64_t head = (width * static_cast<int64_t>(sizeof(Band)) + 63) / 64 * 64;
  bands = static_cast<Band*>(scratch(Slot::kFftBands, head + bins * width * sizeof(T)));
  T* weights = reinterpret_cast<T*>(reinterpret_cast<char*>(bands) + head);
  int64_t used = 0;
  for (int64_t b = 0; b < width; b += lanes) {
    const int64_t n = width - b < lanes ? width - b : lanes;
    Vec<T> first = splat<T>(T(bins)), last = splat<T>(T(-1)), k{};
    for (int64_t row = 0; row < bins; row++, k += T(1)) {
      const T* from = bank + row * width + b;
      const Vec<T> v = n == lanes ? load(from) : load_tail(from, n);
      const Mask<T> on = v != T(0);
      last = on ? k : last, first = on && first > k ? k : first;
    }
    for (int64_t l = 0; l < n; l++) {
      Band& own = bands[b + l];
      own = {static_cast<int64_t>(first[l]), static_cast<int64_t>(last[l]) - static_cast<int64_t>(first[l]) + 1, used};
      if (own.count < 0) own.first = own.count = 0;
      for (int64_t i = 0; i < own.count; i++) weights[used + i] = bank[(own.first + i) * width + b + l];
      used += own.count;
    }
  }
  return weights;
}
template <class T>
PDL_INLINE void filter(T* to, const T* power, const Band* bands, const T* weights, int64_t width, T floor, T scale) {
  for (int64_t b = 0; b < width; b++) {
    const Band own = bands[b];
    const T *w = weights + own.weights, *from = power + own.first * kLanes<T>;
    Vec<T> sum{}, other{};
    int64_t i = 0;
    for (; i + 1 < own.count; i += 2) sum += load(from + i * kLanes<T>) * w[i], other += load(from + (i + 1) * kLanes<T>) * w[i + 1];
    if (i < own.count) sum += load(from + i * kLanes<T>) * w[i];
    store(to + b * kLanes<T>, sum + other);
  }
  if (floor > T(0))
    for (int64_t b = 0; b < width; b++) store(to + b * kLanes<T>, vlog<T>(at_least<T>(load(to + b * kLanes<T>), floor)) * scale);
}

template <class T, int what>
void forward_as(T* y, const T* x, const T* window, const T* bank, int64_t width, const FftCall& call) {
  constexpr int64_t lanes = kLanes<T>;
  const int64_t rows = call.signals * call.frames, bins = call.n / 2 + 1, apart = call.n % 2 ? 2 : 1;
  const int64_t columns = bank != nullptr ? width : what == kSpectrum ? 2 * bins : bins;
  const bool shaped = call.remove_dc || call.preemphasis != 0;
  Band* bands = nullptr;
  const T* weights = bank == nullptr ? nullptr : find_bands<T>(bands, bank, bins, width);
  const T scale = call.n % 2 ? T(1) : T(0.5);
  parallel((rows + lanes - 1) / lanes, kGrainPoints / (call.n * lanes) + 1, [=](int64_t begin, int64_t end) {
    const int64_t room = (what == kSpectrum ? 2 : 1) * bins;
    T* z = static_cast<T*>(scratch(Slot::kFftPoints, (2 * call.points + 2 * call.largest + room + columns) * lanes * sizeof(T)));
    T *held = z + call.points * kPoint<T>, *block = held + call.largest * kPoint<T>, *filtered = block + room * lanes;
    T* edges = static_cast<T*>(scratch(Slot::kFftRows, lanes * call.size * sizeof(T)));
    const T* frames[lanes];
    for (int64_t b = begin; b < end; b++) {
      const int64_t count = rows - b * lanes < lanes ? rows - b * lanes : lanes;
      find_rows<T>(frames, edges, x, b * lanes, count, call);
      rows_to_lanes<T>(z, apart, frames, call.size, shaped ? nullptr : window, scale);
      // what the next block reads anew: lanes read it in strides, which the core does not foresee
      if (count == lanes && call.hop < call.size)
        for (int64_t i = 0; i < lanes * call.hop; i += 64 / sizeof(T)) __builtin_prefetch(frames[lanes - 1] + call.size + i, 0, 2);
      if (shaped) shape_frame(z, apart, window, call);
      if (apart == 2)
        for (int64_t j = 0; j < call.size; j++) store(z + (2 * j + 1) * lanes, Vec<T>{});
      memset(z + call.size * apart * lanes, 0, (call.n - call.size) * apart * lanes * sizeof(T));
      transform(z, call, held);
      spectrum<T, what>(block, z, call);
      if (bank != nullptr) filter(filtered, block, bands, weights, width, static_cast<T>(call.floor), static_cast<T>(call.scale));
      lanes_to_rows(y + b * lanes * columns, count, bank != nullptr ? filtered : block, columns);
    }
  });
}

// y OUT: of every frame of x IN [signals, samples], times `window` IN [size] or null and filled up with zeros to n, the transform [n / 2 + 1]
// (kSpectrum: pairs of real and imaginary part), its squared modulus (kPower) or its modulus (kMagnitude); of the last two, with `bank` IN
// [n / 2 + 1, width] or null, their products with that, or logarithms of these.
template <class T>
void forward(int what, T* y, const T* x, const T* window, const T* bank, int64_t width, const FftCall& call) {
  switch (what) {
    case kSpectrum: return forward_as<T, kSpectrum>(y, x, window, nullptr, 0, call);
    case kPower: return forward_as<T, kPower>(y, x, window, bank, width, call);
    case kMagnitude: return forward_as<T, kMagnitude>(y, x, window, bank, width, call);
  }
}

// The points of a frame, conjugate, from its bins [n / 2 + 1]: the first and that of n / 2 (their real parts) times `edge`, the others `inner`
template <class T>
void points_of(T* z, const T* block, const FftCall& call, T edge, T inner) {
  const int64_t m = call.points;
  const Vec<T> first = load(block) * edge;
  if (call.n % 2) {
    store_point(z, Complex<T>{first, Vec<T>{}});
    for (int64_t k = 1; 2 * k < m; k++) {
      const Complex<T> a = load_point(block + k * kPoint<T>) * inner;
      store_point(z + k * kPoint<T>, Complex<T>{a.re, -a.im}), store_point(z + (m - k) * kPoint<T>, a);
    }
    return;
  }
  const T* turns = static_cast<const T*>(call.turns);
  const Vec<T> last = load(block + m * kPoint<T>) * edge;
  store_point(z, Complex<T>{first + last, last - first});
  for (int64_t k = 1; 2 * k <= m; k++) {
    const Complex<T> a = load_point(block + k * kPoint<T>) * inner, b = load_point(block + (m - k) * kPoint<T>) * inner;
    const Complex<T> even{a.re + b.re, a.im - b.im};
    const Complex<T> odd = times<T>(Complex<T>{a.re - b.re, a.im + b.im}, turns[2 * k], -turns[2 * k + 1]);
    store_point(z + k * kPoint<T>, Complex<T>{even.re - odd.im, -even.im - odd.re});
    store_point(z + (m - k) * kPoint<T>, Complex<T>{even.re + odd.im, even.im - odd.re});
  }
}

// y OUT [rows, size]: the first `size` of the n real points whose transform is x IN [rows, n / 2 + 1] (pairs of real and imaginary part), its bins
// times `edge` and `inner`, shaped and windowed as the adjoint of `forward` is; no factor 1 / n
template <class T>
void inverse(T* y, const T* x, const T* window, int64_t rows, double edge, double inner, const FftCall& call) {
  constexpr int64_t lanes = kLanes<T>;
  const int64_t columns = 2 * (call.n / 2 + 1);
  parallel((rows + lanes - 1) / lanes, kGrainPoints / (call.n * lanes) + 1, [=](int64_t begin, int64_t end) {
    T* z = static_cast<T*>(scratch(Slot::kFftPoints, (2 * call.points + 2 * call.largest + columns) * lanes * sizeof(T)));
    T *held = z + call.points * kPoint<T>, *block = held + call.largest * kPoint<T>;
    T* zeros = static_cast<T*>(scratch(Slot::kFftRows, columns * sizeof(T)));
    memset(zeros, 0, columns * sizeof(T));
    const T* from[lanes];
    for (int64_t b = begin; b < end; b++) {
      const int64_t count = rows - b * lanes < lanes ? rows - b * lanes : lanes;
      for (int64_t l = 0; l < lanes; l++) from[l] = l < count ? x + (b * lanes + l) * columns : zeros;
      rows_to_lanes<T>(block, 1, from, columns, nullptr, T(1));
      points_of(z, block, call, static_cast<T>(edge), static_cast<T>(inner));
      transform(z, call, held);
      for (int64_t j = 0; j < call.size; j++) {
        const T* own = z + call.place[call.n % 2 ? j : j / 2] * kPoint<T>;
        store(block + j * lanes, call.n % 2 || j % 2 == 0 ? load(own) : -load(own + lanes));
      }
      shape_back(block, window, call);
      lanes_to_rows(y + b * lanes * call.size, count, block, call.size);
    }
  });
}

// y OUT [signals, samples]: every sample the sum of what frames x IN [signals, frames, size] have at its place, and at places of padding that show it
template <class T>
void overlap_add(T* y, const T* x, const FftCall& call) {
  constexpr int lanes = kLanes<T>;
  const int64_t chunks = (call.samples + kChunk - 1) / kChunk, reach = (call.frames - 1) * call.hop + call.size;
  parallel(call.signals * chunks, kGrainPoints / kChunk + 1, [=](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; c++) {
      const int64_t low = c % chunks * kChunk, high = low + kChunk < call.samples ? low + kChunk : call.samples;
      T* to = y + c / chunks * call.samples;
      const T* from = x + c / chunks * call.frames * call.size;
      memset(to + low, 0, (high - low) * sizeof(T));
      const int64_t behind = low + call.left - call.size;  // frames that end at or before `low` begin no later
      for (int64_t f = behind < 0 ? 0 : behind / call.hop + 1; f < call.frames && f * call.hop - call.left < high; f++) {
        const int64_t at = f * call.hop - call.left, first = at < low ? low : at, last = at + call.size < high ? at + call.size : high;
        const T* own = from + f * call.size - at;
        int64_t i = first;
        for (; i + lanes <= last; i += lanes) store(to + i, load(to + i) + load(own + i));
        for (; i < last; i++) to[i] += own[i];
      }
      if (call.mode == kPadZero) continue;
      for (int64_t p = 0; p < reach; p++) {
        if (p == call.left) p += call.samples;  // on to the padding behind the signal
        if (p >= reach) break;
        const int64_t at = source(p - call.left, call.samples, call.mode);
        if (at < low || at >= high) continue;
        for (int64_t f = p < call.size ? 0 : (p - call.size) / call.hop + 1; f < call.frames && f * call.hop <= p; f++)
          to[at] += from[f * call.size + p - f * call.hop];
      }
    }
  });
}

}  // namespace pdl::PDL_ISA::fft
