// The thread pool: pdl's own, so that kernels neither spin next to another pool nor depend on an OpenMP runtime.
#pragma once
#include <cstdint>

#include "scratch.h"

namespace pdl {

// Runs the part [begin, end) of a range; `part` is its number (not the thread that happens to run it).
using Task = void (*)(void* context, int64_t begin, int64_t end, int part);

// Runs `parts` contiguous parts of [0, n) on the threads that the caller may use; a thread that has no parts left takes over those that
// another has not begun. Bounds and numbers of parts depend on n and `parts` alone, whoever runs them and how many threads there are, so
// results that depend on the parts are the same in every run. Any number of callers share the workers; a nested call runs its parts itself.
// Denormals are flushed to zero inside.
void parallel_for(int64_t n, int parts, Task task, void* context);

// Parts of [0, n) of at least `grain`, one a thread at most: for what keeps memory of its own for each part.
int parts_of(int64_t n, int64_t grain);

// The same, cut into up to kPieces each, of at least `least` where that leaves one for every thread: while another process holds a core up,
// the others take over what its thread has not begun.
constexpr int kPieces = 8;
int pieces_of(int64_t n, int64_t grain, int64_t least = 0);

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
