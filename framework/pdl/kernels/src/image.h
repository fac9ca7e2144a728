// Pictures of bytes [H, W, C]: resizing as OpenCV does it (same sample points, same rounding), and tables of 256 values.
#pragma once
#include "vec.h"

namespace pdl::PDL_ISA::image {

inline uint8_t to_byte(float v) {
  const float r = __builtin_rintf(v);
  return r <= 0 ? 0 : r >= 255 ? 255 : static_cast<uint8_t>(r);
}

// y [h, w, c] from x [., width, c]: weighted sums over rows, then over columns, times `scale`, rounded to nearest even (or half up).
// Along each axis output o has the terms start[o] .. start[o + 1] of (source, weight).
inline void area(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t width, const int32_t* row_start,
                 const int32_t* row_source, const float* row_weight, const int32_t* column_start, const int32_t* column_source,
                 const float* column_weight, float scale, bool half_up) {
  const int64_t line = width * c;
  parallel(h, 1 + 16384 / (line * 4), [=](int64_t begin, int64_t end) {
    float* sums = static_cast<float*>(scratch(Slot::kAreaSums, line * sizeof(float)));
    for (int64_t o = begin; o < end; o++) {
      for (int64_t i = 0; i < line; i++) sums[i] = 0;
      for (int32_t k = row_start[o]; k < row_start[o + 1]; k++) {
        const uint8_t* from = x + row_source[k] * line;
        const float weight = row_weight[k];
        for (int64_t i = 0; i < line; i++) sums[i] += weight * from[i];
      }
      uint8_t* to = y + o * w * c;
      for (int64_t p = 0; p < w; p++) {
        for (int64_t channel = 0; channel < c; channel++) {
          float sum = 0;
          for (int32_t k = column_start[p]; k < column_start[p + 1]; k++)
            sum += column_weight[k] * sums[column_source[k] * c + channel];
          to[p * c + channel] = half_up ? static_cast<uint8_t>(sum * scale + 0.5f) : to_byte(sum * scale);
        }
      }
    }
  });
}

// y [h, w, c] from x [., width, c], in integers: columns first, then rows with the rounding of a 22-bit product taken in two steps.
// rows [4, h]: output o lies between cells rows[0, o] and rows[1, o], with weights rows[2, o] and rows[3, o] of 11 bits; columns [4, w].
inline void linear(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t width, const int32_t* rows,
                   const int32_t* columns) {
  const int64_t line = width * c;
  parallel(h, 1 + 16384 / (w * c * 8), [=](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; o++) {
      const uint8_t *up = x + rows[o] * line, *down = x + rows[h + o] * line;
      const int32_t over = rows[2 * h + o], under = rows[3 * h + o];
      uint8_t* to = y + o * w * c;
      for (int64_t p = 0; p < w; p++) {
        const int32_t left = columns[p] * c, right = columns[w + p] * c, a = columns[2 * w + p], b = columns[3 * w + p];
        for (int64_t channel = 0; channel < c; channel++) {
          const int32_t above = up[left + channel] * a + up[right + channel] * b;
          const int32_t below = down[left + channel] * a + down[right + channel] * b;
          to[p * c + channel] = static_cast<uint8_t>((((over * (above >> 4)) >> 16) + ((under * (below >> 4)) >> 16) + 2) >> 2);
        }
      }
    }
  });
}

// y[i] = table[x[i]], with a table [256, c] of its own for each of c channels.
inline void lookup(float* y, const uint8_t* x, const float* table, int64_t n, int64_t c) {
  parallel(n / c, 1 + 16384 / c, [=](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++)
      for (int64_t channel = 0; channel < c; channel++) y[p * c + channel] = table[x[p * c + channel] * c + channel];
  });
}

}  // namespace pdl::PDL_ISA::image
