// Which table of kernels this machine runs.
#include <cstdlib>
#include <cstring>

#include "table.h"

namespace pdl {

#if defined(PDL_HAS_BASELINE)
namespace baseline { extern const Table kTable; }
#endif
#if defined(PDL_HAS_AVX2)
namespace avx2 { extern const Table kTable; }
#endif
#if defined(PDL_HAS_AVX512)
namespace avx512 { extern const Table kTable; }
namespace avx512_vnni { extern const Int8Table kInt8; }
namespace avx512_bf16 { extern const DenseBf16 kDenseBf16; extern const StreamsBf16 kStreamsBf16; }
#endif
#if defined(PDL_HAS_GENERIC)
namespace generic { extern const Table kTable; }
#endif

namespace {

const char* problem = nullptr;

#if defined(__x86_64__)
// Best first; the names are the values of PDL_CPU.
struct Level {
  const Table* table;
  bool here;
};

#if defined(PDL_HAS_AVX512)
// AVX-512 with its products of bytes replaced. A level of its own: Cascade Lake, Ice Lake and Rocket Lake have VNNI and no bf16, while every CPU
// with AVX512-BF16 has VNNI.
const Table& with_vnni() {
  static const Table made = [] {
    Table table = avx512::kTable;
    table.isa = "avx512_vnni";
    table.int8 = &avx512_vnni::kInt8;
    return table;
  }();
  return made;
}

// And with its bf16 products replaced too.
const Table& with_bf16() {
  static const Table made = [] {
    Table table = with_vnni();
    table.isa = "avx512_bf16";
    table.gemm_bf16 = avx512_bf16::kDenseBf16.gemm;
    table.conv_bf16 = avx512_bf16::kDenseBf16.conv;
    table.attention[2] = avx512_bf16::kDenseBf16.attention;
    table.packed_bf16 = avx512_bf16::kDenseBf16.packed;
    table.layer_norm[2] = avx512_bf16::kDenseBf16.layer_norm;
    table.pointwise_bf16 = avx512_bf16::kStreamsBf16.pointwise;
    table.batch_norm_bf16 = avx512_bf16::kStreamsBf16.batch_norm;
    table.softmax_bf16 = avx512_bf16::kStreamsBf16.softmax;
    table.pooling_bf16 = avx512_bf16::kStreamsBf16.pooling;
    table.cast = avx512_bf16::kStreamsBf16.cast;
    return table;
  }();
  return made;
}
#endif

const Table& choose() {
  __builtin_cpu_init();
#if defined(PDL_HAS_AVX512)
  const bool vnni = __builtin_cpu_supports("avx512vnni") != 0;
#endif
  const Level levels[] = {
#if defined(PDL_HAS_AVX512)
      {&with_bf16(), __builtin_cpu_supports("x86-64-v4") != 0 && vnni && __builtin_cpu_supports("avx512bf16") != 0},
      {&with_vnni(), __builtin_cpu_supports("x86-64-v4") != 0 && vnni},
      {&avx512::kTable, __builtin_cpu_supports("x86-64-v4") != 0},
#endif
#if defined(PDL_HAS_AVX2)
      {&avx2::kTable, __builtin_cpu_supports("x86-64-v3") != 0},
#endif
#if defined(PDL_HAS_BASELINE)
      {&baseline::kTable, true},
#endif
  };
  const char* wanted = std::getenv("PDL_CPU");
  if (wanted != nullptr && *wanted != 0) {
    problem = "PDL_CPU names no instruction set; it may be baseline, avx2, avx512, avx512_vnni or avx512_bf16";
    for (const Level& level : levels) {
      if (std::strcmp(level.table->isa, wanted) != 0) continue;
      problem = level.here ? nullptr : "this CPU lacks the instruction set that PDL_CPU names";
      if (level.here) return *level.table;
    }
  }
  for (const Level& level : levels)
    if (level.here) return *level.table;
  return *levels[0].table;  // reached only in a build that leaves the baseline out
}
#else
const Table& choose() { return generic::kTable; }
#endif

}  // namespace

const Table& table() {
  static const Table& chosen = choose();
  return chosen;
}

const char* isa_problem() {
  table();
  return problem;
}

}  // namespace pdl
