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
#include "statevector_matrices.h"

namespace pdl::PDL_ISA::statevector {

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
    parallel(states * reals / piece, 1 + kWork / piece, [=](int64_t begin, int64_t end) {
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
    int64_t* offsets = static_cast<int64_t*>(scratch(Slot::kStateOffsets, count * sizeof(int64_t)));
    for (int64_t r = 0; r < count; r++) offsets[r] = places.run(r);
    const int64_t grain = kWork / ((sweep.count + 1) << sweep.local) + 1;
    parallel(states * tiles, grain, [=](int64_t begin, int64_t end) {
      const int bits = sweep.local < kLaneBits<T> ? kLaneBits<T> : sweep.local;
      void* memory = scratch(Slot::kStateTile, (2 * sizeof(T)) << bits);
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
