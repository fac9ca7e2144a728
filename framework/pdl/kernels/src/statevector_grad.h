// Gradients of expectations by adjoint differentiation (Jones & Gacon, arXiv 2009.02823): the state after a program and what an observable makes of it,
// l = H z, go back through the program together, tile by tile, and every parameter's derivative is a sum over both on the way. Memory: two states.
//
// What the sums are, with E = <z|H|z> (l and z in each as they are behind the op):
//     kTurn    dE/db of the rotation by half of b, Im <l|Y|z>; where all are asked for Im <l|X|z> and Im <l|Z|z> behind it
//     kPhase, kMasked   dE/da of the factor exp(i a): -2 Im <l|P|z>, P the amplitudes that it multiplies
//     kParity  dE/da of exp(-i a/2 Z...Z): Im <l|Z...Z|z>
//     kMatrix  sum conj(l_i) z_j, 4^k complex numbers by rows, z as it is before the op: dE = 2 Re sum_ij dU_ij of it
#pragma once
#include "statevector.h"

namespace pdl::PDL_ISA::statevector {

template <class T>
struct Both {
  Tile<T> l, z;
  T* w;  // scratch, as many numbers as amplitudes
  double weight() const { return double(z.scale) * double(z.scale); }
};

template <class T>
PDL_INLINE Vec<T> cross_part(const Both<T>& both, int64_t i, int64_t j) {  // Im conj(l_i) z_j
  return load(both.l.re + i) * load(both.z.im + j) - load(both.l.im + i) * load(both.z.re + j);
}

// Sum over all vectors
template <class T, class Body>
PDL_INLINE double over_all(int64_t size, const Body& body) {
  double total = 0;
  for (int64_t i = 0; i < size;) {
    Vec<T> sum{};
    const int64_t stop = i + 64 * kLanes<T> < size ? i + 64 * kLanes<T> : size;
    for (; i < stop; i += kLanes<T>) sum += body(i);
    total += across_sum<T>(sum);
  }
  return total;
}

// sums[k] += weight times the sum of what body(i, sum) adds to sum[k], for vectors i of `count` numbers
template <class T, int K, class Body>
PDL_INLINE void gather(int64_t count, double weight, double* sums, const Body& body) {
  for (int64_t i = 0; i < count;) {
    Vec<T> sum[K]{};
    const int64_t stop = i + 64 * kLanes<T> < count ? i + 64 * kLanes<T> : count;
    for (; i < stop; i += kLanes<T>) body(i, sum);
    for (int k = 0; k < K; k++) sums[k] += weight * across_sum<T>(sum[k]);
  }
}

template <class T>
Mask<T> partners(int bit) {
  Mask<T> partner;
  for (int i = 0; i < kLanes<T>; i++) partner[i] = i ^ (1 << bit);
  return partner;
}

// sums [3] of one bit: Im <l|Y|z>, Im <l|X|z>, Im <l|Z|z>
template <class T>
void axis_sums(const Both<T>& both, int bit, double* sums) {
  const int64_t size = both.z.size(), step = int64_t(1) << bit;
  const T *lr = both.l.re, *li = both.l.im, *zr = both.z.re, *zi = both.z.im;
  if (bit >= kLaneBits<T>) {
    gather<T, 3>(size / 2, both.weight(), sums, [=](int64_t i, Vec<T>* sum) {
      const int64_t x = parted(i, bit), y = x + step;
      const Vec<T> a = load(lr + x), b = load(li + x), c = load(zr + x), d = load(zi + x);
      const Vec<T> e = load(lr + y), f = load(li + y), g = load(zr + y), h = load(zi + y);
      sum[0] += e * c - a * g + (f * d - b * h), sum[1] += a * h - b * g + (e * d - f * c), sum[2] += a * d - b * c - (e * h - f * g);
    });
    return;
  }
  const Mask<T> partner = partners<T>(bit);
  const Vec<T> signs = lane_signs<T>(step);
  gather<T, 3>(size, both.weight(), sums, [=](int64_t i, Vec<T>* sum) {
    const Vec<T> a = load(lr + i), b = load(li + i), c = load(zr + i), d = load(zi + i), g = __builtin_shuffle(c, partner), h = __builtin_shuffle(d, partner);
    sum[0] -= (a * g + b * h) * signs, sum[1] += a * h - b * g, sum[2] += (a * d - b * c) * signs;
  });
}

// Im <l|Y|z> of bits within a vector, found [kLaneBits]
template <class T>
void lane_sums(const Both<T>& both, double* found) {
  constexpr int K = kLaneBits<T>;
  Mask<T> partner[K];
  Vec<T> signs[K];
  for (int k = 0; k < K; k++) partner[k] = partners<T>(k), signs[k] = lane_signs<T>(1 << k), found[k] = 0;
  const T *l = both.l.re, *z = both.z.re;
  gather<T, K>(2 * both.z.size(), -both.weight(), found, [&](int64_t i, Vec<T>* sum) {
    const Vec<T> a = load(l + i), b = load(z + i);
    for (int k = 0; k < K; k++) sum[k] += a * __builtin_shuffle(b, partner[k]) * signs[k];
  });
}

// `turns` of l and z, with found[j] += the sums of the group's bits, l and z as they were
template <class T, int radix, int forms, bool lanes>
void turns_back(T* l, T* z, int64_t count, const int* bits, const T* ratio, const LaneTurns<T>& inner, double weight, double* found) {
  constexpr int n = 1 << radix;
  const Group<radix> group(bits);
  Vec<T> t[3]{};
  for (int j = 0; j < radix; j++) t[j] = splat<T>(ratio[j]);
  gather<T, radix>(count >> radix, weight, found, [&](int64_t i, Vec<T>* sum) {
    const int64_t at = group(i);
    Vec<T> v[n], w[n];
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) v[k] = load(l + at + group.place[k]), w[k] = load(z + at + group.place[k]);
#pragma GCC unroll 3
    for (int j = 0; j < radix; j++)
#pragma GCC unroll 8
      for (int k = 0; k < n; k++)
        if (!(k >> j & 1)) sum[j] += v[k | 1 << j] * w[k] - v[k] * w[k | 1 << j];
    if constexpr (lanes) {
#pragma GCC unroll 8
      for (int k = 0; k < n; k++) v[k] = inner(v[k]), w[k] = inner(w[k]);
    }
    rotate<T, radix, forms>(v, t), rotate<T, radix, forms>(w, t);
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) store(l + at + group.place[k], v[k]), store(z + at + group.place[k], w[k]);
  });
}

