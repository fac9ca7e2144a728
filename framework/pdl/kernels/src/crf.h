// Linear-chain conditional random fields (Lafferty, McCallum, Pereira 2001): forward-backward, and the best path (Viterbi).
//
// The score of tags y is starts[y_0] + sum_t emissions[t, y_t] + sum_t transitions[y_t-1, y_t] + ends[y_last]. Rows over tags are kept as
// logs whose highest is 0, beside a double that says by how much the row was shifted. A step is a product with e^transitions; where all of
// a sum has underflown, as behind transitions that are (nearly) forbidden, it is taken again exactly. A log of probability 0 is kept as the finite
// `never`. Rows are padded by `never` to whole vectors.
#pragma once
#include "table.h"
#include "vec.h"
#include "vmath.h"

namespace pdl::PDL_ISA::crf {

template <class T>
constexpr T never = T(-1e30);
template <class T>
constexpr T lost = T(-1e29);  // below it, a score has a `never` in it
// A sum of at least this misses nothing that counts, though terms of it have underflown.
template <class T>
constexpr T complete = sizeof(T) == 4 ? T(1e-30) : T(1e-290);
// The factor e^x of a product may be no larger, so that what has underflown in it stays nothing.
template <class T>
constexpr double reach = sizeof(T) == 4 ? 40 : 300;

template <class T>
int64_t padded(int64_t k) { return (k + kLanes<T> - 1) / kLanes<T> * kLanes<T>; }

template <class T>
T possible(T x) { return x < never<T> ? never<T> : x; }

template <class T>
void copy_row(T* to, const T* from, int64_t k, int64_t row) {
  for (int64_t j = 0; j < k; j++) to[j] = possible(from[j]);
  for (int64_t j = k; j < row; j++) to[j] = never<T>;
}

// Transitions one way: scores[i][j] to j from i, and, for exact sums, the same by columns.
template <class T>
struct Matrix {
  const T *scores, *columns, *odds;  // [k, row]; odds = e^(scores - highest)
  T highest;
  int64_t k, row;
};

// What all samples share. Built by the calling thread in its scratch memory.
template <class T>
struct Chain {
  int64_t k, row;
  T *starts, *ends;
  Matrix<T> forth, back;

