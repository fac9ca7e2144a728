// Draws along the edges of a graph: neighbours, random walks, pairs that are no edges.
//
// Every draw is a function of the key, of the node (or the walk) and of a count, so any number of threads gives the same.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph.h"
#include "sampling.h"

namespace pdl::graph {

using sampling::kStep;
using sampling::kTries;
using sampling::mix;
using sampling::scaled;

inline uint64_t stream_of(uint64_t key, uint64_t number) { return mix(key + (number + 1) * kStep); }
inline uint64_t bits_of(uint64_t stream, uint64_t count) { return mix(stream + (count + 1) * kStep); }
inline double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// A graph with, where its edges have weights, those and their sums inside each list.
struct Lists {
  const int64_t* start;
  const int32_t* ids;
  const double *weight, *sums;  // IN [e], or null

  int64_t degree(int64_t v) const { return start[v + 1] - start[v]; }

  // A place in v's list, which is not empty and has weight: in proportion to the weights. `rest` OUT in [0, 1), independent of the place.
  int64_t pick(int64_t v, uint64_t bits, double* rest) const {
    if (sums == nullptr) return start[v] + scaled(bits, degree(v), rest);
    *rest = unit(mix(bits + kStep));
    const double* end = sums + start[v + 1];
    const double* at = std::upper_bound(sums + start[v], end, unit(bits) * end[-1]);
    while (at == end || weight[at - sums] <= 0) at--;  // rounding may point behind the last that can be drawn
    return at - sums;
  }
  bool empty(int64_t v) const { return start[v] == start[v + 1] || (sums != nullptr && !(sums[start[v + 1] - 1] > 0)); }
  bool joined(int64_t v, int32_t other) const { return std::binary_search(ids + start[v], ids + start[v + 1], other); }
};

// sums OUT [e] of weights IN [e], inside each list. Returns the place of a weight that is negative or no number, or -1.
inline int64_t add_up(double* sums, const double* weight, const int64_t* start, int64_t n) {
  std::atomic<int64_t> bad{-1};
  over(n, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; v++) {
      double sum = 0;
      for (int64_t e = start[v]; e < start[v + 1]; e++) {
        if (!(weight[e] >= 0) || !std::isfinite(weight[e])) bad = e;
        sums[e] = sum += weight[e];
      }
    }
  });
  return bad;
}

// -- neighbours -----------------------------------------------------------------------------------------------------------------------
// How many neighbours each of the nodes gets.  counts OUT [n]; k < 0: all that can be drawn
inline void count_neighbours(int64_t* counts, const Lists& g, const int32_t* nodes, int64_t n, int64_t k, bool replace) {
  over(n, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int64_t v = nodes[i];
      int64_t there = g.degree(v);
      if (g.weight != nullptr)
        there = std::count_if(g.weight + g.start[v], g.weight + g.start[v + 1], [](double w) { return w > 0; });
      counts[i] = k < 0 ? there : replace ? (there > 0 ? k : 0) : std::min(k, there);
    }
  });
}

// `count` of v's entries without repetition, ascending: all sets are as likely (Floyd; Bentley and Floyd 1987).
inline void choose(int64_t* edge, int64_t count, int64_t first, int64_t degree, uint64_t stream) {
  double rest;
  for (int64_t j = 0; j < count; j++) {
    const int64_t top = degree - count + j;
    int64_t pick = first + scaled(bits_of(stream, static_cast<uint64_t>(j)), top + 1, &rest);
    int64_t* at = std::lower_bound(edge, edge + j, pick);
    if (at < edge + j && *at == pick) pick = first + top, at = edge + j;  // `top` was not to be drawn before: it is the highest
    std::move_backward(at, edge + j, edge + j + 1);
    *at = pick;
  }
}

// The same by weights, one after the other: the lowest of exponential times (Efraimidis and Spirakis 2006).
inline void choose_weighted(int64_t* edge, int64_t count, const Lists& g, int64_t v, uint64_t stream) {
  std::vector<std::pair<double, int64_t>> times;
  for (int64_t e = g.start[v]; e < g.start[v + 1]; e++)
    if (g.weight[e] > 0) times.emplace_back(-std::log1p(-unit(bits_of(stream, static_cast<uint64_t>(e - g.start[v])))) / g.weight[e], e);
  std::nth_element(times.begin(), times.begin() + (count - 1), times.end());
  for (int64_t j = 0; j < count; j++) edge[j] = times[static_cast<size_t>(j)].second;
  std::sort(edge, edge + count);
}

