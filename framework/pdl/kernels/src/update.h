// Optimiser steps: one pass over all parameters of a group, in place, threads sharing the elements of the whole list evenly.
#pragma once
#include <cstdlib>

#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA {
namespace update {

constexpr int64_t kGrain = 16384;
constexpr int64_t kChunk = 4096;  // sums are taken over chunks of this size, whatever the threads

// body(array, begin, end): the parts of the arrays that make up elements [begin, end) of them all, laid end to end
template <class F>
PDL_INLINE void walk(const int64_t* sizes, int64_t count, int64_t begin, int64_t end, const F& body) {
  int64_t start = 0;
  for (int64_t i = 0; i < count && start < end; start += sizes[i++]) {
    const int64_t low = begin > start ? begin - start : 0, high = end - start < sizes[i] ? end - start : sizes[i];
    if (low < high) body(i, low, high);
  }
}
inline int64_t total(const int64_t* sizes, int64_t count) {
  int64_t n = 0;
  for (int64_t i = 0; i < count; i++) n += sizes[i];
  return n;
}

// f(v) on vectors of the N lists at once: v[1] (the gradient) is only read, all others are written back.
template <class T, int N, class F>
PDL_INLINE void each(T* const* lists, const int64_t* sizes, int64_t count, const F& f) {
  parallel(total(sizes, count), kGrain, [&](int64_t begin, int64_t end) {
    walk(sizes, count, begin, end, [&](int64_t i, int64_t low, int64_t high) {
      constexpr int64_t ahead = 4, most = 1024;  // short arrays are rows of large tables, each somewhere else
      if (sizes[i] <= most && i + ahead < count && sizes[i + ahead] <= most)
        for (int k = 0; k < N; k++)
          for (int64_t e = 0; e < sizes[i + ahead]; e += 64 / sizeof(T)) __builtin_prefetch(lists[k * count + i + ahead] + e, 1);
      T* at[N];
      for (int k = 0; k < N; k++) at[k] = lists[k * count + i];
      for (int64_t e = low; e < high; e += kLanes<T>) {
        const int64_t lanes = high - e;
        Vec<T> v[N];
        if (lanes >= kLanes<T>) {
          for (int k = 0; k < N; k++) v[k] = load<T>(at[k] + e);
          f(v);
          for (int k = 0; k < N; k++)
            if (k != 1) store<T>(at[k] + e, v[k]);
        } else {
          for (int k = 0; k < N; k++) v[k] = load_tail<T>(at[k] + e, lanes);
          f(v);
          for (int k = 0; k < N; k++)
            if (k != 1) store_tail<T>(at[k] + e, v[k], lanes);
        }
      }
    });
  });
}

// d = scale g + decay p
template <class T>
void sgd(T* const* lists, const int64_t* sizes, int64_t count, const UpdateRule& h) {
  const T lr = T(h.lr), mu = T(h.momentum), fresh = T(h.first ? 1 : 1 - h.dampening), decay = T(h.weight_decay), scale = T(h.scale);
  const T kept = h.first ? T(0) : mu;
  if (h.momentum == 0) return each<T, 2>(lists, sizes, count, [=](Vec<T>* v) { v[0] -= (v[1] * scale + v[0] * decay) * lr; });
  each<T, 3>(lists, sizes, count, [=](Vec<T>* v) {
    const Vec<T> d = v[1] * scale + v[0] * decay;
    v[2] = v[2] * kept + d * fresh;
    v[0] -= (h.nesterov ? d + v[2] * mu : v[2]) * lr;
  });
}

// m = beta1 m + (1 - beta1) d, v = beta2 v + (1 - beta2) d^2, p -= lr / c1 * m / (sqrt(v) / sqrt(c2) + eps), c = 1 - beta^step
template <class T, bool Max>
void adam(T* const* lists, const int64_t* sizes, int64_t count, const UpdateRule& h) {
  const T b1 = T(h.beta1), b2 = T(h.beta2), n1 = T(1 - h.beta1), n2 = T(1 - h.beta2), eps = T(h.eps), scale = T(h.scale);
  const T coupled = h.decoupled ? T(0) : T(h.weight_decay), shrink = h.decoupled ? T(1 - h.lr * h.weight_decay) : T(1);
  const T rate = T(h.lr / h.correction1), root = T(1 / __builtin_sqrt(h.correction2));
  each<T, Max ? 5 : 4>(lists, sizes, count, [=](Vec<T>* v) {
    const Vec<T> d = v[1] * scale + v[0] * coupled;
    v[2] = v[2] * b1 + d * n1;
    v[3] = v[3] * b2 + d * d * n2;
    if constexpr (Max) v[4] = at_least<T>(v[3], v[4]);
    v[0] = v[0] * shrink - v[2] * rate / (vsqrt<T>(v[Max ? 4 : 3]) * root + eps);
  });
}

// The direction of LAMB into v[4]: m / c1 / (sqrt(v / c2) + eps) + decay p. The step itself is `axpy`.
template <class T>
void lamb(T* const* lists, const int64_t* sizes, int64_t count, const UpdateRule& h) {
  const T b1 = T(h.beta1), b2 = T(h.beta2), n1 = T(1 - h.beta1), n2 = T(1 - h.beta2), eps = T(h.eps), scale = T(h.scale);
  const T first = T(1 / h.correction1), root = T(1 / __builtin_sqrt(h.correction2)), decay = T(h.weight_decay);
  each<T, 5>(lists, sizes, count, [=](Vec<T>* v) {
    const Vec<T> d = v[1] * scale;
    v[2] = v[2] * b1 + d * n1;
    v[3] = v[3] * b2 + d * d * n2;
    v[4] = v[2] * first / (vsqrt<T>(v[3]) * root + eps) + v[0] * decay;
  });
}

// s = alpha s + (1 - alpha) d^2; centred: a = alpha a + (1 - alpha) d, s - a^2 in place of s; p -= lr d / (sqrt(s) + eps), through a momentum buffer
template <class T, bool Centred, bool Momentum>
void rmsprop(T* const* lists, const int64_t* sizes, int64_t count, const UpdateRule& h) {
  const T alpha = T(h.beta1), rest = T(1 - h.beta1), eps = T(h.eps), lr = T(h.lr), mu = T(h.momentum), decay = T(h.weight_decay), scale = T(h.scale);
  each<T, 3 + Centred + Momentum>(lists, sizes, count, [=](Vec<T>* v) {
    const Vec<T> d = v[1] * scale + v[0] * decay;
    Vec<T> s = v[2] = v[2] * alpha + d * d * rest;
    if constexpr (Centred) {
      v[3] = v[3] * alpha + d * rest;
      s = at_least<T>(s - v[3] * v[3], T(0));
    }
    Vec<T> step = d / (vsqrt<T>(s) + eps);
    if constexpr (Momentum) step = v[3 + Centred] = v[3 + Centred] * mu + step;
    v[0] -= step * lr;
  });
}

// s += d^2, q = d / (sqrt(s) + eps) or d / sqrt(s + eps); p -= lr q, or u = momentum u - lr q, p += u
template <class T, bool Momentum>
void adagrad(T* const* lists, const int64_t* sizes, int64_t count, const UpdateRule& h) {
  const T inner = T(h.under_root ? h.eps : 0), outer = T(h.under_root ? 0 : h.eps), lr = T(h.lr), mu = T(h.momentum);
  const T decay = T(h.weight_decay), scale = T(h.scale);
  each<T, 3 + Momentum>(lists, sizes, count, [=](Vec<T>* v) {
    const Vec<T> d = v[1] * scale + v[0] * decay;
    v[2] += d * d;
    Vec<T> step = d * lr / (vsqrt<T>(v[2] + inner) + outer);
    if constexpr (Momentum) {
      v[3] = v[3] * mu - step;
      v[0] += v[3];
    } else {
      v[0] -= step;
    }
  });
}

// `adagrad` with one sum for each row of p [R, columns]: s += mean of d^2 over the row.
//   p, velocity IN/OUT [R, columns] (velocity null: no momentum), sums IN/OUT [R], g IN [n, columns] for the rows named, each once; null: 0..n-1
template <class T>
void adagrad_rows(T* p, const T* g, T* sums, T* velocity, const int64_t* rows, int64_t n, int64_t columns, const UpdateRule& h) {
  const T inner = T(h.under_root ? h.eps : 0), outer = T(h.under_root ? 0 : h.eps), lr = T(h.lr), mu = T(h.momentum);
  const T decay = T(h.weight_decay), scale = T(h.scale);
  parallel(n, kGrain / (columns + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t r = rows == nullptr ? i : rows[i];
      if (r < 0) continue;
      T* w = p + r * columns;
      const T* d = g + i * columns;
      Vec<T> squares{};
      for (int64_t c = 0; c < columns; c += kLanes<T>) {
        const int64_t m = columns - c < kLanes<T> ? columns - c : kLanes<T>;
        const bool whole = m == kLanes<T>;
        const Vec<T> v = (whole ? load(d + c) : load_tail(d + c, m)) * scale + (whole ? load(w + c) : load_tail(w + c, m)) * decay;
        squares += v * v;
      }
      sums[r] += across_sum<T>(squares) / T(columns);
      const T rate = lr / (static_cast<T>(__builtin_sqrt(sums[r] + inner)) + outer);
      for (int64_t c = 0; c < columns; c++) {
        T step = (d[c] * scale + w[c] * decay) * -rate;
        if (velocity != nullptr) step = velocity[r * columns + c] = velocity[r * columns + c] * mu + step;
        w[c] += step;
      }
    }
  });
}

