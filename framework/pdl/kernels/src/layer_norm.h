// Layer norm and RMS norm of the rows of x [rows, columns], alone or of x + residual, x dropped out before; and the gradient.
//
// A row stays in the first cache from the sum to the result, so x leaves memory once. Storage S is float, double or bf16; statistics, scale
// and shift are numbers of the arithmetic, and statistics are those of the sum as it is stored.
#pragma once
#include "bf16.h"
#include "norm.h"
#include "random.h"
#include "table.h"

namespace pdl::PDL_ISA {
namespace layers {

using norm::Scratch, norm::tiles, norm::within;

template <class S>
PDL_INLINE Vec<Real<S>> get(const S* p, int lanes) { return lanes ? load_tail(p, lanes) : load(p); }
template <class S>
PDL_INLINE void put(S* p, Vec<Real<S>> v, int lanes) { lanes ? store_tail(p, v, lanes) : store(p, v); }

// f(column, lanes) for every vector of a row
template <class T, class F>
PDL_INLINE void each_vector(int64_t columns, const F& f) {
  tiles<T>(columns, [&](auto count, int64_t c, int lanes) {
    for (int j = 0; j < decltype(count)::value; j++) f(c + j * kLanes<T>, lanes);
  });
}

// sum of f(column, lanes) over one row, in four vectors
template <class T, class F>
PDL_INLINE T row_sum(int64_t columns, const F& f) {
  Vec<T> sum[4] = {};
  tiles<T>(columns, [&](auto count, int64_t c, int lanes) {
    for (int j = 0; j < decltype(count)::value; j++) sum[j] += f(c + j * kLanes<T>, lanes);
  });
  return across_sum<T>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

template <class S, bool kDrop>
void forward(const LayerNormCall& call) {
  using T = Real<S>;
  const S *x = static_cast<const S*>(call.x), *residual = static_cast<const S*>(call.residual);
  const T *scale = static_cast<const T*>(call.scale), *shift = static_cast<const T*>(call.shift);
  S *y = static_cast<S*>(call.y), *total = static_cast<S*>(call.total);
  T *mean = static_cast<T*>(call.mean), *rstd = static_cast<T*>(call.rstd);
  const int64_t columns = call.columns;
  const double n = static_cast<double>(columns);
  const Drop<T> drop(call.dropout, call.seed);
  parallel(call.rows, norm::kGrainElements / columns + 1, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const S* from = x + r * columns;
      S* to = y + r * columns;
      if (total != nullptr) {
        const Stream stream = kDrop ? stream_of(call.seed, r) : Stream{};
        each_vector<T>(columns, [=](int64_t c, int lanes) {
          Vec<T> v = get(from + c, lanes);
          if constexpr (kDrop) v *= drop.factors(stream, c);
          if (residual != nullptr) v += get(residual + r * columns + c, lanes);
          put(total + r * columns + c, v, lanes);
        });
        from = total + r * columns;
      }
      T m = 0;
      if (mean != nullptr) {
        const T sum = row_sum<T>(columns, [=](int64_t c, int lanes) { return get(from + c, lanes); });
        mean[r] = m = sum / static_cast<T>(columns);
      }
      const T squares = row_sum<T>(columns, [=](int64_t c, int lanes) {
        const Vec<T> d = within<T>(get(from + c, lanes) - m, lanes);
        return d * d;
      });
      const T k = rstd[r] = static_cast<T>(1.0 / __builtin_sqrt(static_cast<double>(squares) / n + call.eps));
      each_vector<T>(columns, [=](int64_t c, int lanes) {
        Vec<T> v = (get(from + c, lanes) - m) * k;
        if (scale != nullptr) v *= get(scale + c, lanes);
        if (shift != nullptr) v += get(shift + c, lanes);
        put(to + c, v, lanes);
      });
    }
  });
}

// The sum itself where nothing is added or dropped is x: total may then be null.
template <class S>
void layer_norm(const LayerNormCall& call) { call.dropout > 0 ? forward<S, true>(call) : forward<S, false>(call); }

// Rows whose shares of dscale and dshift are summed in T before they join the sums in double.
constexpr int64_t kNearRows = 64;

template <class S, bool kDrop>
void backward(const LayerNormCall& call) {
  using T = Real<S>;
  const S *g = static_cast<const S*>(call.g), *g_total = static_cast<const S*>(call.g_total), *x = static_cast<const S*>(call.x);
  const T *scale = static_cast<const T*>(call.scale), *mean = static_cast<const T*>(call.mean), *rstd = static_cast<const T*>(call.rstd);
  S *dx = static_cast<S*>(call.y), *dresidual = static_cast<S*>(call.total);
  T *dscale = static_cast<T*>(call.dscale), *dshift = static_cast<T*>(call.dshift);
  const int64_t columns = call.columns, grain = norm::kGrainElements / columns + 1;
  const T n = static_cast<T>(columns);
  const int parts = parts_of(call.rows, grain);
  const Drop<T> drop(call.dropout, call.seed);
  Scratch<double> sums(2 * parts * columns);
  Scratch<T> near(2 * parts * columns);
  parallel_parts(call.rows, parts, [&](int64_t begin, int64_t end, int part) {
    double* sum = sums + 2 * part * columns;
    T *s_near = near + 2 * part * columns, *b_near = s_near + columns;
    for (int64_t r = begin; r < end; r++) {
      const int64_t at = r * columns;
      const T m = mean != nullptr ? mean[r] : T(0), k = rstd[r];
      Vec<T> u_sum{}, uh_sum{};
      each_vector<T>(columns, [&](int64_t c, int lanes) {  // and the shares of dscale and dshift, while g and x are at hand
        const Vec<T> d = get(g + at + c, lanes), hat = (get(x + at + c, lanes) - m) * k;
        put(s_near + c, get(s_near + c, lanes) + d * hat, lanes);
        put(b_near + c, get(b_near + c, lanes) + d, lanes);
        const Vec<T> u = scale != nullptr ? d * get(scale + c, lanes) : d;
        u_sum += u;
        uh_sum += u * hat;
      });
      const T mu = mean != nullptr ? across_sum<T>(u_sum) / n : T(0), muh = across_sum<T>(uh_sum) / n;
      const Stream stream = kDrop ? stream_of(call.seed, r) : Stream{};
      each_vector<T>(columns, [&](int64_t c, int lanes) {
        const Vec<T> d = get(g + at + c, lanes), hat = (get(x + at + c, lanes) - m) * k;
        const Vec<T> u = scale != nullptr ? d * get(scale + c, lanes) : d;
        Vec<T> v = (u - mu - hat * muh) * k;
        if (g_total != nullptr) v += get(g_total + at + c, lanes);
        if constexpr (kDrop) {
          put(dresidual + at + c, v, lanes);
          v *= drop.factors(stream, c);
        }
        put(dx + at + c, v, lanes);
      });
      if ((r - begin) % kNearRows == kNearRows - 1 || r + 1 == end)
        for (int64_t c = 0; c < 2 * columns; c++) sum[c] += s_near[c], s_near[c] = 0;
    }
  });
  for (int64_t c = 0; c < columns; c++) {
    double s = 0, b = 0;
    for (int part = 0; part < parts; part++) s += sums[2 * part * columns + c], b += sums[(2 * part + 1) * columns + c];
    if (dscale != nullptr) dscale[c] = static_cast<T>(s);
    if (dshift != nullptr) dshift[c] = static_cast<T>(b);
  }
}

template <class S>
void layer_norm_grad(const LayerNormCall& call) { call.dropout > 0 ? backward<S, true>(call) : backward<S, false>(call); }

}  // namespace layers
}  // namespace pdl::PDL_ISA
