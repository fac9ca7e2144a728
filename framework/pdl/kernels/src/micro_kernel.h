// The body of the micro-kernel: see tile.h.
#pragma once
#include "matrix_unit.h"
#include "tile.h"

namespace pdl::PDL_ISA {

// A unit of A in every lane, a vector of units of B, and the sum of products they add to.
template <class T, int kBytes>
struct Units {
  using V = typename WideOf<T, kBytes>::type;
  struct Left {
    V value;
    __attribute__((always_inline)) explicit Left(const char* a) : value(*reinterpret_cast<const T*>(a) - V{}) {}
  };
  struct Right {
    V value;
    __attribute__((always_inline)) Right() {}
    __attribute__((always_inline)) explicit Right(V raw) : value(raw) {}
  };
  static __attribute__((always_inline)) void add(V& sum, const Left& a, const Right& b) { sum += a.value * b.value; }
};

template <int kBytes>
struct Units<bf16, kBytes> {
  using V = typename WideOf<float, kBytes>::type;
  using Bits = typename WideOf<uint32_t, kBytes>::type;
  typedef uint32_t Pair __attribute__((aligned(2), may_alias));
#if defined(__AVX512BF16__)
  struct Left {
    Bits value;
    __attribute__((always_inline)) explicit Left(const char* a) : value(*reinterpret_cast<const Pair*>(a) - Bits{}) {}
  };
  struct Right {
    V value;
    __attribute__((always_inline)) Right() {}
    __attribute__((always_inline)) explicit Right(V raw) : value(raw) {}
  };
  static __attribute__((always_inline)) void add(V& sum, const Left& a, const Right& b) {
    if constexpr (kBytes == 64) sum = (V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)b.value, (__m512bh)a.value);
    else sum = (V)_mm256_dpbf16_ps((__m256)sum, (__m256bh)b.value, (__m256bh)a.value);
  }
#else
  struct Left {
    V low, high;
    __attribute__((always_inline)) explicit Left(const char* a) {
      const Bits pair = *reinterpret_cast<const Pair*>(a) - Bits{};
      low = (V)(pair << 16), high = (V)(pair & 0xffff0000u);
    }
  };
  struct Right {
    V low, high;
    __attribute__((always_inline)) Right() {}
    __attribute__((always_inline)) explicit Right(V raw) : low((V)((Bits)raw << 16)), high((V)((Bits)raw & 0xffff0000u)) {}
  };
  static __attribute__((always_inline)) void add(V& sum, const Left& a, const Right& b) { sum += a.low * b.low, sum += a.high * b.high; }
#endif
};

// The bits of floats rounded to bf16, to nearest even.
template <int kBytes>
inline __attribute__((always_inline)) typename WideOf<uint16_t, kBytes / 2>::type rounded_bits(typename WideOf<float, kBytes>::type v) {
  using Half = typename WideOf<uint16_t, kBytes / 2>::type;
  if constexpr (kBytes == PDL_VECTOR_BYTES) {
    return (Half)narrow((Vec<float>)v);
  } else {
    using Bits = typename WideOf<uint32_t, kBytes>::type;
    const Bits u = (Bits)v, odd = (u >> 16) & 1;
    return __builtin_convertvector((v == v ? u + (odd + 0x7fff) : u | 0x400000) >> 16, Half);
  }
}

