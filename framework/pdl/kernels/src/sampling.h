// Random draws of items: uniform, or in proportion to weights by alias tables (Walker 1977; Vose 1991), leaving out what a row excludes.
//
// Draw j of row r is a function of (key, r, j): SplitMix64's mixing function on a counter, so any number of threads, in any order, gives the same.
#pragma once
#include <cstdint>
#include <vector>

#include "parallel.h"

namespace pdl::sampling {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15ull;
constexpr int kTries = 64;  // then what is left has little weight, and is listed

inline uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// bits / 2^64 * n: its whole part, and in *rest the part behind the point in [0, 1).
inline int64_t scaled(uint64_t bits, int64_t n, double* rest) {
  const auto product = static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(n);
  *rest = static_cast<double>(static_cast<uint64_t>(product) >> 11) * 0x1p-53;
  return static_cast<int64_t>(product >> 64);
}

// A draw takes one of n places with equal chances, and there item i with chance keep[i], else other[i].
//   keep, other OUT [n], weights IN [n], which sum to 1
inline void alias(double* keep, int64_t* other, const double* weights, int64_t n) {
  std::vector<int64_t> small, large;
  int64_t giver = 0;
  for (int64_t i = 0; i < n; i++) {
    keep[i] = weights[i] * static_cast<double>(n), other[i] = i;
    (keep[i] < 1 ? small : large).push_back(i);
  }
  while (!small.empty() && !large.empty()) {
    const int64_t low = small.back(), high = giver = large.back();
    small.pop_back();
    other[low] = high;
    keep[high] -= 1 - keep[low];
    if (keep[high] < 1) {
      large.pop_back();
      small.push_back(high);
    }
  }
  for (int64_t i : small) other[i] = giver;  // rounding used up the last giver too soon: what an item lacks comes from there all the same
  for (int64_t i : large) keep[i] = 1;
}

// Items first, ..., first + count - 1 for `rows` rows of k draws.
struct Draws {
  uint64_t key;
  int64_t rows, k, first, count;
  const int64_t* streams;           // IN [rows] numbers of the rows' random streams, or null: 0, 1, ...
  const double *keep, *weights;     // IN [count], or null: all are as likely
  const int64_t* other;             // IN [count]
  const int64_t *lists;             // IN [rows] which list a row leaves out, or null: 0, 1, ...
  const int64_t *start, *excluded;  // IN list l is excluded[start[l]..start[l + 1]), ascending, inside [first, first + count); or null
};

// The place of `item` in an ascending list, or of the first behind it.
inline const int64_t* place(const int64_t* begin, const int64_t* end, int64_t item) {
  while (begin < end) {
    const int64_t* middle = begin + (end - begin) / 2;
    if (*middle < item) begin = middle + 1;
    else end = middle;
  }
  return begin;
}

// Item number `at` (from 0) of those that are not in the list.
inline int64_t among_others(const int64_t* begin, const int64_t* end, int64_t first, int64_t at) {
  const int64_t *low = begin, *high = end;
  while (low < high) {  // the first of the list that has more than `at` others before it
    const int64_t* middle = low + (high - low) / 2;
    if (*middle - first - (middle - begin) <= at) low = middle + 1;
    else high = middle;
  }
  return first + at + (low - begin);
}

// The draw from the items outside the list by their weights, one after the other; -1 where these have none.
inline int64_t listed(const Draws& d, const int64_t* begin, const int64_t* end, double u) {
  double total = 0;
  for (int pass = 0; pass < 2; pass++) {
    double sum = 0;
    int64_t last = -1;
    const int64_t* out = begin;
    for (int64_t i = 0; i < d.count; i++) {
      if (out < end && *out == d.first + i) {
        out++;
        continue;
      }
      if (d.weights[i] <= 0) continue;
      sum += d.weights[i], last = d.first + i;
      if (pass == 1 && u * total < sum) return last;
    }
    if (pass == 1 || last < 0) return last;
    total = sum;
  }
  return -1;
}

inline int64_t draw(const Draws& d, int64_t row, int64_t j) {
  const int64_t *begin = nullptr, *end = nullptr;
  if (d.start != nullptr) {
    const int64_t list = d.lists != nullptr ? d.lists[row] : row;
    begin = d.excluded + d.start[list], end = d.excluded + d.start[list + 1];
  }
  const uint64_t stream = static_cast<uint64_t>(d.streams != nullptr ? d.streams[row] : row);
  const uint64_t bits = mix(mix(d.key + (stream + 1) * kStep) + static_cast<uint64_t>(j + 1) * kStep);
  double rest;
  if (d.keep == nullptr) {
    const int64_t left = d.count - (end - begin);
    return left > 0 ? among_others(begin, end, d.first, scaled(bits, left, &rest)) : -1;
  }
  for (int t = 0; t < kTries; t++) {
    const int64_t at = scaled(t == 0 ? bits : mix(bits + static_cast<uint64_t>(t) * kStep), d.count, &rest);
    const int64_t item = d.first + (rest < d.keep[at] ? at : d.other[at]);
    const int64_t* found = place(begin, end, item);
    if (found == end || *found != item) return item;
  }
  scaled(mix(bits + static_cast<uint64_t>(kTries) * kStep), 1, &rest);
  return listed(d, begin, end, rest);
}

// out OUT [rows, k]; -1 where a row leaves nothing to draw.
inline void sample(int64_t* out, const Draws& d) {
  struct Call {
    int64_t* out;
    const Draws* d;
  } call{out, &d};
  parallel_for(
      d.rows * d.k, pieces_of(d.rows * d.k, 4096),
      [](void* context, int64_t begin, int64_t end, int) {
        const Call& c = *static_cast<const Call*>(context);
        for (int64_t i = begin; i < end; i++) c.out[i] = draw(*c.d, i / c.d->k, i % c.d->k);
      },
      &call);
}

}  // namespace pdl::sampling