  explicit Chain(const CrfBatch<T>& b, bool products) : k(b.k), row(padded<T>(b.k)) {
    T* at = static_cast<T*>(scratch(Slot::kCrfChain, (2 + (products ? 4 : 2) * k) * row * sizeof(T)));
    starts = at;
    ends = at + row;
    T *scores = ends + row, *turned = scores + k * row, *odds = turned + k * row, *odds_turned = odds + k * row;
    copy_row(starts, b.starts, k, row);
    copy_row(ends, b.ends, k, row);
    T highest = never<T>;
    for (int64_t i = 0; i < k; i++) {
      copy_row(scores + i * row, b.transitions + i * k, k, row);
      for (int64_t j = 0; j < k; j++) highest = largest(highest, scores[i * row + j]);
      for (int64_t j = 0; j < row; j++) turned[i * row + j] = j < k ? possible(b.transitions[j * k + i]) : never<T>;
    }
    if (products)
      for (int64_t at_once = 0; at_once < k * row; at_once += kLanes<T>) {
        store(odds + at_once, vexp<T>(load(scores + at_once) - highest));
        store(odds_turned + at_once, vexp<T>(load(turned + at_once) - highest));
      }
    forth = {scores, turned, odds, highest, k, row};
    back = {turned, scores, odds_turned, highest, k, row};
  }
};

// log sum_i e^(before[i] + column[i])
template <class T>
T exact_sum(const T* before, const T* column, int64_t row) {
  Vec<T> top = splat<T>(never<T>);
  for (int64_t i = 0; i < row; i += kLanes<T>) {
    const Vec<T> x = load(before + i) + load(column + i);
    top = x > top ? x : top;
  }
  const T high = across<T>(top, [](Vec<T> a, Vec<T> b) { return a > b ? a : b; });
  if (high < lost<T>) return never<T>;
  Vec<T> sum{};
  for (int64_t i = 0; i < row; i += kLanes<T>) sum += exp_negative<T>(load(before + i) + load(column + i) - high);
  return high + (T)__builtin_log(across_sum<T>(sum));
}

// after[j] = log sum_i e^(before[i] + scores[i][j]) of `width` vectors of tags from j on, from weights = e^before
template <int width, class T>
PDL_INLINE void sums(T* after, const T* before, const T* weights, const Matrix<T>& m, int64_t j) {
  Vec<T> sum[width] = {};
  for (int64_t i = 0; i < m.k; i++) {
    const Vec<T> weight = splat<T>(weights[i]);
    for (int v = 0; v < width; v++) sum[v] += weight * load(m.odds + i * m.row + j + v * kLanes<T>);
  }
  for (int v = 0; v < width; v++) {
    const int64_t at = j + v * kLanes<T>;
    store(after + at, vlog<T>(sum[v]) + m.highest);
    if (across<T>(sum[v], [](Vec<T> a, Vec<T> b) { return a < b ? a : b; }) >= complete<T>) continue;
    for (int lane = 0; lane < kLanes<T>; lane++)
      if (sum[v][lane] < complete<T>) after[at + lane] = at + lane < m.k ? exact_sum(before, m.columns + (at + lane) * m.row, m.row) : never<T>;
  }
}

// after[j] = max_i before[i] + scores[i][j]
template <int width, class T>
PDL_INLINE void maxima(T* after, const T* before, const Matrix<T>& m, int64_t j) {
  Vec<T> best[width];
  for (int v = 0; v < width; v++) best[v] = splat<T>(2 * never<T>);
  for (int64_t i = 0; i < m.k; i++) {
    const Vec<T> from = splat<T>(before[i]);
    for (int v = 0; v < width; v++) {
      const Vec<T> x = from + load(m.scores + i * m.row + j + v * kLanes<T>);
      best[v] = x > best[v] ? x : best[v];
    }
  }
  for (int v = 0; v < width; v++) store(after + j + v * kLanes<T>, best[v]);
}

// body(number of vectors as a constant, first tag) over a row, many vectors at once where there are many
template <class T, class F>
PDL_INLINE void over_row(int64_t row, const F& body) {
  int64_t j = 0;
  for (; j + 8 * kLanes<T> <= row; j += 8 * kLanes<T>) body([] { return 8; }, j);
  for (; j + 4 * kLanes<T> <= row; j += 4 * kLanes<T>) body([] { return 4; }, j);
  for (; j < row; j += kLanes<T>) body([] { return 1; }, j);
}

template <class T>
void step(T* after, const T* before, T* weights, const Matrix<T>& m) {
  for (int64_t i = 0; i < m.row; i += kLanes<T>) store(weights + i, vexp<T>(load(before + i)));
  over_row<T>(m.row, [&](auto width, int64_t j) { sums<width()>(after, before, weights, m, j); });
}

// Adds emissions [k] to a row and shifts it, so that its highest is 0; the answer is the shift.
template <class T>
T join(T* x, const T* emission, int64_t k, int64_t row) {
  Vec<T> top = splat<T>(never<T>);
  for (int64_t j = 0; j < row; j += kLanes<T>) {
    const Vec<T> here = j + kLanes<T> <= k ? load(emission + j) : load_tail(emission + j, k - j);
    const Vec<T> both = at_least<T>(load(x + j) + at_least<T>(here, never<T>), never<T>);
    top = both > top ? both : top;
    store(x + j, both);
  }
  const T high = across<T>(top, [](Vec<T> a, Vec<T> b) { return a > b ? a : b; });
  for (int64_t j = 0; j < row; j += kLanes<T>) store(x + j, at_least<T>(load(x + j) - high, never<T>));
  return high;
}

template <class T>
double score_of(const CrfBatch<T>& b, int64_t n) {
  const int64_t steps = b.lengths[n], *tags = b.tags + n * b.t;
  const T* emissions = b.emissions + n * b.t * b.k;
  double score = (double)possible(b.starts[tags[0]]) + possible(b.ends[tags[steps - 1]]);
  for (int64_t t = 0; t < steps; t++) {
    score += possible(emissions[t * b.k + tags[t]]);
    if (t) score += possible(b.transitions[tags[t - 1] * b.k + tags[t]]);
  }
  return score;
}

// alpha [1 or steps, row]: the logs of sums over all beginnings, shifted by shifts [steps]; the answer is log Z. `kept`: all rows stay.
template <class T>
double forward(T* alpha, T* other, T* weights, double* shifts, const CrfBatch<T>& b, const Chain<T>& c, int64_t n, bool kept) {
  const int64_t steps = b.lengths[n], row = c.row;
  const T* emissions = b.emissions + n * b.t * b.k;
  T *now = alpha, *next = kept ? alpha + row : other;
  memcpy(now, c.starts, row * sizeof(T));
  double shift = join(now, emissions, c.k, row);
  if (kept) shifts[0] = shift;
  for (int64_t t = 1; t < steps; t++) {
    step(next, now, weights, c.forth);
    shift += join(next, emissions + t * b.k, c.k, row);
    if (kept) {
      shifts[t] = shift;
      now = next;
      next += row;
    } else {
      T* swapped = now;
      now = next;
      next = swapped;
    }
  }
  return shift + exact_sum(now, c.ends, row);
}

// loss [n] = log Z - the score of the tags; +inf where one of them has a `never` in it
template <class T>
void loss(T* out, const CrfBatch<T>& b) {
  const Chain<T> c(b, true);
  parallel(b.n, 1, [&](int64_t begin, int64_t end) {
    T* rows = static_cast<T*>(scratch(Slot::kCrfRows, 3 * c.row * sizeof(T)));
    for (int64_t n = begin; n < end; n++) {
      if (b.lengths[n] == 0) {
        out[n] = 0;
        continue;
      }
      const double z = forward<T>(rows, rows + c.row, rows + 2 * c.row, nullptr, b, c, n, false), score = score_of(b, n);
      out[n] = z < lost<T> || score < lost<T> ? (T)__builtin_inf() : (T)(z - score);
    }
  });
}

// What a part of the samples adds to the gradients of transitions and ends: `products` is still to be multiplied by the odds.
template <class T>
struct Sums {
  T *products, *exact, *starts, *ends;

