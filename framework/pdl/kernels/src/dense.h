// The entries of the dense families. Their templates take most of the compile time and have a file of their own, dense.cpp.
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
void convolution_dw(T* dw, const T* x, const T* dy, const Geometry& g);

}  // namespace pdl::PDL_ISA
