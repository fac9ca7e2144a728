// Compiled once per instruction set: recurrent layers, classifiers.
#include "cells.h"
#include "classifier_rows.h"

namespace pdl::PDL_ISA {

template <class T>
const CellsTable<T> Kernels<T>::cells = {.forward = cell_forward<T>, .backward = cell_backward<T>};
PDL_INSTANTIATE(Cells, cells)

template <class T>
const ClassifierTable<T> Kernels<T>::classifier = {.forward = classifier_forward<T>, .backward = classifier_backward<T>};
PDL_INSTANTIATE(Classifier, classifier)

}  // namespace pdl::PDL_ISA
