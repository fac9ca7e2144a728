// Compiled once per instruction set, and again where the CPU rounds to bf16: batch norm, group norm.
#include "batch_norm.h"

namespace pdl::PDL_ISA {

template <class S>
const BatchNormTable<S> Kernels<S>::batch_norm = {
    .batch_norm = PDL_ISA::batch_norm<S>,
    .batch_norm_grad = batch_norm_grad<S>,
    .apply = batch_norm_apply<S>,
    .apply_grad = batch_norm_apply_grad<S>,
};
PDL_INSTANTIATE_STORED(BatchNorm, batch_norm)

template <class T>
const NormTable<T> Kernels<T>::norm = {.group_norm = group_norm<T>, .group_norm_grad = group_norm_grad<T>};
PDL_INSTANTIATE(Norm, norm)

}  // namespace pdl::PDL_ISA