template <class T>
void adadelta(T* const* lists, const int64_t* sizes, int64_t count, const UpdateRule& h) {
  const T rho = T(h.beta1), rest = T(1 - h.beta1), eps = T(h.eps), lr = T(h.lr), decay = T(h.weight_decay), scale = T(h.scale);
  each<T, 4>(lists, sizes, count, [=](Vec<T>* v) {
    const Vec<T> d = v[1] * scale + v[0] * decay;
    v[2] = v[2] * rho + d * d * rest;
    const Vec<T> step = vsqrt<T>((v[3] + eps) / (v[2] + eps)) * d;
    v[3] = v[3] * rho + step * step * rest;
    v[0] -= step * lr;
  });
}

// The rules by number; `lists` is [lists of the rule][count] pointers.
template <class T>
void step(int rule, T* const* lists, const int64_t* sizes, int64_t count, const UpdateRule& h) {
  switch (rule) {
    case kSgd: return sgd<T>(lists, sizes, count, h);
    case kAdam: return adam<T, false>(lists, sizes, count, h);
    case kAdamMax: return adam<T, true>(lists, sizes, count, h);
    case kLamb: return lamb<T>(lists, sizes, count, h);
    case kRmsprop: return rmsprop<T, false, false>(lists, sizes, count, h);
    case kRmspropMomentum: return rmsprop<T, false, true>(lists, sizes, count, h);
    case kRmspropCentred: return rmsprop<T, true, false>(lists, sizes, count, h);
    case kRmspropBoth: return rmsprop<T, true, true>(lists, sizes, count, h);
    case kAdagrad: return adagrad<T, false>(lists, sizes, count, h);
    case kAdagradMomentum: return adagrad<T, true>(lists, sizes, count, h);
    case kAdadelta: return adadelta<T>(lists, sizes, count, h);
  }
}

