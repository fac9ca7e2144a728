// The kernels that memory bounds, as tables: a step of arithmetic or two for every number that is read.
#pragma once
#include "batch_norm.h"
#include "pointwise.h"
#include "pooling.h"
#include "softmax.h"
#include "sums.h"
#include "table.h"

namespace pdl::PDL_ISA {

template <class T>
constexpr PointwiseTable<T> kPointwise = {
    .unary = unary<T>,
    .unary_grad = unary_grad<T>,
    .binary = binary<T>,
    .sums = sums<T>,
};

template <class S>
constexpr BatchNormTable<S> kBatchNorm = {
    .batch_norm = batch_norm<S>,
    .batch_norm_grad = batch_norm_grad<S>,
    .apply = batch_norm_apply<S>,
    .apply_grad = batch_norm_apply_grad<S>,
};

template <class T>
constexpr SoftmaxTable<T> kSoftmax = {
    .softmax = softmax<T>,
    .softmax_grad = softmax_grad<T>,
    .cross_entropy = cross_entropy<T>,
    .cross_entropy_grad = cross_entropy_grad<T>,
    .soft_cross_entropy = soft_cross_entropy<T>,
    .soft_cross_entropy_grad = soft_cross_entropy_grad<T>,
};

template <class T>
constexpr PoolingTable<T> kPooling = {
    .max_pool = pooling::max_pool<T>,
    .max_pool_dx = pooling::max_pool_dx<T>,
    .avg_pool = pooling::avg_pool<T>,
    .avg_pool_dx = pooling::avg_pool_dx<T>,
    .pick = pooling::pick<T>,
    .place = pooling::place<T>,
};

constexpr CastTable kCast = {.narrow = narrow_all, .widen = widen_all};

}  // namespace pdl::PDL_ISA
