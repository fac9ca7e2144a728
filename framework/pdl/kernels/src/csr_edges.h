// Sparse matrices by rows (CSR): what is computed at every nonzero. Dot products, softmax over each row, maxima of what a row takes.
#pragma once
#include <type_traits>

#include "csr.h"
#include "vmath.h"

namespace pdl::PDL_ISA::csr {

template <class T>
struct Sddmm {
  T* y;             // OUT [nonzeros, heads]
  const T *q, *k;   // IN [rows, width], [columns, width]
  CsrPattern p;
  int64_t heads, channels, width, ahead;
  bool askew;  // rows of k
};

// A kernel that goes through the nonzeros: dot(y of e, q of its row, k of its column)
template <class T, class F>
PDL_CSR_INLINE int64_t each_nonzero(const Sddmm<T>& s, int64_t first, int64_t last, const F& dot) {
  const CsrPattern& p = s.p;
  const int64_t final = p.nonzeros - 1, bytes = s.width * static_cast<int64_t>(sizeof(T)) < 2048 ? s.width * sizeof(T) : 2048;
  for (int64_t row = first; row < last; row++)
    for (int64_t e = p.indptr[row]; e < p.indptr[row + 1]; e++) {
      const uint64_t column = static_cast<uint32_t>(p.indices[e]);
      if (column >= static_cast<uint64_t>(p.columns)) return p.rows + 2 + e;
      if (s.ahead != 0) {
        const int64_t later = e + s.ahead < final ? e + s.ahead : final;
        const char* line = reinterpret_cast<const char*>(s.k + static_cast<int64_t>(p.indices[later]) * s.width);
        for (int64_t b = 0; b < bytes; b += 64) ask(line + b);
        if (s.askew) ask(line + bytes - 1);
      }
      dot(s.y + e * s.heads, s.q + row * s.width, s.k + column * s.width);
    }
  return 0;
}

template <class T>
PDL_CSR_INLINE T dot_product(const T* a, const T* b, int64_t n) {
  Vec<T> sum[2] = {};
  int64_t c = 0;
  for (; c + 2 * kLanes<T> <= n; c += 2 * kLanes<T>)
    for (int j = 0; j < 2; j++) sum[j] += load(a + c + j * kLanes<T>) * load(b + c + j * kLanes<T>);
  for (; c + kLanes<T> <= n; c += kLanes<T>) sum[0] += load(a + c) * load(b + c);
  if (c < n) sum[1] += load_tail(a + c, n - c) * load_tail(b + c, n - c);
  return across_sum<T>(sum[0] + sum[1]);
}

// A number for each lane, made by the compiler: left to itself it builds such masks lane by lane at run time.
template <class T>
struct Lanes {
  std::conditional_t<sizeof(T) == 4, int32_t, int64_t> at[kLanes<T>];

