// State vectors of qubits, changed in place by programs of gates: complex numbers [states, 2^n], real and imaginary parts side by side.
//
// A program is a list of sweeps over memory. A sweep takes tiles: 2^local amplitudes, those that differ in `local` chosen bits of their index, the
// lowest of them contiguous. A tile is copied into scratch with its real and imaginary parts apart, all gates of the sweep are applied to it there, in the
// first or second cache, and it is written back; so memory is passed once for many gates. Gates that only multiply amplitudes by phases, and controls, may
// look at bits outside of the tile, which are fixed in it.
//
// One-qubit gates reach here as phases, a rotation by real numbers, and phases (Z-Y-Z). A rotation is one multiply-add for a real number: of [c -s; s c] the
// larger of c and s is taken out of the tile as a factor, which the next op that multiplies anyway puts back. Three qubits turn at a time, in registers.
// Phases of one and of two bits are collected: exp(i sum_k a_k x_k + i sum_kl b_kl x_k x_l) is a table over the lowest bits of a tile that changes by one
// product from row to row of the others.
//
// The program is a stream of int64:
//     sweeps; for each: words of it, local, fixed (how many of the bits are contiguous), bits[local] ascending, ops; for each: code, words behind these two, its payload
//     kTurn    count; for each: local bit, slot (c, s), gradient, whether of x, y and z
//     kPhase   slot of a factor or -1; counts and lists of: local (bit, slot, gradient), local pairs (bit, bit, slot, gradient), mixed (local bit, bit outside,
//              slot, gradient), outside (bit, slot, gradient), outside pairs (bit, bit, slot, gradient); a slot holds (cos, sin) of what is multiplied where bits are 1
//     kMasked  local mask and value, outside mask and value, slot (cos, sin), gradient: of amplitudes with (index & mask) == value
//     kParity  local mask, outside mask, slot (cos, sin of half the angle), gradient: exp(-i angle/2 (-1)^(bits of index & mask))
//     kFlip    local bit, local mask and value, outside mask and value: X, controlled
//     kMatrix  k, local bits[k] (the first is the lowest of the matrix' index), local mask and value, outside mask and value, slot (4^k complex numbers by rows), gradient
// Slots are places in a row of `values`, gradients places in a row of `sums` or -1.
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

// ---------------------------------------------------------------------------------------------------------------------------------------- rotations
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

// ------------------------------------------------------------------------------------------------------------------------------------------- phases
template <class T>
PDL_INLINE Complex<T> unit(const double* values, int64_t slot, double sign) { return {T(values[slot]), T(sign * values[slot + 1])}; }

template <class T>
struct Row {  // phases over the lowest bits of a tile
  T re[1 << kRow], im[1 << kRow];
};

// to = from times f, and times `by` where there is one
template <class T>
PDL_INLINE void times(Row<T>& to, const Row<T>& from, Complex<T> f, const Row<T>* by, int64_t n) {
  constexpr int L = kLanes<T>;
  for (int64_t i = 0; i < n; i += L) {
    Vec<T> a = load(from.re + i), b = load(from.im + i), re = a * f.re - b * f.im, im = a * f.im + b * f.re;
    if (by) {
      const Vec<T> c = load(by->re + i), d = load(by->im + i);
      a = re * c - im * d, b = re * d + im * c, re = a, im = b;
    }
    store(to.re + i, re), store(to.im + i, im);
  }
}

// A collection of phases of one and two bits in a tile.
template <class T>
struct Phases {
  Complex<T> factor{1, 0}, linear[kMost];
  int lo, bits;
  bool crossed[kMost]{};       // whether a high bit has pairs with low ones
  Row<T> base, cross[kMost];
  int64_t pairs;
  const int64_t* pair;         // those of two local bits
  const double* values;
  double sign;

