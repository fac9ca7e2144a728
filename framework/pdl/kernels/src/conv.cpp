// Compiled once per instruction set, and again where the CPU multiplies bf16: convolutions, and those with weights packed before.
#include "blocks.h"
#include "expand.h"
#include "grouped.h"

namespace pdl::PDL_ISA {

// The entries of the table: they pick the form.
template <class T>
void convolution(T* y, const T* x, const T* w, const T* bias, const Geometry& g) {
  if (is_depthwise(g)) return depthwise_forward(y, x, w, bias, g);
  if (Grouped<T>::covers(g)) return grouped_forward(y, x, w, bias, g);
  if (multiplies(g) && Depthwise<Real<T>>::covers(g)) return depthwise_multiplied(y, x, w, bias, g, static_cast<const Epilogue<T>*>(nullptr));
  if constexpr (sizeof(Real<T>) == 4) {
    if (winograd::fits<T>(g)) return winograd::forward(y, x, w, bias, g);
    if (winograd::fits_filled<T>(g)) return winograd::forward_filled(y, x, w, bias, g);
  }
  conv_forward(y, x, w, bias, g);
}
// Where what the activation is applied to is wanted, or statistics of a depthwise form, rows are taken once more.
template <class T>
void convolution_then(T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>& then) {
  const auto rows_again = [&] { finish_rows(y, g.n * g.out[0] * g.out[1] * g.out[2], g.o, then); };
  const bool multiplied = multiplies(g) && Depthwise<Real<T>>::covers(g);
  if (is_depthwise(g) || multiplied) {
    const bool again = then.before != nullptr || then.mean != nullptr;
    const Epilogue<T>* now = again ? nullptr : &then;
    multiplied ? depthwise_multiplied(y, x, w, bias, g, now) : depthwise_forward(y, x, w, bias, g, now);
    if (again) rows_again();
    return;
  }
  if (Grouped<T>::covers(g)) return grouped_forward(y, x, w, bias, g, &then);
  if constexpr (sizeof(Real<T>) == 4) {
    if (winograd::fits<T>(g)) {
      if (then.before == nullptr) return winograd::forward(y, x, w, bias, g, &then);
      winograd::forward(y, x, w, bias, g);
      return rows_again();
    }
    if (winograd::fits_filled<T>(g)) {
      winograd::forward_filled(y, x, w, bias, g);
      return rows_again();
    }
  }
  conv_forward(y, x, w, bias, g, &then);
}
template <class T>
void convolution_dx(T* dx, const T* dy, const T* w, const Geometry& g) {
  if (is_depthwise(g)) return depthwise_dx(dx, dy, w, g);
  if constexpr (sizeof(Real<T>) == 4) {
    if (winograd::fits<T>(g)) return winograd::dx(dx, dy, w, g);
    if (winograd::fits_filled<T>(g)) return winograd::dx_filled(dx, dy, w, g);
  }
  conv_dx(dx, dy, w, g);
}
template <class T>
void convolution_dw(T* dw, Real<T>* wide, const T* x, const T* dy, const Geometry& g) {
  if (is_depthwise(g)) return wide != nullptr ? depthwise_dw(wide, x, dy, g) : depthwise_dw(dw, x, dy, g);
  if constexpr (sizeof(Real<T>) == 4) {
    if (winograd::fits<T>(g)) return winograd::dw(dw, wide, x, dy, g);
    if (winograd::fits_filled<T>(g)) return winograd::dw_filled(dw, wide, x, dy, g);
  }
  conv_dw(dw, wide, x, dy, g);
}

template <class T>
const ConvTable<T> Kernels<T>::conv = {
    .forward = convolution<T>,
    .dx = convolution_dx<T>,
    .dw = convolution_dw<T>,
    .forward_then = convolution_then<T>,
};
PDL_INSTANTIATE_STORED(Conv, conv)

template <class T>
void packed_forward(int form, T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>& then) {
  if constexpr (std::is_same_v<T, float>)
    if (form == kPackedBlocks) return blocks::forward(y, x, w, bias, g, then);
  packed::forward(form, y, x, w, bias, g, then);
}

template <class T>
const PackedTable<T> Kernels<T>::packed = {
    .size = packed::size<T>,
    .pack = packed::pack<T>,
    .forward = packed_forward<T>,
    .expands = [](int64_t inputs, const Geometry& g) { return int64_t(is_depthwise(g) && expands<T>(inputs, g)); },
    .expand_depthwise = expand_depthwise<T>,
};
PDL_INSTANTIATE_STORED(Packed, packed)

}  // namespace pdl::PDL_ISA