template <class T, int radix, int forms = 0>
PDL_INLINE void turns_back_of(int form, T* l, T* z, int64_t count, const int* bits, const T* ratio, const LaneTurns<T>& inner, double weight, double* found) {
  if constexpr (forms < 1 << radix) {
    if (form != forms) return turns_back_of<T, radix, forms + 1>(form, l, z, count, bits, ratio, inner, weight, found);
    if (inner.count) turns_back<T, radix, forms, true>(l, z, count, bits, ratio, inner, weight, found);
    else turns_back<T, radix, forms, false>(l, z, count, bits, ratio, inner, weight, found);
  }
}

template <class T>
void turn_back(Both<T>& both, const int64_t* op, const double* values, double* sums) {
  const auto asked = [=](int64_t k) { return op[3 + 4 * k] >= 0 && !op[4 + 4 * k]; };  // for y alone
  bool within = false;
  for (int64_t k = 0; k < op[0]; k++) {
    const int64_t* each = op + 1 + 4 * k;
    if (each[2] >= 0 && each[3]) axis_sums(both, int(each[0]), sums + each[2]);
    within |= asked(k) && each[0] < kLaneBits<T>;
  }
  if (within) {
    double found[kLaneBits<T>];
    lane_sums(both, found);
    for (int64_t k = 0; k < op[0]; k++)
      if (asked(k) && op[1 + 4 * k] < kLaneBits<T>) sums[op[3 + 4 * k]] += found[op[1 + 4 * k]];
  }
  const double before = both.z.scale;
  const Turns<T> all(op, values, -1.0, both.z.scale);
  double found[kMost + 1]{};
  all.each(2 * both.z.size(), kPiece<T> / 2, [&](int at, int n, int64_t begin, int64_t reals, const LaneTurns<T>& lanes) {
    T *l = both.l.re + begin, *z = both.z.re + begin;
    const int form = all.form(at, n), *bits = all.bits + at;
    const T* ratio = all.ratio + at;
    // What stands there is the state behind the rotations so far, but for factors: those of the first ones are in the scale, or, where there are rotations
    // within vectors, those of all have been multiplied in with these.
    const double scale = lanes.count || !all.inner.count ? before * all.taken[at] : all.taken[at] / all.taken[all.high];
    if (n == 3) turns_back_of<T, 3>(form, l, z, reals, bits, ratio, lanes, scale * scale, found + at);
    else if (n == 2) turns_back_of<T, 2>(form, l, z, reals, bits, ratio, lanes, scale * scale, found + at);
    else if (n == 1) turns_back_of<T, 1>(form, l, z, reals, bits, ratio, lanes, scale * scale, found + at);
    else turns_of<T, 0>(form, l, reals, bits, ratio, lanes), turns_of<T, 0>(form, z, reals, bits, ratio, lanes);
  });
  both.l.scale = both.z.scale = all.scale;
  for (int k = 0; k < all.high; k++)
    if (asked(all.op[k])) sums[op[3 + 4 * all.op[k]]] += found[k];
}

