// The rows of a depthwise convolution, for every window that has a form in registers: see depthwise.h.
#pragma once
#include "depthwise.h"

namespace pdl::PDL_ISA {

// kWide outputs: out[i] = sum over rows r and taps t of rows[r][i * kStep + t] weights[r][t] (+ bias), channel by channel.
//   out OUT pixels out_step apart; rows, weights IN [rows] pixels and taps `padded` apart; bias IN [padded] or null
// kRows: the number of rows where it is known, else 0 (and `some` says it)
template <class S, int kWindow, int kStep, int kWide, int kRows>
PDL_INLINE void depthwise_block(S* out, int64_t out_step, const Real<S>* const* rows, const Real<S>* const* weights, int some,
                                int64_t channels, int64_t padded, const Real<S>* bias, const Bounds<Real<S>>* bounds) {
  using T = Real<S>;
  const int count = kRows ? kRows : some;
  for (int64_t c = 0; c < channels; c += kLanes<T>) {
    Vec<T> sum[kWide];
    const Vec<T> start = bias == nullptr ? Vec<T>{} : load(bias + c);
#pragma GCC unroll 16
    for (int i = 0; i < kWide; i++) sum[i] = start;
#pragma GCC unroll 5
    for (int r = 0; r < count; r++) {
      const T *x = rows[r] + c, *from = weights[r] + c;
      Vec<T> w[kWindow];
#pragma GCC unroll 8
      for (int t = 0; t < kWindow; t++) w[t] = load(from + t * padded);
#pragma GCC unroll 32
      for (int p = 0; p < (kWide - 1) * kStep + kWindow; p++) {
        const Vec<T> v = load(x + p * padded);
#pragma GCC unroll 8
        for (int t = 0; t < kWindow; t++)
          if (p >= t && (p - t) % kStep == 0 && (p - t) / kStep < kWide) sum[(p - t) / kStep] += v * w[t];
      }
    }
    if (bounds != nullptr) {
#pragma GCC unroll 16
      for (int i = 0; i < kWide; i++) sum[i] = within_bounds(sum[i], *bounds);
    }
    const int lanes = channels - c < kLanes<T> ? static_cast<int>(channels - c) : 0;
#pragma GCC unroll 16
    for (int i = 0; i < kWide; i++) norm::leave(out + i * out_step + c, sum[i], lanes);
  }
}

// A row of outputs; `rows` is used up. The last block is a whole one too, where there are enough outputs: some of them are computed again.
template <class S, int kWindow, int kStep, int kRows, int kWide>
PDL_INLINE void depthwise_blocks(S* out, int64_t out_step, int64_t outputs, const Real<S>** rows, const Real<S>* const* weights, int count,
                                 int64_t channels, int64_t padded, const Real<S>* bias, const Bounds<Real<S>>* bounds) {
  int64_t at = 0;
  const auto go_on = [&](int64_t by) {
    at += by, out += by * out_step;
    for (int r = 0; r < count; r++) rows[r] += by * kStep * padded;
  };
  if (outputs >= kWide)
    for (; at < outputs; go_on(kWide)) {
      if (outputs - at < kWide) go_on(outputs - at - kWide);
      depthwise_block<S, kWindow, kStep, kWide, kRows>(out, out_step, rows, weights, count, channels, padded, bias, bounds);
    }
  for (; at < outputs; go_on(1)) depthwise_block<S, kWindow, kStep, 1, 0>(out, out_step, rows, weights, count, channels, padded, bias, bounds);
}
template <class S, int kWindow, int kStep>
void depthwise_row(S* out, int64_t out_step, int64_t outputs, const Real<S>** rows, const Real<S>* const* weights, int count,
                   int64_t channels, int64_t padded, const Real<S>* bias, const Bounds<Real<S>>* bounds) {
  constexpr int kRows = kWindow <= 3 ? kWindow : 0;
  const auto in_rows = [=](auto wide) __attribute__((always_inline)) {
    constexpr int kWide = decltype(wide)::value;
    if constexpr (kRows > 0)
      if (count == kRows)
        return depthwise_blocks<S, kWindow, kStep, kRows, kWide>(out, out_step, outputs, rows, weights, count, channels, padded, bias, bounds);
    depthwise_blocks<S, kWindow, kStep, 0, kWide>(out, out_step, outputs, rows, weights, count, channels, padded, bias, bounds);
  };
  if constexpr (kMoreOutputs > kOutputs)
    if (outputs >= kMoreOutputs && round_up(outputs, kMoreOutputs) <= round_up(outputs, kOutputs)) return in_rows(norm::Count<kMoreOutputs>{});
  in_rows(norm::Count<kOutputs>{});
}

// sums[t] += sum over outputs j of x[j * kStep + t] g[j], channel by channel: a block of outputs in registers, then added.
//   sums OUT taps `padded` apart, x, g IN pixels `padded` apart
template <class T, int kWindow, int kStep, int kWide>
PDL_INLINE void depthwise_dw_block(T* sums, const T* x, const T* g, int64_t padded) {
  for (int64_t c = 0; c < padded; c += kLanes<T>) {
    Vec<T> d[kWide], sum[kWindow] = {};
#pragma GCC unroll 8
    for (int i = 0; i < kWide; i++) d[i] = load(g + i * padded + c);
#pragma GCC unroll 32
    for (int p = 0; p < (kWide - 1) * kStep + kWindow; p++) {
      const Vec<T> v = load(x + p * padded + c);
#pragma GCC unroll 8
      for (int t = 0; t < kWindow; t++)
        if (p >= t && (p - t) % kStep == 0 && (p - t) / kStep < kWide) sum[t] += v * d[(p - t) / kStep];
    }
#pragma GCC unroll 8
    for (int t = 0; t < kWindow; t++) store(sums + t * padded + c, load(sums + t * padded + c) + sum[t]);
  }
}

template <class T, int kWindow, int kStep>
void depthwise_dw_row(T* sums, const T* x, const T* g, int64_t outputs, int64_t padded) {
  int64_t at = 0;
  for (; at + kOutputs <= outputs; at += kOutputs)
    depthwise_dw_block<T, kWindow, kStep, kOutputs>(sums, x + at * kStep * padded, g + at * padded, padded);
  for (; at < outputs; at++) depthwise_dw_block<T, kWindow, kStep, 1>(sums, x + at * kStep * padded, g + at * padded, padded);
}

// The forms for a window of `count` taps with `step` pixels between outputs, or null.
#define PDL_WINDOW_FORMS(form, kStep) \
  switch (count) { \
    case 1: return form(1, kStep); \
    case 2: return form(2, kStep); \
    case 3: return form(3, kStep); \
    case 4: return form(4, kStep); \
    case 5: return form(5, kStep); \
    case 7: return form(7, kStep); \
    default: return nullptr; \
  }
template <class S>
DepthwiseRow<S> depthwise_row_of(int count, int64_t step) {
#define PDL_FORM(kWindow, kStep) depthwise_row<S, kWindow, kStep>
  if (step == 1) PDL_WINDOW_FORMS(PDL_FORM, 1)
  if (step == 2) PDL_WINDOW_FORMS(PDL_FORM, 2)
#undef PDL_FORM
  return nullptr;
}
template <class T>
DepthwiseDwRow<T> depthwise_dw_row_of(int count, int64_t step) {
#define PDL_FORM(kWindow, kStep) depthwise_dw_row<T, kWindow, kStep>
  if (step == 1) PDL_WINDOW_FORMS(PDL_FORM, 1)
  if (step == 2) PDL_WINDOW_FORMS(PDL_FORM, 2)
#undef PDL_FORM
  return nullptr;
}
#undef PDL_WINDOW_FORMS

}  // namespace pdl::PDL_ISA
