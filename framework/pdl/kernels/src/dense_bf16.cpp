// Compiled once per instruction set, and again where the CPU multiplies bf16: matrix products and convolutions of bfloat16.
#include "dense.h"

#include "depthwise.h"
#include "packed.h"

namespace pdl::PDL_ISA {

template void convolution<bf16>(bf16*, const bf16*, const bf16*, const bf16*, const Geometry&);
template void convolution_then<bf16>(bf16*, const bf16*, const bf16*, const bf16*, const Geometry&, const Epilogue<bf16>&);
template void convolution_dx<bf16>(bf16*, const bf16*, const bf16*, const Geometry&);
template void convolution_dw<bf16>(bf16*, float*, const bf16*, const bf16*, const Geometry&);
template int64_t packed::size<bf16>(int, const Geometry&);
template void packed::pack<bf16>(int, bf16*, const bf16*, const Geometry&);
template void packed::forward<bf16>(int, bf16*, const bf16*, const bf16*, const bf16*, const Geometry&, const Epilogue<bf16>&);
template void matmul<bf16>(const Product<bf16>&, int64_t, const int64_t*);

#if defined(__AVX512BF16__)
extern const DenseBf16 kDenseBf16;
const DenseBf16 kDenseBf16 = {
    .gemm = {.matmul = matmul<bf16>},
    .conv = {.forward = convolution<bf16>, .dx = convolution_dx<bf16>, .dw = convolution_dw<bf16>, .forward_then = convolution_then<bf16>},
    .attention = {.forward = attention_forward<bf16>, .backward = attention_backward<bf16>, .dropout = dropout<bf16>},
    .layer_norm = {.forward = layer_norm_forward<bf16>, .backward = layer_norm_backward<bf16>},
    .packed = {.size = packed::size<bf16>, .pack = packed::pack<bf16>, .forward = packed::forward<bf16>},
};
#endif

}  // namespace pdl::PDL_ISA
