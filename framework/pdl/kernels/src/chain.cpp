// Compiled once per instruction set: chains of elementwise steps, the optimisers' steps, copies, pictures.
#include "chain.h"

#include "copy.h"
#include "image.h"
#include "update.h"

namespace pdl::PDL_ISA {

template <class T>
const ChainTable<T> Kernels<T>::chain = {.run = chains::run<T>};
PDL_INSTANTIATE_STORED(Chain, chain)

template <class T>
const UpdateTable<T> Kernels<T>::update = {
    .step = update::step<T>,
    .axpy = update::axpy<T>,
    .squares = update::squares<T>,
    .adagrad_rows = update::adagrad_rows<T>,
};
PDL_INSTANTIATE(Update, update)

const CopyTable kCopyTable = {.copy = copying::copy, .convert = copying::convert};
const ImageTable kImageTable = {.area = image::area, .linear = image::linear, .lookup = image::lookup, .highest = image::highest};

}  // namespace pdl::PDL_ISA
