// Compiled once per instruction set, and again where the CPU rounds to bf16: pooling.
#include "pooling.h"

namespace pdl::PDL_ISA {

template <class T>
const PoolingTable<T> Kernels<T>::pooling = {
    .max_pool = pooling::max_pool<T>,
    .max_pool_dx = pooling::max_pool_dx<T>,
    .avg_pool = pooling::avg_pool<T>,
    .avg_pool_dx = pooling::avg_pool_dx<T>,
    .pick = pooling::pick<T>,
    .place = pooling::place<T>,
};
PDL_INSTANTIATE_STORED(Pooling, pooling)

}  // namespace pdl::PDL_ISA
