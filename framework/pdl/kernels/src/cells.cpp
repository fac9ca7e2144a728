// Compiled once per instruction set: recurrent layers, classifiers.
#include "cells.h"
#include "classifier_rows.h"

namespace pdl::PDL_ISA {

template void cell_forward<float>(int, const Recurrence<float>&);
template void cell_forward<double>(int, const Recurrence<double>&);
template void cell_backward<float>(int, const Recurrence<float>&);
template void cell_backward<double>(int, const Recurrence<double>&);
template void classifier_forward<float>(const Classifier<float>&);
template void classifier_forward<double>(const Classifier<double>&);
template void classifier_backward<float>(const Classifier<float>&);
template void classifier_backward<double>(const Classifier<double>&);

}  // namespace pdl::PDL_ISA
