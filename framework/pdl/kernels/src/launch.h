// Kernel calls that can be written down. launch(f, a...) calls f(a...) or, while this thread records, appends the call to a tape, which
// replays its calls one after the other without Python and without the GIL.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace pdl {

// Calls, one behind the other in one block of memory. Arguments are kept by value, what a reference refers to as well: an argument may
// point to arrays, never to something on the caller's stack.
class Tape {
 public:
  template <class R, class... P, class... A>
  void add(R (*function)(P...), A&&... args) {
    using Made = Closure<R, P...>;
    static_assert((std::is_trivially_copyable_v<std::decay_t<P>> && ...), "what a tape holds is moved as bytes");
    static_assert(alignof(Made) <= alignof(Slot));
    constexpr size_t slots = (sizeof(Made) + sizeof(Slot) - 1) / sizeof(Slot);
    const size_t at = slots_.size();
    slots_.resize(at + 1 + slots);
    new (&slots_[at]) Header{&Made::call, static_cast<int64_t>(1 + slots)};
    new (&slots_[at + 1]) Made{function, std::tuple<std::decay_t<P>...>(std::forward<A>(args)...)};
  }

  int64_t size() const { return static_cast<int64_t>(slots_.size()); }

  // Forgets the calls from `size` on.
  void cut(int64_t size) { slots_.resize(size); }

  // Makes the calls between two sizes the tape once had. Stops behind a call that answers something other than 0, and returns where that
  // call lies; -1 where there is none.
  int64_t run(int64_t begin, int64_t end) const {
    for (int64_t at = begin; at < end;) {
      const Header& header = *reinterpret_cast<const Header*>(&slots_[at]);
      if (header.call(&slots_[at + 1]) != 0) return at;
      at += header.slots;
    }
    return -1;
  }

 private:
  struct alignas(16) Slot {
    std::byte bytes[16];
  };
  struct Header {
    int64_t (*call)(const void* closure);
    int64_t slots;
  };
  static_assert(sizeof(Header) <= sizeof(Slot));

  template <class R, class... P>
  struct Closure {
    R (*function)(P...);
    std::tuple<std::decay_t<P>...> args;

    static int64_t call(const void* closure) {
      const Closure& self = *static_cast<const Closure*>(closure);
      if constexpr (std::is_void_v<R>) {
        std::apply(self.function, self.args);
        return 0;
      } else {
        return std::apply(self.function, self.args);
      }
    }
  };

  std::vector<Slot> slots_;
};

// What a thread records: the tape, and the memory that calls on it may point to.
struct Recorder {
  struct Range {
    const char *begin, *end;
  };
  Tape* tape;
  std::vector<Range> memory;
  void* keeper;  // a Python list of the arrays that must live as long as the tape
};

// The calling thread's recorder, or null.
Recorder* recorder();
void set_recorder(Recorder* recorder);

inline void allow(Recorder* recorder, const void* data, int64_t bytes) {
  const char* begin = static_cast<const char*>(data);
  recorder->memory.push_back({begin, begin + bytes});
}

// Whether a call may point to `data`: always, but while this thread records.
inline bool allowed(const void* data) {
  const Recorder* own = recorder();
  if (own == nullptr || data == nullptr) return true;
  for (const Recorder::Range& range : own->memory)
    if (range.begin <= data && data <= range.end) return true;
  return false;
}

// function(args...), or a line on this thread's tape. Returns what the function does: 0 for good, and where it returns nothing.
template <class R, class... P, class... A>
int64_t launch(R (*function)(P...), A&&... args) {
  if (Recorder* own = recorder()) {
    own->tape->add(function, std::forward<A>(args)...);
    return 0;
  }
  if constexpr (std::is_void_v<R>) {
    function(std::forward<A>(args)...);
    return 0;
  } else {
    return function(std::forward<A>(args)...);
  }
}

}  // namespace pdl
