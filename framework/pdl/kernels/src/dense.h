// The entries of the dense families. Their templates take most of the compile time and have files of their own: dense.cpp, cells.cpp,
// attention.cpp.
#pragma once
#include "table.h"

namespace pdl::PDL_ISA {

template <class T>
void matmul(const Product<T>& first, int64_t batch, const int64_t* offsets);
template <class T>
void convolution(T* y, const T* x, const T* w, const T* bias, const Geometry& g);
template <class T>
void convolution_dx(T* dx, const T* dy, const T* w, const Geometry& g);
template <class T>
void convolution_dw(T* dw, Real<T>* wide, const T* x, const T* dy, const Geometry& g);
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

}  // namespace pdl::PDL_ISA
