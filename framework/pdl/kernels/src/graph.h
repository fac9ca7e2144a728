// Structure of graphs: rows from edges, numbers for chosen nodes, subgraphs, ranks by links, components.
//
// A graph is its lists of neighbours: those of node i are ids[start[i]..start[i + 1]). What is found depends on no number of threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "parallel.h"

namespace pdl::graph {

// f(begin, end) over pieces of [0, n).
template <class F>
void over(int64_t n, int64_t grain, const F& f) {
  parallel_for(
      n, pieces_of(n, grain), [](void* context, int64_t begin, int64_t end, int) { (*static_cast<const F*>(context))(begin, end); },
      const_cast<F*>(&f));
}

// f(part) for each of `parts` slices, which the caller has fixed.
template <class F>
void each(int64_t parts, const F& f) {
  over(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++) f(p);
  });
}

// Stable counting sort: order[i] is the place in `ids` of what comes i-th, and start[v]..start[v + 1] are those with id v.
//   order OUT [e], start OUT [n + 1], ids IN [e], before IN [e] an order in which they are taken, or null
//   carried OUT [e] = carry[order], carry IN [e], or both null
// Returns the place of an id outside [0, n), or -1. A table of counts for each part holds at most `e` numbers in all.
template <class Id, class Place>
int64_t sort(Place* order, int64_t* start, int32_t* carried, const Id* ids, const Place* before, const int32_t* carry, int64_t e,
             int64_t n) {
  const int64_t parts = std::max(1, parts_of(e, std::max<int64_t>(n, 1 << 16)));
  std::vector<int64_t> counts(static_cast<size_t>(parts * n));
  std::atomic<int64_t> bad{e};
  auto place = [&](int64_t i) { return before != nullptr ? static_cast<int64_t>(before[i]) : i; };
  each(parts, [&](int64_t part) {
    int64_t* own = counts.data() + part * n;
    for (int64_t i = e * part / parts, end = e * (part + 1) / parts; i < end; i++) {
      const int64_t id = static_cast<int64_t>(ids[place(i)]);
      if (id < 0 || id >= n) {
        int64_t known = bad.load();
        while (place(i) < known && !bad.compare_exchange_weak(known, place(i))) {}
        continue;
      }
      own[id]++;
    }
  });
  if (bad.load() < e) return bad.load();
  int64_t sum = 0;
  for (int64_t v = 0; v < n; v++) {
    start[v] = sum;
    for (int64_t part = 0; part < parts; part++) {
      const int64_t count = counts[static_cast<size_t>(part * n + v)];
      counts[static_cast<size_t>(part * n + v)] = sum;
      sum += count;
    }
  }
  start[n] = sum;
  each(parts, [&](int64_t part) {
    int64_t* own = counts.data() + part * n;
    for (int64_t i = e * part / parts, end = e * (part + 1) / parts; i < end; i++) {
      if (before != nullptr && i + 16 < end) __builtin_prefetch(&ids[before[i + 16]]);
      const int64_t from = place(i), to = own[ids[from]]++;
      order[to] = static_cast<Place>(from);
      if (carried != nullptr) carried[to] = carry[from];
    }
  });
  return -1;
}

// row OUT [e]: the list that each entry is in.
inline void expand(int32_t* row, const int64_t* start, int64_t n) {
  over(n, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; v++) std::fill(row + start[v], row + start[v + 1], static_cast<int32_t>(v));
  });
}

enum Fault { kFine, kStarts, kIds };

// Whether lists are in order: start ascending from 0 to e, ids in [0, n). `ascending`: whether the ids of every list are.
inline Fault check(bool* ascending, const int64_t* start, const int32_t* ids, int64_t rows, int64_t e, int64_t n) {
  *ascending = true;
  if (start[0] != 0 || start[rows] != e) return kStarts;
  std::atomic<int> starts{0}, range{0}, falling{0};
  over(rows, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; v++)
      if (start[v] > start[v + 1]) starts = 1;
  });
  if (starts) return kStarts;
  over(rows, 1 << 14, [&](int64_t begin, int64_t end) {
    int outside = 0, falls = 0;
    for (int64_t v = begin; v < end; v++)
      for (int64_t i = start[v]; i < start[v + 1]; i++) {
        outside |= ids[i] < 0 || ids[i] >= n;
        falls |= i > start[v] && ids[i] < ids[i - 1];
      }
    if (outside) range = 1;
    if (falls) falling = 1;
  });
  *ascending = !falling;
  return range ? kIds : kFine;
}

// Nodes by number, in the order in which they were added: an open table, at most half full.
class Numbering {
 public:
  const std::vector<int32_t>& nodes() const { return nodes_; }
  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }

  void clear() {
    std::fill(slots_.begin(), slots_.end(), kEmpty);
    nodes_.clear();
  }

  // Room for so many more.
  void reserve(int64_t more) {
    size_t wanted = slots_.empty() ? 64 : slots_.size();
    while (static_cast<int64_t>(wanted) < 2 * (size() + more)) wanted *= 2;
    if (wanted == slots_.size()) return;
    slots_.assign(wanted, kEmpty);
    shift_ = 64 - __builtin_ctzll(wanted);
    for (size_t i = 0; i < nodes_.size(); i++) slots_[free_or(nodes_[i])] = pack(nodes_[i], static_cast<int32_t>(i));
  }

  void prefetch(int32_t id) const { __builtin_prefetch(&slots_[home(id)]); }

  // The number of a node, a new one where it has none. There must be room.
  int32_t add(int32_t id) {
    const size_t at = free_or(id);
    if (slots_[at] == kEmpty) {
      slots_[at] = pack(id, static_cast<int32_t>(nodes_.size()));
      nodes_.push_back(id);
    }
    return static_cast<int32_t>(slots_[at]);
  }

  // The number of a node, or -1.
  int32_t find(int32_t id) const { return static_cast<int32_t>(slots_[free_or(id)]); }

 private:
  static constexpr int64_t kEmpty = -1;
  std::vector<int64_t> slots_;
  std::vector<int32_t> nodes_;
  int shift_ = 63;

  static int64_t pack(int32_t id, int32_t number) { return static_cast<int64_t>(id) << 32 | static_cast<uint32_t>(number); }
  size_t home(int32_t id) const { return (static_cast<uint64_t>(static_cast<uint32_t>(id)) * 0x9e3779b97f4a7c15ull) >> shift_; }
  size_t free_or(int32_t id) const {
    size_t at = home(id);
    while (slots_[at] != kEmpty && slots_[at] >> 32 != id) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
};

