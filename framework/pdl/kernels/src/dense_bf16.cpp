// Compiled once per instruction set, and again where the CPU multiplies bf16: matrix products and convolutions of bfloat16.
#include "conv_dw.h"
#include "dense.h"
#include "winograd.h"

namespace pdl::PDL_ISA {

template <>
void convolution<bf16>(bf16* y, const bf16* x, const bf16* w, const bf16* bias, const Geometry& g) {
  winograd::fits<bf16>(g) ? winograd::forward(y, x, w, bias, g) : conv_forward(y, x, w, bias, g);
}
template <>
void convolution_dx<bf16>(bf16* dx, const bf16* dy, const bf16* w, const Geometry& g) {
  winograd::fits<bf16>(g) ? winograd::dx(dx, dy, w, g) : conv_dx(dx, dy, w, g);
}
template <>
void convolution_dw<bf16>(bf16* dw, float* wide, const bf16* x, const bf16* dy, const Geometry& g) {
  winograd::fits<bf16>(g) ? winograd::dw(dw, wide, x, dy, g) : conv_dw(dw, wide, x, dy, g);
}
template void matmul<bf16>(const Product<bf16>&, int64_t, const int64_t*);

#if defined(__AVX512BF16__)
extern const DenseBf16 kDenseBf16;
const DenseBf16 kDenseBf16 = {
    .gemm = {.matmul = matmul<bf16>},
    .conv = {.forward = convolution<bf16>, .dx = convolution_dx<bf16>, .dw = convolution_dw<bf16>},
};
#endif

}  // namespace pdl::PDL_ISA