  Phases(const Tile<T>& tile, const int64_t* op, const double* values, double sign) : bits(tile.bits), values(values), sign(sign) {
    lo = bits < kRow ? bits : kRow;
    if (op[0] >= 0) factor = unit<T>(values, op[0], sign);
    for (int k = 0; k < bits; k++) linear[k] = {1, 0};
    const int64_t* at = op + 1;
    int64_t count = *at++;
    for (; count; count--, at += 3) linear[at[0]] = linear[at[0]] * unit<T>(values, at[1], sign);
    pairs = *at++, pair = at, at += 4 * pairs;
    for (count = *at++; count; count--, at += 4)
      if (tile.outside >> at[1] & 1) linear[at[0]] = linear[at[0]] * unit<T>(values, at[2], sign);
    for (count = *at++; count; count--, at += 3)
      if (tile.outside >> at[0] & 1) factor = factor * unit<T>(values, at[1], sign);
    for (count = *at++; count; count--, at += 4)
      if (tile.outside >> at[0] & tile.outside >> at[1] & 1) factor = factor * unit<T>(values, at[2], sign);
    build();
  }

  void build() {
    base.re[0] = 1, base.im[0] = 0;
    for (int k = 0; k < lo; k++) extend(base, k, k, linear[k]);
    for (int64_t p = 0; p < pairs; p++) {
      const int a = int(pair[4 * p]), b = int(pair[4 * p + 1]), high = a > b ? a : b;
      if (high >= lo && (a < b ? a : b) < lo) crossed[high] = true;
    }
    for (int j = lo; j < bits; j++) {
      if (!crossed[j]) continue;
      cross[j].re[0] = 1, cross[j].im[0] = 0;
      for (int k = 0; k < lo; k++) extend(cross[j], k, j, {1, 0});
    }
  }

  // doubles what stands for k bits: with bit k set also times f and the pairs of bit j with the lower ones (and with k itself where j is another bit)
  void extend(Row<T>& row, int k, int j, Complex<T> f) {
    const int64_t n = int64_t(1) << k;
    Complex<T> with[kRow];
    bool any = false;
    for (int i = 0; i < k; i++) with[i] = {1, 0};
    for (int64_t p = 0; p < pairs; p++) {
      const int a = int(pair[4 * p]), b = int(pair[4 * p + 1]), low = a < b ? a : b, high = a < b ? b : a;
      if (high != j) continue;
      if (j != k && low == k) f = f * unit<T>(values, pair[4 * p + 2], sign);
      if (j == k && low < k) with[low] = with[low] * unit<T>(values, pair[4 * p + 2], sign), any = true;
    }
    if (!any) {
      for (int64_t i = 0; i < n; i++) {
        const Complex<T> v = Complex<T>{row.re[i], row.im[i]} * f;
        row.re[n + i] = v.re, row.im[n + i] = v.im;
      }
      return;
    }
    Complex<T> rows[1 << kRow];
    rows[0] = f;
    for (int i = 0; i < k; i++)
      for (int64_t x = 0; x < int64_t(1) << i; x++) rows[x | int64_t(1) << i] = rows[x] * with[i];
    for (int64_t i = 0; i < n; i++) {
      const Complex<T> v = Complex<T>{row.re[i], row.im[i]} * rows[i];
      row.re[n + i] = v.re, row.im[n + i] = v.im;
    }
  }

