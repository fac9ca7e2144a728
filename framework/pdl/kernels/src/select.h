// A choice element by element, in bits: y = a where a condition holds, else b. Steps along the two axes are 0 where an operand repeats itself.
#pragma once
#include <cstdint>

namespace pdl::select {

struct Steps {
  int64_t outer, inner;
};
struct Call {
  void* y;                    // OUT [rows, columns]
  const void *condition, *a, *b;
  int64_t rows, columns;
  Steps of_condition, of_a, of_b;  // in elements
};

// Inner steps are known to the compiler, so that it writes vector code.
template <class U, int C, int A, int B>
void rows(const Call& call) {
  for (int64_t i = 0; i < call.rows; i++) {
    U* y = static_cast<U*>(call.y) + i * call.columns;
    const uint8_t* c = static_cast<const uint8_t*>(call.condition) + i * call.of_condition.outer;
    const U* a = static_cast<const U*>(call.a) + i * call.of_a.outer;
    const U* b = static_cast<const U*>(call.b) + i * call.of_b.outer;
    for (int64_t j = 0; j < call.columns; j++) {
      const U mask = static_cast<U>(-static_cast<U>(c[j * C] != 0)), one = a[j * A], other = b[j * B];
      y[j] = static_cast<U>((one & mask) | (other & static_cast<U>(~mask)));
    }
  }
}

template <class U>
void run(Call call) {
  using Form = void (*)(const Call&);
  static constexpr Form forms[8] = {rows<U, 0, 0, 0>, rows<U, 0, 0, 1>, rows<U, 0, 1, 0>, rows<U, 0, 1, 1>,
                                    rows<U, 1, 0, 0>, rows<U, 1, 0, 1>, rows<U, 1, 1, 0>, rows<U, 1, 1, 1>};
  forms[4 * call.of_condition.inner + 2 * call.of_a.inner + call.of_b.inner](call);
}

// By bytes of an element: 1, 2, 4 or 8
inline void choose(int64_t item, Call call) {
  if (item == 1) run<uint8_t>(call);
  else if (item == 2) run<uint16_t>(call);
  else if (item == 4) run<uint32_t>(call);
  else run<uint64_t>(call);
}

}  // namespace pdl::select