  Sums(T* at, int64_t k, int64_t row) : products(at), exact(at + k * row), starts(exact + k * row), ends(starts + row) {}
  static int64_t size(int64_t k, int64_t row) { return 2 * (k + 1) * row; }
};

// The probabilities that the last step ends in each tag and so on back to the first: out [steps, k] = g (probability - 1 for the tag given, if any).
template <class T>
void backward(T* out, T g, const T* alpha, const double* shifts, double z, T* rows, const Sums<T>* sums, const CrfBatch<T>& b, const Chain<T>& c,
              int64_t n) {
  const int64_t steps = b.lengths[n], k = c.k, row = c.row;
  const int64_t* tags = b.tags == nullptr ? nullptr : b.tags + n * b.t;
  const T* emissions = b.emissions + n * b.t * k;
  T *beta = rows, *joined = rows + row, *weights = rows + 2 * row, *before = rows + 3 * row;
  memcpy(beta, c.ends, row * sizeof(T));
  double shift = 0;
  for (int64_t t = steps - 1; t >= 0; t--) {
    const T* a = alpha + t * row;
    const T all = (T)(shifts[t] + shift - z);
    T* to = out + t * k;
    for (int64_t j = 0; j < row; j += kLanes<T>) store(joined + j, vexp<T>(load(a + j) + load(beta + j) + all) * g);
    memcpy(to, joined, k * sizeof(T));
    if (tags != nullptr) to[tags[t]] -= g;
    if (sums != nullptr && t == steps - 1)
      for (int64_t j = 0; j < k; j++) sums->ends[j] += to[j];
    if (sums != nullptr && t == 0)
      for (int64_t j = 0; j < k; j++) sums->starts[j] += to[j];
    if (t == 0) return;
    memcpy(joined, beta, row * sizeof(T));
    shift += join(joined, emissions + t * k, k, row);
    step(beta, joined, weights, c.back);
    if (sums == nullptr) continue;
    const T* from = alpha + (t - 1) * row;
    const double both = shifts[t - 1] + shift - z;
    sums->exact[tags[t - 1] * row + tags[t]] -= g;
    if (both + c.forth.highest <= reach<T>) {
      const T factor = g * (T)__builtin_exp(both + c.forth.highest);
      for (int64_t j = 0; j < row; j += kLanes<T>) store(before + j, vexp<T>(load(from + j)) * factor);
      for (int64_t i = 0; i < k; i++) {
        if (before[i] == 0) continue;
        const Vec<T> weight = splat<T>(before[i]);
        T* sum = sums->products + i * row;
        for (int64_t j = 0; j < row; j += kLanes<T>) store(sum + j, load(sum + j) + weight * load(weights + j));
      }
    } else {
      for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < row; j += kLanes<T>) {
          const Vec<T> p = vexp<T>(load(c.forth.scores + i * row + j) + load(joined + j) + (T)(from[i] + both));
          store(sums->exact + i * row + j, load(sums->exact + i * row + j) + p * g);
        }
    }
  }
}

// Rows that `backward` of a sample needs beside those of alpha.
constexpr int64_t kRows = 4;

