// Target assignment by what a net finds at points: task-aligned, SimOTA.
#pragma once
#include "assign.h"

namespace pdl::assign {

// What a net finds at `a` points of each image: points [a, 2], boxes [n, a, 4], probabilities of classes [n, a, classes].
template <class T>
struct Found {
  const T *points, *boxes, *scores;
  int64_t a, classes;
};

// Of the points inside a box the k best by score^alpha iou^beta; quality: that measure, scaled so that the highest of each ground truth is
// its highest IoU (Feng et al., arXiv 2108.07755). It is kept as a logarithm, which no power takes out of range. Answers 1 + the place of a
// label that is no class.    index, quality OUT [n, a]
template <class T>
int64_t task_aligned(int64_t* index, T* quality, const Found<T>& found, const Truth<T>& truth, int64_t k, double alpha, double beta) {
  if (const int64_t bad = no_class(truth.labels, truth.n * truth.m, found.classes)) return bad;
  each_image(truth.n, [=](int64_t image) {
    const int64_t a = found.a;
    const T *predicted = found.boxes + image * a * 4, *scores = found.scores + image * a * found.classes;
    std::vector<T> measure(static_cast<size_t>(a)), top_measure(static_cast<size_t>(truth.m), -std::numeric_limits<T>::infinity());
    std::vector<T> top_share(static_cast<size_t>(truth.m));
    std::vector<Candidate<T>> inside;
    int64_t* own = index + image * a;
    T* share = quality + image * a;
    std::fill(own, own + a, kBackground);
    std::fill(share, share + a, T(0));
    for (const int64_t g : truth.valid(image)) {
      const Box<T> box(truth.boxes + (image * truth.m + g) * 4);
      const T* score = scores + truth.labels[image * truth.m + g];
      inside.clear();
      for (int64_t j = 0; j < a; j++) {
        if (!box.holds(found.points[2 * j], found.points[2 * j + 1])) continue;
        const T p = score[j * found.classes], iou = overlap(Box<T>(predicted + 4 * j), box);
        if (p > 0 && iou > 0) inside.push_back({static_cast<T>(alpha) * std::log(p) + static_cast<T>(beta) * std::log(iou), j});
      }
      keep_best(inside, k);
      for (const Candidate<T>& each : inside) {
        const T iou = overlap(Box<T>(predicted + 4 * each.place), box);
        if (iou > share[each.place]) own[each.place] = g, share[each.place] = iou, measure[each.place] = each.value;
      }
    }
    for (int64_t j = 0; j < a; j++) {
      if (own[j] < 0) continue;
      top_share[own[j]] = std::max(top_share[own[j]], share[j]);
      top_measure[own[j]] = std::max(top_measure[own[j]], measure[j]);
    }
    for (int64_t j = 0; j < a; j++)
      if (own[j] >= 0) share[j] = std::exp(measure[j] - top_measure[own[j]]) * top_share[own[j]];
  });
  return 0;
}

constexpr double kSmallest = 1e-37;  // of what logarithms are taken

template <class T>
inline T log_of(T x) { return std::log(x < T(kSmallest) ? T(kSmallest) : x); }

// -sum log(1 - p): the cross-entropy of probabilities with no class at all. A logarithm for eight of them, whose product a double holds.
template <class T>
T all_absent(const T* p, int64_t classes) {
  double sum = 0;
  for (int64_t c = 0; c < classes;) {
    double product = 1;
    for (const int64_t stop = std::min(c + 8, classes); c < stop; c++) product *= std::max(kSmallest, 1 - static_cast<double>(p[c]));
    sum -= std::log(product);
  }
  return static_cast<T>(sum);
}

// The candidates of an image: the points in a ground truth or within radius * stride of its centre (along each axis). What they cost is
// found where it is needed, for few points are near a ground truth.
template <class T>
struct Candidates {
  static constexpr T kOutside = T(1e5);
  const Found<T>& found;
  const T *reach, *scores;  // [a], [a, classes]
  T weight;
  std::vector<int64_t> place;
  std::vector<Box<T>> predicted;
  std::vector<T> absent;  // -1 where it was not needed

  bool near(const Box<T>& box, int64_t j) const {
    const T right = found.points[2 * j] - box.middle_x(), down = found.points[2 * j + 1] - box.middle_y();
    return (std::abs(right) < reach[j]) & (std::abs(down) < reach[j]);
  }
  bool inside(const Box<T>& box, int64_t j) const { return box.holds(found.points[2 * j], found.points[2 * j + 1]); }

  void add(int64_t j, const T* box) {
    place.push_back(j);
    predicted.emplace_back(box);
    absent.push_back(-1);
  }