// w[size] -> the sum of all and of those with each bit set; w is folded on the way
template <class T>
double marginals(T* w, int bits, double* single) {
  for (int bit = bits - 1; bit >= kLaneBits<T>; bit--) {
    const int64_t half = int64_t(1) << bit;
    single[bit] = over_all<T>(half, [=](int64_t i) {
      const Vec<T> upper = load(w + half + i);
      store(w + i, load(w + i) + upper);
      return upper;
    });
  }
  double total = 0;
  for (int bit = 0; bit < kLaneBits<T>; bit++) single[bit] = 0;
  for (int i = 0; i < kLanes<T>; i++) {
    total += w[i];
    for (int bit = 0; bit < kLaneBits<T>; bit++) single[bit] += i >> bit & 1 ? double(w[i]) : 0.0;
  }
  return total;
}

template <class T>
double masked_sum(const Tile<T>& tile, const T* w, int64_t mask, int64_t value) {
  double total = 0;
  const Vec<T> none{};
  masked(tile, mask, value, [&](int64_t x, Mask<T> lanes) { total += across_sum<T>(lanes ? load(w + x) : none); });
  return total;
}

template <class T>
void fill_cross(const Both<T>& both) {
  for (int64_t i = 0; i < both.z.size(); i += kLanes<T>) store(both.w + i, cross_part(both, i, i));
}

PDL_INLINE bool asks(const int64_t* at, int words) {  // whether one of a list's terms, whose last word is its gradient, has one
  const int64_t count = at[0];
  for (int64_t k = 1; k <= count; k++)
    if (at[k * words] >= 0) return true;
  return false;
}

template <class T>
void phase_sums(const Both<T>& both, const int64_t* op, double* sums) {
  const int64_t *linear = op + 1, *pairs = linear + 1 + 3 * linear[0], *mixed = pairs + 1 + 4 * pairs[0], *outer = mixed + 1 + 4 * mixed[0],
                *outer_pairs = outer + 1 + 3 * outer[0], outside = both.z.outside;
  if (!asks(linear, 3) && !asks(pairs, 4) && !asks(mixed, 4) && !asks(outer, 3) && !asks(outer_pairs, 4)) return;
  fill_cross(both);
  const double weight = -2 * both.weight();
  for (int64_t k = 0; k < pairs[0]; k++) {
    const int64_t *pair = pairs + 1 + 4 * k, mask = int64_t(1) << pair[0] | int64_t(1) << pair[1];
    if (pair[3] >= 0) sums[pair[3]] += weight * masked_sum(both.z, both.w, mask, mask);
  }
  double single[kMost];
  const double total = marginals(both.w, both.z.bits, single);
  for (int64_t k = 0; k < linear[0]; k++) {
    const int64_t* term = linear + 1 + 3 * k;
    if (term[2] >= 0) sums[term[2]] += weight * single[term[0]];
  }
  for (int64_t k = 0; k < mixed[0]; k++) {
    const int64_t* term = mixed + 1 + 4 * k;
    if (term[3] >= 0 && outside >> term[1] & 1) sums[term[3]] += weight * single[term[0]];
  }
  for (int64_t k = 0; k < outer[0]; k++) {
    const int64_t* term = outer + 1 + 3 * k;
    if (term[2] >= 0 && outside >> term[0] & 1) sums[term[2]] += weight * total;
  }
  for (int64_t k = 0; k < outer_pairs[0]; k++) {
    const int64_t* term = outer_pairs + 1 + 4 * k;
    if (term[3] >= 0 && outside >> term[0] & outside >> term[1] & 1) sums[term[3]] += weight * total;
  }
}

