// Compiled once per instruction set: state vectors of qubits.
#include "measure.h"
#include "pauli.h"
#include "statevector_grad.h"

namespace pdl::PDL_ISA::statevector {

#define INSTANTIATE(T) \
  template void run<T>(T*, int64_t, int, const int64_t*, const double*, int64_t, bool); \
  template void backward<T>(T*, T*, int64_t, int, const int64_t*, const double*, int64_t, double*, int64_t); \
  template void pauli_apply<T>(T*, const T*, int64_t, int, const int64_t*, const double*, int64_t, double*); \
  template void probabilities<T>(double*, const T*, int64_t, int, const int64_t*, int); \
  template void sample<T>(int64_t*, double*, const T*, int64_t, int, const double*, int64_t);

INSTANTIATE(float)
INSTANTIATE(double)

}  // namespace pdl::PDL_ISA::statevector