// The entries drawn for each node, counted as above.  edge, id OUT [at[n]], at IN [n + 1] where each node's begin
inline void draw_neighbours(int64_t* edge, int32_t* id, const Lists& g, const int32_t* nodes, const int64_t* at, int64_t n, bool replace,
                            uint64_t key) {
  over(n, 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      if (i + 8 < end) __builtin_prefetch(&g.start[nodes[i + 8]]);
      const int64_t v = nodes[i], count = at[i + 1] - at[i], degree = g.degree(v);
      int64_t* own = edge + at[i];
      if (count == 0) continue;
      const uint64_t stream = stream_of(key, static_cast<uint64_t>(v));
      double rest;
      if (replace)
        for (int64_t j = 0; j < count; j++) own[j] = g.pick(v, bits_of(stream, static_cast<uint64_t>(j)), &rest);
      else if (count == degree)
        for (int64_t j = 0; j < count; j++) own[j] = g.start[v] + j;
      else if (g.weight != nullptr)
        choose_weighted(own, count, g, v, stream);
      else
        choose(own, count, g.start[v], degree, stream);
      for (int64_t j = 0; j < count; j++) __builtin_prefetch(&g.ids[own[j]]);
    }
    for (int64_t j = at[begin]; j < at[end]; j++) {
      if (j + 16 < at[end]) __builtin_prefetch(&g.ids[edge[j + 16]]);
      id[j] = g.ids[edge[j]];
    }
  });
}

// -- walks ----------------------------------------------------------------------------------------------------------------------------
struct Walks {
  const Lists* layers;     // step s goes along layers[s % num_layers]
  int64_t num_layers;
  double p, q;             // both 1: the next node depends on the last alone
  uint64_t key;
  const int32_t* starts;   // IN [n]
  const int64_t* streams;  // IN [n], the number of each walk
  int64_t n, length;
};

constexpr int kTogether = 32;  // walks side by side, so that their waits for memory overlap

// How likely a step to a node that is `joined` to the last one or not is beside the plain one: 1/p back, 1 near, 1/q away.
inline double favour(const Walks& w, int32_t last, int32_t next, bool joined) { return next == last ? 1 / w.p : joined ? 1.0 : 1 / w.q; }

// The draw from all neighbours of v by favour and weight, one after the other.
inline int32_t pick_listed(const Walks& w, const Lists& g, int32_t last, int32_t v, double u) {
  double total = 0;
  for (int pass = 0;; pass++) {
    double sum = 0;
    int32_t found = -1;
    for (int64_t e = g.start[v]; e < g.start[v + 1]; e++) {
      const double weight = favour(w, last, g.ids[e], g.joined(last, g.ids[e])) * (g.weight != nullptr ? g.weight[e] : 1.0);
      if (weight <= 0) continue;
      sum += weight, found = g.ids[e];
      if (pass == 1 && u * total < sum) return found;
    }
    if (pass == 1) return found;
    total = sum;
  }
}

// Walks side by side: where each is, where it was, its random stream.
struct Group {
  int32_t at[kTogether], last[kTogether];
  uint64_t stream[kTogether];
  int32_t* row[kTogether];
  int todo[kTogether];  // those that still look for their next node
  int left;

  void go(int i, int64_t s, int32_t next, const Lists& after) {
    last[i] = at[i], at[i] = next, row[i][s + 1] = next;
    __builtin_prefetch(&after.start[next]);
  }
};

inline void step_plain(Group& b, const Lists& g, const Lists& after, int64_t s) {
  int64_t edge[kTogether];
  double rest;
  for (int j = 0; j < b.left; j++) {
    const int i = b.todo[j];
    edge[j] = g.pick(b.at[i], bits_of(b.stream[i], static_cast<uint64_t>(s)), &rest);
    __builtin_prefetch(&g.ids[edge[j]]);
  }
  for (int j = 0; j < b.left; j++) b.go(b.todo[j], s, g.ids[edge[j]], after);
}