// Gradients [n, t, k], [k, k], [k], [k] of sum_n g[n] loss[n]; 0 where the loss is infinite. Each part of the samples has sums of its own.
template <class T>
void gradient(T* emissions, T* transitions, T* starts, T* ends, const T* g, const CrfBatch<T>& b) {
  const Chain<T> c(b, true);
  const int64_t k = c.k, row = c.row, size = Sums<T>::size(k, row);
  const int parts = parts_of(b.n, 1);
  T* parts_sums = static_cast<T*>(scratch(Slot::kCrfSums, parts * size * sizeof(T)));
  memset(parts_sums, 0, parts * size * sizeof(T));
  parallel_parts(b.n, parts, [&](int64_t begin, int64_t end, int part) {
    const Sums<T> sums(parts_sums + part * size, k, row);
    char* memory = static_cast<char*>(scratch(Slot::kCrfRows, (b.t + kRows) * row * sizeof(T) + b.t * sizeof(double)));
    T *rows = reinterpret_cast<T*>(memory), *alpha = rows + kRows * row;
    double* shifts = reinterpret_cast<double*>(memory + (b.t + kRows) * row * sizeof(T));
    for (int64_t n = begin; n < end; n++) {
      T* to = emissions + n * b.t * k;
      memset(to, 0, b.t * k * sizeof(T));
      if (b.lengths[n] == 0) continue;
      const double z = forward<T>(alpha, nullptr, rows, shifts, b, c, n, true);
      if (z < lost<T> || score_of(b, n) < lost<T>) continue;
      backward(to, g[n], alpha, shifts, z, rows, &sums, b, c, n);
    }
  });
  memset(transitions, 0, k * k * sizeof(T));
  memset(starts, 0, k * sizeof(T));
  memset(ends, 0, k * sizeof(T));
  for (int part = 0; part < parts; part++) {
    const Sums<T> sums(parts_sums + part * size, k, row);
    for (int64_t i = 0; i < k; i++)
      for (int64_t j = 0; j < k; j++) transitions[i * k + j] += sums.products[i * row + j] * c.forth.odds[i * row + j] + sums.exact[i * row + j];
    for (int64_t j = 0; j < k; j++) {
      starts[j] += sums.starts[j];
      ends[j] += sums.ends[j];
    }
  }
}

// out [n, t, k]: the probability of each tag at each step; 0 behind the last one, and where no tags are possible
template <class T>
void marginals(T* out, const CrfBatch<T>& b) {
  const Chain<T> c(b, true);
  parallel(b.n, 1, [&](int64_t begin, int64_t end) {
    char* memory = static_cast<char*>(scratch(Slot::kCrfRows, (b.t + kRows) * c.row * sizeof(T) + b.t * sizeof(double)));
    T *rows = reinterpret_cast<T*>(memory), *alpha = rows + kRows * c.row;
    double* shifts = reinterpret_cast<double*>(memory + (b.t + kRows) * c.row * sizeof(T));
    for (int64_t n = begin; n < end; n++) {
      T* to = out + n * b.t * c.k;
      memset(to, 0, b.t * c.k * sizeof(T));
      if (b.lengths[n] == 0) continue;
      const double z = forward<T>(alpha, nullptr, rows, shifts, b, c, n, true);
      if (z >= lost<T>) backward<T>(to, T(1), alpha, shifts, z, rows, nullptr, b, c, n);
    }
  });
}

// The first of the tags i with the highest before[i] + column[i].
template <class T>
int64_t best_of(const T* before, const T* column, int64_t k) {
  int64_t best = 0;
  T high = before[0] + column[0];
  for (int64_t i = 1; i < k; i++) {
    const T x = before[i] + column[i];
    if (x > high) best = i, high = x;
  }
  return best;
}

// tags [n, t]: those with the highest score, of equal ones the first, from the last step on; -1 behind the last one
template <class T>
void decode(int64_t* tags, const CrfBatch<T>& b) {
  const Chain<T> c(b, false);
  parallel(b.n, 1, [&](int64_t begin, int64_t end) {
    T* rows = static_cast<T*>(scratch(Slot::kCrfRows, largest<int64_t>(b.t, 1) * c.row * sizeof(T)));
    for (int64_t n = begin; n < end; n++) {
      const int64_t steps = b.lengths[n];
      int64_t* to = tags + n * b.t;
      for (int64_t t = steps; t < b.t; t++) to[t] = -1;
      if (steps == 0) continue;
      const T* emissions = b.emissions + n * b.t * b.k;
      memcpy(rows, c.starts, c.row * sizeof(T));
      join(rows, emissions, c.k, c.row);
      for (int64_t t = 1; t < steps; t++) {
        const T* before = rows + (t - 1) * c.row;
        over_row<T>(c.row, [&](auto width, int64_t j) { maxima<width()>(rows + t * c.row, before, c.forth, j); });
        join(rows + t * c.row, emissions + t * b.k, c.k, c.row);
      }
      to[steps - 1] = best_of(rows + (steps - 1) * c.row, c.ends, c.k);
      for (int64_t t = steps - 1; t > 0; t--) to[t - 1] = best_of(rows + (t - 1) * c.row, c.forth.columns + to[t] * c.row, c.k);
    }
  });
}

}  // namespace pdl::PDL_ISA::crf
