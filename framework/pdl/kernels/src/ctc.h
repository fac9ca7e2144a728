// Connectionist temporal classification (Graves et al. 2006): forward-backward over alignments, in log space.
//
// The labels of a sample with a target of U labels are interleaved with blanks to S = 2U + 1 states. From state s one may stay, step to
// s + 1, or skip the blank s + 1 where states s and s + 2 hold different labels. A log probability of 0 chances is kept as
// the finite `never`, so that no arithmetic meets an infinity. A row of states has kLanes of `never` before and behind it, so that a
// step is the same three shifted loads for every vector of states.
#pragma once
#include "table.h"
#include "vec.h"
#include "vmath.h"

namespace pdl::PDL_ISA::ctc {

template <class T>
constexpr T never = T(-1e30);

// Elements of a row of states of a target of at most u labels.
template <class T>
int64_t row_size(int64_t u) { return (2 * u + 1 + kLanes<T> - 1) / kLanes<T> * kLanes<T> + 2 * kLanes<T>; }

// log(e^a + e^b + e^c)
template <class T>
PDL_INLINE Vec<T> log_add(Vec<T> a, Vec<T> b, Vec<T> c) {
  const Vec<T> ab = a > b ? a : b, high = ab > c ? ab : c;
  const Vec<T> sum = vlog<T>(exp_negative<T>(a - high) + exp_negative<T>(b - high) + exp_negative<T>(c - high)) + high;
  return at_least<T>(sum, never<T>);
}

// One sample, and its scratch rows (pointers to state 0).
template <class T>
struct Sample {
  const T* log_p;
  const int64_t* target;
  int64_t classes, steps, labels, blank, states, row;
  T *emit, *skip, *alpha;  // alpha: the first of two rows (loss) or of `steps` rows (gradient)

  Sample(const CtcBatch<T>& b, int64_t i, T* scratch)
      : log_p(b.log_p + i * b.t * b.c), target(b.target + i * b.u), classes(b.c), steps(b.steps[i]), labels(b.labels[i]),
        blank(b.blank), states(2 * b.labels[i] + 1), row(row_size<T>(b.u)), emit(scratch + kLanes<T>), skip(emit + row),
        alpha(skip + row) {
    clear(emit);
    clear(skip);
    for (int64_t s = 3; s < states; s += 2)
      if (target[s / 2] != target[s / 2 - 1]) skip[s] = 0;  // log of the chance to come from s - 2
  }

  void clear(T* states_row) const {
    for (int64_t k = 0; k < row; k++) states_row[k - kLanes<T>] = never<T>;
  }
  int64_t label(int64_t s) const { return s % 2 ? target[s / 2] : blank; }
  void read(int64_t t) const {
    const T* p = log_p + t * classes;
    for (int64_t s = 0; s < states; s++) emit[s] = p[label(s)] > never<T> ? p[label(s)] : never<T>;
  }

  void start(T* first) const {
    clear(first);
    read(0);
    first[0] = emit[0];
    if (labels) first[1] = emit[1];
  }

  // alpha after step t from alpha after step t - 1; the rows differ
  void advance(int64_t t, T* next, const T* before) const {
    read(t);
    for (int64_t s = 0; s < states; s += kLanes<T>) {
      const Vec<T> moved = log_add<T>(load(before + s), load(before + s - 1), load(before + s - 2) + load(skip + s));
      store(next + s, at_least<T>(moved + load(emit + s), never<T>));
    }
  }

  // beta before step t, in place, from beta after it, which is already joined with the emission of step t
  void retreat(T* beta) const {
    for (int64_t s = 0; s < states; s += kLanes<T>)
      store(beta + s, log_add<T>(load(beta + s), load(beta + s + 1), load(beta + s + 2) + load(skip + s + 2)));
  }

  T total(const T* last) const {
    if (labels == 0) return last[0];
    const T a = last[states - 1], b = last[states - 2], high = a > b ? a : b;
    return high <= never<T> / 2 ? never<T> : high + (T)__builtin_log1p(__builtin_exp((a > b ? b : a) - high));
  }
};

// -log p(target | log_p), +inf where no alignment exists
template <class T>
T loss_of(const Sample<T>& a) {
  if (a.steps == 0) return a.labels ? (T)__builtin_inf() : T(0);
  a.clear(a.alpha + a.row);
  a.start(a.alpha);
  for (int64_t t = 1; t < a.steps; t++) a.advance(t, a.alpha + t % 2 * a.row, a.alpha + (t + 1) % 2 * a.row);
  const T p = a.total(a.alpha + (a.steps - 1) % 2 * a.row);
  return p <= never<T> / 2 ? (T)__builtin_inf() : -p;
}

// d[t, k] = -g times the chance that the alignment emits label k at step t; d must be zero
template <class T>
void gradient_of(const Sample<T>& a, T g, T* d) {
  if (a.steps == 0) return;
  a.start(a.alpha);
  for (int64_t t = 1; t < a.steps; t++) {
    a.clear(a.alpha + t * a.row);
    a.advance(t, a.alpha + t * a.row, a.alpha + (t - 1) * a.row);
  }
  const T p = a.total(a.alpha + (a.steps - 1) * a.row);
  if (p <= never<T> / 2) return;
  T* beta = a.alpha + a.steps * a.row;
  a.clear(beta);
  for (int64_t s = a.labels ? a.states - 2 : 0; s < a.states; s++) beta[s] = 0;
  for (int64_t t = a.steps - 1; t >= 0; t--) {
    T* alpha = a.alpha + t * a.row;  // read for the last time: holds the chances then
    a.read(t);
    for (int64_t s = 0; s < a.states; s += kLanes<T>) {
      const Vec<T> after = load(beta + s);
      store(alpha + s, vexp<T>(load(alpha + s) + after - p));
      store(beta + s, at_least<T>(after + load(a.emit + s), never<T>));
    }
    for (int64_t s = 0; s < a.states; s++) d[t * a.classes + a.label(s)] -= g * alpha[s];
    if (t) a.retreat(beta);
  }
}

// loss [N]; scratch [N, 4, row_size]
template <class T>
void loss(T* out, T* scratch, const CtcBatch<T>& b) {
  parallel(b.n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) out[i] = loss_of(Sample<T>(b, i, scratch + i * 4 * row_size<T>(b.u)));
  });
}

// d [N, T, C]; g [N]; scratch [N, T + 3, row_size]
template <class T>
void gradient(T* d, T* scratch, const T* g, const CtcBatch<T>& b) {
  parallel(b.n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      memset(d + i * b.t * b.c, 0, b.t * b.c * sizeof(T));
      gradient_of(Sample<T>(b, i, scratch + i * (b.t + 3) * row_size<T>(b.u)), g[i], d + i * b.t * b.c);
    }
  });
}

}  // namespace pdl::PDL_ISA::ctc
