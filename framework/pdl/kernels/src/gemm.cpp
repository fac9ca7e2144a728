// Compiled once per instruction set, and again where the CPU multiplies bf16: matrix products, and the blocks of them that other families take.
#include "gemm.h"

#include "block_product.h"

namespace pdl::PDL_ISA {

template <class T>
const GemmTable<T> Kernels<T>::gemm = {.matmul = matmul<T>};
PDL_INSTANTIATE_STORED(Gemm, gemm)

#define INSTANTIATE(T) \
  template void matmul_one<T>(Product<T>); \
  template void matmul<T>(const Product<T>&, int64_t, const int64_t*);
#define INSTANTIATE_BLOCKS(T) \
  template int64_t packed_size<T>(int64_t, int64_t); \
  template void pack_right<T>(T*, const T*, int64_t, int64_t, int64_t, int64_t); \
  template void block_product<T>(T*, int64_t, const T*, int64_t, bool, int64_t, int64_t, const T*, int64_t, bool); \
  template void weight_product<T>(T*, const T*, int64_t, const T*, int64_t, int64_t, int64_t, int64_t);

INSTANTIATE(bf16)
#if !defined(__AVX512BF16__)
INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE_BLOCKS(float)
INSTANTIATE_BLOCKS(double)
#endif

}  // namespace pdl::PDL_ISA
