// The thread pool: pdl's own, so that kernels neither spin next to another pool nor depend on an OpenMP runtime.
#pragma once
#include <cstdint>

#include "scratch.h"

namespace pdl {

// Runs the part [begin, end) of a range; `part` is its number (not the thread that happens to run it).
using Task = void (*)(void* context, int64_t begin, int64_t end, int part);

// Splits [0, n) into at most num_threads() contiguous parts of at least `grain` and runs them at once. The split depends on n, grain
// and num_threads() alone, so results that depend on the parts are the same in every run. Any number of callers share the workers; parts
// for which none is free run on the caller's own thread, and so do all of a nested call. Denormals are flushed to zero inside.
void parallel_for(int64_t n, int64_t grain, Task task, void* context);

// How many parts parallel_for(n, grain, ...) makes.
int parts_of(int64_t n, int64_t grain);

// Lets this thread's arithmetic take denormal operands for 0 and give 0 where a result would be denormal; returns the floating-point
// state to put back. Outside kernels the state is the caller's own.
uint64_t flush_denormals();
void restore_denormals(uint64_t before);

// What the calling thread may use: its own limit where it has one, else the count of the process.
int num_threads();

// Sets the count of the process and returns the one before.
int set_num_threads(int count);

// Limits the calling thread, also what it has running on workers; 0 lifts the limit. Returns the limit before.
int limit_threads(int count);

}  // namespace pdl
