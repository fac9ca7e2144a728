// Products that other families take: compiled in gemm.cpp.
#pragma once
#include "table.h"

namespace pdl::PDL_ISA {

template <class T>
void matmul(const Product<T>& first, int64_t batch, const int64_t* offsets);
// Blocks of products, one thread each (block_product.h).
// packed OUT [packed_size(k, n)]: panels of B, k x n, whose element (i, j) is at b + i row_stride + j column_stride
template <class T>
int64_t packed_size(int64_t k, int64_t n);
template <class T>
void pack_right(T* packed, const T* b, int64_t k, int64_t n, int64_t row_stride, int64_t column_stride);
// c [rows, n] (+)= a b: rows of a lie a_stride apart, or (by_columns) its columns
template <class T>
void block_product(T* c, int64_t c_stride, const T* a, int64_t a_stride, bool by_columns, int64_t rows, int64_t k, const T* packed, int64_t n,
                   bool accumulate);
// sums [m, n] += a^T b for `count` rows of a [m] and b [n]; rows of b are readable up to a multiple of two vectors
template <class T>
void weight_product(T* sums, const T* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t count, int64_t m, int64_t n);

}  // namespace pdl::PDL_ISA
