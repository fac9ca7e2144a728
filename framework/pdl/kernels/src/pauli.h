// Sums of products of Pauli matrices on state vectors, without their matrices: H z and <z|H|z>.
//
// A product with X or Y on the bits of `flips` and Z or Y on those of `signs` takes amplitude x to x ^ flips, times i^(count of Y) (-1)^(bits of x & signs).
// Products with the same flips are a group: sum_k c_k i^.. (-1)^.. is made for a vector of amplitudes at a time, in registers, and multiplied once.
//
// The stream: groups; for each: flips, real terms, imaginary terms (those with an odd count of Y), then (signs, slot) of each; a slot holds the real number that
// stands before the signs, the power of i but for one factor i of the imaginary terms included.
#pragma once
#include "statevector.h"

namespace pdl::PDL_ISA::statevector {

constexpr int kChunk = 9;  // bits of a piece of a state: sums of <z|H|z> are short, and small states fill all threads together
constexpr int kTerms = 8;  // of a group, at a time

// The vector of amplitudes that group's flips take to those from `first` on: real and imaginary parts apart.
template <class T>
PDL_INLINE void fetch(const T* z, int64_t first, Vec<T>& re, Vec<T>& im, Mask<T> even, Mask<T> odd) {
  const Vec<T> a = load(z + 2 * first), b = load(z + 2 * first + kLanes<T>);
  re = (Vec<T>)__builtin_shuffle(a, b, even), im = (Vec<T>)__builtin_shuffle(a, b, odd);
}

// re, im [vectors] grow by some terms of a group at the amplitudes from `begin` on: real ones, or with a factor i
template <class T, bool imaginary>
void add_terms(Vec<T>* re, Vec<T>* im, const T* z, int64_t flips, const int64_t* terms, int64_t count, const double* values, int64_t begin, int64_t vectors) {
  constexpr int64_t L = kLanes<T>, in = L - 1;
  constexpr T sign[2] = {1, -1};
  Mask<T> even, odd, partner;
  for (int i = 0; i < L; i++) even[i] = 2 * i, odd[i] = 2 * i + 1, partner[i] = i ^ (flips & in);
  const int64_t apart = flips & ~in;
  for (int64_t first = 0; first < count; first += kTerms) {
    const int n = int(count - first < kTerms ? count - first : kTerms);
    int64_t masks[kTerms];
    Vec<T> factors[kTerms];  // with the signs of the source's lanes: before these change places
    for (int k = 0; k < n; k++) {
      const int64_t* term = terms + 2 * (first + k);
      masks[k] = term[0] & ~in, factors[k] = lane_signs<T>(term[0]) * T(values[term[1]]);
    }
    for (int64_t v = 0; v < vectors; v++) {
      const int64_t from = (begin + v * L) ^ apart;
      Vec<T> a, b, c{};
      fetch(z, from, a, b, even, odd);
      for (int k = 0; k < n; k++) c += factors[k] * sign[__builtin_parityll(from & masks[k])];
      Vec<T> p = imaginary ? -b * c : a * c, q = imaginary ? a * c : b * c;
      if (flips & in) p = __builtin_shuffle(p, partner), q = __builtin_shuffle(q, partner);
      re[v] += p, im[v] += q;
    }
  }
}

// re, im [vectors] = H z at the amplitudes from `begin` on
template <class T>
void products(Vec<T>* re, Vec<T>* im, const T* z, const int64_t* groups, const double* values, int64_t begin, int64_t vectors) {
  for (int64_t v = 0; v < vectors; v++) re[v] = im[v] = Vec<T>{};
  const int64_t* at = groups + 1;
  for (int64_t g = 0; g < groups[0]; g++) {
    const int64_t flips = at[0], real = at[1], imaginary = at[2];
    at += 3;
    add_terms<T, false>(re, im, z, flips, at, real, values, begin, vectors);
    add_terms<T, true>(re, im, z, flips, at + 2 * real, imaginary, values, begin, vectors);
    at += 2 * (real + imaginary);
  }
}

PDL_INLINE int64_t terms_of(const int64_t* groups) {
  int64_t total = 0;
  const int64_t* at = groups + 1;
  for (int64_t g = 0; g < groups[0]; g++) total += 1 + at[1] + at[2], at += 3 + 2 * (at[1] + at[2]);
  return total;
}

// out = H z where there is an out, and energies [states] = Re <z|H|z> where they are asked for; states [states, 2^n] of at least a vector each, and a row of
// values for each (stride 0: the same for all)
template <class T>
void pauli_apply(T* out, const T* z, int64_t states, int n, const int64_t* groups, const double* values, int64_t stride, double* energies) {
  constexpr int L = kLanes<T>;
  const int piece = n < kChunk ? n : kChunk;
  const int64_t pieces = int64_t(1) << (n - piece), size = int64_t(1) << piece, grain = kWork / (size * (1 + terms_of(groups) / 4)) + 1;
  double* partial = static_cast<double*>(scratch(Slot::kStateParts, states * pieces * sizeof(double)));
  parallel(states * pieces, grain, [=](int64_t begin, int64_t end) {
    Mask<T> even, odd, first, second;
    for (int i = 0; i < L; i++) {
      even[i] = 2 * i, odd[i] = 2 * i + 1;
      first[i] = (i >> 1) + (i & 1) * L, second[i] = first[i] + L / 2;
    }
    Vec<T> re[(1 << kChunk) / L], im[(1 << kChunk) / L];
    for (int64_t at = begin; at < end; at++) {
      const int64_t state = at / pieces, from = at % pieces * size;
      const T* source = z + (state << (n + 1));
      products<T>(re, im, source, groups, values + state * stride, from, size / L);
      Vec<T> sum{};
      if (energies)
        for (int64_t v = 0; v < size / L; v++) {
          Vec<T> a, b;
          fetch(source, from + v * L, a, b, even, odd);
          sum += a * re[v] + b * im[v];
        }
      partial[at] = across_sum<T>(sum);
      if (!out) continue;
      T* to = out + (state << (n + 1)) + 2 * from;
      for (int64_t v = 0; v < size / L; v++) {
        store(to + 2 * v * L, (Vec<T>)__builtin_shuffle(re[v], im[v], first));
        store(to + 2 * v * L + L, (Vec<T>)__builtin_shuffle(re[v], im[v], second));
      }
    }
  });
  for (int64_t state = 0; energies && state < states; state++) {
    energies[state] = 0;
    for (int64_t k = 0; k < pieces; k++) energies[state] += partial[state * pieces + k];
  }
}

}  // namespace pdl::PDL_ISA::statevector