  // -cost of candidate e for a ground truth.
  T worth(size_t e, const Box<T>& box, int64_t label, bool central) {
    const T* p = scores + place[e] * found.classes;
    if (absent[e] == -1) absent[e] = all_absent(p, found.classes);
    const T cost = absent[e] + log_of(1 - p[label]) - log_of(p[label]) - weight * log_of(overlap(predicted[e], box) + T(1e-8));
    return central ? -cost : -cost - kOutside;
  }
  T worth(size_t e, const Box<T>& box, int64_t label) { return worth(e, box, label, inside(box, place[e]) && near(box, place[e])); }

  // As many as the k highest IoUs sum up to, at least one.
  int64_t wanted(const Box<T>& box, int64_t k) const {
    std::vector<Candidate<T>> shares;
    for (size_t e = 0; e < place.size(); e++)
      if (const T share = overlap(predicted[e], box); share > 0) shares.push_back({share, static_cast<int64_t>(e)});
    keep_best(shares, k);
    double sum = 0;
    for (const Candidate<T>& each : shares) sum += static_cast<double>(each.value);
    return std::max<int64_t>(1, static_cast<int64_t>(sum + 1e-6));
  }

  // Those of the lowest cost of a ground truth.
  std::vector<Candidate<T>> cheapest(const Box<T>& box, int64_t label, int64_t count) {
    std::vector<Candidate<T>> made;
    int64_t enough = 0;  // cheaper than all that lie outside
    const auto offer = [&](bool central) {
      for (size_t e = 0; e < place.size(); e++) {
        if ((inside(box, place[e]) && near(box, place[e])) != central) continue;
        const T value = worth(e, box, label, central);
        enough += value > -kOutside;
        if (value == value) made.push_back({value, static_cast<int64_t>(e)});
      }
    };
    offer(true);
    if (enough < count) offer(false);
    keep_best(made, count);
    return made;
  }
};

// A ground truth takes as many candidates as its k highest IoUs sum up to: those of the lowest cost = BCE of the classes
// - weight * log(IoU), + 1e5 outside of box or centre. A point that several take goes to that of the lowest cost (Ge et al., arXiv
// 2107.08430). Answers 1 + the place of a label that is no class.    index, iou OUT [n, a], strides IN [a]
template <class T>
int64_t simota(int64_t* index, T* iou, const T* strides, const Found<T>& found, const Truth<T>& truth, double radius, int64_t k,
               double weight) {
  if (const int64_t bad = no_class(truth.labels, truth.n * truth.m, found.classes)) return bad;
  std::vector<T> reach(static_cast<size_t>(found.a));
  for (int64_t j = 0; j < found.a; j++) reach[j] = static_cast<T>(radius) * strides[j];
  each_image(truth.n, [&](int64_t image) {
    const int64_t a = found.a;
    const std::vector<int64_t> valid = truth.valid(image);
    const std::vector<Box<T>> boxes = boxes_of(truth.boxes + image * truth.m * 4, truth.m);
    const int64_t* labels = truth.labels + image * truth.m;
    Candidates<T> candidates{found, reach.data(), found.scores + image * a * found.classes, static_cast<T>(weight), {}, {}, {}};
    std::vector<char> reached(static_cast<size_t>(a));
    for (const int64_t g : valid) {
      const Box<T> box = boxes[g];
      for (int64_t j = 0; j < a; j++) reached[j] |= candidates.inside(box, j) | candidates.near(box, j);
    }
    for (int64_t j = 0; j < a; j++)
      if (reached[j]) candidates.add(j, found.boxes + (image * a + j) * 4);
    std::vector<int64_t> takers(candidates.place.size()), owner(candidates.place.size(), kBackground);
    for (const int64_t g : valid)
      for (const Candidate<T>& each : candidates.cheapest(boxes[g], labels[g], candidates.wanted(boxes[g], k)))
        takers[each.place]++, owner[each.place] = g;
    int64_t* own = index + image * a;
    std::fill(own, own + a, kBackground);
    std::fill(iou + image * a, iou + (image + 1) * a, T(0));
    for (size_t e = 0; e < takers.size(); e++) {
      if (takers[e] == 0) continue;
      T most = -std::numeric_limits<T>::infinity();
      for (size_t v = 0; takers[e] > 1 && v < valid.size(); v++)
        if (const T value = candidates.worth(e, boxes[valid[v]], labels[valid[v]]); value > most) most = value, owner[e] = valid[v];
      own[candidates.place[e]] = owner[e];
      iou[image * a + candidates.place[e]] = overlap(candidates.predicted[e], boxes[owner[e]]);
    }
  });
  return 0;
}

}  // namespace pdl::assign
