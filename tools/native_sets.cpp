// Run while a build is configured: prints the instruction sets that -Dinstruction_sets=native means on this CPU. The names are those of
// PDL_CPU, and what they stand for is asked as in framework/pdl/kernels/src/dispatch.cpp.
#include <cstdio>

int main() {
  __builtin_cpu_init();
  std::puts("baseline");
  if (__builtin_cpu_supports("x86-64-v4")) {
    std::puts("avx512");
    if (__builtin_cpu_supports("avx512vnni")) std::puts(__builtin_cpu_supports("avx512bf16") ? "avx512_vnni avx512_bf16" : "avx512_vnni");
  } else if (__builtin_cpu_supports("x86-64-v3")) {
    std::puts("avx2");
  }
}
