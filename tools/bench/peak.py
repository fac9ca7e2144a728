"""The machine's float32 peak: independent multiply-adds in registers, on all threads at once.

A loop compiled for this CPU by the C++ compiler that builds pdl.
"""

from __future__ import annotations

import platform
import subprocess
import tempfile
from pathlib import Path

SOURCE = r"""
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#if defined(__AVX512F__)
enum { kBytes = 64 };
#elif defined(__AVX__)
enum { kBytes = 32 };
#else
enum { kBytes = 16 };
#endif
typedef float V __attribute__((vector_size(kBytes)));
#define STEP(v) v += x * y; asm volatile("" : "+" PDL_REGISTER(v));
static void work(long steps) {
  V a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{}, x = V{} + 1.5f, y = V{} + 0.5f;
  for (long k = 0; k < steps; k++) {
    STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h) STEP(i) STEP(j)
  }
}
int main(int, char** arguments) {
  const int threads = std::atoi(arguments[1]);
  const long steps = 4000000;
  double best = 0;
  for (int round = 0; round < 40; round++) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int t = 1; t < threads; t++) others.emplace_back(work, steps);
    work(steps);
    for (auto& other : others) other.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const double rate = 10. * 2 * (kBytes / 4) * steps * threads / took.count() / 1e9;
    if (rate > best) best = rate;
  }
  std::printf("%g", best);
}
"""


def peak_rate(threads: int, wrap: tuple[str, ...] = ()) -> float:
    """GFLOP/s of `threads` threads together: the best of 40 rounds, two seconds or so. `wrap` precedes the command."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "peak.cpp", Path(folder) / "peak"
        source.write_text(SOURCE.replace("PDL_REGISTER", '"x"' if platform.machine() in ("x86_64", "AMD64") else '"w"'))
        command = ["c++", "-O2", "-march=native", "-ffp-contract=fast", "-pthread", source, "-o", program]
        subprocess.run(command, check=True)
        done = subprocess.run([*wrap, program, str(threads)], check=True, capture_output=True, text=True)
        return float(done.stdout)