  // Multiplies tiles, the parts of which begin at re[k] and im[k].
  template <int tiles>
  void operator()(T* const* re, T* const* im, T scale) {
    const int high = bits - lo;
    const int64_t n = int64_t(1) << lo;
    Row<T> made[kMost - kRow + 2];
    const Row<T>* level[kMost - kRow + 2]{};  // level[j]: of the bits from lo + j up
    times(made[high], base, {factor.re * scale, factor.im * scale}, static_cast<const Row<T>*>(nullptr), n < kLanes<T> ? kLanes<T> : n);
    for (int j = 0; j <= high; j++) level[j] = &made[high];
    multiply<tiles, false, false>(re, im, *level[0], {1, 0}, nullptr, n);
    for (int64_t h = 1; h < int64_t(1) << high; h++) {
      const int j = __builtin_ctzll(h), bit = lo + j;
      const int64_t at = h << lo;
      Complex<T> f = linear[bit];
      for (int64_t p = 0; p < pairs; p++) {
        const int a = int(pair[4 * p]), b = int(pair[4 * p + 1]), low = a < b ? a : b, top = a < b ? b : a;
        if (low == bit && h >> (top - lo) & 1) f = f * unit<T>(values, pair[4 * p + 2], sign);
      }
      T *to_re[tiles], *to_im[tiles];
      for (int k = 0; k < tiles; k++) to_re[k] = re[k] + at, to_im[k] = im[k] + at;
      const Row<T>*from = level[j + 1], *by = crossed[bit] ? &cross[bit] : nullptr;
      if (f.re == 1 && f.im == 0 && !by) {
        for (int i = 0; i <= j; i++) level[i] = from;
        multiply<tiles, false, false>(to_re, to_im, *from, f, by, n);
      } else if (!j) {  // of this setting alone: not stored
        if (by) multiply<tiles, true, true>(to_re, to_im, *from, f, by, n);
        else multiply<tiles, true, false>(to_re, to_im, *from, f, by, n);
      } else {
        times(made[j], *from, f, by, n);
        for (int i = 0; i <= j; i++) level[i] = &made[j];
        multiply<tiles, false, false>(to_re, to_im, made[j], f, by, n);
      }
    }
  }

  // A row of tiles by a row of phases, that by f where it is `turned`, and by another row where it is `crossed_`
  template <int tiles, bool turned, bool crossed_>
  PDL_INLINE static void multiply(T* const* re, T* const* im, const Row<T>& row, Complex<T> f, const Row<T>* by, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes<T>) {
      Vec<T> p = load(row.re + i), q = load(row.im + i);
      if (turned) {
        const Vec<T> x = p * f.re - q * f.im;
        q = p * f.im + q * f.re, p = x;
      }
      if (crossed_) {
        const Vec<T> c = load(by->re + i), d = load(by->im + i), x = p * c - q * d;
        q = p * d + q * c, p = x;
      }
      for (int k = 0; k < tiles; k++) {
        const Vec<T> a = load(re[k] + i), b = load(im[k] + i);
        store(re[k] + i, a * p - b * q), store(im[k] + i, a * q + b * p);
      }
    }
  }
};

template <class T>
void phase(Tile<T>& tile, const int64_t* op, const double* values, double sign) {
  T *re[1] = {tile.re}, *im[1] = {tile.im};
  Phases<T>(tile, op, values, sign).template operator()<1>(re, im, tile.scale);
  tile.scale = 1;
}

// body(index of the first of a vector, which lanes) for the amplitudes with (index & mask) == value
template <class T, class Body>
PDL_INLINE void masked(const Tile<T>& tile, int64_t mask, int64_t value, const Body& body) {
  constexpr int64_t in = kLanes<T> - 1;
  Mask<T> lanes;
  for (int i = 0; i < kLanes<T>; i++) lanes[i] = (i & mask) == (value & in) ? -1 : 0;
  const int64_t open = (tile.size() - 1) & ~mask & ~in;
  int64_t x = 0;
  do body(x | (value & ~in), lanes);
  while ((x = (x - open) & open));  // the next setting of the open bits
}

template <class T>
void masked_phase(Tile<T>& tile, const int64_t* op, const double* values, double sign) {
  if ((tile.outside & op[2]) != op[3]) return;
  const Complex<T> f = unit<T>(values, op[4], sign);
  masked(tile, op[0], op[1], [&](int64_t x, Mask<T> lanes) {
    const Vec<T> a = load(tile.re + x), b = load(tile.im + x);
    store(tile.re + x, lanes ? a * f.re - b * f.im : a), store(tile.im + x, lanes ? a * f.im + b * f.re : b);
  });
}

template <class T>
Vec<T> lane_signs(int64_t mask) {  // (-1)^(bits of lane & mask)
  Vec<T> signs{};
  for (int i = 0; i < kLanes<T>; i++) signs[i] = __builtin_parityll(i & mask) ? T(-1) : T(1);
  return signs;
}