// p[i] = keep p[i] + factor[i] s[i] (array by array)    lists: p IN/OUT, s IN; factor IN [count], or [1] for all if `shared`
template <class T>
void axpy(T* const* lists, const int64_t* sizes, int64_t count, double keep, const double* factor, bool shared) {
  const T kept = T(keep);
  parallel(total(sizes, count), kGrain, [=](int64_t begin, int64_t end) {
    walk(sizes, count, begin, end, [=](int64_t i, int64_t low, int64_t high) {
      T *p = lists[i] + low, *s = lists[count + i] + low;
      const T f = T(factor[shared ? 0 : i]);
      int64_t e = 0;
      for (; e + kLanes<T> <= high - low; e += kLanes<T>) store<T>(p + e, load<T>(p + e) * kept + load<T>(s + e) * f);
      const int64_t lanes = high - low - e;
      if (lanes) store_tail<T>(p + e, load_tail<T>(p + e, lanes) * kept + load_tail<T>(s + e, lanes) * f, lanes);
    });
  });
}

template <class T>
PDL_INLINE double chunk_squares(const T* x, int64_t n) {
  Vec<T> sum[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes<T> <= n; i += 4 * kLanes<T>)
    for (int j = 0; j < 4; j++) {
      const Vec<T> v = load<T>(x + i + j * kLanes<T>);
      sum[j] += v * v;
    }
  for (; i < n; i += kLanes<T>) {
    const Vec<T> v = n - i >= kLanes<T> ? load<T>(x + i) : load_tail<T>(x + i, n - i);
    sum[0] += v * v;
  }
  const Vec<T> all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  double found = 0;
  for (int k = 0; k < kLanes<T>; k++) found += static_cast<double>(all[k]);
  return found;
}

// out[i] = sum of squares of array i: chunks in T, their sums in double, in one order for any number of threads    out OUT [count]
template <class T>
void squares(double* out, T* const* arrays, const int64_t* sizes, int64_t count) {
  int64_t chunks = 0;
  for (int64_t i = 0; i < count; i++) chunks += (sizes[i] + kChunk - 1) / kChunk;
  double* partial = static_cast<double*>(malloc((chunks + 1) * sizeof(double)));
  parallel(chunks, kGrain / kChunk, [=](int64_t begin, int64_t end) {
    int64_t chunk = 0;
    for (int64_t i = 0; i < count && chunk < end; i++)
      for (int64_t at = 0; at < sizes[i] && chunk < end; at += kChunk, chunk++)
        if (chunk >= begin) partial[chunk] = chunk_squares<T>(arrays[i] + at, sizes[i] - at < kChunk ? sizes[i] - at : kChunk);
  });
  int64_t chunk = 0;
  for (int64_t i = 0; i < count; i++) {
    out[i] = 0;
    for (int64_t at = 0; at < sizes[i]; at += kChunk) out[i] += partial[chunk++];
  }
  free(partial);
}

}  // namespace update
}  // namespace pdl::PDL_ISA