// Binary searches in ascending lists [low[j], low[j] + size[j]), step by step together: low[j] becomes the last place, of `size[j]` (1, or 0 in an
// empty list), that the first number not below wanted[j] can be at, or be behind.
inline void search_together(const int32_t** low, int64_t* size, const int32_t* wanted, int n) {
  int64_t most = 0;
  for (int j = 0; j < n; j++) {
    most = std::max(most, size[j]);
    __builtin_prefetch(low[j] + size[j] / 2);
  }
  for (; most > 1; most -= most / 2)
    for (int j = 0; j < n; j++) {
      const int64_t half = size[j] / 2;
      if (half == 0) continue;
      low[j] += low[j][half - 1] < wanted[j] ? half : 0;
      size[j] -= half;
      __builtin_prefetch(low[j] + size[j] / 2);
    }
}

// Whether next[j] is on the list of last[j], for j in [0, n).
inline void join_together(bool* joined, const Lists& g, const int32_t* last, const int32_t* next, int n) {
  const int32_t* low[kTogether];
  int64_t size[kTogether];
  for (int j = 0; j < n; j++) low[j] = g.ids + g.start[last[j]], size[j] = g.degree(last[j]);
  search_together(low, size, next, n);
  for (int j = 0; j < n; j++) joined[j] = size[j] > 0 && *low[j] == next[j];
}

// back[i] = the chance that walk i steps back by what such a step has above `high`, times `extra` its weight: 0 for walks that begin.
inline void chances_back(double* back, const Group& b, const Lists& g, double extra, double high) {
  const int32_t* low[kTogether];
  int32_t last[kTogether];
  int64_t size[kTogether];
  for (int j = 0; j < b.left; j++) {
    const int i = b.todo[j];
    last[j] = b.last[i], low[j] = g.ids + g.start[b.at[i]], size[j] = last[j] < 0 ? 0 : g.degree(b.at[i]);
  }
  search_together(low, size, last, b.left);
  for (int j = 0; j < b.left; j++) {
    const int i = b.todo[j];
    const int32_t *e = low[j] + (size[j] > 0 && *low[j] < last[j] ? 1 : 0), *end = g.ids + g.start[b.at[i] + 1];
    double weight = 0;
    for (; size[j] > 0 && e < end && *e == last[j]; e++) weight += g.weight != nullptr ? g.weight[e - g.ids] : 1.0;
    const double total = g.weight != nullptr ? g.sums[g.start[b.at[i] + 1] - 1] : static_cast<double>(g.degree(b.at[i]));
    back[i] = last[j] < 0 ? 0 : extra * weight / (extra * weight + high * total);
  }
}

// By rejection under max(1, 1/q). What the way back has above that is set apart and drawn for itself (Yang and others 2019, "KnightKing"), so
// that a small p refuses no more.
inline void step_favoured(Group& b, const Walks& w, const Lists& g, const Lists& after, int64_t s) {
  const double high = std::max(1.0, 1 / w.q), low = std::min({1.0, 1 / w.p, 1 / w.q}), extra = 1 / w.p - high;
  double back[kTogether], rest[kTogether], level[kTogether];
  int64_t edge[kTogether];
  int32_t last[kTogether], next[kTogether];
  bool joined[kTogether];
  int asked[kTogether];
  if (extra > 0) chances_back(back, b, g, extra, high);
  else std::fill_n(back, kTogether, 0.0);
  for (uint64_t t = 0; b.left > 0; t++) {
    for (int j = 0; j < b.left; j++) {
      const int i = b.todo[j];
      const uint64_t bits = bits_of(bits_of(b.stream[i], static_cast<uint64_t>(s)), t);
      edge[i] = g.pick(b.at[i], bits, &rest[i]);
      level[i] = unit(mix(bits + 2 * kStep));
      __builtin_prefetch(&g.ids[edge[i]]);
    }
    int questions = 0, again = 0;
    for (int j = 0; j < b.left; j++) {
      const int i = b.todo[j];
      const int32_t to = g.ids[edge[i]];
      if (t == kTries) {  // the first step of a walk never comes here
        const uint64_t bits = bits_of(bits_of(b.stream[i], static_cast<uint64_t>(s)), t + 1);
        b.go(i, s, pick_listed(w, g, b.last[i], b.at[i], unit(bits)), after);
      } else if (b.last[i] < 0 || rest[i] * high < low) {  // whatever it is, but for what is set apart
        b.go(i, s, level[i] < back[i] ? b.last[i] : to, after);
      } else if (level[i] < back[i]) {
        b.go(i, s, b.last[i], after);
      } else {
        last[questions] = b.last[i], next[questions] = to, asked[questions++] = i;
      }
    }
    join_together(joined, g, last, next, questions);
    for (int j = 0; j < questions; j++) {
      if (rest[asked[j]] * high < favour(w, last[j], next[j], joined[j])) b.go(asked[j], s, next[j], after);
      else b.todo[again++] = asked[j];
    }
    b.left = again;
  }
}

