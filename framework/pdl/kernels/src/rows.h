// Gathers, scatters and reductions of whole rows: tables [R, C] addressed by int64 row numbers, and sparse mixtures of rows (resizing).
//
// Scatters give each thread its own columns, or its own target rows where there are few columns, and add in the order of the
// index: no atomics, and the same bits for any number of threads.
#pragma once
#include "sorted_index.h"
#include "vec.h"

namespace pdl::PDL_ISA::rows {

// The first position whose index is outside [low, high), or -1.
inline int64_t first_outside(const int64_t* index, int64_t n, int64_t low, int64_t high) {
  for (int64_t i = 0; i < n; i++)
    if (index[i] < low || index[i] >= high) return i;
  return -1;
}

// out[i] = table[index[i]]; rows of `bytes` bytes; a negative index gives zeros.
inline void take(char* out, const char* table, const int64_t* index, int64_t n, int64_t bytes) {
  // Rows of a large table are far away, and no hardware foresees which come next: 8 KiB are asked for ahead, into the second level of
  // caches, which has more requests under way than the first.
  const int64_t ahead = bytes <= 256 ? 32 : bytes <= 4096 ? 8192 / bytes : 0;
  const bool askew = (reinterpret_cast<uintptr_t>(table) | static_cast<uintptr_t>(bytes)) % 64 != 0;  // rows reach into one line more
  parallel(n, grain_of(bytes / 4), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      if (ahead != 0 && i + ahead < end && index[i + ahead] >= 0) {
        const char* row = table + index[i + ahead] * bytes;
        for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(row + b, 0, 2);
        if (askew) __builtin_prefetch(row + bytes - 1, 0, 2);
      }
      if (index[i] < 0)
        __builtin_memset(out + i * bytes, 0, bytes);
      else
        __builtin_memcpy(out + i * bytes, table + index[i] * bytes, bytes);
    }
  });
}

// Calls work(r0, r1, c0, c1): the block of target rows and columns that the caller may write; n rows come in.
template <class F>
void own_targets(int64_t rows, int64_t columns, int64_t n, const F& work) {
  constexpr int64_t line = 16;
  if (rows == 0) return;
  const auto once_each = [](int64_t count, int64_t grain, const auto& body) {  // a thread reads all indices: the fewer parts, the better
    parallel_parts(count, parts_of(count, grain), [&](int64_t begin, int64_t end, int) { body(begin, end); });
  };
  if (columns >= 4 * line)
    once_each((columns + line - 1) / line, grain_of(n * line), [&](int64_t begin, int64_t end) {
      work((int64_t)0, rows, begin * line, end * line < columns ? end * line : columns);
    });
  else
    once_each(rows, n * columns < kThreadWork ? rows : 1, [&](int64_t begin, int64_t end) { work(begin, end, (int64_t)0, columns); });
}

// table[index[i]] += g[i], i in order; negative indices add nothing.
template <class T>
void add(T* table, const int64_t* index, const T* g, int64_t rows, int64_t n, int64_t columns) {
  own_targets(rows, columns, n, [=](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    for (int64_t i = 0; i < n; i++) {
      const int64_t r = index[i];
      if (r < r0 || r >= r1) continue;
      T* target = table + r * columns;
      const T* source = g + i * columns;
      for (int64_t c = c0; c < c1; c++) target[c] += source[c];
    }
  });
}

// y[r] = max (sign 1) or min (sign -1) of the x[i] with index[i] = r, winner[r, c] = the first i that attains it (a NaN wins);
// rows that no index names get 0 and winner -1.
template <class T>
void extremum(T* y, int32_t* winner, const T* x, const int64_t* index, int64_t rows, int64_t n, int64_t columns, T sign) {
  own_targets(rows, columns, n, [=](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    for (int64_t r = r0; r < r1; r++)
      for (int64_t c = c0; c < c1; c++) y[r * columns + c] = 0, winner[r * columns + c] = -1;
    for (int64_t i = 0; i < n; i++) {
      const int64_t r = index[i];
      if (r < r0 || r >= r1) continue;
      for (int64_t c = c0; c < c1; c++) {
        const T v = x[i * columns + c], best = y[r * columns + c];
        if (winner[r * columns + c] < 0 || v * sign > best * sign || (v != v && best == best)) {
          y[r * columns + c] = v;
          winner[r * columns + c] = (int32_t)i;
        }
      }
    }
  });
}

// The rows that index names, each once and in order, -1 behind them; values[k] = sum of the g[i] with index[i] = rows[k], i in order, zeros
// behind them. Negative indices and `left_out` name no row.    rows OUT [n], values OUT [n, columns], index IN [n], g IN [n, columns]
template <class T>
void combine(int64_t* rows, T* values, const int64_t* index, const T* g, int64_t n, int64_t columns, int64_t left_out) {
  int64_t count;
  const IndexEntry* entries = sorted_index(index, n, left_out, &count);
  int64_t* start = static_cast<int64_t*>(scratch(Slot::kIndexStarts, (n + 1) * sizeof(int64_t)));
  int64_t found = 0;
  for (int64_t i = 0; i < count; i++)
    if (i == 0 || entries[i].key != entries[i - 1].key) start[found] = i, rows[found++] = entries[i].key;
  start[found] = count;
  for (int64_t k = found; k < n; k++) rows[k] = -1;
  parallel(n, grain_of(columns), [=](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k++) {
      T* to = values + k * columns;
      if (k >= found) {
        __builtin_memset(to, 0, columns * sizeof(T));
        continue;
      }
      __builtin_memcpy(to, g + entries[start[k]].from * columns, columns * sizeof(T));
      for (int64_t i = start[k] + 1; i < start[k + 1]; i++) {
        const T* more = g + entries[i].from * columns;
        for (int64_t c = 0; c < columns; c++) to[c] += more[c];
      }
    }
  });
}

// y[a, o, :] = sum over k in [start[o], start[o + 1]) of weight[k] x[a, source[k], :]: a sparse matrix [out, in] applied to the middle axis.
template <class T>
void mix(T* y, const T* x, const int64_t* start, const int64_t* source, const double* weight, int64_t outer, int64_t out, int64_t in,
         int64_t inner) {
  constexpr int L = kLanes<T>;
  parallel(outer * out, grain_of(2 * inner), [=](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; item++) {
      const int64_t o = item % out, k0 = start[o], k1 = start[o + 1];
      const T* from = x + item / out * in * inner;
      T* to = y + item * inner;
      if (k1 - k0 == 1 && weight[k0] == 1.0) {
        __builtin_memcpy(to, from + source[k0] * inner, inner * sizeof(T));
        continue;
      }
      const auto sum = [=](const auto& get) __attribute__((always_inline)) {
        Vec<T> s{};
        for (int64_t k = k0; k < k1; k++) s += get(from + source[k] * inner) * static_cast<T>(weight[k]);
        return s;
      };
      int64_t c = 0;
      for (; c + L <= inner; c += L) store(to + c, sum([=](const T* row) { return load(row + c); }));
      if (c < inner) store_tail(to + c, sum([=](const T* row) { return load_tail(row + c, inner - c); }), inner - c);
    }
  });
}

}  // namespace pdl::PDL_ISA::rows
