// Kernels by a type that is known at run time alone, as NumPy's number of it.
#pragma once
#include <numpy/ndarraytypes.h>

#include <bit>
#include <type_traits>

#include "launch.h"
#include "table.h"

namespace pdl {

// What a kernel takes as P: pointers to anything are pointers to its type, and so are those in a struct of pointers, Call<void>.
template <class P, class A>
decltype(auto) typed(A& arg) {
  using Taken = std::decay_t<P>;
  if constexpr (std::is_same_v<Taken, A>)
    return static_cast<const A&>(arg);
  else if constexpr (requires { static_cast<Taken>(arg); })
    return static_cast<Taken>(arg);
  else
    return std::bit_cast<Taken>(arg);
}

// launch(kernel, args...) and kernel(args...), each taken for what the kernel reads or writes there.
template <class R, class... P, class... A>
int64_t launch_cast(R (*kernel)(P...), A&... args) {
  return launch(kernel, typed<P>(args)...);
}
template <class R, class... P, class... A>
R call_cast(R (*kernel)(P...), A&... args) {
  return kernel(typed<P>(args)...);
}

// `Epilogue` before its type is known.
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

}  // namespace pdl

// PDL_REAL(family, kernel)(type, args...) launches a kernel for float32 or float64, PDL_STORED one for these or bfloat16; PDL_CALL calls one
// for float32 or float64, which no tape holds.
#define PDL_CALL(family, kernel) \
  [](int type, auto&&... args) { \
    if (type == NPY_FLOAT) return pdl::call_cast(pdl::table().family##_f32->kernel, args...); \
    return pdl::call_cast(pdl::table().family##_f64->kernel, args...); \
  }
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
