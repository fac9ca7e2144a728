// Compiled once per instruction set, and again where the CPU has AVX512-VNNI: the kernels of quantised nets.
#include "int8_depthwise.h"
#include "int8_streams.h"
#include "int8_winograd.h"

namespace pdl::PDL_ISA {

namespace int8 {

inline int64_t packed_bytes(const Geometry& g, int tile) {
  if (tile != 0) return PointsLayout(g, tile).bytes();
  return is_depthwise(g) ? DepthwiseLayout(g).bytes() : Layout(g).bytes();
}

inline void pack(int8_t* packed, const int8_t* w, const int32_t* bias, const float* multiplier, int x_zero, const Geometry& g, int tile) {
  if (tile == 4) pack_points<4>(packed, w, bias, multiplier, x_zero, g);
  else if (tile == 2) pack_points<2>(packed, w, bias, multiplier, x_zero, g);
  else if (is_depthwise(g)) pack_depthwise(packed, w, bias, multiplier, x_zero, g);
  else pack_product(packed, w, bias, multiplier, x_zero, g);
}

inline bool is_product(const Geometry& g) {
  for (int d = 0; d < 3; d++)
    if (g.kernel[d] != 1 || g.stride[d] != 1 || g.pad[d] != 0 || g.in[d] != g.out[d]) return false;
  return g.groups == 1;
}

inline void convolution(const QuantThen& then, const uint8_t* x, int x_zero, const int8_t* packed, const Geometry& g, int tile) {
  if (tile == 4) return winograd<4>(then, x, x_zero, packed, g);
  if (tile == 2) return winograd<2>(then, x, x_zero, packed, g);
  if (is_depthwise(g)) return depthwise(then, x, x_zero, packed, g);
  const Layout l(g);
  if (is_product(g)) product(then, x, packed, g.n * g.in[0] * g.in[1] * g.in[2], l);
  else correlate(then, x, x_zero, packed, g, l);
}

}  // namespace int8

const Int8Table kInt8Table = {
    .unit = int8::kUnit,
    .packed_bytes = int8::packed_bytes,
    .pack = int8::pack,
    .convolution = int8::convolution,
    .quantise = int8::quantise,
    .dequantise = int8::dequantise,
    .add = int8::add_bytes,
    .look_up = int8::look_up,
    .max_pool = int8::max_pool,
    .avg_pool = int8::avg_pool,
};

}  // namespace pdl::PDL_ISA
