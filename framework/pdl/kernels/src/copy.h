// Copies between arrays of any strides (transposes, slices, joins, broadcasts), and conversions between number types.
#pragma once
#include "table.h"
#include "vmath.h"

namespace pdl::PDL_ISA::copying {

constexpr int64_t kGrain = 1 << 15;  // bytes that a thread should at least have: what a core has written it copies sooner than another
constexpr int kTile = 16;

struct Wide {
  uint64_t low, high;
};

// n elements of one line.
template <class U>
PDL_INLINE void line(char* to, const char* from, int64_t n, int64_t to_step, int64_t from_step) {
  constexpr int64_t item = sizeof(U);
  if (to_step == item && from_step == item) {
    __builtin_memcpy(to, from, n * item);
  } else if (to_step == item && from_step == 0) {
    const U value = *reinterpret_cast<const U*>(from);
    for (int64_t i = 0; i < n; i++) reinterpret_cast<U*>(to)[i] = value;
  } else if (to_step == item) {
    for (int64_t i = 0; i < n; i++) reinterpret_cast<U*>(to)[i] = *reinterpret_cast<const U*>(from + i * from_step);
  } else {
    for (int64_t i = 0; i < n; i++) *reinterpret_cast<U*>(to + i * to_step) = *reinterpret_cast<const U*>(from + i * from_step);
  }
}

// `to` [rows, n] and `from` [n, rows], the values of a row side by side in both.
template <class U>
PDL_INLINE void transpose(char* to, const char* from, int64_t rows, int64_t n, int64_t to_step, int64_t from_step) {
  U tile[kTile][kTile];
  int64_t j = 0;
  if (rows == kTile)
    for (; j + kTile <= n; j += kTile) {
      for (int c = 0; c < kTile; c++) __builtin_memcpy(tile[c], from + (j + c) * from_step, sizeof tile[c]);
      for (int r = 0; r < kTile; r++) {
        U* row = reinterpret_cast<U*>(to + r * to_step) + j;
        for (int c = 0; c < kTile; c++) row[c] = tile[c][r];
      }
    }
  for (; j < n; j++)
    for (int64_t r = 0; r < rows; r++) reinterpret_cast<U*>(to + r * to_step)[j] = reinterpret_cast<const U*>(from + j * from_step)[r];
}

template <class U>
void copy_of(const CopyCall& call) {
  constexpr int64_t item = sizeof(U);
  const int last = call.dims - 1, beside = last - 1;
  const int64_t n = call.shape[last], to_step = call.to_step[last], from_step = call.from_step[last];
  if (beside < 0) {
    parallel(n, kGrain / item, [&](int64_t begin, int64_t end) {
      line<U>(call.to + begin * to_step, call.from + begin * from_step, end - begin, to_step, from_step);
    });
    return;
  }
  const int64_t rows = call.shape[beside], to_row = call.to_step[beside], from_row = call.from_step[beside];
  const int64_t blocks = (rows + kTile - 1) / kTile;
  int64_t units = blocks;
  for (int d = 0; d < beside; d++) units *= call.shape[d];
  const bool turned = to_step == item && from_row == item && from_step != item && from_step != 0;
  parallel(units, kGrain / (n * kTile * item) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++) {
      const int64_t first = unit % blocks * kTile, count = rows - first < kTile ? rows - first : kTile;
      char* to = call.to + first * to_row;
      const char* from = call.from + first * from_row;
      int64_t left = unit / blocks;
      for (int d = beside - 1; d >= 0; d--) {
        const int64_t at = left % call.shape[d];
        left /= call.shape[d];
        to += at * call.to_step[d], from += at * call.from_step[d];
      }
      if (turned)
        transpose<U>(to, from, count, n, to_row, from_step);
      else
        for (int64_t r = 0; r < count; r++) line<U>(to + r * to_row, from + r * from_row, n, to_step, from_step);
    }
  });
}

inline void copy(const CopyCall& call) {
  switch (call.item) {
    case 1: return copy_of<uint8_t>(call);
    case 2: return copy_of<uint16_t>(call);
    case 4: return copy_of<uint32_t>(call);
    case 8: return copy_of<uint64_t>(call);
    default: return copy_of<Wide>(call);
  }
}

// y[i] = x[i] as C converts it; to bool: x[i] != 0.
template <class To, class From>
void convert_to(void* y, const void* x, int64_t n) {
  parallel(n, kGrain / 8, [=](int64_t begin, int64_t end) {
    To* to = static_cast<To*>(y);
    const From* from = static_cast<const From*>(x);
    for (int64_t i = begin; i < end; i++) to[i] = static_cast<To>(from[i]);
  });
}

template <class From>
void convert_from(void* y, int to, const void* x, int64_t n) {
  switch (to) {
    case kBool: return convert_to<bool, From>(y, x, n);
    case kUint8: return convert_to<uint8_t, From>(y, x, n);
    case kInt8: return convert_to<int8_t, From>(y, x, n);
    case kInt16: return convert_to<int16_t, From>(y, x, n);
    case kInt32: return convert_to<int32_t, From>(y, x, n);
    case kInt64: return convert_to<int64_t, From>(y, x, n);
    case kFloat: return convert_to<float, From>(y, x, n);
    default: return convert_to<double, From>(y, x, n);
  }
}

inline void convert(void* y, int to, const void* x, int from, int64_t n) {
  switch (from) {
    case kBool: return convert_from<bool>(y, to, x, n);
    case kUint8: return convert_from<uint8_t>(y, to, x, n);
    case kInt8: return convert_from<int8_t>(y, to, x, n);
    case kInt16: return convert_from<int16_t>(y, to, x, n);
    case kInt32: return convert_from<int32_t>(y, to, x, n);
    case kInt64: return convert_from<int64_t>(y, to, x, n);
    case kFloat: return convert_from<float>(y, to, x, n);
    default: return convert_from<double>(y, to, x, n);
  }
}

}  // namespace pdl::PDL_ISA::copying
