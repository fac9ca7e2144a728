// Target assignment: which ground truth each anchor of an image is to find; what that of points and queries shares with it.
//
// A thread takes whole images, so nothing depends on how many threads there are. A box that is no number, or whose corners are swapped,
// overlaps nothing. Of equal candidates the first is taken. Compiled for any CPU: few values are looked at, and what is assigned is the
// same on all of them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "parallel.h"
#include "stored.h"

// PDL_ASSIGN(kernel)(type, args...) launches a kernel for float32 or float64.
#define PDL_ASSIGN(kernel) \
  [](int type, auto&&... args) { \
    if (type == NPY_FLOAT) return pdl::launch_cast(&pdl::assign::kernel<float>, args...); \
    return pdl::launch_cast(&pdl::assign::kernel<double>, args...); \
  }

namespace pdl::assign {

constexpr int64_t kBackground = -1, kIgnored = -2;

// What the images of a batch hold: boxes [n, m, 4] of corners (x1, y1, x2, y2), and their labels [n, m], -1 where there is none.
template <class T>
struct Truth {
  const T* boxes;
  const int64_t* labels;
  int64_t n, m;

  // The ground truths of an image that there are.
  std::vector<int64_t> valid(int64_t image) const {
    std::vector<int64_t> found;
    for (int64_t g = 0; g < m; g++)
      if (labels[image * m + g] >= 0) found.push_back(g);
    return found;
  }
};

template <class T>
struct Box {
  T x1, y1, x2, y2, area;

  explicit Box(const T* p) : x1(p[0]), y1(p[1]), x2(p[2]), y2(p[3]) {
    if (x1 != x1 || y1 != y1 || x2 != x2 || y2 != y2) x1 = y1 = std::numeric_limits<T>::infinity(), x2 = y2 = -x1;
    area = std::max(T(0), x2 - x1) * std::max(T(0), y2 - y1);
  }
  T middle_x() const { return (x1 + x2) / 2; }
  T middle_y() const { return (y1 + y2) / 2; }
  bool holds(T x, T y) const { return (x > x1) & (y > y1) & (x < x2) & (y < y2); }
};

// Intersection over union.
template <class T>
inline T overlap(const Box<T>& a, const Box<T>& b) {
  const T width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1), height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (!(width > 0) || !(height > 0)) return 0;
  const T shared = width * height;
  const T share = shared / (a.area + b.area - shared);
  return share > 0 ? std::min(share, T(1)) : T(0);
}

template <class T>
std::vector<Box<T>> boxes_of(const T* boxes, int64_t n) {
  std::vector<Box<T>> made;
  made.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i++) made.emplace_back(boxes + 4 * i);
  return made;
}

// A place and what speaks for it.
template <class T>
struct Candidate {
  T value;
  int64_t place;
};

// Leaves the k best, not in order.
template <class T>
void keep_best(std::vector<Candidate<T>>& candidates, int64_t k) {
  if (static_cast<int64_t>(candidates.size()) <= k) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), [](const Candidate<T>& a, const Candidate<T>& b) {
    return a.value > b.value || (a.value == b.value && a.place < b.place);
  });
  candidates.resize(static_cast<size_t>(k));
}

// 1 + the place of the first label that is no class, or 0.
inline int64_t no_class(const int64_t* labels, int64_t n, int64_t classes) {
  for (int64_t i = 0; i < n; i++)
    if (labels[i] >= classes) return i + 1;
  return 0;
}

// body(image) on threads.
template <class F>
void each_image(int64_t n, const F& body) {
  const auto task = [](void* context, int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i++) (*static_cast<const F*>(context))(i);
  };
  parallel_for(n, pieces_of(n, 1), task, const_cast<F*>(&body));
}