template <class T>
void parity(Tile<T>& tile, const int64_t* op, const double* values, double sign) {
  const Complex<T> f = unit<T>(values, op[2], sign);
  const Vec<T> signs = lane_signs<T>(op[0]) * f.im;
  const int64_t high = op[0] & ~int64_t(kLanes<T> - 1);
  const bool odd = __builtin_parityll(tile.outside & op[1]);
  for (int64_t x = 0; x < tile.size(); x += kLanes<T>) {
    const Vec<T> a = load(tile.re + x), b = load(tile.im + x), s = __builtin_parityll(x & high) != odd ? -signs : signs;
    store(tile.re + x, a * f.re + b * s), store(tile.im + x, b * f.re - a * s);
  }
}

// -------------------------------------------------------------------------------------------------------------------------- permutations and matrices
struct Flip {  // of the amplitudes with (index & mask) == value, a bit
  int bit;
  int64_t mask, value;
};

template <class T>
void flip(const Tile<T>& tile, const Flip& one) {
  T* r[2] = {tile.re, tile.im};
  if (one.bit < kLaneBits<T>) {
    Mask<T> partner;
    for (int i = 0; i < kLanes<T>; i++) partner[i] = i ^ (1 << one.bit);
    masked(tile, one.mask, one.value, [&](int64_t x, Mask<T> lanes) {
      for (T* part : r) {
        const Vec<T> v = load(part + x);
        store(part + x, lanes ? __builtin_shuffle(v, partner) : v);
      }
    });
    return;
  }
  const int64_t step = int64_t(1) << one.bit;
  const auto exchange = [&](const auto& chosen) {
    masked(tile, one.mask | step, one.value, [&](int64_t x, Mask<T> lanes) {
      for (T* part : r) {
        const Vec<T> a = load(part + x), b = load(part + x + step);
        store(part + x, chosen(lanes, b, a)), store(part + x + step, chosen(lanes, a, b));
      }
    });
  };
  if (one.mask & (kLanes<T> - 1)) exchange([](Mask<T> lanes, Vec<T> a, Vec<T> b) { return lanes ? a : b; });
  else exchange([](Mask<T>, Vec<T> a, Vec<T>) { return a; });
}

// Flips one behind the other; those that stay within a piece of the first cache piece by piece
template <class T>
void flips(const Tile<T>& tile, const Flip* all, int count) {
  const int most = __builtin_ctzll(kPiece<T> / 2), bits = tile.bits < most ? tile.bits : most;
  const int64_t piece = int64_t(1) << bits, within = piece - 1;
  for (int k = 0, end; k < count; k = end) {
    for (end = k; end < count && all[end].bit < bits; end++) continue;
    if (end - k < 2) {
      flip(tile, all[k]), end = k + 1;
      continue;
    }
    for (int64_t begin = 0; begin < tile.size(); begin += piece) {
      const Tile<T> part{tile.re + begin, tile.im + begin, bits, 0, 1};
      for (int j = k; j < end; j++)
        if ((begin & all[j].mask) == (all[j].value & ~within)) flip(part, {all[j].bit, all[j].mask & within, all[j].value & within});
    }
  }
}

// What kFlip's payload says of a tile, into *to; whether it says anything
template <class T>
PDL_INLINE bool flip_of(const Tile<T>& tile, const int64_t* op, Flip* to) {
  *to = {int(op[0]), op[1], op[2]};
  return (tile.outside & op[3]) == op[4];
}

// Exchanges a bit within vectors with one above: index bits low and high change places.
template <class T>
void exchange(Tile<T>& tile, int low, int high) {
  Mask<T> first, second;
  for (int i = 0; i < kLanes<T>; i++) {
    first[i] = i >> low & 1 ? (i ^ (1 << low)) + kLanes<T> : i;
    second[i] = i >> low & 1 ? i + kLanes<T> : i | 1 << low;
  }
  const int64_t step = int64_t(1) << high;
  for (int64_t i = 0; i < tile.size(); i += kLanes<T>) {  // half of the real parts, then half of the imaginary ones
    T* at = tile.re + parted(i, high);
    const Vec<T> a = load(at), b = load(at + step);
    store(at, (Vec<T>)__builtin_shuffle(a, b, first)), store(at + step, (Vec<T>)__builtin_shuffle(a, b, second));
  }
}

