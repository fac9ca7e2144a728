// Kernels by a type that is known at run time alone, as NumPy's number of it.
#pragma once
#include <numpy/ndarraytypes.h>

#include "launch.h"
#include "table.h"

namespace pdl {

// launch(kernel, args...), where each pointer to anything is taken for what the kernel reads or writes there.
template <class R, class... P, class... A>
int64_t launch_cast(R (*kernel)(P...), A&... args) {
  return launch(kernel, static_cast<P>(args)...);
}

// `Epilogue` and `NormInput` before their type is known.
struct AnyEpilogue {
  int activation = -1;
  double a = 0, b = 0, c = 0;
  const void* residual = nullptr;
  void *before = nullptr, *mean = nullptr, *var = nullptr;

  template <class T>
  operator Epilogue<T>() const {
    using R = Real<T>;
    return {activation, static_cast<R>(a), static_cast<R>(b), static_cast<R>(c), static_cast<const T*>(residual), static_cast<T*>(before),
            static_cast<R*>(mean), static_cast<R*>(var)};
  }
};
struct AnyNormInput {
  const void *mean, *var, *scale, *shift;
  double eps;
  int act;

  template <class T>
  operator NormInput<T>() const {
    return {static_cast<const T*>(mean), static_cast<const T*>(var), static_cast<const T*>(scale), static_cast<const T*>(shift), eps, act};
  }
};

}  // namespace pdl

// PDL_REAL(family, kernel)(type, args...) launches a kernel for float32 or float64, PDL_STORED one for these or bfloat16.
#define PDL_REAL(family, kernel) \
  [](int type, auto&&... args) { \
    if (type == NPY_FLOAT) return pdl::launch_cast(pdl::table().family##_f32->kernel, args...); \
    return pdl::launch_cast(pdl::table().family##_f64->kernel, args...); \
  }
#define PDL_STORED(family, kernel) \
  [](int type, auto&&... args) { \
    if (type == NPY_FLOAT || type == NPY_DOUBLE) return PDL_REAL(family, kernel)(type, args...); \
    return pdl::launch_cast(pdl::table().family##_bf16->kernel, args...); \
  }
