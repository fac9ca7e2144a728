// The elementwise halves of recurrent cells, and their gradients; s is the logistic function.
#pragma once
#include "table.h"
#include "vec.h"
#include "vmath.h"

namespace pdl::PDL_ISA::cells {

constexpr int64_t kGrain = 4096;  // states that a thread should at least have: each costs several exponentials

// body(sample, state, count) for every sample and every vector of its states; count < kLanes<T> at the end of a row
template <class T, class F>
PDL_INLINE void for_states(int64_t n, int64_t hidden, const F& body) {
  parallel(n, kGrain / (hidden + 1) + 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; r++)
      for (int64_t k = 0; k < hidden; k += kLanes<T>) body(r, k, hidden - k < kLanes<T> ? hidden - k : kLanes<T>);
  });
}
template <class T>
PDL_INLINE Vec<T> get(const T* p, int64_t count) { return count == kLanes<T> ? load(p) : load_tail(p, count); }
template <class T>
PDL_INLINE void set(T* p, Vec<T> v, int64_t count) {
  if (count == kLanes<T>)
    store(p, v);
  else
    store_tail(p, v, count);
}

// i, f, g, o = gates; c' = s(f) c + s(i) tanh(g); h' = s(o) tanh(c')
template <class T>
void lstm(T* h, T* after, const T* gates, const T* c, int64_t n, int64_t hidden) {
  for_states<T>(n, hidden, [=](int64_t r, int64_t k, int64_t m) {
    const T* p = gates + r * 4 * hidden + k;
    const int64_t at = r * hidden + k;
    const Vec<T> next = vsigmoid<T>(get(p + hidden, m)) * get(c + at, m) + vsigmoid<T>(get(p, m)) * vtanh<T>(get(p + 2 * hidden, m));
    set(after + at, next, m);
    set(h + at, vsigmoid<T>(get(p + 3 * hidden, m)) * vtanh<T>(next), m);
  });
}

// gh and gc, the gradients of h' and c', may be null
template <class T>
void lstm_grad(T* dgates, T* dc, const T* gh, const T* gc, const T* gates, const T* c, int64_t n, int64_t hidden) {
  for_states<T>(n, hidden, [=](int64_t r, int64_t k, int64_t m) {
    const T* p = gates + r * 4 * hidden + k;
    T* d = dgates + r * 4 * hidden + k;
    const int64_t at = r * hidden + k;
    const Vec<T> i = vsigmoid<T>(get(p, m)), f = vsigmoid<T>(get(p + hidden, m)), g = vtanh<T>(get(p + 2 * hidden, m));
    const Vec<T> o = vsigmoid<T>(get(p + 3 * hidden, m)), before = get(c + at, m), squashed = vtanh<T>(f * before + i * g);
    const Vec<T> from_h = gh ? get(gh + at, m) : Vec<T>{};
    const Vec<T> through = (gc ? get(gc + at, m) : Vec<T>{}) + from_h * o * (T(1) - squashed * squashed);
    set(d, through * g * i * (T(1) - i), m);
    set(d + hidden, through * before * f * (T(1) - f), m);
    set(d + 2 * hidden, through * i * (T(1) - g * g), m);
    set(d + 3 * hidden, from_h * squashed * o * (T(1) - o), m);
    set(dc + at, through * f, m);
  });
}

// r, z, n in gi and gh: n = tanh(gi_n + s(gi_r + gh_r) gh_n), h' = n + s(gi_z + gh_z) (h - n)
template <class T>
void gru(T* after, const T* gi, const T* gh, const T* h, int64_t rows, int64_t hidden) {
  for_states<T>(rows, hidden, [=](int64_t row, int64_t k, int64_t m) {
    const T *a = gi + row * 3 * hidden + k, *b = gh + row * 3 * hidden + k;
    const int64_t at = row * hidden + k;
    const Vec<T> r = vsigmoid<T>(get(a, m) + get(b, m)), z = vsigmoid<T>(get(a + hidden, m) + get(b + hidden, m));
    const Vec<T> n = vtanh<T>(get(a + 2 * hidden, m) + r * get(b + 2 * hidden, m));
    set(after + at, n + z * (get(h + at, m) - n), m);
  });
}

template <class T>
void gru_grad(T* di, T* dh_gates, T* dh, const T* g, const T* gi, const T* gh, const T* h, int64_t rows, int64_t hidden) {
  for_states<T>(rows, hidden, [=](int64_t row, int64_t k, int64_t m) {
    const int64_t base = row * 3 * hidden + k, at = row * hidden + k;
    const T *a = gi + base, *b = gh + base;
    const Vec<T> r = vsigmoid<T>(get(a, m) + get(b, m)), z = vsigmoid<T>(get(a + hidden, m) + get(b + hidden, m));
    const Vec<T> from_state = get(b + 2 * hidden, m), n = vtanh<T>(get(a + 2 * hidden, m) + r * from_state);
    const Vec<T> d = get(g + at, m), dn = d * (T(1) - z) * (T(1) - n * n), dz = d * (get(h + at, m) - n) * z * (T(1) - z);
    const Vec<T> dr = dn * from_state * r * (T(1) - r);
    set(di + base, dr, m);
    set(di + base + hidden, dz, m);
    set(di + base + 2 * hidden, dn, m);
    set(dh_gates + base, dr, m);
    set(dh_gates + base + hidden, dz, m);
    set(dh_gates + base + 2 * hidden, dn * r, m);
    set(dh + at, d * z, m);
  });
}

}  // namespace pdl::PDL_ISA::cells
