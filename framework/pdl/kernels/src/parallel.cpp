#include "parallel.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pdl {
namespace {

std::atomic<int> threads{1};        // that a caller may use
thread_local int limit = 0;         // that this caller may use, where it is not 0
thread_local bool inside = false;  // this thread is running a part: a nested call runs its parts itself

// Waiting threads spin this many times (tens of microseconds: the gap between two kernels of one step). Workers then sleep in the kernel. A
// caller gives its core to others so many times first: it waits for a part that is being run, and who wakes it would draw it to its own core.
constexpr int kSpins = 4000, kYields = 20'000;
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

constexpr int kMost = 255;  // workers

// Parts [first, last) that nobody has begun: whose they are takes them from the front, who has run out of its own from the back.
struct alignas(64) Share {
  std::atomic<uint64_t> left{0};

  void set(int first, int last) { left.store(uint64_t(first) << 32 | uint32_t(last), std::memory_order_relaxed); }

  // The next part, or -1.
  int take(bool from_front) {
    uint64_t seen = left.load(std::memory_order_relaxed);
    for (;;) {
      const uint32_t first = seen >> 32, last = static_cast<uint32_t>(seen);
      if (first >= last) return -1;
      const uint64_t next = from_front ? uint64_t(first + 1) << 32 | last : uint64_t(first) << 32 | (last - 1);
      if (left.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return static_cast<int>(from_front ? first : last - 1);
    }
  }
};

struct Job {
  int64_t n;
  int parts;
  int limit;  // threads that the caller may use: what runs inside a part splits its work as it would on the caller's own thread
  Task task;
  void* context;
  std::atomic<int64_t>* lacking;  // bytes that a part could not get
  Share* shares = nullptr;        // [members]
  int members = 1;                // the caller and the workers that it has claimed

  void run(int part) const {
    try {
      task(context, n * part / parts, n * (part + 1) / parts, part);
    } catch (const NoMemory& error) {  // an exception ends where its thread began: the caller throws it again
      lacking->store(error.bytes, std::memory_order_relaxed);
    }
  }

  // The member's own share, then what is left of the others'.
  void run_as(int member) const {
    for (int i = 0; i < members; i++) {
      const int at = member + i < members ? member + i : member + i - members;
      for (int part; (part = shares[at].take(i == 0)) >= 0;) run(part);
    }
  }
};

// A thread, and the job it is offered by the caller who has claimed it. Where the system has not yet put it on a core when all parts are
// taken, the caller takes the offer back. Whoever runs a part, its bounds and number are the same.
struct Worker {
  enum : uint32_t { kFree, kClaimed, kOffered, kRunning, kDone };
  alignas(64) std::atomic<uint32_t> state{kFree};
  std::atomic<int> sleepers{0};
  Job job{0, 1, 1, nullptr, nullptr, nullptr};  // written by the claimer, before the offer
  int member = 0;
  std::atomic<pid_t> thread{0};
  int kept_off = -1;  // the core that it does not run on; known to its claimer

  bool move(uint32_t from, uint32_t to) {
    uint32_t seen = state.load(std::memory_order_acquire);
    return seen == from && state.compare_exchange_strong(seen, to);
  }

  void announce(uint32_t next) {
    state.store(next);
    if (sleepers.load() != 0) futex_wake_all(state);
  }

  // For the caller, who goes on at once: a sleeping worker shall not wake up on the caller's core, where the system likes to put it while a
  // neighbour has the others, and where each would hold up the other.
  void offer() {
    const int core = sched_getcpu();
    if (sleepers.load() != 0 && core >= 0 && core != kept_off) {
      cpu_set_t others;
      if (sched_getaffinity(0, sizeof others, &others) == 0) {
        CPU_CLR(core, &others);
        if (CPU_COUNT(&others) > 0 && sched_setaffinity(thread, sizeof others, &others) == 0) kept_off = core;
      }
    }
    announce(kOffered);
  }

