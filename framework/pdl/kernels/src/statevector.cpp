// Compiled once per instruction set: state vectors of qubits.
#include "pauli.h"

namespace pdl::PDL_ISA::statevector {

#define INSTANTIATE(T) \
  template void run<T>(T*, int64_t, int, const int64_t*, const double*, int64_t); \
  template void backward<T>(T*, T*, int64_t, int, const int64_t*, const double*, int64_t, double*, int64_t); \
  template void pauli_apply<T>(T*, const T*, int64_t, int, const int64_t*, const double*); \
  template void pauli_expectation<T>(double*, const T*, int64_t, int, const int64_t*, const double*);

INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace pdl::PDL_ISA::statevector
