// Checks of numbers that a kernel then uses as places, as calls that a tape can hold: 0 for good, else 1 + the position of the first bad one.
#pragma once
#include <cstdint>

namespace pdl {

inline int64_t first_outside(const int64_t* values, int64_t n, int64_t low, int64_t high) {
  for (int64_t i = 0; i < n; i++)
    if (values[i] < low || values[i] >= high) return i + 1;
  return 0;
}

inline int64_t first_above(const int32_t* values, int64_t n, int64_t high) {
  for (int64_t i = 0; i < n; i++)
    if (values[i] >= high) return i + 1;
  return 0;
}

}  // namespace pdl