template <class T, int kBytes, int MR, int NRV, bool kColumns>
void micro_kernel(const Tile<T>& tile, int columns) {
  using R = Real<T>;
  using V = typename WideOf<R, kBytes>::type;
  using U = Units<T, kBytes>;
  constexpr int lanes = kBytes / sizeof(R), pointers = kColumns ? 1 : (MR + kRowsPerPointer - 1) / kRowsPerPointer;
  Tile<T> t = tile;  // a copy: stores to C cannot change it
  const Edge<R, kBytes> edge(columns - (NRV - 1) * lanes);
  const auto get = [&](const R* p, int j) __attribute__((always_inline)) {
    return j == NRV - 1 ? edge.load(p + j * lanes) : *reinterpret_cast<const V*>(p + j * lanes);
  };
  int64_t stride = t.a_stride * static_cast<int64_t>(sizeof(T)), stride3 = 3 * stride;
  asm("" : "+r"(stride), "+r"(stride3));  // two registers: the compiler would make one a row, and spill them
  constexpr bool asks = MR > kStreamed && !kColumns && NRV > 1;  // one vector of columns waits for loads as it is
  constexpr int turns = MR * NRV <= 2 ? 4 : MR * NRV <= 4 ? 2 : 1;
  int64_t panel = 0;
  [[maybe_unused]] int64_t by_tiles = 0;  // units along k that the matrix unit sums
#if defined(__AVX512BF16__)
  if constexpr (kMatrixUnit<T, kBytes, MR, kColumns>)
    if (matrix_unit && columns == NRV * lanes) by_tiles = t.k / kTileUnits * kTileUnits;
  const Tiles tiles_of(by_tiles != 0, MR);
#endif
  const auto next = [&]() __attribute__((always_inline)) {
    if (turns == 1 || t.beside == 0) return t.step(MR);
    constexpr int width = NRV * lanes;
    panel += t.beside, t.c += width;
    if (t.bias != nullptr) t.bias += width;
    if (t.rounded != nullptr) t.rounded += width;
    if (t.residual != nullptr) t.residual += width;
  };
  for (int64_t tiles = t.repeat;; next()) {
    [[maybe_unused]] const char* ask = t.pace == 0 ? reinterpret_cast<const char*>(t.b[0]) : t.next;
    V acc[MR][NRV], more[turns > 1 ? turns - 1 : 1][MR][NRV] = {};
    if (t.accumulate) {
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
        for (int j = 0; j < NRV; j++) acc[i][j] = get(t.c + i * t.c_stride, j);
    } else {
#pragma GCC unroll 2
      for (int j = 0; j < NRV; j++) {
        V start{};
        if (t.bias != nullptr) start = get(t.bias, j);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) acc[i][j] = start;
      }
    }
#if defined(__AVX512BF16__)
    if constexpr (kMatrixUnit<T, kBytes, MR, kColumns>)
      if (by_tiles != 0) {
        alignas(64) float sums[2][MR][NRV * 16];
        tile_sums<NRV>(&sums[0][0][0], MR, t, by_tiles, panel);
        for (const char* end = ask + by_tiles * t.pace; ask < end; ask += 64) __builtin_prefetch(ask, 0, 2), __builtin_prefetch(ask + t.apart, 0, 2);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
          for (int j = 0; j < NRV; j++) acc[i][j] += *reinterpret_cast<const V*>(&sums[0][i][16 * j]) + *reinterpret_cast<const V*>(&sums[1][i][16 * j]);
      }
#endif
    for (int64_t batch = 0; batch < t.batch && by_tiles < t.k; batch++) {
      const char* a[pointers];
      a[0] = reinterpret_cast<const char*>(t.a[batch]) + t.shift * static_cast<int64_t>(sizeof(T));
      if constexpr (kMatrixUnit<T, kBytes, MR, kColumns>) a[0] += by_tiles * static_cast<int64_t>(sizeof(R));
#pragma GCC unroll 4
      for (int p = 1; p < pointers; p++) a[p] = a[p - 1] + kRowsPerPointer * stride;
      const T* b = t.b[batch] + panel;
      if constexpr (kMatrixUnit<T, kBytes, MR, kColumns>) b += by_tiles * t.b_stride;
      const auto step = [&](auto& sums) __attribute__((always_inline)) {
        typename U::Right bv[NRV];
#pragma GCC unroll 2
        for (int j = 0; j < NRV; j++) {
          bv[j] = typename U::Right(get(reinterpret_cast<const R*>(b), j));
          if (MR <= kStreamed && (kBytes == 64 || j == 0)) __builtin_prefetch(reinterpret_cast<const char*>(b) + t.ahead + j * kBytes);
        }
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
          const char* row = a[kColumns ? 0 : i / kRowsPerPointer];
          const int at = i % kRowsPerPointer;
          if constexpr (kColumns) row += i * sizeof(R);
          else row += at == 0 ? 0 : at == 1 ? stride : at == 2 ? 2 * stride : at == 3 ? stride3 : 4 * stride;
          const typename U::Left av(row);
#pragma GCC unroll 2
          for (int j = 0; j < NRV; j++) U::add(sums[i][j], av, bv[j]);
        }
#pragma GCC unroll 4
        for (int p = 0; p < pointers; p++) a[p] += kColumns ? stride : static_cast<int64_t>(sizeof(R));
        b += t.b_stride;
        if constexpr (asks) __builtin_prefetch(ask, 0, 2), __builtin_prefetch(ask + t.apart, 0, 2), ask += t.pace;
      };
      int64_t k = by_tiles;
      if constexpr (turns > 1)
        for (; t.beside != 0 && k + turns <= t.k; k += turns) {
          step(acc);
#pragma GCC unroll 4
          for (int p = 1; p < turns; p++) step(more[p - 1]);
        }
      for (; k < t.k; k++) step(acc);
    }
    if constexpr (turns > 1) {
      if (t.beside != 0) {
#pragma GCC unroll 4
        for (int p = 1; p < turns; p++)
#pragma GCC unroll 16
          for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
            for (int j = 0; j < NRV; j++) acc[i][j] += more[p - 1][i][j];
      }
    }
    if constexpr (kFinishes<T, kColumns>) {
      if (t.residual != nullptr) {
        const T* added = t.residual;
        asm("" : "+r"(added));
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++, added += t.c_stride)
#pragma GCC unroll 2
          for (int j = 0; j < NRV; j++)
            acc[i][j] += j == NRV - 1 ? edge.load_stored(added + j * lanes) : widened<kBytes>(added + j * lanes);
      }
      if (t.bounds != nullptr) {
        const auto each = [&](const auto& f) __attribute__((always_inline)) {
#pragma GCC unroll 16
          for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
            for (int j = 0; j < NRV; j++) acc[i][j] = f(acc[i][j]);
        };
        const Bounds<R> bounds = *t.bounds;
        if (bounds.swish) each([&](V v) __attribute__((always_inline)) { return hard_swish(v, &bounds.low); });
        else each([&](V v) __attribute__((always_inline)) { return within_bounds(v, Bounds<R>{bounds.low, bounds.high}); });
      }
    }
    if constexpr (kUnit<T> == 2) {
      T* c = t.rounded;
      asm("" : "+r"(c));
      if (c != nullptr) {
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++, c += t.c_stride)
#pragma GCC unroll 2
          for (int j = 0; j < NRV; j++) {
            const auto bits = rounded_bits<kBytes>(acc[i][j]);
#if PDL_VECTOR_BYTES == 64
            if (j == NRV - 1) {
              if constexpr (kBytes == 64) _mm256_mask_storeu_epi16(c + j * lanes, edge.mask, (__m256i)bits);
              else _mm_mask_storeu_epi16(c + j * lanes, edge.mask, (__m128i)bits);
              continue;
            }
#endif
            *reinterpret_cast<typename WideOf<uint16_t, kBytes / 2>::type*>(c + j * lanes) = bits;
          }
      }
    }
    if (kUnit<T> == 2 && t.rounded != nullptr) {
      if (--tiles == 0) return;
      continue;
    }
    R* c = t.c;
    asm("" : "+r"(c));  // the addresses of C are not worth a register during the sum
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++, c += t.c_stride)
#pragma GCC unroll 2
      for (int j = 0; j < NRV; j++) {
        if (j == NRV - 1) edge.store(c + j * lanes, acc[i][j]);
        else *reinterpret_cast<V*>(c + j * lanes) = acc[i][j];
      }
    if constexpr (kColumns) return;
    else if (--tiles == 0) return;
  }
}

}  // namespace pdl::PDL_ISA
