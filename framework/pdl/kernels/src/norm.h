// Normalisation of x [rows, columns] (channels last): batch, group and instance norm, and their gradients.
//
// Column statistics: a block of rows that fits the first cache is summed, then its squares about its own mean, both in vectors of T; blocks are
// merged in double (Chan, Golub and LeVeque 1979). So x leaves memory once, and neither a large mean nor many rows costs digits.
// Narrow matrices are read as wider ones: `fold` rows side by side make one row of whole vectors, merged at the end.
#pragma once
#include <cstdlib>

#include "bf16.h"
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA {
namespace norm {

constexpr int64_t kBlockBytes = 16384, kGrainElements = 16384;

// Memory of a kernel call, freed at its end.
template <class T>
struct Scratch {
  T* data;
  explicit Scratch(int64_t n) : data(static_cast<T*>(calloc(n > 0 ? n : 1, sizeof(T)))) {}
  ~Scratch() { free(data); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  operator T*() const { return data; }
};

template <int N>
struct Count {
  static constexpr int value = N;
};

// body(Count<vectors>, column, lanes) over all columns: 4 vectors at a time, then single ones, then one of `lanes` < kLanes<T> (0: a full one).
template <class T, class F>
PDL_INLINE void tiles(int64_t columns, const F& body) {
  int64_t c = 0;
  for (; c + 4 * kLanes<T> <= columns; c += 4 * kLanes<T>) body(Count<4>{}, c, 0);
  for (; c + kLanes<T> <= columns; c += kLanes<T>) body(Count<1>{}, c, 0);
  if (c < columns) body(Count<1>{}, c, static_cast<int>(columns - c));
}
template <class T>
PDL_INLINE Vec<T> get(const T* p, int lanes) { return lanes ? load_tail<T>(p, lanes) : load<T>(p); }
template <class T>
PDL_INLINE void put(T* p, Vec<T> v, int lanes) { lanes ? store_tail<T>(p, v, lanes) : store<T>(p, v); }

// The same where memory holds S (bf16 too) and arithmetic is in Real<S>.
template <class S>
PDL_INLINE Vec<Real<S>> fetch(const S* p, int lanes) { return lanes ? load_tail(p, lanes) : load(p); }
template <class S>
PDL_INLINE void leave(S* p, Vec<Real<S>> v, int lanes) { lanes ? store_tail(p, v, lanes) : store(p, v); }

// How [rows, columns] is read: `fold` rows as one.
struct Shape {
  int64_t rows, columns;  // of the folded matrix; the last row may be short
  int64_t fold, last;     // last: columns of the last row, `columns` where it is full
  int64_t block;          // rows in a block

  // body(first, last, width): rows [begin, end), the last of the matrix apart where it is short. One place calls body, which is large.
  template <class F>
  PDL_INLINE void pieces(int64_t begin, int64_t end, const F& body) const {
    const bool short_end = end == rows && last != columns;
    for (int64_t first = begin, stop; first < end; first = stop) {
      const bool apart = short_end && first == end - 1;
      stop = short_end && !apart ? end - 1 : end;
      body(first, stop, apart ? last : columns);
    }
  }
};
template <class T>
Shape folded(int64_t rows, int64_t columns) {
  int64_t fold = 1;
  if (columns < 4 * kLanes<T>) {
    while (fold * columns % kLanes<T> != 0) fold++;
    const int64_t more = 4 * kLanes<T> / (fold * columns);
    fold *= more > 1 ? more : 1;
    if (fold > rows) fold = rows > 0 ? rows : 1;
  }
  const int64_t wide = (rows + fold - 1) / fold, width = fold * columns;
  const int64_t fits = kBlockBytes / (width * static_cast<int64_t>(sizeof(T)));
  return {wide, width, fold, (rows - (wide - 1) * fold) * columns, fits < 8 ? 8 : fits};
}
inline int64_t grain_of(const Shape& s) { return kGrainElements / s.columns + 1; }

// A vector per column, repeated for each folded row.
template <class T, class F>
void spread(T* out, const Shape& s, const F& value) {
  const int64_t columns = s.columns / s.fold;
  for (int64_t c = 0; c < columns; c++) out[c] = value(c);
  for (int64_t f = 1; f < s.fold; f++) memcpy(out + f * columns, out, columns * sizeof(T));
}

// Merges (count_b, mean_b, m2_b) into (count_a, mean, m2); m2 is the sum of squared distances from the mean.
inline void merge(double count_a, double& mean, double& m2, double count_b, double mean_b, double m2_b) {
  const double delta = mean_b - mean, share = count_b / (count_a + count_b);
  mean += delta * share;
  m2 += m2_b + delta * delta * count_a * share;
}

// Merges rows [begin, end) of x into mean [columns] and m2 [columns], which describe `seen` rows.
template <class S>
void add_moments(double* mean, double* m2, int64_t seen, const S* x, int64_t begin, int64_t end, int64_t stride, int64_t columns) {
  using T = Real<S>;
  const double rows = static_cast<double>(end - begin), before = static_cast<double>(seen), share = rows / (before + rows);
  tiles<T>(columns, [=](auto count, int64_t c, int lanes) {
    constexpr int N = decltype(count)::value;
    Vec<T> sum[N] = {}, square[N] = {}, centre[N];
    for (int64_t r = begin; r < end; r++)
      for (int j = 0; j < N; j++) sum[j] += fetch(x + r * stride + c + j * kLanes<T>, lanes);
    for (int j = 0; j < N; j++) centre[j] = sum[j] / static_cast<T>(rows);
    for (int64_t r = begin; r < end; r++)
      for (int j = 0; j < N; j++) {
        const Vec<T> d = fetch(x + r * stride + c + j * kLanes<T>, lanes) - centre[j];
        square[j] += d * d;
      }
    T centres[N * kLanes<T>], squares[N * kLanes<T>];
    for (int j = 0; j < N; j++) store<T>(centres + j * kLanes<T>, centre[j]), store<T>(squares + j * kLanes<T>, square[j]);
    const int width = lanes ? lanes : N * kLanes<T>;
    for (int j = 0; j < width; j++) {
      const double delta = centres[j] - mean[c + j];
      mean[c + j] += delta * share;
      m2[c + j] += squares[j] + delta * delta * before * share;
    }
  });
}

// mean [columns] and m2 [columns] of x [rows, columns], merged in the order of the parts.
template <class S>
void moments(double* mean, double* m2, const S* x, int64_t rows, int64_t columns) {
  using T = Real<S>;
  const Shape s = folded<T>(rows, columns);
  const int parts = parts_of(s.rows, grain_of(s));
  const int64_t whole = s.last == s.columns ? s.rows : s.rows - 1;
  Scratch<double> part_of(2 * parts * s.columns);
  Scratch<int64_t> counts(parts);
  parallel_parts(s.rows, parts, [&](int64_t begin, int64_t end, int part) {
    double *m = part_of + 2 * part * s.columns, *q = m + s.columns;
    const int64_t stop = end < whole ? end : whole;
    for (int64_t r = begin; r < stop; r += s.block) {
      const int64_t last = r + s.block < stop ? r + s.block : stop;
      add_moments(m, q, r - begin, x, r, last, s.columns, s.columns);
    }
    counts[part] = stop > begin ? stop - begin : 0;
  });
  for (int64_t c = 0; c < columns; c++) {
    double count = 0, m = 0, q = 0;
    for (int part = 0; part < parts; part++)
      for (int64_t f = 0; f < s.fold && counts[part]; f++) {
        const double* from = part_of + 2 * part * s.columns + f * columns + c;
        merge(count, m, q, static_cast<double>(counts[part]), from[0], from[s.columns]);
        count += static_cast<double>(counts[part]);
      }
    for (int64_t r = whole * s.fold; r < rows; r++, count++) merge(count, m, q, 1, static_cast<double>(value(x[r * columns + c])), 0);
    mean[c] = m;
    m2[c] = q;
  }
}

// Sums over the rows of two functions of an element: f(parameters, offset, lanes, u, v) sets the vectors u and v, with the parameters that
// prepare(column, lanes) gave for its columns. Blocks in T, then double.
template <class T, class P, class F>
void column_sums(double* u_sum, double* v_sum, int64_t rows, int64_t columns, const P& prepare, const F& f) {
  const Shape s = folded<T>(rows, columns);
  const int parts = parts_of(s.rows, grain_of(s));
  Scratch<double> part_of(2 * parts * s.columns);
  parallel_parts(s.rows, parts, [&](int64_t begin, int64_t end, int part) {
    double *p = part_of + 2 * part * s.columns, *q = p + s.columns;
    for (int64_t b = begin; b < end; b += s.block) {
      const int64_t stop = b + s.block < end ? b + s.block : end;
      s.pieces(b, stop, [&](int64_t first, int64_t last, int64_t width) {
        tiles<T>(width, [&](auto count, int64_t c, int lanes) {
          constexpr int N = decltype(count)::value;
          decltype(prepare(c, lanes)) ready[N];
          for (int j = 0; j < N; j++) ready[j] = prepare(c + j * kLanes<T>, lanes);
          Vec<T> u[N] = {}, v[N] = {};
          for (int64_t r = first; r < last; r++)
            for (int j = 0; j < N; j++) {
              Vec<T> du, dv;
              f(ready[j], r * s.columns + c + j * kLanes<T>, lanes, du, dv);
              u[j] += du;
              v[j] += dv;
            }
          T us[N * kLanes<T>], vs[N * kLanes<T>];
          for (int j = 0; j < N; j++) store<T>(us + j * kLanes<T>, u[j]), store<T>(vs + j * kLanes<T>, v[j]);
          const int here = lanes ? lanes : N * kLanes<T>;
          for (int j = 0; j < here; j++) p[c + j] += us[j], q[c + j] += vs[j];
        });
      });
    }
  });
  for (int64_t c = 0; c < columns; c++) {
    double u = 0, v = 0;
    for (int part = 0; part < parts; part++)
      for (int64_t f2 = 0; f2 < s.fold; f2++) {
        const double* from = part_of + 2 * part * s.columns + f2 * columns + c;
        u += from[0];
        v += from[s.columns];
      }
    u_sum[c] = u;
    v_sum[c] = v;
  }
}

// f(parameters, offset, lanes) for every vector of the matrix, with the parameters that prepare(column, lanes) gave for its columns. Each thread
// goes backwards: the end of what the first pass read is still in its cache.
template <class T, class P, class F>
void each(int64_t rows, int64_t columns, const P& prepare, const F& f) {
  const Shape s = folded<T>(rows, columns);
  parallel(s.rows, grain_of(s), [&](int64_t begin, int64_t end) {
    const int64_t blocks = (end - begin + s.block - 1) / s.block;
    for (int64_t b = blocks - 1; b >= 0; b--) {
      const int64_t first = begin + b * s.block, stop = first + s.block < end ? first + s.block : end;
      s.pieces(first, stop, [&](int64_t from, int64_t to, int64_t width) {
        tiles<T>(width, [&](auto count, int64_t c, int lanes) {
          constexpr int N = decltype(count)::value;
          decltype(prepare(c, lanes)) ready[N];
          for (int j = 0; j < N; j++) ready[j] = prepare(c + j * kLanes<T>, lanes);
          for (int64_t r = from; r < to; r++)
            for (int j = 0; j < N; j++) f(ready[j], r * s.columns + c + j * kLanes<T>, lanes);
        });
      });
    }
  });
}

// For `prepare` above: a vector of each of N arrays of parameters.
template <class T, int N>
struct Bunch {
  Vec<T> of[N];
};
template <class T, class... P>
PDL_INLINE auto bunch_of(const P*... p) {
  return [=](int64_t c, int lanes) { return Bunch<T, sizeof...(P)>{{get<T>(p + c, lanes)...}}; };
}

template <class T>
PDL_INLINE double or_one(const T* scale, int64_t c) { return scale ? static_cast<double>(scale[c]) : 1.0; }
template <class T>
PDL_INLINE double or_zero(const T* shift, int64_t c) { return shift ? static_cast<double>(shift[c]) : 0.0; }
// One rounding, the same forward and backward: so the gradient of a fused relu finds the same sign.
template <class T>
PDL_INLINE T slope_of(const T* rstd, const T* scale, int64_t c) { return static_cast<T>(static_cast<double>(rstd[c]) * or_one(scale, c)); }

}  // namespace norm

namespace norm {

// combine(a, b) over all lanes, by halves
template <class T, class F>
PDL_INLINE T over_lanes(Vec<T> v, const F& combine) {
  T part[kLanes<T>];
  store<T>(part, v);
  for (int half = kLanes<T> / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) part[i] = combine(part[i], part[i + half]);
  return part[0];
}
template <class T>
PDL_INLINE T total(Vec<T> v) {
  return over_lanes<T>(v, [](T a, T b) { return a + b; });
}
// sum of f(column, lanes) over one row, in four vectors
template <class T, class F>
PDL_INLINE T row_sum(int64_t columns, const F& f) {
  Vec<T> sum[4] = {};
  tiles<T>(columns, [&](auto count, int64_t c, int lanes) {
    for (int j = 0; j < decltype(count)::value; j++) sum[j] += f(c + j * kLanes<T>, lanes);
  });
  return total<T>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}
// `value` in the lanes behind the end of a row (lanes: how many there are before it, 0 for all), where a function of 0 is not 0
template <class T>
PDL_INLINE Vec<T> within(Vec<T> v, int lanes, T value = T(0)) {
  Mask<T> lane;
  for (int i = 0; i < kLanes<T>; i++) lane[i] = i;
  return lanes ? (lane < lanes ? v : splat<T>(value)) : v;
}

}  // namespace norm

// x [n, rows, columns], the columns in `groups` equal runs, each normalised over (rows, its columns) of its sample; groups = columns: instance norm
// y OUT [n, rows, columns], mean, rstd OUT [n, groups], x IN [n, rows, columns], scale, shift (may be null) IN [columns]
template <class T>
void group_norm(T* y, T* mean, T* rstd, const T* x, const T* scale, const T* shift, int64_t n, int64_t rows, int64_t columns, int64_t groups,
                double eps) {
  using namespace norm;
  const int64_t size = columns / groups;
  const auto sample = [=](int64_t i) {
    Scratch<double> stats(2 * columns);
    const Shape s = folded<T>(rows, columns);
    Scratch<T> affine(3 * s.columns);
    double *m = stats, *q = m + columns;
    T *centre = affine, *a = centre + s.columns, *b = a + s.columns;
    moments<T>(m, q, x + i * rows * columns, rows, columns);
    for (int64_t k = 0; k < groups; k++) {
      double mu = 0, m2 = 0;
      for (int64_t c = 0; c < size; c++)
        merge(static_cast<double>(c * rows), mu, m2, static_cast<double>(rows), m[k * size + c], q[k * size + c]);
      const double r = 1.0 / __builtin_sqrt(m2 / static_cast<double>(rows * size) + eps);
      mean[i * groups + k] = static_cast<T>(mu);
      rstd[i * groups + k] = static_cast<T>(r);
      for (int64_t c = k * size; c < (k + 1) * size; c++) {
        centre[c] = static_cast<T>(mu);
        a[c] = static_cast<T>(or_one(scale, c) * r);
        b[c] = static_cast<T>(or_zero(shift, c));
      }
    }
    for (int64_t f = 1; f < s.fold; f++)
      for (int64_t p = 0; p < 3; p++) memcpy(affine + p * s.columns + f * columns, affine + p * s.columns, columns * sizeof(T));
    const T* from = x + i * rows * columns;
    T* to = y + i * rows * columns;
    each<T>(rows, columns, bunch_of<T>(centre, a, b), [=](const Bunch<T, 3>& p, int64_t at, int lanes) {
      put<T>(to + at, (get<T>(from + at, lanes) - p.of[0]) * p.of[1] + p.of[2], lanes);
    });
  };
  if (n == 1) return sample(0);  // one sample: its rows are shared out; else the samples are
  parallel(n, kGrainElements / (rows * columns) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) sample(i);
  });
}