  Mask<T> mask() const {
    Mask<T> made;
    memcpy(&made, at, sizeof made);
    return made;
  }
};
template <class T, class F>
constexpr Lanes<T> lanes_of(const F& f) {
  Lanes<T> made{};
  for (int i = 0; i < kLanes<T>; i++) made.at[i] = f(i);
  return made;
}

// Of two vectors side by side the first (H = 0) or second (1) half of every group of C lanes
template <class T, int C, int H>
alignas(64) constexpr Lanes<T> kHalves = lanes_of<T>([](int i) {
  constexpr int half = C / 2, most = kLanes<T> / 2;
  return i / most * kLanes<T> + i % most / half * C + i % half + H * half;
});
template <class T, int step>
alignas(64) constexpr Lanes<T> kPartners = lanes_of<T>([](int i) { return i ^ step; });
template <class T, int step>
alignas(64) constexpr Lanes<T> kEvery = lanes_of<T>([](int i) { return i * step % kLanes<T>; });

// Sums of the groups of C lanes (a power of two), in all of their lanes.
template <class T, int C>
PDL_CSR_INLINE Vec<T> folded(Vec<T> v) {
  if constexpr (C == 1) return v;
  else return folded<T, C / 2>(v + __builtin_shuffle(v, kPartners<T, C / 2>.mask()));
}

// Sums of the groups of C lanes of K vectors side by side, K <= C: their number fits a vector, and they are its first lanes. Halves of groups
// are added, two vectors into one as long as there are two.
template <class T, int K, int C>
PDL_CSR_INLINE Vec<T> group_sums(const Vec<T> (&v)[K]) {
  if constexpr (K == 1) {
    return __builtin_shuffle(folded<T, C>(v[0]), kEvery<T, C>.mask());
  } else {
    Vec<T> half[K / 2];
#pragma GCC unroll 4
    for (int i = 0; i < K / 2; i++) {
      const Vec<T> a = v[2 * i], b = v[2 * i + 1];
      half[i] = __builtin_shuffle(a, b, kHalves<T, C, 0>.mask()) + __builtin_shuffle(a, b, kHalves<T, C, 1>.mask());
    }
    return group_sums<T, K / 2, C / 2>(half);
  }
}

// All heads of a nonzero at once: K vectors of whole heads with C channels, whose number fits a vector
template <class T, int K, int C>
int64_t dot_heads(const Sddmm<T>& s, int64_t first, int64_t last) {
  return each_nonzero(s, first, last, [&](T* y, const T* q, const T* k) __attribute__((always_inline)) {
    Vec<T> v[K];
#pragma GCC unroll 8
    for (int j = 0; j < K; j++) v[j] = load(q + j * kLanes<T>) * load(k + j * kLanes<T>);
    const Vec<T> found = group_sums<T, K, C>(v);
    s.heads < kLanes<T> ? store_tail(y, found, s.heads) : store(y, found);
  });
}

template <class T, int C>
int64_t dot_channels(const Sddmm<T>& s, int64_t first, int64_t last) {
  if constexpr (C <= kLanes<T>) switch (s.width / kLanes<T>) {
    case 1: return dot_heads<T, 1, C>(s, first, last);
    case 2: return dot_heads<T, 2, C>(s, first, last);
    case 4: if constexpr (C >= 4) return dot_heads<T, 4, C>(s, first, last); else break;
    case 8: if constexpr (C >= 8) return dot_heads<T, 8, C>(s, first, last); else break;
  }
  return -1;
}

template <class T>
int64_t dot_each(const Sddmm<T>& s, int64_t first, int64_t last) {
  return each_nonzero(s, first, last, [&](T* to, const T* a, const T* b) {
    if (s.channels == 1)
      for (int64_t h = 0; h < s.heads; h++) to[h] = a[h] * b[h];
    else
      for (int64_t h = 0; h < s.heads; h++) to[h] = dot_product(a + h * s.channels, b + h * s.channels, s.channels);
  });
}

// y[e, h] = <q[row e, h], k[column e, h]>    y OUT [nonzeros, heads], q IN [rows, heads, channels], k IN [columns, heads, channels]
template <class T>
int64_t sddmm(T* y, const T* q, const T* k, const CsrPattern& p, int64_t heads, int64_t channels) {
  if (const int64_t wrong = first_wrong_start(p)) return wrong;
  const int64_t width = heads * channels;
  const bool crooked = askew(k, width * static_cast<int64_t>(sizeof(T)));
  const Sddmm<T> s{y, q, k, p, heads, channels, width, rows_ahead<T>(p.columns, width, width), crooked};
  const int64_t vectors = width % kLanes<T> == 0 ? width / kLanes<T> : 0;
  const bool whole = heads <= kLanes<T> && (vectors == 1 || vectors == 2 || vectors == 4 || vectors == 8);
  Fault fault;
  rows_by_work(p, width, [&](int64_t first, int64_t last) {
    int64_t found = -1;
    switch (whole ? channels : 0) {
      case 2: found = dot_channels<T, 2>(s, first, last); break;
      case 4: found = dot_channels<T, 4>(s, first, last); break;
      case 8: found = dot_channels<T, 8>(s, first, last); break;
      case 16: found = dot_channels<T, 16>(s, first, last); break;
    }
    if (found < 0) found = dot_each(s, first, last);
    if (found != 0) fault.at(found);
  });
  return fault.code;
}

// Softmax and its gradient go over the numbers of a row's nonzeros, [of them, heads], as they lie: by vectors whose lanes always hold the same
// heads where `heads` divides a vector, else nonzero by nonzero.
template <class T, class F>
PDL_CSR_INLINE void over_row(int64_t n, int64_t heads, int64_t h, const F& body) {
  if (kLanes<T> % heads == 0) {
    int64_t c = 0;
    for (; c + kLanes<T> <= n * heads; c += kLanes<T>) body(c, static_cast<int>(kLanes<T>));
    if (c < n * heads) body(c, static_cast<int>(n * heads - c));
    return;
  }
  const int lanes = static_cast<int>(heads - h < kLanes<T> ? heads - h : kLanes<T>);
  for (int64_t e = 0; e < n; e++) body(e * heads + h, lanes);
}
template <class T>
PDL_CSR_INLINE Vec<T> get_lanes(const T* p, int lanes) { return lanes < kLanes<T> ? load_tail(p, lanes) : load(p); }
template <class T>
PDL_CSR_INLINE void put_lanes(T* p, Vec<T> v, int lanes) { lanes < kLanes<T> ? store_tail(p, v, lanes) : store(p, v); }

template <class T>
PDL_CSR_INLINE Mask<T> lane_numbers() { return kEvery<T, 1>.mask(); }

// What f makes of the lanes that hold one head, in all of them.
template <class T, class F>
PDL_CSR_INLINE Vec<T> over_heads(Vec<T> v, int64_t heads, const F& f) {
  if (kLanes<T> % heads != 0) return v;
  for (int64_t step = heads; step < kLanes<T>; step *= 2) {
    v = f(v, __builtin_shuffle(v, lane_numbers<T>() ^ static_cast<int>(step)));
  }
  return v;
}

// body(first number, nonzeros) of every row, for each vector of heads h
template <class T, class F>
int64_t each_row(const CsrPattern& p, int64_t heads, const F& body) {
  if (const int64_t wrong = first_wrong_start(p)) return wrong;
  const int64_t stride = kLanes<T> % heads == 0 ? heads : kLanes<T>;
  rows_by_work(p, 4 * heads, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++)
      for (int64_t h = 0; h < heads; h += stride) body(p.indptr[row] * heads, p.indptr[row + 1] - p.indptr[row], h);
  });
  return 0;
}

