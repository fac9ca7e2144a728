// Compiled once per instruction set: convolutions with batch norm inside.
#include "norm_conv.h"

namespace pdl::PDL_ISA::norm_conv {

#define INSTANTIATE(S) \
  template void forward<S>(S*, Real<S>*, Real<S>*, const S*, const NormInput<Real<S>>&, const Real<S>*, const Geometry&); \
  template void backward<S>(S*, Real<S>*, Real<S>*, Real<S>*, Real<S>*, Real<S>*, const S*, const S*, const Real<S>*, const Real<S>*, \
                            const Real<S>*, const S*, const NormInput<Real<S>>&, const Real<S>*, const Geometry&); \
  template void moments<S>(Real<S>*, Real<S>*, const S*, int64_t, int64_t); \
  template void moments_grad<S>(S*, const S*, const S*, const Real<S>*, const Real<S>*, const Real<S>*, int64_t, int64_t);

INSTANTIATE(float)
INSTANTIATE(double)
INSTANTIATE(bf16)

}  // namespace pdl::PDL_ISA::norm_conv