// numbers OUT [n] of ids IN [n], which are added.
inline void number(Numbering& table, int32_t* numbers, const int32_t* ids, int64_t n) {
  table.reserve(n);
  for (int64_t i = 0; i < n; i++) {
    if (i + 12 < n) table.prefetch(ids[i + 12]);
    numbers[i] = table.add(ids[i]);
  }
}

// Parts of a graph, side by side as one: nodes in the order in which the search met them, lists cut down to the part.
struct Parts {
  std::vector<int64_t> size, degree, edge;      // of each part its nodes; of each node its entries; of each entry its place in the graph
  std::vector<int32_t> node, hop, neighbour;    // of each node which it is, and how far from the seeds; of each entry the node's number inside its part

  void append(const Parts& more) {
    auto join = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    join(size, more.size), join(degree, more.degree), join(edge, more.edge);
    join(node, more.node), join(hop, more.hop), join(neighbour, more.neighbour);
  }
};

// What lies within `hops` of the seeds, with all entries between two such nodes.
inline void enclose(Parts& out, Numbering& table, const int64_t* start, const int32_t* ids, const int32_t* seeds, int64_t n, int hops) {
  table.clear();
  table.reserve(n);
  for (int64_t i = 0; i < n; i++) table.add(seeds[i]);
  out.hop.insert(out.hop.end(), table.nodes().size(), 0);
  for (int64_t begin = 0, h = 1; h <= hops; h++) {
    const int64_t end = table.size();
    for (int64_t i = begin; i < end; i++) {
      const int32_t v = table.nodes()[static_cast<size_t>(i)];
      table.reserve(start[v + 1] - start[v]);
      for (int64_t e = start[v]; e < start[v + 1]; e++) table.add(ids[e]);
    }
    out.hop.insert(out.hop.end(), static_cast<size_t>(table.size() - end), static_cast<int32_t>(h));
    begin = end;
  }
  out.size.push_back(table.size());
  for (int32_t v : table.nodes()) {
    int64_t degree = 0;
    for (int64_t e = start[v]; e < start[v + 1]; e++) {
      const int32_t number = table.find(ids[e]);
      if (number < 0) continue;
      out.edge.push_back(e), out.neighbour.push_back(number), degree++;
    }
    out.degree.push_back(degree), out.node.push_back(v);
  }
}

// One part for each list of seeds: those of part i are seeds[seed_start[i]..seed_start[i + 1]).
inline void enclose_all(Parts& out, const int64_t* start, const int32_t* ids, const int64_t* seed_start, const int32_t* seeds, int64_t n,
                        int hops) {
  const int64_t slices = parts_of(n, 8);
  std::vector<Parts> found(static_cast<size_t>(slices));
  each(slices, [&](int64_t s) {
    Numbering table;
    for (int64_t i = n * s / slices; i < n * (s + 1) / slices; i++)
      enclose(found[static_cast<size_t>(s)], table, start, ids, seeds + seed_start[i], seed_start[i + 1] - seed_start[i], hops);
  });
  for (const Parts& part : found) out.append(part);
}

// y[v] = base[v] + damping * sum of weight[e] x[ids[e]] over v's list.  y OUT [n], base, x IN [n], weight IN [e] or null: ones
inline void pull(double* y, const double* base, const double* x, const int64_t* start, const int32_t* ids, const double* weight, int64_t n,
                 double damping) {
  over(n, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; v++) {
      double sum = 0;
      for (int64_t e = start[v]; e < start[v + 1]; e++) sum += weight != nullptr ? weight[e] * x[ids[e]] : x[ids[e]];
      y[v] = base[v] + damping * sum;
    }
  });
}

// label OUT [n]: the component of each node, numbered by its lowest node. tree OUT [e]: whether an edge joined two components when the edges
// were taken in order: those are a spanning forest. Returns how many components there are.
template <class Id>
int64_t components(int64_t* label, uint8_t* tree, const Id* a, const Id* b, int64_t e, int64_t n) {
  std::vector<int64_t> above(static_cast<size_t>(n));
  for (int64_t v = 0; v < n; v++) above[static_cast<size_t>(v)] = v;
  auto root = [&](int64_t v) {
    while (above[static_cast<size_t>(v)] != v) v = above[static_cast<size_t>(v)] = above[static_cast<size_t>(above[static_cast<size_t>(v)])];
    return v;
  };
  for (int64_t i = 0; i < e; i++) {
    const int64_t x = root(static_cast<int64_t>(a[i])), y = root(static_cast<int64_t>(b[i]));
    tree[i] = x != y;
    above[static_cast<size_t>(std::max(x, y))] = std::min(x, y);  // the root is the lowest node
  }
  int64_t count = 0;
  for (int64_t v = 0; v < n; v++) {
    const int64_t top = root(v);
    label[v] = top == v ? count++ : label[top];
  }
  return count;
}

}  // namespace pdl::graph
