// Compiled once per instruction set: kernels that go by indices, of rankings, of regions and boxes, of sequences, losses of detectors, and
// Fourier transforms.
#include "boxes.h"
#include "crf.h"
#include "csr_edges.h"
#include "ctc.h"
#include "distance.h"
#include "fft.h"
#include "focal.h"
#include "ranking.h"
#include "regions.h"
#include "rows.h"
#include "table.h"

namespace pdl::PDL_ISA {

template <class T>
const RowsTable<T> Kernels<T>::rows = {
    .take = rows::take,
    .add = rows::add<T>,
    .extremum = rows::extremum<T>,
    .mix = rows::mix<T>,
    .combine = rows::combine<T>,
};
PDL_INSTANTIATE(Rows, rows)

template <class T>
const CsrTable<T> Kernels<T>::csr = {
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
PDL_INSTANTIATE(Csr, csr)

template <class T>
const RankingTable<T> Kernels<T>::ranking = {.count = ranking::count<T>, .top = ranking::top<T>, .products = ranking::products<T>};
PDL_INSTANTIATE(Ranking, ranking)

template <class T>
const DistanceTable<T> Kernels<T>::distance = {.forward = distance::forward<T>, .backward = distance::backward<T>};
PDL_INSTANTIATE(Distance, distance)

template <class T>
const CrfTable<T> Kernels<T>::crf = {
    .loss = crf::loss<T>,
    .gradient = crf::gradient<T>,
    .marginals = crf::marginals<T>,
    .decode = crf::decode<T>,
};
PDL_INSTANTIATE(Crf, crf)

template <class T>
const CtcTable<T> Kernels<T>::ctc = {.row_size = ctc::row_size<T>, .loss = ctc::loss<T>, .gradient = ctc::gradient<T>};
PDL_INSTANTIATE(Ctc, ctc)

template <class T>
const RegionsTable<T> Kernels<T>::regions = {
    .grid_sample = regions::grid_sample<T>,
    .grid_sample_grad = regions::grid_sample_grad<T>,
    .roi_align = regions::roi_align<T>,
    .roi_align_grad = regions::roi_align_grad<T>,
};
PDL_INSTANTIATE(Regions, regions)

template <class T>
const BoxesTable<T> Kernels<T>::boxes = {
    .select = boxes::select<T>,
    .suppress = boxes::suppress<T>,
    .overlap = boxes::overlap<T>,
    .overlap_grad = boxes::overlap_grad<T>,
};
PDL_INSTANTIATE(Boxes, boxes)

template <class T>
const FocalTable<T> Kernels<T>::focal = {
    .loss = focal::loss<T>,
    .slope = focal::slope<T>,
    .distribution = focal::distribution<T>,
    .distribution_slope = focal::distribution_slope<T>,
};
PDL_INSTANTIATE(Focal, focal)

template <class T>
const FftTable<T> Kernels<T>::fft = {.forward = fft::forward<T>, .inverse = fft::inverse<T>, .overlap_add = fft::overlap_add<T>};
PDL_INSTANTIATE(Fft, fft)

}  // namespace pdl::PDL_ISA
