// Permutations of a tile's amplitudes, and matrices on some of its bits.
#pragma once
#include "statevector_phases.h"

namespace pdl::PDL_ISA::statevector {

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

}  // namespace pdl::PDL_ISA::statevector
