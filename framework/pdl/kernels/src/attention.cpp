// Compiled once per instruction set: attention, dropout, layer norm of float32, float64 and bfloat16; the last again where the CPU has
// instructions for it.
#include "attention.h"

#include "dense.h"
#include "layer_norm.h"

namespace pdl::PDL_ISA {

template <class S>
void attention_forward(const AttentionCall& call) { attention::forward<S>(call); }
template <class S>
void attention_backward(const AttentionCall& call) { attention::backward<S>(call); }
template <class S>
void dropout(void* y, const void* x, const void* ref, int activation, int64_t rows, int64_t columns, double p, uint64_t seed) {
  attention::dropout(static_cast<S*>(y), static_cast<const S*>(x), static_cast<const S*>(ref), activation, rows, columns, p, seed);
}
template <class S>
void layer_norm_forward(const LayerNormCall& call) { layers::layer_norm<S>(call); }
template <class S>
void layer_norm_backward(const LayerNormCall& call) { layers::layer_norm_grad<S>(call); }

#define INSTANTIATE(S) \
  template void attention_forward<S>(const AttentionCall&); \
  template void attention_backward<S>(const AttentionCall&); \
  template void dropout<S>(void*, const void*, const void*, int, int64_t, int64_t, double, uint64_t); \
  template void layer_norm_forward<S>(const LayerNormCall&); \
  template void layer_norm_backward<S>(const LayerNormCall&);

#if !defined(__AVX512BF16__)
INSTANTIATE(float)
INSTANTIATE(double)
#endif
INSTANTIATE(bf16)

}  // namespace pdl::PDL_ISA