template <class T>
void phase_back(Both<T>& both, const int64_t* op, const double* values) {  // both are scaled alike
  T *re[2] = {both.l.re, both.z.re}, *im[2] = {both.l.im, both.z.im};
  Phases<T>(both.z, op, values, -1.0).template operator()<2>(re, im, both.z.scale);
  both.l.scale = both.z.scale = 1;
}

template <class T, int k>
void matrix_sums(const Both<T>& both, const Placed<T>& placed, double* sums) {
  constexpr int n = 1 << k;
  int64_t place[n]{}, targets = 0;
  for (int j = 0; j < k; j++) targets |= int64_t(1) << placed.bits[j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < k; j++) place[i] += i >> j & 1 ? int64_t(1) << placed.bits[j] : 0;
  const double weight = both.weight();
  const Vec<T> none{};
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double re = 0, im = 0;
      const T *lr = both.l.re + place[i], *li = both.l.im + place[i], *zr = both.z.re + place[j], *zi = both.z.im + place[j];
      if (placed.vectors) {
        masked(both.z, placed.mask | targets, placed.value, [&](int64_t x, Mask<T> lanes) {
          const Vec<T> a = load(lr + x), b = load(li + x), c = load(zr + x), d = load(zi + x);
          re += across_sum<T>(lanes ? a * c + b * d : none), im += across_sum<T>(lanes ? a * d - b * c : none);
        });
      } else {
        for (int64_t x = 0; x < both.z.size(); x++) {
          if ((x & targets) || (x & placed.mask) != placed.value) continue;
          re += lr[x] * zr[x] + li[x] * zi[x], im += lr[x] * zi[x] - li[x] * zr[x];
        }
      }
      sums[2 * (i * n + j)] += weight * re, sums[2 * (i * n + j) + 1] += weight * im;
    }
}

template <class T>
void matrix_back(Both<T>& both, const int64_t* op, const double* values, double* sums) {
  const int k = int(op[0]);
  const int64_t gradient = op[6 + k];
  matrix(both.z, op, values, true);
  if (gradient >= 0 && (both.z.outside & op[3 + k]) == op[4 + k]) {
    const Placed<T> placed(both.z, op), same(both.l, op);
    double* to = sums + gradient;
    if (k == 1) matrix_sums<T, 1>(both, placed, to);
    else if (k == 2) matrix_sums<T, 2>(both, placed, to);
    else if (k == 3) matrix_sums<T, 3>(both, placed, to);
    else matrix_sums<T, 4>(both, placed, to);
    placed.back(both.z), same.back(both.l);
  }
  matrix(both.l, op, values, true);
}

template <class T>
void undo(Both<T>& both, int64_t code, const int64_t* op, const double* values, double* sums) {
  switch (code) {
    case kTurn: return turn_back(both, op, values, sums);
    case kPhase:
      phase_sums(both, op, sums);
      phase_back(both, op, values);
      return;
    case kMasked:
      if (op[5] >= 0 && (both.z.outside & op[2]) == op[3]) {
        fill_cross(both);
        sums[op[5]] -= 2 * both.weight() * masked_sum(both.z, both.w, op[0], op[1]);
      }
      masked_phase(both.l, op, values, -1.0), masked_phase(both.z, op, values, -1.0);
      return;
    case kParity:
      if (op[3] >= 0) {
        const Vec<T> signs = lane_signs<T>(op[0]);
        const int64_t high = op[0] & ~int64_t(kLanes<T> - 1);
        const double found = over_all<T>(both.z.size(), [&](int64_t x) { return cross_part(both, x, x) * (__builtin_parityll(x & high) ? -signs : signs); });
        sums[op[3]] += (__builtin_parityll(both.z.outside & op[1]) ? -found : found) * both.weight();
      }
      parity(both.l, op, values, -1.0), parity(both.z, op, values, -1.0);
      return;
    case kMatrix: matrix_back(both, op, values, sums); return;
  }
}