// A matrix' bits and controls after lane bits have changed places with high ones that it does not touch.
template <class T>
struct Placed {
  int k, count = 0, bits[4], low[4], high[4];
  int64_t mask, value;
  bool vectors = true;  // whether all bits are above the lanes now

  Placed(Tile<T>& tile, const int64_t* op) : k(int(op[0])), mask(op[1 + k]), value(op[2 + k]) {
    int64_t used = mask;
    for (int j = 0; j < k; j++) bits[j] = int(op[1 + j]), used |= int64_t(1) << bits[j];
    int free = kLaneBits<T>;
    for (int j = 0; j < k; j++) {
      if (bits[j] >= kLaneBits<T>) continue;
      while (free < tile.bits && used >> free & 1) free++;
      if (free >= tile.bits) {
        vectors = false;
        continue;
      }
      low[count] = bits[j], high[count++] = free, bits[j] = free++;
    }
    for (int j = 0; j < count; j++) exchange(tile, low[j], high[j]);
  }
  void back(Tile<T>& tile) const {
    for (int j = count; j--;) exchange(tile, low[j], high[j]);
  }
};

template <class T, int k>
void matrix_of(Tile<T>& tile, const Placed<T>& placed, const double* m, bool adjoint) {
  constexpr int n = 1 << k;
  Complex<T> u[n][n];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      const double* from = m + 2 * (adjoint ? j * n + i : i * n + j);
      u[i][j] = {T(from[0]), T(adjoint ? -from[1] : from[1])};
    }
  int64_t place[n]{}, targets = 0;
  for (int j = 0; j < k; j++) targets |= int64_t(1) << placed.bits[j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < k; j++) place[i] += i >> j & 1 ? int64_t(1) << placed.bits[j] : 0;
  if (placed.vectors) {
    masked(tile, placed.mask | targets, placed.value, [&](int64_t x, Mask<T> lanes) {
      Vec<T> a[n], b[n];
      for (int j = 0; j < n; j++) a[j] = load(tile.re + x + place[j]), b[j] = load(tile.im + x + place[j]);
      for (int i = 0; i < n; i++) {
        Vec<T> re{}, im{};
        for (int j = 0; j < n; j++) re += a[j] * u[i][j].re - b[j] * u[i][j].im, im += a[j] * u[i][j].im + b[j] * u[i][j].re;
        store(tile.re + x + place[i], lanes ? re : a[i]), store(tile.im + x + place[i], lanes ? im : b[i]);
      }
    });
    return;
  }
  for (int64_t x = 0; x < tile.size(); x++) {  // a tile of a few amplitudes
    if ((x & targets) || (x & placed.mask) != placed.value) continue;
    Complex<T> v[n];
    for (int j = 0; j < n; j++) v[j] = {tile.re[x + place[j]], tile.im[x + place[j]]};
    for (int i = 0; i < n; i++) {
      Complex<T> sum{0, 0};
      for (int j = 0; j < n; j++) {
        const Complex<T> p = u[i][j] * v[j];
        sum.re += p.re, sum.im += p.im;
      }
      tile.re[x + place[i]] = sum.re, tile.im[x + place[i]] = sum.im;
    }
  }
}

template <class T>
void matrix(Tile<T>& tile, const int64_t* op, const double* values, bool adjoint) {
  const int k = int(op[0]);
  if ((tile.outside & op[3 + k]) != op[4 + k]) return;
  const Placed<T> placed(tile, op);
  const double* m = values + op[5 + k];
  if (k == 1) matrix_of<T, 1>(tile, placed, m, adjoint);
  else if (k == 2) matrix_of<T, 2>(tile, placed, m, adjoint);
  else if (k == 3) matrix_of<T, 3>(tile, placed, m, adjoint);
  else matrix_of<T, 4>(tile, placed, m, adjoint);
  placed.back(tile);
}

