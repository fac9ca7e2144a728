// Compiled once per instruction set, and again where the CPU multiplies bf16: convolutions, and those with weights packed before.
#include "depthwise.h"
#include "packed.h"

namespace pdl::PDL_ISA {

template <class T>
const ConvTable<T> Kernels<T>::conv = {
    .forward = convolution<T>,
    .dx = convolution_dx<T>,
    .dw = convolution_dw<T>,
    .forward_then = convolution_then<T>,
};
PDL_INSTANTIATE_STORED(Conv, conv)

template <class T>
const PackedTable<T> Kernels<T>::packed = {.size = packed::size<T>, .pack = packed::pack<T>, .forward = packed::forward<T>};
PDL_INSTANTIATE_STORED(Packed, packed)

}  // namespace pdl::PDL_ISA
