// What losses make of an assignment: a sample of its places, the values and the targets of what each is to find.
#pragma once
#include <cstring>

#include "assign.h"
#include "sampling.h"

namespace pdl::assign {

// Goes through `left` items and takes `wanted` of them: all sets are as likely.
struct Lot {
  int64_t left, wanted;

  bool take(uint64_t bits) {
    double rest;
    const bool taken = sampling::scaled(bits, left, &rest) < wanted;
    left--, wanted -= taken;
    return taken;
  }
};

// Up to `positives` places that find something, and background up to `count` of both; the others are ignored. Draws by seed, image, place.
//   sampled OUT, index IN [n, a], seed IN [1]
inline void sample(int64_t* sampled, const int64_t* index, const int64_t* seed, int64_t n, int64_t a, int64_t count, int64_t positives) {
  each_image(n, [=](int64_t image) {
    const uint64_t stream = sampling::mix(static_cast<uint64_t>(*seed) + static_cast<uint64_t>(image + 1) * sampling::kStep);
    const int64_t* own = index + image * a;
    Lot found{0, 0}, rest{0, 0};
    for (int64_t j = 0; j < a; j++) found.left += own[j] >= 0, rest.left += own[j] == kBackground;
    found.wanted = std::min(found.left, positives);
    rest.wanted = std::min(rest.left, count - found.wanted);
    for (int64_t j = 0; j < a; j++) {
      const uint64_t bits = sampling::mix(stream + static_cast<uint64_t>(j + 1) * sampling::kStep);
      const bool taken = own[j] >= 0 ? found.take(bits) : own[j] == kBackground && rest.take(bits);
      sampled[image * a + j] = taken ? own[j] : kIgnored;
    }
  });
}

// The background of the highest loss, `ratio` times as many places as find something; the other background is ignored.
//   sampled OUT, loss IN, index IN [n, a]
template <class T>
void hard_negatives(int64_t* sampled, const T* loss, const int64_t* index, int64_t n, int64_t a, double ratio) {
  each_image(n, [=](int64_t image) {
    int64_t *own = sampled + image * a, found = 0;
    std::vector<Candidate<T>> background;
    for (int64_t j = 0; j < a; j++) {
      const int64_t at = index[image * a + j];
      const T value = loss[image * a + j];
      found += at >= 0;
      if (at == kBackground && value > -std::numeric_limits<T>::infinity()) background.push_back({value, j});
      own[j] = at == kBackground ? kIgnored : at;
    }
    keep_best(background, static_cast<int64_t>(std::min(ratio * static_cast<double>(found), static_cast<double>(a))));
    for (const Candidate<T>& each : background) own[each.place] = kBackground;
  });
}

// y OUT [n, a, `bytes`] of values IN [n, m, `bytes`], zeros where the index is negative. Answers 1 + the first place beyond m.
inline int64_t take(char* y, const char* values, const int64_t* index, int64_t n, int64_t a, int64_t m, int64_t bytes) {
  for (int64_t i = 0; i < n * a; i++)
    if (index[i] >= m) return i + 1;
  each_image(n, [=](int64_t image) {
    for (int64_t i = image * a; i < (image + 1) * a; i++) {
      if (index[i] >= 0) std::memcpy(y + i * bytes, values + (image * m + index[i]) * bytes, static_cast<size_t>(bytes));
      else std::memset(y + i * bytes, 0, static_cast<size_t>(bytes));
    }
  });
  return 0;
}

// 1, or the quality, at the class of what a place is to find; 0 elsewhere. Answers 1 + the place of a label that is no class, or -(1 + that
// of an index beyond m).    y OUT [n, a, classes], labels IN [n, m], quality IN [n, a] or null
template <class T>
int64_t targets(T* y, const int64_t* index, const int64_t* labels, const T* quality, int64_t n, int64_t a, int64_t m, int64_t classes) {
  if (const int64_t bad = no_class(labels, n * m, classes)) return bad;
  for (int64_t i = 0; i < n * a; i++)
    if (index[i] >= m) return -i - 1;
  each_image(n, [=](int64_t image) {
    std::fill(y + image * a * classes, y + (image + 1) * a * classes, T(0));
    for (int64_t i = image * a; i < (image + 1) * a; i++) {
      const int64_t label = index[i] >= 0 ? labels[image * m + index[i]] : -1;
      if (label >= 0) y[i * classes + label] = quality != nullptr ? quality[i] : T(1);
    }
  });
  return 0;
}

}  // namespace pdl::assign
