// Compiled for CPUs with AVX512-BF16: the kernels of streams.h on bfloat16, which round with one instruction there.
#include "streams.h"

namespace pdl::PDL_ISA {

extern const StreamsBf16 kStreamsBf16;
const StreamsBf16 kStreamsBf16 = {
    .pointwise = kPointwise<bf16>,
    .batch_norm = kBatchNorm<bf16>,
    .softmax = kSoftmax<bf16>,
    .pooling = kPooling<bf16>,
    .cast = kCast,
};

}  // namespace pdl::PDL_ISA
