// Compiled once per instruction set (PDL_ISA names it): the table of its kernels.
#include "nbits.h"
#include "table.h"

namespace pdl::PDL_ISA {

const NBitsTable kNBitsTable = {.product = nbits::product};

#define PDL_STRING_(x) #x
#define PDL_STRING(x) PDL_STRING_(x)
#define FAMILY(Name, name) .name##_f32 = &Kernels<float>::name, .name##_f64 = &Kernels<double>::name,
#define STORED(Name, name) FAMILY(Name, name) .name##_bf16 = &Kernels<bf16>::name,

const Table kTable = {
    .isa = PDL_STRING(PDL_ISA),
    PDL_FAMILIES(FAMILY, STORED)
    .attention = {&Kernels<float>::attention, &Kernels<double>::attention, &Kernels<bf16>::attention},
    .layer_norm = {&Kernels<float>::layer_norm, &Kernels<double>::layer_norm, &Kernels<bf16>::layer_norm},
    .cast = &kCastTable,
    .copying = &kCopyTable,
    .image = &kImageTable,
    .int8 = &kInt8Table,
    .nbits = &kNBitsTable,
};

}  // namespace pdl::PDL_ISA
