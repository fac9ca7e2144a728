#include "parallel.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pdl {
namespace {

thread_local bool inside = false;  // this thread is running a part: a nested call runs its parts itself

// Waiting threads spin this many times (tens of microseconds: the gap between two kernels of one step), then sleep in the kernel.
constexpr int kSpins = 4000;
constexpr uint64_t kSliceNanoseconds = 500'000;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class FlushDenormals {
 public:
  FlushDenormals() : before_(flush_denormals()) {}
  ~FlushDenormals() { restore_denormals(before_); }

 private:
  uint64_t before_;
};

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Waits until `word` differs from `seen`: spins, then sleeps. `sleepers` tells the other side whether a wake-up call is due.
void wait_for_change(std::atomic<uint32_t>& word, uint32_t seen, std::atomic<int>& sleepers) {
  for (int i = 0; i < kSpins; i++) {
    if (word.load(std::memory_order_acquire) != seen) return;
    relax();
  }
  sleepers.fetch_add(1);
  while (word.load() == seen) futex_wait(word, seen);
  sleepers.fetch_sub(1);
}

struct Job {
  int64_t n;
  int parts;
  Task task;
  void* context;

  void run(int part) const { task(context, n * part / parts, n * (part + 1) / parts, part); }
};

// A thread and the part it is offered. `state` is odd while the part is on offer, and goes up by one when the worker or the caller takes
// it: a worker that the system has not yet put on a core delays nobody. Whoever runs a part, its bounds and number are the same.
struct Worker {
  alignas(64) std::atomic<uint32_t> state{0};
  std::atomic<int> sleepers{0};
  Job job{0, 1, nullptr, nullptr};  // written while the state is even and the last part done; read by who took the part

  void offer(const Job& next) {
    job = next;
    state.fetch_add(1);
    if (sleepers.load() != 0) futex_wake_all(state);
  }

  bool take() {
    uint32_t seen = state.load(std::memory_order_acquire);
    return seen % 2 == 1 && state.compare_exchange_strong(seen, seen + 1);
  }
};

// Asks the scheduler (Linux 6.12) for short slices: the same share of the cores, but a woken worker need not wait for the end of the slice
// of whoever runs there. Where it is refused, nothing is lost.
void ask_for_short_slices() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
    uint32_t clamp_min, clamp_max;
  } attributes{};
  attributes.size = sizeof attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != 0) return;
  attributes.runtime = kSliceNanoseconds;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

// One worker for each part but the first, which the caller runs. Never destroyed: at exit the process takes the threads along.
class Pool {
 public:
  void run(const Job& job) {
    const int helpers = job.parts - 1;
    while (static_cast<int>(workers_.size()) < helpers) add_worker();
    pending_.store(static_cast<uint32_t>(helpers), std::memory_order_relaxed);
    for (int i = 0; i < helpers; i++) workers_[i]->offer(job);
    job.run(0);
    for (int i = helpers; i-- > 0;)
      if (workers_[i]->take()) {
        job.run(i + 1);
        pending_.fetch_sub(1);
      }
    for (uint32_t left; (left = pending_.load(std::memory_order_acquire)) != 0;)
      wait_for_change(pending_, left, sleeping_callers_);
  }

 private:
  void add_worker() {
    Worker* worker = new Worker;
    workers_.push_back(worker);
    std::thread(&Pool::work, this, worker, static_cast<int>(workers_.size())).detach();
  }

  void work(Worker* self, int part) {
    inside = true;
    FlushDenormals flush;
    ask_for_short_slices();
    for (;;) {
      while (self->take()) {
        self->job.run(part);
        if (pending_.fetch_sub(1) == 1 && sleeping_callers_.load() != 0) futex_wake_all(pending_);
      }
      const uint32_t seen = self->state.load(std::memory_order_acquire);
      if (seen % 2 == 0) wait_for_change(self->state, seen, self->sleepers);
    }
  }

  std::vector<Worker*> workers_;
  alignas(64) std::atomic<uint32_t> pending_{0};
  std::atomic<int> sleeping_callers_{0};
};

Pool* pool = nullptr;
std::mutex* owner = nullptr;  // held by the caller whose job is running
int threads = 1;

// A forked child has no workers: it starts a pool of its own when it first needs one.
void forget_pool() {
  pool = new Pool;
  owner = new std::mutex;
  inside = false;
}

void start() {
  static std::once_flag once;
  std::call_once(once, [] {
    forget_pool();
    pthread_atfork(nullptr, nullptr, forget_pool);
  });
}

struct Scratch {
  void* data[8] = {};
  int64_t size[8] = {};

  ~Scratch() {
    for (void* block : data) std::free(block);
  }
};

}  // namespace

void* scratch(int slot, int64_t bytes) {
  static thread_local Scratch mine;
  if (bytes > mine.size[slot]) {
    std::free(mine.data[slot]);
    mine.size[slot] = (bytes + bytes / 4 + 4095) / 4096 * 4096;
    mine.data[slot] = std::aligned_alloc(4096, mine.size[slot]);
    if (mine.data[slot] == nullptr) std::abort();  // a kernel has no way to report it, and nothing to go on with
  }
  return mine.data[slot];
}

uint64_t flush_denormals() {
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);  // flush to zero, denormals are zero
  return before;
#elif defined(__aarch64__)
  uint64_t before;
  asm volatile("mrs %0, fpcr" : "=r"(before));
  asm volatile("msr fpcr, %0" ::"r"(before | (1ull << 24)));
  return before;
#else
  return 0;
#endif
}

void restore_denormals([[maybe_unused]] uint64_t before) {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(before));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" ::"r"(before));
#endif
}

int num_threads() { return threads; }

void set_num_threads(int count) { threads = count < 1 ? 1 : count; }

int parts_of(int64_t n, int64_t grain) {
  const int64_t most = grain > 1 ? n / grain : n;
  return static_cast<int>(most < 1 ? 1 : most < threads ? most : threads);
}

void parallel_for(int64_t n, int64_t grain, Task task, void* context) {
  if (n <= 0) return;
  const Job job{n, parts_of(n, grain), task, context};
  FlushDenormals flush;
  if (job.parts == 1) return job.run(0);
  start();
  std::unique_lock<std::mutex> lock(*owner, std::defer_lock);
  if (inside || !lock.try_lock()) {
    for (int part = 0; part < job.parts; part++) job.run(part);
    return;
  }
  inside = true;
  pool->run(job);
  inside = false;
}

}  // namespace pdl