// dx = rstd (u - mean(u) - xhat mean(u xhat)) over each group, u = g scale; dscale = sum g xhat, dshift = sum g
// dx OUT [n, rows, columns], dscale, dshift OUT [columns]; g, x IN [n, rows, columns], mean, rstd IN [n, groups], scale IN [columns] or null
template <class T>
void group_norm_grad(T* dx, T* dscale, T* dshift, const T* g, const T* x, const T* mean, const T* rstd, const T* scale, int64_t n, int64_t rows,
                     int64_t columns, int64_t groups) {
  using namespace norm;
  const int64_t size = columns / groups;
  Scratch<double> sums(2 * n * columns);
  const auto sample = [&](int64_t i) {
    const T *gi = g + i * rows * columns, *xi = x + i * rows * columns;
    T* to = dx + i * rows * columns;
    double *dg = sums + 2 * i * columns, *dgx = dg + columns;
    const Shape s = folded<T>(rows, columns);
    Scratch<T> wide(4 * s.columns);
    T *centre = wide, *a = centre + s.columns, *b = a + s.columns, *c0 = b + s.columns;
    Scratch<double> group(2 * groups);
    spread<T>(centre, s, [&](int64_t c) { return mean[i * groups + c / size]; });
    const auto middle = [=](int64_t c, int lanes) { return get<T>(centre + c, lanes); };
    column_sums<T>(dg, dgx, rows, columns, middle, [=](Vec<T> mid, int64_t at, int lanes, Vec<T>& u, Vec<T>& v) {
      u = get<T>(gi + at, lanes);
      v = u * (get<T>(xi + at, lanes) - mid);
    });
    for (int64_t c = 0; c < columns; c++) {
      const int64_t k = c / size;
      dgx[c] *= static_cast<double>(rstd[i * groups + k]);
      group[2 * k] += dg[c] * or_one(scale, c) / static_cast<double>(rows * size);
      group[2 * k + 1] += dgx[c] * or_one(scale, c) / static_cast<double>(rows * size);
    }
    const auto r = [&](int64_t c) { return static_cast<double>(rstd[i * groups + c / size]); };
    spread<T>(a, s, [&](int64_t c) { return static_cast<T>(r(c) * or_one(scale, c)); });
    spread<T>(b, s, [&](int64_t c) { return static_cast<T>(-r(c) * r(c) * group[2 * (c / size) + 1]); });
    spread<T>(c0, s, [&](int64_t c) { return static_cast<T>(-r(c) * group[2 * (c / size)]); });
    each<T>(rows, columns, bunch_of<T>(centre, a, b, c0), [=](const Bunch<T, 4>& p, int64_t at, int lanes) {
      put<T>(to + at, get<T>(gi + at, lanes) * p.of[1] + ((get<T>(xi + at, lanes) - p.of[0]) * p.of[2] + p.of[3]), lanes);
    });
  };
  if (n == 1) {
    sample(0);
  } else {
    parallel(n, kGrainElements / (rows * columns) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) sample(i);
    });
  }
  for (int64_t c = 0; c < columns; c++) {
    double s = 0, b = 0;
    for (int64_t i = 0; i < n; i++) b += sums[2 * i * columns + c], s += sums[(2 * i + 1) * columns + c];
    dscale[c] = static_cast<T>(s);
    dshift[c] = static_cast<T>(b);
  }
}

}  // namespace pdl::PDL_ISA