  // Until the state is `wanted`: spins, yields, then sleeps.
  void wait_for(uint32_t wanted, int yields) {
    for (int i = 0; i < kSpins + yields; i++) {
      if (state.load(std::memory_order_acquire) == wanted) return;
      i < kSpins ? relax() : static_cast<void>(sched_yield());
    }
    sleepers.fetch_add(1);
    for (uint32_t seen; (seen = state.load()) != wanted;) futex_wait(state, seen);
    sleepers.fetch_sub(1);
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

// Workers for any number of callers at once: a caller claims as many free ones as the job has use for, and those who run out of parts of
// their own take over others'. Never destroyed: at exit the process takes the threads along.
class Pool {
 public:
  void run(Job job) {
    Worker* mine[kMost];
    const int most = (job.limit < job.parts ? job.limit : job.parts) - 1, helpers = claim(mine, most < kMost ? most : kMost);
    Share shares[kFewMembers], *all = helpers < kFewMembers ? shares : new Share[helpers + 1];
    job.shares = all, job.members = helpers + 1;
    for (int i = 0; i <= helpers; i++)
      all[i].set(static_cast<int>(int64_t(job.parts) * i / job.members), static_cast<int>(int64_t(job.parts) * (i + 1) / job.members));
    for (int i = 0; i < helpers; i++) {
      mine[i]->job = job, mine[i]->member = i + 1;
      mine[i]->offer();
    }
    job.run_as(0);
    for (int i = helpers; i-- > 0;) {
      if (!mine[i]->move(Worker::kOffered, Worker::kClaimed)) mine[i]->wait_for(Worker::kDone, kYields);
      mine[i]->state.store(Worker::kFree, std::memory_order_release);
    }
    if (all != shares) delete[] all;
  }

 private:
  static constexpr int kFewMembers = 16;

  // Up to `wanted` free workers, the first ones first: they are likeliest to be awake. There are no more of them in all than the process
  // may use threads, but for a caller that asks for more.
  int claim(Worker** mine, int wanted) {
    const int enough = threads - 1 > wanted ? threads - 1 : wanted;
    int found = 0, at = 0;
    while (found < wanted) {
      if (at == count_.load(std::memory_order_acquire) && !add(at, enough)) break;
      Worker* worker = workers_[at++];
      if (worker->move(Worker::kFree, Worker::kClaimed)) mine[found++] = worker;
    }
    return found;
  }

  // Makes there be more than `count` workers, unless that is enough.
  bool add(int count, int enough) {
    if (count >= enough || count >= kMost) return false;
    std::lock_guard<std::mutex> lock(growing_);
    if (count_.load() > count) return true;
    workers_[count] = new Worker;
    std::thread(&Pool::work, workers_[count]).detach();
    count_.store(count + 1, std::memory_order_release);
    return true;
  }

  static void work(Worker* self) {
    inside = true;
    FlushDenormals flush;
    self->thread = static_cast<pid_t>(syscall(SYS_gettid));
    ask_for_short_slices();
    for (;;) {
      self->wait_for(Worker::kOffered, 0);
      if (!self->move(Worker::kOffered, Worker::kRunning)) continue;
      limit = self->job.limit;
      self->job.run_as(self->member);
      self->announce(Worker::kDone);
    }
  }

  Worker* workers_[kMost] = {};
  std::atomic<int> count_{0};
  std::mutex growing_;
};

Pool* pool = nullptr;

// A forked child has no workers: it starts a pool of its own when it first needs one.
void forget_pool() {
  pool = new Pool;
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
  void* data[kSlots] = {};
  int64_t size[kSlots] = {};

  ~Scratch() {
    for (void* block : data) std::free(block);
  }
};

}  // namespace

NoMemory::NoMemory(int64_t wanted) : bytes(wanted) {
  std::snprintf(text_, sizeof text_, "a kernel needs %.3g GB of memory to work in", static_cast<double>(wanted) / 1e9);
}

void* scratch(Slot slot, int64_t bytes) {
  static thread_local Scratch mine;
  const int i = static_cast<int>(slot);
  if (bytes < 0) throw NoMemory(bytes);
  if (bytes > mine.size[i]) {
    std::free(mine.data[i]);
    const int64_t size = (bytes + bytes / 4 + 4095) / 4096 * 4096;
    mine.data[i] = std::aligned_alloc(4096, size);
    mine.size[i] = mine.data[i] == nullptr ? 0 : size;
    if (mine.data[i] == nullptr) throw NoMemory(bytes);
  }
  return mine.data[i];
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

int num_threads() { return limit > 0 ? limit : threads.load(std::memory_order_relaxed); }

int set_num_threads(int count) { return threads.exchange(count < 1 ? 1 : count); }

int limit_threads(int count) {
  const int before = limit;
  limit = count;
  return before;
}

namespace {
int count_of(int64_t n, int64_t grain, int64_t wanted) {
  const int64_t most = grain > 1 ? n / grain : n;
  return static_cast<int>(most < 1 ? 1 : most < wanted ? most : wanted);
}
}  // namespace

int parts_of(int64_t n, int64_t grain) { return count_of(n, grain, num_threads()); }

int pieces_of(int64_t n, int64_t grain, int64_t least) {
  const int parts = parts_of(n, grain);
  if (parts == 1) return 1;
  const int pieces = count_of(n, least > 0 ? least : grain / 4, int64_t(parts) * kPieces);
  return pieces < parts ? parts : pieces / parts * parts;
}

void parallel_for(int64_t n, int parts, Task task, void* context) {
  if (n <= 0) return;
  std::atomic<int64_t> lacking{0};
  const Job job{n, parts, num_threads(), task, context, &lacking};
  FlushDenormals flush;
  if (parts == 1 || job.limit == 1 || inside) {
    for (int part = 0; part < parts; part++) task(context, n * part / parts, n * (part + 1) / parts, part);
    return;
  }
  start();
  inside = true;
  pool->run(job);
  inside = false;
  if (lacking != 0) throw NoMemory(lacking);
}

}  // namespace pdl
