// Compiled once per instruction set: convolutions with batch norm inside.
#include "norm_conv.h"

namespace pdl::PDL_ISA {

template <class S>
const NormConvTable<S> Kernels<S>::norm_conv = {
    .forward = norm_conv::forward<S>,
    .backward = norm_conv::backward<S>,
    .moments = norm_conv::moments<S>,
    .moments_grad = norm_conv::moments_grad<S>,
};
PDL_INSTANTIATE_STORED(NormConv, norm_conv)

}  // namespace pdl::PDL_ISA
