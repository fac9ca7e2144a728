// Compiled once per instruction set, and again where the CPU has instructions for bf16: attention with its dropout, attention to a cache,
// layer norm.
#include "attention.h"

#include "cached.h"
#include "layer_norm.h"

namespace pdl::PDL_ISA {

template <class S>
void attention_dropout(void* y, const void* x, const void* ref, int activation, int64_t rows, int64_t columns, double p, uint64_t seed) {
  attention::dropout(static_cast<S*>(y), static_cast<const S*>(x), static_cast<const S*>(ref), activation, rows, columns, p, seed);
}

template <class S>
const AttentionTable Kernels<S>::attention = {
    .forward = attention::forward<S>, .backward = attention::backward<S>, .dropout = attention_dropout<S>};

template <class S>
const LayerNormTable Kernels<S>::layer_norm = {.forward = layers::layer_norm<S>, .backward = layers::layer_norm_grad<S>};

template <class S>
const CachedTable<S> Kernels<S>::cached = {.attend = cached::attend<S>};
PDL_INSTANTIATE_STORED(Cached, cached)

#define INSTANTIATE(S) \
  template const AttentionTable Kernels<S>::attention; \
  template const LayerNormTable Kernels<S>::layer_norm;

#if !defined(__AVX512BF16__)
INSTANTIATE(float)
INSTANTIATE(double)
#endif
INSTANTIATE(bf16)

}  // namespace pdl::PDL_ISA
