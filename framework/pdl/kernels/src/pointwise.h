// Elementwise kernels.
#pragma once
#include "vec.h"

namespace pdl::PDL_ISA {

constexpr int64_t kPointwiseGrain = 32768;

// y = max(x, 0)    y OUT [n], x IN [n]
template <class T>
void relu(T* y, const T* x, int64_t n) {
  parallel(n, kPointwiseGrain, [=](int64_t begin, int64_t end, int) {
    int64_t i = begin;
    for (; i + kLanes<T> <= end; i += kLanes<T>) {
      const Vec<T> v = load(x + i);
      store(y + i, v > 0 ? v : Vec<T>{});
    }
    for (; i < end; i++) y[i] = x[i] > 0 ? x[i] : T(0);
  });
}

}  // namespace pdl::PDL_ISA
