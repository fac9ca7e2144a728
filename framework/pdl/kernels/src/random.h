// Random bits by position: what a matrix [rows, columns] of draws holds at (row, column) depends on the seed alone, not on who asks when. So a
// dropout mask is made where it is applied, again in the gradient, and never stored.
//
// A row has a stream of its own, 64 bits that SplitMix64 draws from seed and row (Steele, Lea and Flood 2014); a column's 32 bits are a Weyl
// sequence through a mixer of two multiplications (Wellons, "hash prospector"), one half of the stream added before and one between them.
#pragma once
#include "vec.h"

namespace pdl::PDL_ISA {

struct Stream {
  uint32_t a, b;
};

inline Stream stream_of(uint64_t seed, uint64_t row) {
  uint64_t z = seed + (row + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return {static_cast<uint32_t>(z), static_cast<uint32_t>(z >> 32)};
}

// 32 bits for each lane of a Vec<T>.
template <class T>
struct DrawsOf;
template <>
struct DrawsOf<float> { typedef uint32_t type __attribute__((vector_size(PDL_VECTOR_BYTES))); };
template <>
struct DrawsOf<double> { typedef uint32_t type __attribute__((vector_size(PDL_VECTOR_BYTES / 2))); };

// Dropout with rate p: 0 or 1 / (1 - p).
template <class T>
struct Drop {
  uint64_t seed;
  uint32_t threshold;  // draws below it are dropped
  T factor;

  Drop(double p, uint64_t seed) : seed(seed), threshold(static_cast<uint32_t>(p * 4294967296.0)), factor(static_cast<T>(1 / (1 - p))) {}

  // The factors of columns [column, column + kLanes<T>).
  inline __attribute__((always_inline)) Vec<T> factors(Stream s, int64_t column) const {
    typename DrawsOf<T>::type x;
    for (int i = 0; i < kLanes<T>; i++) x[i] = static_cast<uint32_t>(i);
    x = (x + static_cast<uint32_t>(column)) * 0x9e3779b9u + s.a;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = ((x ^ (x >> 15)) + s.b) * 0x846ca68bu;
    x ^= x >> 16;
    return (Vec<T>)(__builtin_convertvector(x >= threshold, Mask<T>) & (Mask<T>)splat<T>(factor));
  }
};

}  // namespace pdl::PDL_ISA
