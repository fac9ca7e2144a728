// Which table of kernels this machine runs.
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "table.h"

namespace pdl {

bool matrix_unit = false;

#define PDL_LEVEL(name) namespace name { PDL_DECLARE_KERNELS }
#if defined(PDL_HAS_BASELINE)
PDL_LEVEL(baseline)
#endif
#if defined(PDL_HAS_AVX2)
PDL_LEVEL(avx2)
#endif
#if defined(PDL_HAS_AVX512)
PDL_LEVEL(avx512)
#endif
#if defined(PDL_HAS_AVX512_VNNI)
PDL_LEVEL(avx512_vnni)
#endif
#if defined(PDL_HAS_AVX512_BF16)
PDL_LEVEL(avx512_bf16)
#endif
#if defined(PDL_HAS_GENERIC)
PDL_LEVEL(generic)
#endif

namespace {

const char* problem = nullptr;

#if defined(__x86_64__)
constexpr const char* kNames[] = {"baseline", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx_bf16"};  // the values of PDL_CPU

// Best first.
struct Level {
  const Table* table;
  bool here;
};

#if defined(PDL_HAS_AVX512_VNNI)
// AVX-512 with its products of bytes replaced. A level of its own: Cascade Lake, Ice Lake and Rocket Lake have VNNI and no bf16, while every CPU
// with AVX512-BF16 has VNNI.
const Table* with_vnni() {
  static const Table made = [] {
    Table table = avx512::kTable;
    table.isa = "avx512_vnni";
    table.int8 = &avx512_vnni::kInt8Table;
    return table;
  }();
  return &made;
}
#endif

#if defined(PDL_HAS_AVX512_BF16)
// And with what it does to bf16 replaced too.
const Table* with_bf16() {
  static const Table made = [] {
    using Own = avx512_bf16::Kernels<bf16>;
    Table table = *with_vnni();
    table.isa = "avx512_bf16";
    table.gemm_bf16 = &Own::gemm;
    table.conv_bf16 = &Own::conv;
    table.packed_bf16 = &Own::packed;
    table.attention[2] = &Own::attention;
    table.layer_norm[2] = &Own::layer_norm;
    table.cached_bf16 = &Own::cached;
    table.pointwise_bf16 = &Own::pointwise;
    table.batch_norm_bf16 = &Own::batch_norm;
    table.softmax_bf16 = &Own::softmax;
    table.rotary_bf16 = &Own::rotary;
    table.pooling_bf16 = &Own::pooling;
    table.cast = &avx512_bf16::kCastTable;
    return table;
  }();
  return &made;
}
#endif

#if defined(PDL_HAS_AVX512_BF16)
// And with products of bf16 on the matrix unit.
const Table* with_matrix_unit() {
  static const Table made = [] {
    Table table = *with_bf16();
    table.isa = "amx_bf16";
    return table;
  }();
  return &made;
}

// Whether the CPU has AMX for bf16, and Linux gives its registers to this process (before any thread has used them).
bool asks_for_matrix_unit() {
#if defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0, low = 0, high = 0;
  constexpr unsigned wanted = 1u << 22 | 1u << 24, registers = 3u << 17;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & 1u << 27) == 0) return false;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr long request = 0x1023, tiles = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return (low & registers) == registers && syscall(SYS_arch_prctl, request, tiles) == 0;
#else
  return false;
#endif
}
#endif

const Table& choose() {
  __builtin_cpu_init();
  [[maybe_unused]] const bool vnni = __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni");
  [[maybe_unused]] const bool bf16 = vnni && __builtin_cpu_supports("avx512bf16");
  const Level levels[] = {
#if defined(PDL_HAS_AVX512_BF16)
      {with_matrix_unit(), bf16 && asks_for_matrix_unit()},
      {with_bf16(), bf16},
#endif
#if defined(PDL_HAS_AVX512_VNNI)
      {with_vnni(), vnni},
#endif
#if defined(PDL_HAS_AVX512)
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
    problem = "PDL_CPU names no instruction set; it may be baseline, avx2, avx512, avx512_vnni, avx512_bf16 or amx_bf16";
    for (const char* name : kNames)
      if (std::strcmp(name, wanted) == 0) problem = "this build of pdl lacks the instruction set that PDL_CPU names (instruction_sets in meson.options)";
    for (const Level& level : levels) {
      if (std::strcmp(level.table->isa, wanted) != 0) continue;
      problem = level.here ? nullptr : "this CPU lacks the instruction set that PDL_CPU names";
      if (level.here) return *level.table;
    }
  }
  for (const Level& level : levels)
    if (level.here) return *level.table;
  problem = "this CPU lacks every instruction set that this build of pdl holds (instruction_sets in meson.options)";
  return *levels[0].table;
}
#else
const Table& choose() { return generic::kTable; }
#endif

}  // namespace

const Table& table() {
  static const Table& chosen = []() -> const Table& {
    const Table& found = choose();
#if defined(__x86_64__)
    matrix_unit = std::strcmp(found.isa, "amx_bf16") == 0;
#endif
    return found;
  }();
  return chosen;
}

const char* isa_problem() {
  table();
  return problem;
}

}  // namespace pdl
