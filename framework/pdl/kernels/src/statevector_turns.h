// Tiles of state vectors, and rotations of bits in them by real numbers.
#pragma once
#include "vmath.h"

namespace pdl::PDL_ISA::statevector {

enum Op { kTurn, kPhase, kMasked, kParity, kFlip, kMatrix };
constexpr int kMost = 16;            // local bits
constexpr int kRow = 6;              // bits of the table of phases

template <class T>
constexpr int kLaneBits = kLanes<T> == 16 ? 4 : kLanes<T> == 8 ? 3 : kLanes<T> == 4 ? 2 : 1;

template <class T>
struct Complex {
  T re, im;
};
template <class T>
PDL_INLINE Complex<T> operator*(Complex<T> a, Complex<T> b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// A tile in scratch: 2^bits real parts, then as many imaginary ones; all of them times scale.
template <class T>
struct Tile {
  T *re, *im;
  int bits;
  int64_t outside;  // the bits of the index that are not local
  T scale;
  PDL_INLINE int64_t size() const { return int64_t(1) << bits; }
};

// index with a zero put in at a bit
PDL_INLINE int64_t parted(int64_t index, int bit) { return (index >> bit) << (bit + 1) | (index & ((int64_t(1) << bit) - 1)); }

template <class T>
struct LaneTurns {  // of bits within a vector: v -> own v + other partner(v)
  int count = 0;
  Vec<T> own[4], other[4];
  Mask<T> partner[4];
  PDL_INLINE void add(int bit, T c, T s, T factor) {
    for (int i = 0; i < kLanes<T>; i++) {
      partner[count][i] = i ^ (1 << bit);
      own[count][i] = c * factor;
      other[count][i] = (i >> bit & 1 ? s : -s) * factor;
    }
    count++;
  }
  PDL_INLINE Vec<T> operator()(Vec<T> v) const {
    for (int k = 0; k < count; k++) v = own[k] * v + other[k] * __builtin_shuffle(v, partner[k]);
    return v;
  }
};

// (a, b) -> (a - t b, b + t a), or with form 1 (t a - b, t b + a)
template <class T, int form>
PDL_INLINE void turn(Vec<T>& a, Vec<T>& b, Vec<T> t) {
  const Vec<T> x = form ? t * a - b : a - t * b, y = form ? t * b + a : b + t * a;
  a = x, b = y;
}

// Where the 2^radix vectors begin that rotations of `radix` bits mix: those of setting k at parted() + place[k].
template <int radix>
struct Group {
  int bits[3]{};
  int64_t place[1 << radix];
  explicit Group(const int* given) {
    for (int j = 0; j < radix; j++) bits[j] = given[j];
    for (int k = 0; k < 1 << radix; k++) {
      place[k] = 0;
      for (int j = 0; j < radix; j++) place[k] += k >> j & 1 ? int64_t(1) << bits[j] : 0;
    }
  }
  PDL_INLINE int64_t operator()(int64_t i) const {
    for (int j = 0; j < radix; j++) i = parted(i, bits[j]);
    return i;
  }
};

// The vectors of a group, rotated
template <class T, int radix, int forms>
PDL_INLINE void rotate(Vec<T>* v, const Vec<T>* t) {
  constexpr int n = 1 << radix;
#pragma GCC unroll 8
  for (int k = 0; k < n; k++)
    if (!(k & 1) && radix > 0) turn<T, (forms & 1)>(v[k], v[k + 1 < n ? k + 1 : k], t[0]);
#pragma GCC unroll 8
  for (int k = 0; k < n; k++)
    if (!(k & 2) && radix > 1) turn<T, (forms >> 1 & 1)>(v[k], v[k + 2 < n ? k + 2 : k], t[1]);
#pragma GCC unroll 8
  for (int k = 0; k < n; k++)
    if (!(k & 4) && radix > 2) turn<T, (forms >> 2 & 1)>(v[k], v[k + 4 < n ? k + 4 : k], t[2]);
}

// `radix` rotations at a time of r[count]; bits are above those within a vector, ascending
template <class T, int radix, int forms, bool lanes>
void turns(T* r, int64_t count, const int* bits, const T* ratio, const LaneTurns<T>& inner) {
  constexpr int n = 1 << radix;
  const Group<radix> group(bits);
  Vec<T> t[3]{};
  for (int j = 0; j < radix; j++) t[j] = splat<T>(ratio[j]);
  for (int64_t i = 0; i < count >> radix; i += kLanes<T>) {
    T* at = r + group(i);
    Vec<T> v[n];
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
      v[k] = load(at + group.place[k]);
      if constexpr (lanes) v[k] = inner(v[k]);
    }
    rotate<T, radix, forms>(v, t);
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) store(at + group.place[k], v[k]);
  }
}