// z and l [states, 2^n] back to where the program began; sums [states, slots] grows by what is said above
template <class T>
void backward(T* z, T* l, int64_t states, int n, const int64_t* program, const double* values, int64_t values_stride, double* sums, int64_t slots) {
  const int64_t count = program[0];
  const int64_t** starts = static_cast<const int64_t**>(scratch(Slot::kStateStarts, (count + 1) * sizeof(int64_t*)));
  const int64_t* at = program + 1;
  for (int64_t s = 0; s < count; s++) starts[s] = at, at += 1 + at[0];
  for (int64_t s = count; s--;) {
    Sweep sweep;
    read(sweep, starts[s]);
    const int64_t runs = int64_t(1) << (sweep.local - sweep.fixed), tiles = int64_t(1) << (n - sweep.local);
    int64_t* offsets = static_cast<int64_t*>(scratch(Slot::kStateOffsets, (runs + sweep.count) * sizeof(int64_t)));
    for (int64_t r = 0; r < runs; r++) offsets[r] = Places{sweep}.run(r);
    int64_t* ops = offsets + runs;  // where each op begins
    for (int64_t k = 0, word = 0; k < sweep.count; k++) ops[k] = word, word += 2 + sweep.ops[word + 1];
    const int64_t grain = kWork / ((sweep.count + 1) << sweep.local) + 1;
    const auto tile_back = [=](int64_t state, int64_t tile, double* to) {
      const int bits = sweep.local < kLaneBits<T> ? kLaneBits<T> : sweep.local;
      T* memory = static_cast<T*>(scratch(Slot::kStateTile, (5 * sizeof(T)) << bits));
      const int64_t base = Places{sweep}.base(tile), first = 2 * ((state << n) + base);
      Both<T> both{tile_at<T>(memory, bits), tile_at<T>(memory + (int64_t(2) << bits), bits), memory + (int64_t(4) << bits)};
      both.l.outside = both.z.outside = base;
      take(both.l, l + first, sweep, offsets), take(both.z, z + first, sweep, offsets);
      for (int64_t k = sweep.count; k;) {
        Flip row[kFlips];
        int found = 0;
        for (int seen = 0; k && sweep.ops[ops[k - 1]] == kFlip && seen < kFlips; seen++, k--) found += flip_of(both.z, sweep.ops + ops[k - 1] + 2, row + found);
        if (found) flips(both.l, row, found), flips(both.z, row, found);
        if (k && sweep.ops[ops[k - 1]] != kFlip) k--, undo(both, sweep.ops[ops[k]], sweep.ops + ops[k] + 2, values + state * values_stride, to);
      }
      give(l + first, both.l, sweep, offsets), give(z + first, both.z, sweep, offsets);
    };
    if (tiles == 1) {
      parallel(states, grain, [=](int64_t begin, int64_t end) {
        for (int64_t state = begin; state < end; state++) tile_back(state, 0, sums + state * slots);
      });
      continue;
    }
    const int parts = parts_of(tiles, grain);
    double* partial = static_cast<double*>(scratch(Slot::kStateParts, parts * slots * sizeof(double)));
    for (int64_t state = 0; state < states; state++) {
      for (int64_t i = 0; i < parts * slots; i++) partial[i] = 0;
      parallel_parts(tiles, parts, [=](int64_t begin, int64_t end, int part) {
        for (int64_t tile = begin; tile < end; tile++) tile_back(state, tile, partial + part * slots);
      });
      for (int64_t part = 0; part < parts; part++)
        for (int64_t i = 0; i < slots; i++) sums[state * slots + i] += partial[part * slots + i];
    }
  }
}

}  // namespace pdl::PDL_ISA::statevector