// f(heads), which the compiler knows where they are one or eight.
template <class F>
PDL_CSR_INLINE int64_t with_heads(int64_t heads, const F& f) {
  if (heads == 1) return f(std::integral_constant<int64_t, 1>());
  if (heads == 8) return f(std::integral_constant<int64_t, 8>());
  return f(heads);
}

// y[e, h] = e^(x[e, h] - max) / sum, over the nonzeros of e's row    y OUT, x IN [nonzeros, heads]
template <class T>
int64_t edge_softmax(T* y, const T* x, const CsrPattern& p, int64_t given) {
  return with_heads(given, [=](auto heads) { return each_row<T>(p, heads, [=](int64_t at, int64_t n, int64_t h) {
    const T low = -static_cast<T>(__builtin_inf());
    Vec<T> most = splat<T>(low), sum{};
    const auto known = [](Vec<T> v, int lanes, T rest) { return lanes == kLanes<T> ? v : lane_numbers<T>() < lanes ? v : splat<T>(rest); };
    over_row<T>(n, heads, h, [&](int64_t c, int lanes) { most = at_least<T>(known(get_lanes(x + at + c, lanes), lanes, low), most); });
    most = over_heads<T>(most, heads, [](Vec<T> a, Vec<T> b) { return at_least<T>(a, b); });
    over_row<T>(n, heads, h, [&](int64_t c, int lanes) {
      const Vec<T> e = exp_negative<T>(get_lanes(x + at + c, lanes) - most);
      put_lanes(y + at + c, e, lanes);
      sum += known(e, lanes, T(0));
    });
    sum = over_heads<T>(sum, heads, [](Vec<T> a, Vec<T> b) { return a + b; });
    const Vec<T> factor = T(1) / sum;
    over_row<T>(n, heads, h, [&](int64_t c, int lanes) { put_lanes(y + at + c, get_lanes(y + at + c, lanes) * factor, lanes); });
  }); });
}

// dx = y (g - sum of y g over the row)    dx OUT, g and y IN [nonzeros, heads]
template <class T>
int64_t edge_softmax_grad(T* dx, const T* g, const T* y, const CsrPattern& p, int64_t given) {
  return with_heads(given, [=](auto heads) { return each_row<T>(p, heads, [=](int64_t at, int64_t n, int64_t h) {
    Vec<T> sum{};
    over_row<T>(n, heads, h, [&](int64_t c, int lanes) { sum += get_lanes(g + at + c, lanes) * get_lanes(y + at + c, lanes); });
    sum = over_heads<T>(sum, heads, [](Vec<T> a, Vec<T> b) { return a + b; });
    over_row<T>(n, heads, h, [&](int64_t c, int lanes) {
      put_lanes(dx + at + c, get_lanes(y + at + c, lanes) * (get_lanes(g + at + c, lanes) - sum), lanes);
    });
  }); });
}

