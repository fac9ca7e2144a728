// Products of a few rows with weights of 8 or 4 bits, for nets that write token by token: each weight is read once, from memory, and becomes a
// float in registers. Weights stand in groups of `group` inputs with a scale and a lowest value of their own: w = low + scale q.
//
// packed  int32 [panels, k / per, 64]: panels of 64 outputs; a word holds `per` = 32 / bits inputs of an output, the first in its lowest bits
// levels  float [panels, groups, 2, 64]: scales, then lowest values
#pragma once
#include "scratch.h"
#include "table.h"
#include "vec.h"

namespace pdl::PDL_ISA::nbits {

constexpr int kPanel = 64;
constexpr int64_t kLevelsAhead = 1024;  // bytes, as kAhead of weights

using Lane = Vec<float>;
using Word = Mask<float>;
constexpr int kVecs = kPanel / kLanes<float> < 4 ? kPanel / kLanes<float> : 4;  // registers of outputs at a time
constexpr int kWide = kVecs * kLanes<float>;

// Weight number i of every word.
template <int BITS, int I>
inline __attribute__((always_inline)) Lane weight(Word word) {
#if defined(__AVX512F__) && PDL_VECTOR_BYTES == 64
  if constexpr (BITS == 4) {  // a table of 16 numbers takes the place of masking and converting
    const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (Lane)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)(word >> (BITS * I)), numbers);
  }
#endif
  return __builtin_convertvector((word >> (BITS * I)) & ((1 << BITS) - 1), Lane);
}

template <int BITS, int R, int I = 0>
inline __attribute__((always_inline)) void add_words(Lane (&part)[R][kVecs], const Word (&word)[kVecs], const float* x, int64_t k) {
  if constexpr (I < 32 / BITS) {
    for (int v = 0; v < kVecs; v++) {
      const Lane w = weight<BITS, I>(word[v]);
      for (int r = 0; r < R; r++) part[r][v] += splat(x[r * k + I]) * w;
    }
    add_words<BITS, R, I + 1>(part, word, x, k);
  }
}

// y[r, kWide] of R rows, from a panel's words and levels on; sums [R, groups] of x over each group. Of y `columns` are written.
template <int BITS, int R>
void outputs(float* y, int64_t y_row, const float* x, int64_t k, const int32_t* packed, const float* levels, const float* sums, const float* bias,
             int64_t columns, int64_t group) {
  constexpr int kPer = 32 / BITS;
  const int64_t groups = (k + group - 1) / group;
  Lane total[R][kVecs];
  for (int r = 0; r < R; r++)
    for (int v = 0; v < kVecs; v++) total[r][v] = Lane{};
  for (int64_t g = 0; g < groups; g++) {
    const int64_t end = (g + 1) * group < k ? (g + 1) * group : k;
    Lane part[R][kVecs];
    for (int r = 0; r < R; r++)
      for (int v = 0; v < kVecs; v++) part[r][v] = Lane{};
    for (int64_t at = g * group; at < end; at += kPer) {
      const int32_t* from = packed + at / kPer * kPanel;
      Word word[kVecs];
      for (int64_t line = 0; line < kWide * 4; line += 64) __builtin_prefetch(reinterpret_cast<const char*>(from) + kAhead + line);
      for (int v = 0; v < kVecs; v++) word[v] = *reinterpret_cast<const Word*>(from + v * kLanes<float>);
      add_words<BITS, R>(part, word, x + at, k);
    }
    const float* level = levels + g * 2 * kPanel;
    for (int64_t line = 0; line < 2 * kPanel * 4; line += 64) __builtin_prefetch(reinterpret_cast<const char*>(level) + kLevelsAhead + line);
    for (int v = 0; v < kVecs; v++) {
      const Lane scale = load(level + v * kLanes<float>), low = load(level + kPanel + v * kLanes<float>);
      for (int r = 0; r < R; r++) total[r][v] += scale * part[r][v] + low * splat(sums[r * groups + g]);
    }
  }
  for (int r = 0; r < R; r++)
    for (int v = 0; v < kVecs; v++) {
      const int64_t first = v * kLanes<float>;
      for (int64_t i = 0; i < kLanes<float> && first + i < columns; i++) y[r * y_row + first + i] = total[r][v][i] + (bias ? bias[first + i] : 0.0f);
    }
}

// As many rows at a time as registers hold sums of: weights are read and made floats once for all of them.
constexpr int kRows = PDL_VECTOR_BYTES == 64 ? 6 : 4;
template <int BITS>
constexpr decltype(&outputs<BITS, 1>) kOutputs[6] = {outputs<BITS, 1>, outputs<BITS, 2>, outputs<BITS, 3>,
                                                    outputs<BITS, 4>, outputs<BITS, 5>, outputs<BITS, 6>};

template <int BITS>
void product_of(float* y, const float* x, const int32_t* packed, const float* levels, const float* bias, int64_t rows, int64_t k, int64_t n,
                int64_t group) {
  const int64_t groups = (k + group - 1) / group, panels = (n + kPanel - 1) / kPanel;
  float* sums = static_cast<float*>(scratch(Slot::kGroupSums, rows * groups * sizeof(float)));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t g = 0; g < groups; g++) {
      const int64_t end = (g + 1) * group < k ? (g + 1) * group : k;
      float sum = 0;
      for (int64_t i = g * group; i < end; i++) sum += x[r * k + i];
      sums[r * groups + g] = sum;
    }
  const int64_t words = (k + 32 / BITS - 1) / (32 / BITS) * kPanel;
  parallel(panels, grain_of(k * kPanel * (rows < 4 ? 1 : rows / 4)), [=](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++)
      for (int64_t r = 0; r < rows;) {
        const int64_t left = rows - r;
        for (int64_t c = 0; c < kPanel; c += kWide) {
          const int64_t column = p * kPanel + c, columns = n - column;
          if (columns <= 0) break;
          float* to = y + r * n + column;
          const int32_t* from = packed + p * words + c;
          const float *level = levels + p * groups * 2 * kPanel + c, *own = sums + r * groups, *shift = bias ? bias + column : nullptr;
          kOutputs<BITS>[left < kRows ? left - 1 : kRows - 1](to, n, x + r * k, k, from, level, own, shift, columns, group);
        }
        r += left < kRows ? left : kRows;
      }
  });
}

// y [rows, n] = x [rows, k] w + bias (or null). group is a multiple of 8, k one of 32 / bits.
inline void product(float* y, const float* x, const int32_t* packed, const float* levels, const float* bias, int64_t rows, int64_t k, int64_t n,
                    int64_t group, int bits) {
  if (bits == 4) product_of<4>(y, x, packed, levels, bias, rows, k, n, group);
  else product_of<8>(y, x, packed, levels, bias, rows, k, n, group);
}

}  // namespace pdl::PDL_ISA::nbits
