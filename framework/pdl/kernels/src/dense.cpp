// Compiled once per instruction set: matrix products and convolutions of float32 and float64.
#include "dense.h"

#include "block_product.h"
#include "depthwise.h"
#include "packed.h"

namespace pdl::PDL_ISA {

#define INSTANTIATE(T) \
  template void matmul<T>(const Product<T>&, int64_t, const int64_t*); \
  template void convolution<T>(T*, const T*, const T*, const T*, const Geometry&); \
  template void convolution_then<T>(T*, const T*, const T*, const T*, const Geometry&, const Epilogue<T>&); \
  template void convolution_dx<T>(T*, const T*, const T*, const Geometry&); \
  template void convolution_dw<T>(T*, Real<T>*, const T*, const T*, const Geometry&); \
  template int64_t packed::size<T>(int, const Geometry&); \
  template void packed::pack<T>(int, T*, const T*, const Geometry&); \
  template void packed::forward<T>(int, T*, const T*, const T*, const T*, const Geometry&, const Epilogue<T>&); \
  template int64_t packed_size<T>(int64_t, int64_t); \
  template void pack_right<T>(T*, const T*, int64_t, int64_t, int64_t, int64_t); \
  template void block_product<T>(T*, int64_t, const T*, int64_t, bool, int64_t, int64_t, const T*, int64_t, bool); \
  template void weight_product<T>(T*, const T*, int64_t, const T*, int64_t, int64_t, int64_t, int64_t);

INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace pdl::PDL_ISA
