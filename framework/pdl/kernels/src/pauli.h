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

template <class T>
PDL_INLINE Vec<T> summed(const int64_t* terms, int64_t count, const double* values, int64_t first, const Vec<T>* signs) {
  constexpr int64_t in = kLanes<T> - 1;
  Vec<T> sum{};
  for (int64_t k = 0; k < count; k++) {
    const int64_t mask = terms[2 * k];
    const T c = T(values[terms[2 * k + 1]]);
    sum += signs[mask & in] * (__builtin_parityll(first & mask & ~in) ? -c : c);
  }
  return sum;
}

// The vector of amplitudes that group's flips take to those from `first` on: real and imaginary parts apart.
template <class T>
PDL_INLINE void fetch(const T* z, int64_t first, Vec<T>& re, Vec<T>& im, Mask<T> even, Mask<T> odd) {
  const Vec<T> a = load(z + 2 * first), b = load(z + 2 * first + kLanes<T>);
  re = (Vec<T>)__builtin_shuffle(a, b, even), im = (Vec<T>)__builtin_shuffle(a, b, odd);
}

// For vectors of amplitudes x from begin to end: body(x, (H z)'s amplitudes at x, real and imaginary)
template <class T, class Body>
void products(const T* z, const int64_t* groups, const double* values, int64_t begin, int64_t end, const Body& body) {
  constexpr int L = kLanes<T>;
  Mask<T> even, odd;
  for (int i = 0; i < L; i++) even[i] = 2 * i, odd[i] = 2 * i + 1;
  Vec<T> signs[kLanes<T>];
  for (int i = 0; i < L; i++) signs[i] = lane_signs<T>(i);
  for (int64_t x = begin; x < end; x += L) {
    Vec<T> re{}, im{};
    const int64_t* at = groups + 1;
    for (int64_t g = 0; g < groups[0]; g++) {
      const int64_t flips = at[0], real = at[1], imaginary = at[2], from = (x ^ flips) & ~int64_t(L - 1), inner = flips & (L - 1);
      const int64_t* terms = at + 3;
      Vec<T> a, b;
      fetch(z, from, a, b, even, odd);
      // signs of the source: those of its vector, before the lanes change places
      const Vec<T> c = summed<T>(terms, real, values, from, signs);
      Vec<T> p = a * c, q = b * c;
      if (imaginary) {
        const Vec<T> d = summed<T>(terms + 2 * real, imaginary, values, from, signs);
        p -= b * d, q += a * d;
      }
      if (inner) {
        Mask<T> partner;
        for (int i = 0; i < L; i++) partner[i] = i ^ inner;
        p = __builtin_shuffle(p, partner), q = __builtin_shuffle(q, partner);
      }
      re += p, im += q;
      at = terms + 2 * (real + imaginary);
    }
    body(x, re, im);
  }
}

constexpr int kChunk = 9;  // bits of a piece of a state: sums of <z|H|z> are short, and small states fill all threads together

// out = H z where there is an out, and energies [states] = Re <z|H|z> where they are asked for; states [states, 2^n] of at least a vector each, and a row of
// values for each (stride 0: the same for all)
template <class T>
void pauli_apply(T* out, const T* z, int64_t states, int n, const int64_t* groups, const double* values, int64_t stride, double* energies) {
  constexpr int L = kLanes<T>;
  const int piece = n < kChunk ? n : kChunk;
  const int64_t pieces = int64_t(1) << (n - piece), size = int64_t(1) << piece;
  double* partial = static_cast<double*>(scratch(3, states * pieces * sizeof(double)));
  parallel(states * pieces, (kWork >> piece) + 1, [=](int64_t begin, int64_t end, int) {
    Mask<T> even, odd, first, second;
    for (int i = 0; i < L; i++) {
      even[i] = 2 * i, odd[i] = 2 * i + 1;
      first[i] = (i >> 1) + (i & 1) * L, second[i] = first[i] + L / 2;
    }
    for (int64_t at = begin; at < end; at++) {
      const int64_t state = at / pieces, from = at % pieces * size;
      const T* source = z + (state << (n + 1));
      T* to = out ? out + (state << (n + 1)) : nullptr;
      Vec<T> sum{};
      products(source, groups, values + state * stride, from, from + size, [&](int64_t x, Vec<T> re, Vec<T> im) {
        if (energies) {
          Vec<T> a, b;
          fetch(source, x, a, b, even, odd);
          sum += a * re + b * im;
        }
        if (!to) return;
        store(to + 2 * x, (Vec<T>)__builtin_shuffle(re, im, first)), store(to + 2 * x + L, (Vec<T>)__builtin_shuffle(re, im, second));
      });
      partial[at] = across_sum<T>(sum);
    }
  });
  for (int64_t state = 0; energies && state < states; state++) {
    energies[state] = 0;
    for (int64_t k = 0; k < pieces; k++) energies[state] += partial[state * pieces + k];
  }
}

}  // namespace pdl::PDL_ISA::statevector
