// The matrix unit of Intel's CPUs (AMX), for tiles of bf16: 16 rows of 64 bytes each, products of pairs summed in float.
#pragma once
#include "tile.h"

namespace pdl {

// Whether kernels may use it: the CPU has it, and the system has given it to this process (dispatch.cpp).
extern bool matrix_unit;

}  // namespace pdl

namespace pdl::PDL_ISA {

// Kernels that can: in the row form, of whole registers, of as many rows as make it worth its while.
#if defined(__AVX512BF16__)
template <class T, int kBytes, int MR, bool kColumns>
constexpr bool kMatrixUnit = kUnit<T> == 2 && kBytes == 64 && MR >= 4 && !kColumns;
#else
template <class T, int kBytes, int MR, bool kColumns>
constexpr bool kMatrixUnit = false;
#endif

#if defined(__AVX512BF16__)
constexpr int64_t kTileUnits = 16;  // along k

#define PDL_TILE_ZERO(c) asm volatile("tilezero %%tmm" #c ::)
#define PDL_TILE_LOAD(t, from, stride) asm volatile("tileloadd (%0,%1,1), %%tmm" #t ::"r"(from), "r"(stride) : "memory")
#define PDL_TILE_STORE(t, to, stride) asm volatile("tilestored %%tmm" #t ", (%0,%1,1)" ::"r"(to), "r"(stride) : "memory")
#define PDL_TILE_ADD(c, a, b) asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)

// The tiles' shapes while this lives, and none afterwards: others in this thread set their own. 0, 1, 5 and 6 are sums, 2 and 7 rows of A, 3 and
// 4 units of B.
struct Tiles {
  bool used;
  Tiles(bool use, int rows) : used(use) {
    if (!used) return;
    alignas(64) uint8_t shapes[64] = {1};
    for (int t = 0; t < 8; t++) {
      shapes[16 + 2 * t] = 64;
      shapes[48 + t] = t == 3 || t == 4 ? kTileUnits : static_cast<uint8_t>(rows);
    }
    asm volatile("ldtilecfg %0" ::"m"(shapes));
  }
  ~Tiles() {
    if (used) asm volatile("tilerelease" ::);
  }
};

// The sums over the units [0, count) of every pair of A and B, count a multiple of kTileUnits, even and odd steps apart: an addition takes longer
// than two of them need to be begun.   sums OUT [2][rows][NRV * 16]; `shift` and `panel` numbers to what A and B are read from
template <int NRV>
inline void tile_sums(float* sums, int rows, const Tile<bf16>& t, int64_t count, int64_t panel) {
  const int64_t a_row = t.a_stride * 2, b_row = t.b_stride * 2, row = NRV * 64;
  PDL_TILE_ZERO(0);
  PDL_TILE_ZERO(5);
  if constexpr (NRV == 2) {
    PDL_TILE_ZERO(1);
    PDL_TILE_ZERO(6);
  }
  for (int64_t batch = 0; batch < t.batch; batch++) {
    const char* a = reinterpret_cast<const char*>(t.a[batch] + t.shift);
    const char* b = reinterpret_cast<const char*>(t.b[batch] + panel);
    int64_t k = 0;
    for (; k + 2 * kTileUnits <= count; k += 2 * kTileUnits) {
      PDL_TILE_LOAD(2, a, a_row);
      PDL_TILE_LOAD(3, b, b_row);
      PDL_TILE_ADD(0, 2, 3);
      if constexpr (NRV == 2) {
        PDL_TILE_LOAD(4, b + 64, b_row);
        PDL_TILE_ADD(1, 2, 4);
      }
      a += 64, b += kTileUnits * b_row;
      PDL_TILE_LOAD(7, a, a_row);
      PDL_TILE_LOAD(3, b, b_row);
      PDL_TILE_ADD(5, 7, 3);
      if constexpr (NRV == 2) {
        PDL_TILE_LOAD(4, b + 64, b_row);
        PDL_TILE_ADD(6, 7, 4);
      }
      a += 64, b += kTileUnits * b_row;
    }
    if (k < count) {
      PDL_TILE_LOAD(2, a, a_row);
      PDL_TILE_LOAD(3, b, b_row);
      PDL_TILE_ADD(0, 2, 3);
      if constexpr (NRV == 2) {
        PDL_TILE_LOAD(4, b + 64, b_row);
        PDL_TILE_ADD(1, 2, 4);
      }
    }
  }
  float* odd = sums + rows * NRV * 16;
  PDL_TILE_STORE(0, sums, row);
  PDL_TILE_STORE(5, odd, row);
  if constexpr (NRV == 2) {
    PDL_TILE_STORE(1, sums + 16, row);
    PDL_TILE_STORE(6, odd + 16, row);
  }
}
#endif

}  // namespace pdl::PDL_ISA
