// Compiled once per instruction set (PDL_ISA names it): the kernels (but for the dense ones, dense.cpp and dense_bf16.cpp) and the table of them.
#include "chain.h"
#include "copy.h"
#include "csr_edges.h"
#include "ctc.h"
#include "dense.h"
#include "distance.h"
#include "image.h"
#include "norm.h"
#include "ranking.h"
#include "rows.h"
#include "streams.h"
#include "table.h"
#include "update.h"

namespace pdl::PDL_ISA {

template <class T>
constexpr GemmTable<T> kGemm = {.matmul = matmul<T>};

template <class T>
constexpr ConvTable<T> kConv = {
    .forward = convolution<T>,
    .dx = convolution_dx<T>,
    .dw = convolution_dw<T>,
    .forward_then = convolution_then<T>,
};

template <class T>
constexpr NormTable<T> kNorm = {
    .group_norm = group_norm<T>,
    .group_norm_grad = group_norm_grad<T>,
};

template <class T>
constexpr UpdateTable<T> kUpdate = {
    .step = update::step<T>,
    .axpy = update::axpy<T>,
    .squares = update::squares<T>,
    .adagrad_rows = update::adagrad_rows<T>,
};

template <class T>
constexpr RowsTable<T> kRows = {
    .take = rows::take,
    .add = rows::add<T>,
    .extremum = rows::extremum<T>,
    .mix = rows::mix<T>,
    .combine = rows::combine<T>,
};

template <class T>
constexpr RankingTable<T> kRanking = {.count = ranking::count<T>, .top = ranking::top<T>, .products = ranking::products<T>};

template <class T>
constexpr CsrTable<T> kCsr = {
    .spmm = csr::spmm<T>,
    .spmm_scattered = csr::spmm_scattered<T>,
    .sddmm = csr::sddmm<T>,
    .edge_softmax = csr::edge_softmax<T>,
    .edge_softmax_grad = csr::edge_softmax_grad<T>,
    .extremum = csr::extremum<T>,
    .extremum_grad_x = csr::extremum_grad_x<T>,
    .extremum_grad_value = csr::extremum_grad_value<T>,
    .inverse_sizes = csr::inverse_sizes<T>,
};

template <class T>
constexpr DistanceTable<T> kDistance = {.forward = distance::forward<T>, .backward = distance::backward<T>};

template <class T>
constexpr StateVectorTable<T> kStateVector = {
    .run = statevector::run<T>,
    .backward = statevector::backward<T>,
    .pauli = statevector::pauli_apply<T>,
    .probabilities = statevector::probabilities<T>,
    .sample = statevector::sample<T>,
};

template <class T>
constexpr CellsTable<T> kCells = {
    .forward = cell_forward<T>,
    .backward = cell_backward<T>,
};

template <class T>
constexpr ClassifierTable<T> kClassifier = {
    .forward = classifier_forward<T>,
    .backward = classifier_backward<T>,
};

template <class T>
constexpr CtcTable<T> kCtc = {
    .row_size = ctc::row_size<T>,
    .loss = ctc::loss<T>,
    .gradient = ctc::gradient<T>,
};

template <class S>
constexpr AttentionTable kAttention = {.forward = attention_forward<S>, .backward = attention_backward<S>, .dropout = dropout<S>};

template <class S>
constexpr LayerNormTable kLayerNorm = {.forward = layer_norm_forward<S>, .backward = layer_norm_backward<S>};

template <class S>
constexpr NormConvTable<S> kNormConv = {
    .forward = norm_conv::forward<S>,
    .backward = norm_conv::backward<S>,
    .moments = norm_conv::moments<S>,
    .moments_grad = norm_conv::moments_grad<S>,
};

template <class T>
constexpr PackedTable<T> kPackedTable = {.size = packed::size<T>, .pack = packed::pack<T>, .forward = packed::forward<T>};

extern const Int8Table kInt8;  // int8.cpp
extern const Table kTable;
const Table kTable = {
#define PDL_STRING_(x) #x
#define PDL_STRING(x) PDL_STRING_(x)
    .isa = PDL_STRING(PDL_ISA),
    .gemm_f32 = kGemm<float>,
    .gemm_f64 = kGemm<double>,
    .gemm_bf16 = kGemm<bf16>,
    .conv_f32 = kConv<float>,
    .conv_f64 = kConv<double>,
    .conv_bf16 = kConv<bf16>,
    .pointwise_f32 = kPointwise<float>,
    .pointwise_f64 = kPointwise<double>,
    .pointwise_bf16 = kPointwise<bf16>,
    .norm_f32 = kNorm<float>,
    .norm_f64 = kNorm<double>,
    .softmax_f32 = kSoftmax<float>,
    .softmax_f64 = kSoftmax<double>,
    .softmax_bf16 = kSoftmax<bf16>,
    .update_f32 = kUpdate<float>,
    .update_f64 = kUpdate<double>,
    .pooling_f32 = kPooling<float>,
    .pooling_f64 = kPooling<double>,
    .pooling_bf16 = kPooling<bf16>,
    .rows_f32 = kRows<float>,
    .rows_f64 = kRows<double>,
    .ranking_f32 = kRanking<float>,
    .ranking_f64 = kRanking<double>,
    .distance_f32 = kDistance<float>,
    .distance_f64 = kDistance<double>,
    .ctc_f32 = kCtc<float>,
    .ctc_f64 = kCtc<double>,
    .cells_f32 = kCells<float>,
    .cells_f64 = kCells<double>,
    .classifier_f32 = kClassifier<float>,
    .classifier_f64 = kClassifier<double>,
    .batch_norm_f32 = kBatchNorm<float>,
    .batch_norm_f64 = kBatchNorm<double>,
    .batch_norm_bf16 = kBatchNorm<bf16>,
    .norm_conv_f32 = kNormConv<float>,
    .norm_conv_f64 = kNormConv<double>,
    .norm_conv_bf16 = kNormConv<bf16>,
    .attention = {kAttention<float>, kAttention<double>, kAttention<bf16>},
    .layer_norm = {kLayerNorm<float>, kLayerNorm<double>, kLayerNorm<bf16>},
    .cast = kCast,
    .image = {.area = image::area, .linear = image::linear, .lookup = image::lookup},
    .packed_f32 = kPackedTable<float>,
    .packed_f64 = kPackedTable<double>,
    .packed_bf16 = kPackedTable<bf16>,
    .int8 = &kInt8,
    .copying = {.copy = copying::copy, .convert = copying::convert},
    .chain_f32 = {.run = chains::run<float>},
    .chain_f64 = {.run = chains::run<double>},
    .chain_bf16 = {.run = chains::run<bf16>},
    .csr_f32 = kCsr<float>,
    .csr_f64 = kCsr<double>,
    .statevector_f32 = kStateVector<float>,
    .statevector_f64 = kStateVector<double>,
};

}  // namespace pdl::PDL_ISA
