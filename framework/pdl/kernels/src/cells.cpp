// Compiled once per instruction set: recurrent layers.
#include "cells.h"

namespace pdl::PDL_ISA {

template void cell_forward<float>(int, const Recurrence<float>&);
template void cell_forward<double>(int, const Recurrence<double>&);
template void cell_backward<float>(int, const Recurrence<float>&);
template void cell_backward<double>(int, const Recurrence<double>&);

}  // namespace pdl::PDL_ISA