template <class T, int radix, int forms = 0>
PDL_INLINE void turns_of(int form, T* r, int64_t count, const int* bits, const T* ratio, const LaneTurns<T>& inner) {
  if constexpr (forms < 1 << radix) {
    if (form != forms) return turns_of<T, radix, forms + 1>(form, r, count, bits, ratio, inner);
    if (inner.count) turns<T, radix, forms, true>(r, count, bits, ratio, inner);
    else turns<T, radix, forms, false>(r, count, bits, ratio, inner);
  }
}

template <class T>
constexpr int64_t kPiece = int64_t(1) << 14 >> (sizeof(T) == 8 ? 3 : 2);  // numbers of half a first cache

// Rotations [c -s; s c] of distinct bits, with the sign of s as told, of a tile in a scale; ops are kTurn's payload. Those of bits above a vector's stand in
// the order of the bits, `op` being their places in the payload.
template <class T>
struct Turns {
  int high = 0, bits[kMost + 1], forms[kMost + 1], op[kMost + 1];
  T ratio[kMost + 1];
  double taken[kMost + 2];  // the product of the factors that the first ones leave to the scale
  LaneTurns<T> inner;       // takes the scale, where there are any
  T scale;

  Turns(const int64_t* ops, const double* values, double sign, T before) : scale(before) {
    double factor[kMost + 1];
    for (int64_t k = 0; k < ops[0]; k++) {
      const int64_t* each = ops + 1 + 4 * k;
      const double c = values[each[1]], s = sign * values[each[1] + 1];
      if (each[0] < kLaneBits<T>) continue;
      const bool large = __builtin_fabs(c) >= __builtin_fabs(s);  // c [1 -t; t 1] or s [t -1; 1 t]
      int at = high++;
      for (; at > 0 && bits[at - 1] > each[0]; at--)
        bits[at] = bits[at - 1], ratio[at] = ratio[at - 1], forms[at] = forms[at - 1], op[at] = op[at - 1], factor[at] = factor[at - 1];
      bits[at] = int(each[0]), ratio[at] = T(large ? s / c : c / s), forms[at] = !large, op[at] = int(k), factor[at] = large ? c : s;
    }
    taken[0] = 1;
    for (int k = 0; k < high; k++) taken[k + 1] = taken[k] * factor[k];
    scale *= T(taken[high]);
    for (int64_t k = 0; k < ops[0]; k++) {
      const int64_t* each = ops + 1 + 4 * k;
      if (each[0] >= kLaneBits<T>) continue;
      inner.add(int(each[0]), T(values[each[1]]), T(sign * values[each[1] + 1]), scale);
      scale = 1;
    }
  }

  // body(number of the first, count, where the numbers begin, how many, rotations within vectors) for groups of up to three: those that stay within a piece of
  // the first cache, piece by piece, then the others
  template <class Body>
  PDL_INLINE void each(int64_t reals, int64_t most, const Body& body) const {
    const LaneTurns<T> none{};
    const int64_t piece = reals < most ? reals : most;
    int low = 0;
    while (low < high && int64_t(2) << bits[low] <= piece) low++;
    if (low || inner.count)
      for (int64_t begin = 0; begin < reals; begin += piece)
        for (int at = 0; at == 0 || at < low; at += 3) body(at, low - at < 3 ? low - at : 3, begin, piece, at ? none : inner);
    for (int at = low; at < high; at += 3) body(at, high - at < 3 ? high - at : 3, int64_t(0), reals, none);
  }
  int form(int at, int n) const {
    int made = 0;
    for (int j = 0; j < n; j++) made |= forms[at + j] << j;
    return made;
  }
};

template <class T>
void turn_all(Tile<T>& tile, const int64_t* ops, const double* values, double sign) {
  const Turns<T> all(ops, values, sign, tile.scale);
  tile.scale = all.scale;
  all.each(2 * tile.size(), kPiece<T>, [&](int at, int n, int64_t begin, int64_t reals, const LaneTurns<T>& lanes) {
    T* r = tile.re + begin;
    const int form = all.form(at, n), *bits = all.bits + at;
    const T* ratio = all.ratio + at;
    if (n == 3) turns_of<T, 3>(form, r, reals, bits, ratio, lanes);
    else if (n == 2) turns_of<T, 2>(form, r, reals, bits, ratio, lanes);
    else if (n == 1) turns_of<T, 1>(form, r, reals, bits, ratio, lanes);
    else turns_of<T, 0>(form, r, reals, bits, ratio, lanes);
  });
}

}  // namespace pdl::PDL_ISA::statevector
