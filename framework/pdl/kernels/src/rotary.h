// Rotary position embeddings (Su et al., arXiv 2104.09864): pairs of columns of queries and keys turned by angles that grow with the position.
#pragma once
#include "softmax.h"
#include "table.h"

namespace pdl::PDL_ISA::rotary {

using softmax_rows::get;

// x, y [rows, columns]: columns are heads of `size` numbers side by side, of which the first `heads` turn and the rest are copied. Of a head
// h, (h[i], h[i + size / 2]) turn by an angle whose cosine and sine are cos[r % turns, i] and sin[r % turns, i], [turns, size / 2].
// `back`: by the negative angle. y may be x.
template <class S>
void rotate(S* y, const S* x, const Real<S>* cos, const Real<S>* sin, int64_t rows, int64_t columns, int64_t turns, int64_t heads, int64_t size,
            bool back) {
  using T = Real<S>;
  const int64_t half = size / 2;
  const T sign = back ? T(-1) : T(1);
  parallel(rows, norm::kGrainElements / (columns > 0 ? columns : 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const T *c = cos + r % turns * half, *s = sin + r % turns * half;
      for (int64_t h = 0; h < heads; h++) {
        const S *a = x + r * columns + h * size, *b = a + half;
        S* to = y + r * columns + h * size;
        for (int64_t i = 0; i < half; i += kLanes<T>) {
          const int lanes = half - i < kLanes<T> ? static_cast<int>(half - i) : 0;
          const Vec<T> u = get(a + i, lanes), v = get(b + i, lanes), k = get(c + i, lanes), l = get(s + i, lanes) * sign;
          softmax_rows::put_row(to + i, u * k - v * l, lanes);
          softmax_rows::put_row(to + half + i, v * k + u * l, lanes);
        }
      }
      const int64_t turned = heads * size;
      if (y != x && columns > turned) __builtin_memcpy(y + r * columns + turned, x + r * columns + turned, (columns - turned) * sizeof(S));
    }
  });
}

}  // namespace pdl::PDL_ISA::rotary