// ------------------------------------------------------------------------------------------------------------------------------------------ sweeps
struct Sweep {
  int local, fixed;
  const int64_t *bits, *ops, *end;
  int64_t count;
};

// The tile'th setting of the bits outside, and where within it the runs of contiguous amplitudes begin.
struct Places {
  const Sweep& sweep;
  PDL_INLINE int64_t base(int64_t tile) const {
    int64_t at = tile << sweep.fixed;
    for (int j = sweep.fixed; j < sweep.local; j++) at = parted(at, int(sweep.bits[j]));
    return at;
  }
  PDL_INLINE int64_t run(int64_t r) const {
    int64_t at = 0;
    for (int j = sweep.fixed; j < sweep.local; j++) at |= (r >> (j - sweep.fixed) & 1) << sweep.bits[j];
    return at;
  }
};

template <class T>
void take(Tile<T>& tile, const T* z, const Sweep& sweep, const int64_t* runs) {
  constexpr int L = kLanes<T>;
  const int64_t n = int64_t(1) << sweep.fixed, count = int64_t(1) << (sweep.local - sweep.fixed);
  if (n < L) {
    for (int64_t i = 0; i < tile.size(); i++) tile.re[i] = tile.im[i] = 0;
    for (int64_t r = 0; r < count; r++)
      for (int64_t i = 0; i < n; i++) tile.re[r * n + i] = z[2 * (runs[r] + i)], tile.im[r * n + i] = z[2 * (runs[r] + i) + 1];
    return;
  }
  Mask<T> even, odd;
  for (int i = 0; i < L; i++) even[i] = 2 * i, odd[i] = 2 * i + 1;
  for (int64_t r = 0; r < count; r++)
    for (int64_t i = 0; i < n; i += L) {
      const T* from = z + 2 * (runs[r] + i);
      const Vec<T> a = load(from), b = load(from + L);
      store(tile.re + r * n + i, (Vec<T>)__builtin_shuffle(a, b, even)), store(tile.im + r * n + i, (Vec<T>)__builtin_shuffle(a, b, odd));
    }
}

template <class T>
void give(T* z, const Tile<T>& tile, const Sweep& sweep, const int64_t* runs) {
  constexpr int L = kLanes<T>;
  const int64_t n = int64_t(1) << sweep.fixed, count = int64_t(1) << (sweep.local - sweep.fixed);
  if (n < L) {
    for (int64_t r = 0; r < count; r++)
      for (int64_t i = 0; i < n; i++)
        z[2 * (runs[r] + i)] = tile.re[r * n + i] * tile.scale, z[2 * (runs[r] + i) + 1] = tile.im[r * n + i] * tile.scale;
    return;
  }
  Mask<T> first, second;
  for (int i = 0; i < L; i++) first[i] = (i >> 1) + (i & 1) * L, second[i] = (i >> 1) + L / 2 + (i & 1) * L;
  for (int64_t r = 0; r < count; r++)
    for (int64_t i = 0; i < n; i += L) {
      const Vec<T> a = load(tile.re + r * n + i) * tile.scale, b = load(tile.im + r * n + i) * tile.scale;
      T* to = z + 2 * (runs[r] + i);
      store(to, (Vec<T>)__builtin_shuffle(a, b, first)), store(to + L, (Vec<T>)__builtin_shuffle(a, b, second));
    }
}

template <class T>
void apply(Tile<T>& tile, int64_t code, const int64_t* op, const double* values) {
  switch (code) {
    case kTurn: return turn_all(tile, op, values, 1.0);
    case kPhase: return phase(tile, op, values, 1.0);
    case kMasked: return masked_phase(tile, op, values, 1.0);
    case kParity: return parity(tile, op, values, 1.0);
    case kMatrix: return matrix(tile, op, values, false);
  }
}