// The ground truth that an anchor overlaps most, where thresholds leave it (Ren et al., arXiv 1506.01497). With `best` they leave all
// anchors of a ground truth's highest IoU; `forced`: the first of them finds this very ground truth (Liu et al., arXiv 1512.02325).
//   index OUT [n, a], anchors IN [a, 4], those of the next image `step` values behind
template <class T>
void max_iou(int64_t* index, const T* anchors, int64_t a, int64_t step, const Truth<T>& truth, double positive, double negative, bool best,
             bool forced) {
  each_image(truth.n, [=](int64_t image) {
    const std::vector<Box<T>> candidates = boxes_of(anchors + image * step, a);
    std::vector<T> highest(static_cast<size_t>(a)), row(static_cast<size_t>(a));
    std::vector<char> kept(static_cast<size_t>(a));
    std::vector<std::pair<int64_t, int64_t>> firsts;  // an anchor, and the ground truth whose highest IoU it has first
    int64_t* own = index + image * a;
    std::fill(own, own + a, kBackground);
    const std::vector<int64_t> valid = truth.valid(image);
    for (const int64_t g : valid) {
      const Box<T> box(truth.boxes + (image * truth.m + g) * 4);
      T peak = 0;
      for (int64_t j = 0; j < a; j++) {
        const T share = row[j] = overlap(candidates[j], box);
        if (share > highest[j]) highest[j] = share, own[j] = g;
        if (share > peak) peak = share;
      }
      if (!best || !(peak > 0)) continue;
      if (forced) firsts.emplace_back(std::find(row.begin(), row.end(), peak) - row.begin(), g);
      else
        for (int64_t j = 0; j < a; j++) kept[j] |= row[j] == peak;
    }
    for (int64_t j = 0; !valid.empty() && j < a; j++)
      if (!kept[j] && highest[j] < static_cast<T>(positive)) own[j] = highest[j] < static_cast<T>(negative) ? kBackground : kIgnored;
    for (const auto& [place, g] : firsts) own[place] = g;
  });
}

// Of each level the k anchors whose centres are nearest to a box are candidates; those are taken whose IoU is at least the mean of all
// candidates' plus their standard deviation, and whose centre lies in the box (Zhang et al., arXiv 1912.02424).
//   index OUT [n, a], anchors IN [a, 4], levels IN [num_levels], how many of the anchors each has
template <class T>
void atss(int64_t* index, const T* anchors, int64_t a, const Truth<T>& truth, const int64_t* levels, int64_t num_levels, int64_t k) {
  each_image(truth.n, [=](int64_t image) {
    const std::vector<Box<T>> boxes = boxes_of(anchors, a);
    std::vector<T> highest(static_cast<size_t>(a));
    std::vector<Candidate<T>> level, near;
    int64_t* own = index + image * a;
    std::fill(own, own + a, kBackground);
    for (const int64_t g : truth.valid(image)) {
      const Box<T> box(truth.boxes + (image * truth.m + g) * 4);
      near.clear();
      for (int64_t l = 0, first = 0; l < num_levels; first += levels[l++]) {
        level.clear();
        for (int64_t j = first; j < first + levels[l]; j++) {
          const T right = boxes[j].middle_x() - box.middle_x(), down = boxes[j].middle_y() - box.middle_y();
          const T nearness = -(right * right + down * down);
          if (nearness > -std::numeric_limits<T>::infinity()) level.push_back({nearness, j});
        }
        keep_best(level, k);
        near.insert(near.end(), level.begin(), level.end());
      }
      double mean = 0, spread = 0;  // of what is above the first: exact where all are equal
      for (Candidate<T>& each : near) {
        each.value = overlap(boxes[each.place], box);
        mean += (static_cast<double>(each.value) - static_cast<double>(near[0].value)) / static_cast<double>(near.size());
      }
      mean += near.empty() ? 0 : static_cast<double>(near[0].value);
      for (const Candidate<T>& each : near) spread += (static_cast<double>(each.value) - mean) * (static_cast<double>(each.value) - mean);
      const double threshold = mean + (near.size() > 1 ? std::sqrt(spread / static_cast<double>(near.size() - 1)) : 0);
      for (const Candidate<T>& each : near) {
        const Box<T>& anchor = boxes[each.place];
        if (!(each.value > highest[each.place]) || !(static_cast<double>(each.value) >= threshold)) continue;
        if (box.holds(anchor.middle_x(), anchor.middle_y())) own[each.place] = g, highest[each.place] = each.value;
      }
    }
  });
}

}  // namespace pdl::assign