// y[i, c] = the largest (sign 1) or smallest (-1) of value[e, h] x[column e, c] over the nonzeros e of row i, and the first e that attains it
// (a NaN wins); 0 and -1 in rows without.    y, winner OUT [rows, heads, channels], x IN [columns, heads, channels], value IN [nonzeros, heads] or null
template <class T>
int64_t extremum(T* y, int32_t* winner, const T* x, const T* value, const CsrPattern& p, int64_t heads, int64_t channels, T sign) {
  if (const int64_t wrong = first_wrong_start(p)) return wrong;
  const int64_t width = heads * channels, ahead = rows_ahead<T>(p.columns, width, width);
  Fault fault;
  rows_by_work(p, width, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
      T* best = y + row * width;
      int32_t* who = winner + row * width;
      for (int64_t c = 0; c < width; c++) best[c] = 0, who[c] = -1;
      for (int64_t e = p.indptr[row]; e < p.indptr[row + 1]; e++) {
        const uint64_t column = static_cast<uint32_t>(p.indices[e]);
        if (column >= static_cast<uint64_t>(p.columns)) return fault.at(p.rows + 2 + e);
        if (ahead != 0 && e + ahead < p.nonzeros) ask(x + static_cast<int64_t>(p.indices[e + ahead]) * width);
        const T* from = x + column * width;
        const int32_t number = static_cast<int32_t>(e);
        for (int64_t h = 0; h < heads; h++) {
          const T weight = value != nullptr ? value[e * heads + h] : T(1);
          for (int64_t c = h * channels; c < (h + 1) * channels; c++) {
            const T v = from[c] * weight;
            const bool better = who[c] < 0 || v * sign > best[c] * sign || (v != v && best[c] == best[c]);
            best[c] = better ? v : best[c];
            who[c] = better ? number : who[c];
          }
        }
      }
    }
  });
  return fault.code;
}

// dx[j, c] = sum of value[e, h] g[row e, c] over the nonzeros e of column j that are winners there. The pattern is the transposed one.
// dx OUT [columns, heads, channels], g and winner IN [rows, heads, channels], value IN [nonzeros, heads] or null
template <class T>
int64_t extremum_grad_x(T* dx, const T* g, const int32_t* winner, const T* value, const CsrPattern& p, int64_t heads, int64_t channels) {
  if (const int64_t wrong = first_wrong_start(p)) return wrong;
  const int64_t width = heads * channels;
  Fault fault;
  rows_by_work(p, 2 * width, [&](int64_t first, int64_t last) {
    for (int64_t j = first; j < last; j++) {
      T* to = dx + j * width;
      for (int64_t c = 0; c < width; c++) to[c] = 0;
      for (int64_t t = p.indptr[j]; t < p.indptr[j + 1]; t++) {
        const uint64_t row = static_cast<uint32_t>(p.indices[t]), e = static_cast<uint32_t>(p.edges[t]);
        if (row >= static_cast<uint64_t>(p.columns) || e >= static_cast<uint64_t>(p.nonzeros)) return fault.at(p.rows + 2 + t);
        const T* from = g + row * width;
        const int32_t *who = winner + row * width, number = static_cast<int32_t>(e);
        for (int64_t h = 0; h < heads; h++) {
          const T weight = value != nullptr ? value[e * heads + h] : T(1);
          for (int64_t c = h * channels; c < (h + 1) * channels; c++) to[c] += who[c] == number ? from[c] * weight : T(0);
        }
      }
    }
  });
  return fault.code;
}

// dvalue[e, h] = sum of g[row e, c] x[column e, c] over the channels of head h that e has won    dvalue OUT [nonzeros, heads]
template <class T>
int64_t extremum_grad_value(T* dvalue, const T* g, const int32_t* winner, const T* x, const CsrPattern& p, int64_t heads, int64_t channels) {
  if (const int64_t wrong = first_wrong_start(p)) return wrong;
  const int64_t width = heads * channels;
  Fault fault;
  rows_by_work(p, width, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++)
      for (int64_t e = p.indptr[row]; e < p.indptr[row + 1]; e++) {
        const uint64_t column = static_cast<uint32_t>(p.indices[e]);
        if (column >= static_cast<uint64_t>(p.columns)) return fault.at(p.rows + 2 + e);
        const T *from = g + row * width, *other = x + column * width;
        const int32_t *who = winner + row * width, number = static_cast<int32_t>(e);
        for (int64_t h = 0; h < heads; h++) {
          T sum = 0;
          for (int64_t c = h * channels; c < (h + 1) * channels; c++) sum += who[c] == number ? from[c] * other[c] : T(0);
          dvalue[e * heads + h] = sum;
        }
      }
  });
  return fault.code;
}

// y[i] = 1 / the nonzeros of row i, 1 where there are none    y OUT [rows]
template <class T>
int64_t inverse_sizes(T* y, const CsrPattern& p) {
  if (const int64_t wrong = first_wrong_start(p)) return wrong;
  parallel(p.rows, kGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t size = p.indptr[i + 1] - p.indptr[i];
      y[i] = T(1) / static_cast<T>(size > 1 ? size : 1);
    }
  });
  return 0;
}

}  // namespace pdl::PDL_ISA::csr
