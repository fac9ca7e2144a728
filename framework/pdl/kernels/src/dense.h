// The entries of the families that are compiled apart, the dense ones above all. Their templates take most of the compile time and have files of their own: dense.cpp, dense_bf16.cpp,
// cells.cpp, attention.cpp, norm_conv.cpp and statevector.cpp.
#pragma once
#include "table.h"

namespace pdl::PDL_ISA {

template <class T>
void matmul(const Product<T>& first, int64_t batch, const int64_t* offsets);
template <class T>
void convolution(T* y, const T* x, const T* w, const T* bias, const Geometry& g);
template <class T>
void convolution_then(T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>& then);
template <class T>
void convolution_dx(T* dx, const T* dy, const T* w, const Geometry& g);
template <class T>
void convolution_dw(T* dw, Real<T>* wide, const T* x, const T* dy, const Geometry& g);
namespace packed {
template <class T>
int64_t size(int form, const Geometry& g);
template <class T>
void pack(int form, T* to, const T* w, const Geometry& g);
template <class T>
void forward(int form, T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>& then);
}  // namespace packed
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

template <class T>
void cell_forward(int cell, const Recurrence<T>& r);
template <class T>
void cell_backward(int cell, const Recurrence<T>& r);
template <class T>
void classifier_forward(const Classifier<T>& p);
template <class T>
void classifier_backward(const Classifier<T>& p);
template <class S>
void attention_forward(const AttentionCall& call);
template <class S>
void attention_backward(const AttentionCall& call);
template <class S>
void dropout(void* y, const void* x, const void* ref, int activation, int64_t rows, int64_t columns, double p, uint64_t seed);
template <class S>
void layer_norm_forward(const LayerNormCall& call);
template <class S>
void layer_norm_backward(const LayerNormCall& call);

// statevector.h, statevector_grad.h, pauli.h
namespace statevector {
template <class T>
void run(T* z, int64_t states, int n, const int64_t* program, const double* values, int64_t values_stride, bool zero);
template <class T>
void backward(T* z, T* l, int64_t states, int n, const int64_t* program, const double* values, int64_t values_stride, double* sums, int64_t slots);
template <class T>
void pauli_apply(T* out, const T* z, int64_t states, int n, const int64_t* groups, const double* values, int64_t values_stride, double* energies);
template <class T>
void probabilities(double* out, const T* z, int64_t states, int n, const int64_t* bits, int count);
template <class T>
void sample(int64_t* out, double* total, const T* z, int64_t states, int n, const double* draws, int64_t shots);
}  // namespace statevector

// norm_conv.h
namespace norm_conv {
template <class S>
void forward(S* y, Real<S>* mean, Real<S>* var, const S* x, const NormInput<Real<S>>& in, const Real<S>* w, const Geometry& g);
template <class S>
void backward(S* dx, Real<S>* dw, Real<S>* dmean, Real<S>* dvar, Real<S>* dscale, Real<S>* dshift, const S* g, const S* y,
              const Real<S>* y_mean, const Real<S>* g_mean, const Real<S>* g_var, const S* x, const NormInput<Real<S>>& in, const Real<S>* w,
              const Geometry& geometry);
template <class S>
void moments(Real<S>* mean, Real<S>* var, const S* x, int64_t rows, int64_t columns);
template <class S>
void moments_grad(S* dx, const S* g, const S* x, const Real<S>* mean, const Real<S>* g_mean, const Real<S>* g_var, int64_t rows,
                  int64_t columns);
}  // namespace norm_conv

}  // namespace pdl::PDL_ISA
