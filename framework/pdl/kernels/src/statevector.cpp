// Compiled once per instruction set: state vectors of qubits.
#include "measure.h"
#include "pauli.h"
#include "statevector_grad.h"
#include "table.h"

namespace pdl::PDL_ISA {

template <class T>
const StateVectorTable<T> Kernels<T>::statevector = {
    .run = statevector::run<T>,
    .backward = statevector::backward<T>,
    .pauli = statevector::pauli_apply<T>,
    .probabilities = statevector::probabilities<T>,
    .sample = statevector::sample<T>,
};
PDL_INSTANTIATE(StateVector, statevector)

}  // namespace pdl::PDL_ISA
