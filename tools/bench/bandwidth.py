"""The machine's memory bandwidth: a[i] = b[i] + s c[i] over arrays far larger than the caches, on all threads at once;
and that of reading alone, the sum of an array.

STREAM's triad (McCalpin 1995), compiled for this CPU by the C++ compiler that builds pdl. Bytes are counted as the
program asks for them, 24 an element: what is written is not counted twice, though the cache may read it first.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

SOURCE = r"""
#include <sys/mman.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
int main(int, char** arguments) {
  const int threads = std::atoi(arguments[1]);
  const long n = std::atol(arguments[2]) / 8;
  double* r[3];
  for (double*& one : r) {
    one = static_cast<double*>(std::aligned_alloc(1 << 21, n * sizeof(double)));
    madvise(one, n * sizeof(double), MADV_HUGEPAGE);
  }
  const auto all = [=](auto part) {
    std::vector<std::thread> others;
    for (int t = 1; t < threads; t++) others.emplace_back(part, n * t / threads, n * (t + 1) / threads);
    part(0L, n / threads);
    for (auto& other : others) other.join();
  };
  all([=](long begin, long end) { for (long i = begin; i < end; i++) r[0][i] = 0, r[1][i] = i, r[2][i] = 1; });
  double best = 0;
  for (int round = 0; round < 8; round++) {
    const auto start = std::chrono::steady_clock::now();
    all([=](long begin, long end) {
      double *a = r[0], *b = r[1], *c = r[2];
      for (long i = begin; i < end; i++) a[i] = b[i] + 3.0 * c[i];
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (24.0 * n / took.count() > best) best = 24.0 * n / took.count();
  }
  std::printf("%g", best);
}
"""


#: the same with sums in the place of the triad, more often: other work leaves some rounds alone
READING = SOURCE.replace(
    """      double *a = r[0], *b = r[1], *c = r[2];
      for (long i = begin; i < end; i++) a[i] = b[i] + 3.0 * c[i];""",
    """      double sums[8] = {};
      for (long i = begin; i + 8 <= end; i += 8)
        for (int j = 0; j < 8; j++) sums[j] += r[1][i + j];
      for (int j = 0; j < 8; j++) r[0][begin + j] = sums[j];""",
).replace("24.0 * n", "8.0 * n").replace("round < 8", "round < 80")


def triad_rate(threads: int) -> float:
    """Bytes a second of `threads` threads together: the best of 8 rounds, a second or so."""
    return _rate(SOURCE, threads, 256 << 20)


def read_rate(threads: int, nbytes: int) -> float:
    """The same of reading so many bytes again and again, the best of 80 rounds; smaller ones may stay in a cache."""
    return _rate(READING, threads, nbytes)


def _rate(text: str, threads: int, nbytes: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "triad.cpp", Path(folder) / "triad"
        source.write_text(text)
        command = ["c++", "-std=c++17", "-O3", "-march=native", "-pthread", str(source), "-o", str(program)]
        subprocess.run(command, check=True)
        done = subprocess.run([str(program), str(threads), str(nbytes)], check=True, capture_output=True, text=True)
        return float(done.stdout)


__all__ = ["triad_rate"]
