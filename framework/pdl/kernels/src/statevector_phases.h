// Phases of a tile's amplitudes: of one and two bits, of those that meet a mask, of parities.
#pragma once
#include "statevector_turns.h"

namespace pdl::PDL_ISA::statevector {

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

}  // namespace pdl::PDL_ISA::statevector
