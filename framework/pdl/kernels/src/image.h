// Pictures of bytes [H, W, C]: resizing as OpenCV does it (same sample points, same rounding), tables of 256
// values, and the class of the highest score of each pixel.
#pragma once
#include "vec.h"

namespace pdl::PDL_ISA::image {

// Rounded to nearest even, or half up; written so that compilers make vectors of it.
inline void to_bytes(uint8_t* y, const float* x, int64_t n, float scale, bool half_up) {
  if (half_up) {
    for (int64_t i = 0; i < n; i++) y[i] = static_cast<uint8_t>(static_cast<int>(x[i] * scale + 0.5f));
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const float r = __builtin_rintf(x[i] * scale), low = r > 0 ? r : 0;
    y[i] = static_cast<uint8_t>(static_cast<int>(low < 255 ? low : 255));
  }
}

// Four channels at a time: those of RGB, and the first of the next pixel, which that one overwrites.
typedef float Pixel __attribute__((vector_size(16), aligned(4), may_alias));

// How many columns each output is the plain sum of, side by side, where sizes divide; else 0.
inline int64_t columns_each(int64_t w, const int32_t* start, const int32_t* source, const float* weight) {
  const int64_t each = start[1] - start[0];
  for (int64_t p = 0; p <= w; p++)
    if (start[p] != p * each) return 0;
  for (int64_t k = 0; k < w * each; k++)
    if (source[k] != k || weight[k] != 1) return 0;
  return each;
}

// to [w, c] = sums over the terms of each column; both have room for a Pixel behind their last number.
template <int64_t kChannels>
inline void columns_of(float* to, const float* from, int64_t w, int64_t c, int64_t each, const int32_t* start, const int32_t* source,
                       const float* weight) {
  if constexpr (kChannels == 3) {
    if (each > 0) {
      for (int64_t p = 0; p < w; p++, to += 3, from += 3 * each) {
        Pixel sum = *reinterpret_cast<const Pixel*>(from);
        for (int64_t k = 1; k < each; k++) sum += *reinterpret_cast<const Pixel*>(from + 3 * k);
        *reinterpret_cast<Pixel*>(to) = sum;
      }
      return;
    }
    for (int64_t p = 0; p < w; p++) {
      Pixel sum{};
      for (int32_t k = start[p]; k < start[p + 1]; k++) sum += weight[k] * *reinterpret_cast<const Pixel*>(from + source[k] * 3);
      *reinterpret_cast<Pixel*>(to + p * 3) = sum;
    }
    return;
  }
  for (int64_t p = 0; p < w; p++)
    for (int64_t channel = 0; channel < c; channel++) {
      float sum = 0;
      for (int32_t k = start[p]; k < start[p + 1]; k++) sum += weight[k] * from[source[k] * c + channel];
      to[p * c + channel] = sum;
    }
}

// y [h, w, c], rows y_step apart, from x [., width, c]: weighted sums over rows, then over columns, times `scale`, rounded to nearest even (or
// half up). Along each axis output o has the terms start[o] .. start[o + 1] of (source, weight).
inline void area(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t y_step, int64_t width, const int32_t* row_start,
                 const int32_t* row_source, const float* row_weight, const int32_t* column_start, const int32_t* column_source,
                 const float* column_weight, float scale, bool half_up) {
  const int64_t line = width * c;
  constexpr int64_t room = 4;
  const int64_t each = columns_each(w, column_start, column_source, column_weight);
  parallel(h, 1 + 16384 / (line * 4), [=](int64_t begin, int64_t end) {
    float* sums = static_cast<float*>(scratch(Slot::kAreaSums, (line + w * c + 2 * room) * sizeof(float)));
    float* means = sums + line + room;
    for (int64_t i = 0; i < room; i++) sums[line + i] = 0;
    for (int64_t o = begin; o < end; o++) {
      if (row_start[o] == row_start[o + 1]) memset(sums, 0, line * sizeof(float));
      for (int32_t k = row_start[o]; k < row_start[o + 1]; k++) {
        const uint8_t* from = x + row_source[k] * line;
        const float weight = row_weight[k];
        if (k == row_start[o])
          for (int64_t i = 0; i < line; i++) sums[i] = weight * from[i];
        else
          for (int64_t i = 0; i < line; i++) sums[i] += weight * from[i];
      }
      (c == 3 ? columns_of<3> : columns_of<0>)(means, sums, w, c, each, column_start, column_source, column_weight);
      to_bytes(y + o * y_step, means, w * c, scale, half_up);
    }
  });
}

// y [h, w, c], rows y_step apart, from x [., width, c], in integers: columns first, then rows with the rounding of a 22-bit product taken in two steps.
// rows [4, h]: output o lies between cells rows[0, o] and rows[1, o], with weights rows[2, o] and rows[3, o] of 11 bits; columns [4, w].
inline void linear(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t y_step, int64_t width, const int32_t* rows,
                   const int32_t* columns) {
  const int64_t line = width * c;
  parallel(h, 1 + 16384 / (w * c * 8), [=](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; o++) {
      const uint8_t *up = x + rows[o] * line, *down = x + rows[h + o] * line;
      const int32_t over = rows[2 * h + o], under = rows[3 * h + o];
      uint8_t* to = y + o * y_step;
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
    if (c == 3) {
      for (int64_t i = 3 * begin; i < 3 * end; i += 3)
        y[i] = table[x[i] * 3], y[i + 1] = table[x[i + 1] * 3 + 1], y[i + 2] = table[x[i + 2] * 3 + 2];
      return;
    }
    for (int64_t p = begin; p < end; p++)
      for (int64_t channel = 0; channel < c; channel++) y[p * c + channel] = table[x[p * c + channel] * c + channel];
  });
}

// Where output o of an axis of `size` cells reads: between cells low and high, `share` of the way; outside, the nearest cell.
struct Between {
  int64_t low, high;
  float share;
  Between(double at, int64_t size) {
    const double inside = at > 0 ? (at < static_cast<double>(size - 1) ? at : static_cast<double>(size - 1)) : 0;
    low = static_cast<int64_t>(inside), high = min64(low + 1, size - 1), share = static_cast<float>(inside - static_cast<double>(low));
  }
};

// y [height, width]: the channel of the highest value, the first of equals, of x [h, w, c] read bilinearly at row factor[0] i + shift[0] and
// column factor[1] j + shift[1]. A row of x is spread over the columns once, class by class, and serves all rows of y beside it.
inline void highest(uint8_t* y, const float* x, int64_t h, int64_t w, int64_t c, int64_t height, int64_t width, const double* factor,
                    const double* shift) {
  parallel(height, 1 + 16384 / (width * c), [=](int64_t begin, int64_t end) {
    const int64_t line = c * width;
    float* spread[2];
    spread[0] = static_cast<float*>(scratch(Slot::kAreaSums, (2 * line + 5 * width) * sizeof(float))), spread[1] = spread[0] + line;
    float *share = spread[1] + line, *best = share + width;
    int32_t* left = reinterpret_cast<int32_t*>(best + width);
    int32_t *right = left + width, *which = right + width;
    for (int64_t j = 0; j < width; j++) {
      const Between at(factor[1] * static_cast<double>(j) + shift[1], w);
      left[j] = static_cast<int32_t>(at.low * c), right[j] = static_cast<int32_t>(at.high * c), share[j] = at.share;
    }
    int64_t held[2] = {-1, -1};
    // The place of row `row` among the spread ones; the other is kept if it is row `beside`.
    const auto take = [&](int64_t row, int64_t beside) {
      for (int i = 0; i < 2; i++)
        if (held[i] == row) return i;
      const int i = held[0] == beside ? 1 : 0;
      held[i] = row;
      const float* from = x + row * w * c;
      for (int64_t k = 0; k < c; k++) {
        float* to = spread[i] + k * width;
        for (int64_t j = 0; j < width; j++) {
          const float a = from[left[j] + k];
          to[j] = a + share[j] * (from[right[j] + k] - a);
        }
      }
      return i;
    };
    for (int64_t i = begin; i < end; i++) {
      const Between at(factor[0] * static_cast<double>(i) + shift[0], h);
      const float* up = spread[take(at.low, at.high)];
      const float* down = spread[take(at.high, at.low)];
      for (int64_t j = 0; j < width; j++) best[j] = up[j] + at.share * (down[j] - up[j]), which[j] = 0;
      for (int64_t k = 1; k < c; k++) {
        up += width, down += width;
        for (int64_t j = 0; j < width; j++) {
          const float value = up[j] + at.share * (down[j] - up[j]);
          which[j] = value > best[j] ? static_cast<int32_t>(k) : which[j];
          best[j] = value > best[j] ? value : best[j];
        }
      }
      for (int64_t j = 0; j < width; j++) y[i * width + j] = static_cast<uint8_t>(which[j]);
    }
  });
}

}  // namespace pdl::PDL_ISA::image