constexpr int kFlips = 64;  // of a row that are collected

template <class T>
void apply_all(Tile<T>& tile, const Sweep& sweep, const double* values) {
  const int64_t* op = sweep.ops;
  for (int64_t k = 0; k < sweep.count;) {
    Flip row[kFlips];
    int found = 0;
    for (int seen = 0; k < sweep.count && op[0] == kFlip && seen < kFlips; seen++, k++, op += 2 + op[1]) found += flip_of(tile, op + 2, row + found);
    if (found) flips(tile, row, found);
    if (k < sweep.count && op[0] != kFlip) apply(tile, op[0], op + 2, values), k++, op += 2 + op[1];
  }
}

PDL_INLINE const int64_t* read(Sweep& sweep, const int64_t* at) {
  const int64_t words = at[0];
  sweep.local = int(at[1]), sweep.fixed = int(at[2]), sweep.bits = at + 3, sweep.count = at[3 + sweep.local], sweep.ops = at + 4 + sweep.local;
  return sweep.end = at + 1 + words;
}

template <class T>
Tile<T> tile_at(void* memory, int bits) {
  T* r = static_cast<T*>(memory);
  return {r, r + (int64_t(1) << bits), bits, 0, 1};
}

constexpr int64_t kWork = 1 << 12;  // amplitudes times ops that a thread should at least have

// The bits of a number, put where a mask has ones
PDL_INLINE int64_t spread(int64_t number, int64_t mask) {
  int64_t at = 0;
  for (; mask; mask &= mask - 1, number >>= 1) at |= number & 1 ? mask & -mask : 0;
  return at;
}

// z [states, 2^n] by the program, a row of values for each state (values_stride 0: the same for all). With `zero` it begins with |0...0>, whatever z held: then
// tiles that no sweep so far can have reached are 0, and passed by.
template <class T>
void run(T* z, int64_t states, int n, const int64_t* program, const double* values, int64_t values_stride, bool zero) {
  const int64_t all = (int64_t(1) << n) - 1;
  int64_t reached = zero ? 0 : all;
  if (zero) {
    const int64_t reals = int64_t(2) << n, piece = reals < kWork ? reals : kWork;
    parallel(states * reals / piece, 1 + kWork / piece, [=](int64_t begin, int64_t end, int) {
      memset(z + begin * piece, 0, (end - begin) * piece * sizeof(T));
    });
    for (int64_t state = 0; state < states; state++) z[state * reals] = 1;
  }
  const int64_t* at = program + 1;
  for (int64_t s = 0; s < program[0]; s++) {
    Sweep sweep;
    at = read(sweep, at);
    const Places places{sweep};
    int64_t local = 0;
    for (int j = 0; j < sweep.local; j++) local |= int64_t(1) << sweep.bits[j];
    const int64_t outside = reached & ~local, count = int64_t(1) << (sweep.local - sweep.fixed), tiles = int64_t(1) << __builtin_popcountll(outside);
    reached |= local;
    int64_t* offsets = static_cast<int64_t*>(scratch(1, count * sizeof(int64_t)));
    for (int64_t r = 0; r < count; r++) offsets[r] = places.run(r);
    const int64_t grain = kWork / ((sweep.count + 1) << sweep.local) + 1;
    parallel(states * tiles, grain, [=](int64_t begin, int64_t end, int) {
      const int bits = sweep.local < kLaneBits<T> ? kLaneBits<T> : sweep.local;
      void* memory = scratch(0, (2 * sizeof(T)) << bits);
      for (int64_t i = begin; i < end; i++) {
        const int64_t state = i / tiles, base = spread(i % tiles, outside);
        T* from = z + 2 * ((state << n) + base);
        Tile<T> tile = tile_at<T>(memory, bits);
        tile.outside = base;
        take(tile, from, sweep, offsets);
        apply_all(tile, sweep, values + state * values_stride);
        give(from, tile, sweep, offsets);
      }
    });
  }
}

}  // namespace pdl::PDL_ISA::statevector
