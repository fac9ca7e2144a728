// Compiled once per instruction set (PDL_ISA names it): every kernel, and the table of them.
#include "ctc.h"
#include "pointwise.h"
#include "pooling.h"
#include "rows.h"
#include "table.h"

namespace pdl::PDL_ISA {

template <class T>
constexpr PointwiseTable<T> kPointwise = {
    .relu = relu<T>,
};

template <class T>
constexpr PoolingTable<T> kPooling = {
    .max_pool = pooling::max_pool<T>,
    .max_pool_dx = pooling::max_pool_dx<T>,
    .avg_pool = pooling::avg_pool<T>,
    .avg_pool_dx = pooling::avg_pool_dx<T>,
    .pick = pooling::pick<T>,
    .place = pooling::place<T>,
};

template <class T>
constexpr RowsTable<T> kRows = {
    .take = rows::take,
    .add = rows::add<T>,
    .extremum = rows::extremum<T>,
    .mix = rows::mix<T>,
};

template <class T>
constexpr CtcTable<T> kCtc = {
    .loss = ctc::loss<T>,
    .gradient = ctc::gradient<T>,
};

extern const Table kTable;
const Table kTable = {
#define PDL_STRING_(x) #x
#define PDL_STRING(x) PDL_STRING_(x)
    .isa = PDL_STRING(PDL_ISA),
    .pointwise_f32 = kPointwise<float>,
    .pointwise_f64 = kPointwise<double>,
    .pooling_f32 = kPooling<float>,
    .pooling_f64 = kPooling<double>,
    .rows_f32 = kRows<float>,
    .rows_f64 = kRows<double>,
    .ctc_f32 = kCtc<float>,
    .ctc_f64 = kCtc<double>,
};

}  // namespace pdl::PDL_ISA
