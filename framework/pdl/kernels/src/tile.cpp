// Compiled once per instruction set, and again where the CPU multiplies bf16: what convolutions and products call for a tile or a row.
#include "depthwise_rows.h"
#include "micro_kernel.h"

namespace pdl::PDL_ISA {

template <class T, bool kColumns>
constinit const MicroKernels<T, kColumns> MicroKernels<T, kColumns>::all = {};

#define INSTANTIATE(T) \
  template const MicroKernels<T, false> MicroKernels<T, false>::all; \
  template const MicroKernels<T, true> MicroKernels<T, true>::all;

INSTANTIATE(float)
INSTANTIATE(bf16)
template DepthwiseDwRow<float> depthwise_dw_row_of<float>(int, int64_t);
template DepthwiseRow<bf16> depthwise_row_of<bf16>(int, int64_t);
#if !defined(__AVX512BF16__)
INSTANTIATE(double)
template DepthwiseRow<float> depthwise_row_of<float>(int, int64_t);
template DepthwiseRow<double> depthwise_row_of<double>(int, int64_t);
template DepthwiseDwRow<double> depthwise_dw_row_of<double>(int, int64_t);
#endif

}  // namespace pdl::PDL_ISA