// out OUT [n, length + 1]: walks first, ..., first + count - 1, count <= kTogether. A walk that cannot go on has -1 from there.
inline void walk_some(int32_t* out, const Walks& w, int64_t first, int count) {
  Group b;
  for (int i = 0; i < count; i++) {
    b.row[i] = out + (first + i) * (w.length + 1);
    b.row[i][0] = b.at[i] = w.starts[first + i];
    b.last[i] = -1, b.stream[i] = stream_of(w.key, static_cast<uint64_t>(w.streams[first + i]));
    __builtin_prefetch(&w.layers[0].start[b.at[i]]);
  }
  for (int64_t s = 0; s < w.length; s++) {
    const Lists &g = w.layers[s % w.num_layers], &after = w.layers[(s + 1) % w.num_layers];
    b.left = 0;
    for (int i = 0; i < count; i++) {
      if (b.at[i] >= 0 && !g.empty(b.at[i])) b.todo[b.left++] = i;
      else b.row[i][s + 1] = b.at[i] = -1;
    }
    if (w.p == 1 && w.q == 1) step_plain(b, g, after, s);
    else step_favoured(b, w, g, after, s);
  }
}

inline void walk(int32_t* out, const Walks& w) {
  over((w.n + kTogether - 1) / kTogether, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int count = static_cast<int>(std::min<int64_t>(kTogether, w.n - i * kTogether));
      walk_some(out, w, i * kTogether, count);
    }
  });
}

// -- pairs that are no edges -----------------------------------------------------------------------------------------------------------
struct Strangers {
  Lists g;                         // lists ascending
  const double *keep, *weight;     // IN [columns] from sampling::alias, or null: all nodes are as likely
  const int64_t* other;            // IN [columns]
  int64_t columns;
  bool self;                       // whether a node may be drawn for itself
  uint64_t key;
};

inline bool strange(const Strangers& s, int64_t v, int64_t other) {
  return (s.self || other != v) && !s.g.joined(v, static_cast<int32_t>(other));
}

// Draw j for node v, with a random stream of its own; -1 where every node that could be drawn is a neighbour.
inline int32_t stranger(const Strangers& s, int64_t v, uint64_t stream, int64_t j) {
  const uint64_t bits = bits_of(stream, static_cast<uint64_t>(j));
  double rest;
  for (int t = 0; t < kTries; t++) {
    int64_t found = scaled(t == 0 ? bits : bits_of(bits, static_cast<uint64_t>(t)), s.columns, &rest);
    if (s.keep != nullptr && rest >= s.keep[found]) found = s.other[found];
    if (strange(s, v, found)) return static_cast<int32_t>(found);
  }
  const double u = unit(bits_of(bits, kTries));
  double total = 0;
  for (int pass = 0;; pass++) {
    double sum = 0;
    int64_t found = -1;
    for (int64_t i = 0; i < s.columns; i++) {
      const double weight = s.weight != nullptr ? s.weight[i] : 1.0;
      if (weight <= 0 || !strange(s, v, i)) continue;
      sum += weight, found = i;
      if (pass == 1 && u * total < sum) break;
    }
    if (pass == 1 || found < 0) return static_cast<int32_t>(found);
    total = sum;
  }
}

// out OUT [n, k] for nodes IN [n] with streams IN [n]. Returns a row that has none, or -1.
inline int64_t strangers(int32_t* out, const Strangers& s, const int32_t* nodes, const int64_t* streams, int64_t n, int64_t k) {
  std::atomic<int64_t> bad{-1};
  over(n, 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const uint64_t stream = stream_of(s.key, static_cast<uint64_t>(streams[i]));
      for (int64_t j = 0; j < k; j++)
        if ((out[i * k + j] = stranger(s, nodes[i], stream, j)) < 0) bad = i;
    }
  });
  return bad;
}

}  // namespace pdl::graph
