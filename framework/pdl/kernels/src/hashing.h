// Hashes of names and numbers, the same on every machine, and places among buckets. One pass over the data, at the speed of memory.
#pragma once
#include <cstdint>
#include <cstring>

#include "parallel.h"

namespace pdl::hashing {

constexpr uint64_t kOne = 0x9E3779B185EBCA87ull, kTwo = 0xC2B2AE3D27D4EB4Full, kThree = 0x165667B19E3779F9ull;
constexpr uint64_t kFour = 0x85EBCA77C2B2AE63ull, kFive = 0x27D4EB2F165667C5ull;

inline uint64_t turned(uint64_t x, int by) { return x << by | x >> (64 - by); }
inline uint64_t eight(const char* p) {
  uint64_t x;
  memcpy(&x, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  x = __builtin_bswap64(x);
#endif
  return x;
}
inline uint64_t four(const char* p) {
  uint32_t x;
  memcpy(&x, p, 4);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  x = __builtin_bswap32(x);
#endif
  return x;
}
inline uint64_t round(uint64_t sum, uint64_t x) { return turned(sum + x * kTwo, 31) * kOne; }

// XXH64, as its specification defines it.
inline uint64_t of_bytes(const char* p, int64_t n, uint64_t seed) {
  const char* end = p + n;
  uint64_t h = seed + kFive;
  if (n >= 32) {
    uint64_t a = seed + kOne + kTwo, b = seed + kTwo, c = seed, d = seed - kOne;
    for (; end - p >= 32; p += 32) a = round(a, eight(p)), b = round(b, eight(p + 8)), c = round(c, eight(p + 16)), d = round(d, eight(p + 24));
    h = turned(a, 1) + turned(b, 7) + turned(c, 12) + turned(d, 18);
    const uint64_t lanes[4] = {a, b, c, d};
    for (uint64_t lane : lanes) h = (h ^ round(0, lane)) * kOne + kFour;
  }
  h += static_cast<uint64_t>(n);
  for (; end - p >= 8; p += 8) h = turned(h ^ round(0, eight(p)), 27) * kOne + kFour;
  if (end - p >= 4) h = turned(h ^ four(p) * kOne, 23) * kTwo + kThree, p += 4;
  for (; p < end; p++) h = turned(h ^ static_cast<unsigned char>(*p) * kFive, 11) * kOne;
  h = (h ^ h >> 33) * kTwo;
  h = (h ^ h >> 29) * kThree;
  return h ^ h >> 32;
}

// SplitMix64: a bijection of the 64-bit numbers (Steele, Lea & Flood, OOPSLA 2014).
inline uint64_t of_number(uint64_t x, uint64_t seed) {
  x += (seed + 1) * 0x9E3779B97F4A7C15ull;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ x >> 27) * 0x94D049BB133111EBull;
  return x ^ x >> 31;
}

// The high bits of h decide: floor(h buckets / 2^64), without a division.
inline int64_t place(uint64_t h, int64_t buckets) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(h) * static_cast<uint64_t>(buckets) >> 64);
}

template <class F>
void over(int64_t n, const F& body) {
  parallel_for(
      n, pieces_of(n, 16384), [](void* f, int64_t begin, int64_t end, int) { (*static_cast<const F*>(f))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

// out[i] = the bucket of numbers[i]
inline void numbers(int64_t* out, const int64_t* values, int64_t n, int64_t buckets, uint64_t seed) {
  over(n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) out[i] = place(of_number(static_cast<uint64_t>(values[i]), seed), buckets);
  });
}

// out[i] = the bucket of the bytes [offsets[i], offsets[i + 1])
template <class Offset>
void strings(int64_t* out, const Offset* offsets, const char* bytes, int64_t n, int64_t buckets, uint64_t seed) {
  over(n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) out[i] = place(of_bytes(bytes + offsets[i], offsets[i + 1] - offsets[i], seed), buckets);
  });
}

// 1 + the first place where offsets [n + 1] fall or leave [0, size]; 0 where they do not
template <class Offset>
int64_t first_bad_offset(const Offset* offsets, int64_t n, int64_t size) {
  if (offsets[0] < 0) return 1;
  for (int64_t i = 0; i < n; i++)
    if (offsets[i + 1] < offsets[i] || offsets[i + 1] > size) return i + 2;
  return 0;
}

}  // namespace pdl::hashing
