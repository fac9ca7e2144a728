// Compiled once per instruction set, and again where the CPU rounds to bf16: elementwise functions, sums and extremes over an axis,
// softmax.
#include "pointwise.h"

#include "extremes.h"
#include "rotary.h"
#include "softmax.h"
#include "sums.h"

namespace pdl::PDL_ISA {

template <class T>
const PointwiseTable<T> Kernels<T>::pointwise = {
    .unary = unary<T>,
    .finish = finish_piece<T>,
    .unary_grad = unary_grad<T>,
    .binary = binary<T>,
    .sums = sums<T>,
    .extremes = extremes_of<T>,
};
PDL_INSTANTIATE_STORED(Pointwise, pointwise)

template <class T>
const SoftmaxTable<T> Kernels<T>::softmax = {
    .softmax = PDL_ISA::softmax<T>,
    .softmax_grad = softmax_grad<T>,
    .cross_entropy = cross_entropy<T>,
    .cross_entropy_grad = cross_entropy_grad<T>,
    .soft_cross_entropy = soft_cross_entropy<T>,
    .soft_cross_entropy_grad = soft_cross_entropy_grad<T>,
};
PDL_INSTANTIATE_STORED(Softmax, softmax)

template <class T>
const RotaryTable<T> Kernels<T>::rotary = {.rotate = rotary::rotate<T>};
PDL_INSTANTIATE_STORED(Rotary, rotary)

const CastTable kCastTable = {.narrow = narrow_all, .widen = widen_all};

}  // namespace pdl::PDL_ISA
