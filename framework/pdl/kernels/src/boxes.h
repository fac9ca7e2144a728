// Boxes (x1, y1, x2, y2): how much they overlap, and which are left of those that overlap one with a higher score.
//
// Selection never sorts all scores: what cannot be among the best is passed over where it lies, the rest is parted by Hoare's selection, and
// only the candidates are sorted. They meet boxes kept before them a vector at a time.
#pragma once
#include "table.h"
#include "vec.h"
#include "vmath.h"

namespace pdl::PDL_ISA::boxes {

constexpr int64_t kChunk = 64;     // scores that are passed over at once

// -- the best scores ---------------------------------------------------------------------------------------------------------------------
template <class T>
struct Scored {
  T score;
  int64_t at;
};

// Whether a stands before b: it has the higher score, or of equal ones the earlier place.
template <class T>
PDL_INLINE bool before(const Scored<T>& a, const Scored<T>& b) { return a.score > b.score || (a.score == b.score && a.at < b.at); }

// Puts the `count` best of n first, the last of them at count - 1; 0 < count <= n.
template <class T>
void part(Scored<T>* all, int64_t n, int64_t count) {
  uint64_t draw = 1;
  for (int64_t low = 0, high = n - 1; low < high;) {
    draw = draw * 6364136223846793005ull + 1442695040888963407ull;
    const Scored<T> pivot = all[low + static_cast<int64_t>((draw >> 33) % static_cast<uint64_t>(high - low + 1))];
    int64_t i = low, j = high;
    while (i <= j) {
      while (before(all[i], pivot)) i++;
      while (before(pivot, all[j])) j--;
      if (i > j) break;
      const Scored<T> other = all[i];
      all[i++] = all[j], all[j--] = other;
    }
    if (count - 1 <= j) high = j;
    else if (count - 1 >= i) low = i;
    else return;
  }
}

// The `count` best of scores[begin] .. scores[end - 1] above `lowest`, in any order; `found` has room for 2 count. Returns how many.
template <class T>
int64_t best_of(Scored<T>* found, const T* scores, int64_t begin, int64_t end, int64_t count, T lowest) {
  int64_t n = 0;
  for (int64_t i = begin; i < end; i += kChunk) {
    const int64_t stop = least(i + kChunk, end);
    int hits = 0;
    for (int64_t k = i; k < stop; k++) hits += scores[k] > lowest;
    if (hits == 0) continue;
    for (int64_t k = i; k < stop; k++) {
      if (!(scores[k] > lowest)) continue;
      found[n++] = {scores[k], k};
      if (n == 2 * count) {
        part(found, n, count);
        n = count, lowest = found[count - 1].score;
      }
    }
  }
  if (n > count) part(found, n, count), n = count;
  return n;
}

// The best first (merge sort); in one of the two blocks.
template <class T>
Scored<T>* sorted(Scored<T>* from, Scored<T>* to, int64_t n) {
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      const int64_t middle = least(begin + run, n), end = least(begin + 2 * run, n);
      int64_t a = begin, b = middle;
      for (int64_t i = begin; i < end; i++) to[i] = b >= end || (a < middle && before(from[a], from[b])) ? from[a++] : from[b++];
    }
    Scored<T>* other = from;
    from = to, to = other;
  }
  return from;
}

// Scores by descending order, sorted as far as they are asked for: most of what stands behind the last box kept never is.
template <class T>
class Ordered {
 public:
  // `room` holds n, too; `share` of them are sorted at first
  Ordered(Scored<T>* all, Scored<T>* room, int64_t n, int64_t share) : all_(all), room_(room), n_(n), share_(share) {}
  const Scored<T>& operator[](int64_t k) {
    while (k >= done_) more();
    return all_[k];
  }

 private:
  void more() {
    const int64_t count = least(share_, n_ - done_);
    part(all_ + done_, n_ - done_, count);
    if (sorted(all_ + done_, room_, count) == room_) memcpy(all_ + done_, room_, count * sizeof(Scored<T>));
    done_ += count, share_ *= 2;
  }
  Scored<T>*all_, *room_;
  int64_t n_, share_, done_ = 0;
};

// -- boxes that overlap ------------------------------------------------------------------------------------------------------------------
template <class T>
struct Box {
  T x1, y1, x2, y2;
  PDL_INLINE T area() const { return largest(x2 - x1, T(0)) * largest(y2 - y1, T(0)); }
};

// Intersection over union of a box and kLanes others, whose x1, y1, x2, y2 and areas lie `stride` apart; 0 where both are empty.
template <class T>
PDL_INLINE Vec<T> overlaps(const Box<T>& box, T area, const T* others, int64_t stride) {
  const Vec<T> x1 = at_least<T>(load(others), box.x1), y1 = at_least<T>(load(others + stride), box.y1);
  const Vec<T> x2 = at_most<T>(load(others + 2 * stride), box.x2), y2 = at_most<T>(load(others + 3 * stride), box.y2);
  const Vec<T> shared = at_least<T>(x2 - x1, T(0)) * at_least<T>(y2 - y1, T(0));
  return shared > T(0) ? shared / (load(others + 4 * stride) + area - shared) : Vec<T>{};
}

template <class T>
PDL_INLINE bool any(Mask<T> mask) {
  int64_t found = 0;
  int64_t words[sizeof(mask) / 8];
  memcpy(words, &mask, sizeof(mask));
  for (int64_t word : words) found |= word;
  return found != 0;
}

// Boxes by group, in linked blocks of a vector each: a box meets those of its own group alone.
template <class T>
class Kept {
 public:
  static constexpr int L = kLanes<T>;
  struct Block {
    T corners[5 * L];
    int64_t next, filled;
  };
  static int64_t bytes(int64_t blocks, int64_t groups) {
    return blocks * static_cast<int64_t>(sizeof(Block)) + groups * static_cast<int64_t>(sizeof(int64_t));
  }

  Kept(void* memory, int64_t blocks, int64_t groups)
      : blocks_(static_cast<Block*>(memory)), last_(reinterpret_cast<int64_t*>(blocks_ + blocks)) {
    for (int64_t g = 0; g < groups; g++) last_[g] = -1;
  }
  bool covers(const Box<T>& box, T area, int64_t group, T limit) const {
    for (int64_t at = last_[group]; at >= 0; at = blocks_[at].next)
      if (any<T>(overlaps(box, area, blocks_[at].corners, L) > limit)) return true;
    return false;
  }
  void add(const Box<T>& box, T area, int64_t group) {
    int64_t at = last_[group];
    if (at < 0 || blocks_[at].filled == L) {
      memset(&blocks_[used_], 0, sizeof(Block));
      blocks_[used_].next = at;
      at = last_[group] = used_++;
    }
    T* to = blocks_[at].corners + blocks_[at].filled++;
    to[0] = box.x1, to[L] = box.y1, to[2 * L] = box.x2, to[3 * L] = box.y2, to[4 * L] = area;
  }

 private:
  Block* blocks_;
  int64_t* last_;
  int64_t used_ = 0;
};

// Of each group of scores [groups, n] the boxes kept: from the highest score down, equal ones by their place, those that overlap none kept
// before by more than `overlap` (intersection over union), at most `most`.    kept OUT [groups, most], counts OUT [groups], boxes IN
// [groups / kinds, n, 4]: two opposite corners, or centre and size; scores that are not above `lowest` do not count.
template <class T>
void suppress(int64_t* kept, int64_t* counts, const T* boxes, const T* scores, int64_t groups, int64_t kinds, int64_t n, int64_t most,
              double overlap, double lowest, bool any_score, bool centred) {
  parallel(groups, grain_of(n * 64), [=](int64_t begin, int64_t end) {
    const int64_t blocks = least(n, most) / kLanes<T> + 1;
    Scored<T>* found = static_cast<Scored<T>*>(scratch(Slot::kBoxOrder, 2 * (n + 1) * sizeof(Scored<T>)));
    void* memory = scratch(Slot::kBoxCorners, Kept<T>::bytes(blocks, 1));
    for (int64_t group = begin; group < end; group++) {
      const T* score = scores + group * n;
      int64_t candidates = 0, count = 0;
      for (int64_t i = 0; i < n; i++)
        if (score[i] > static_cast<T>(lowest) || (any_score && score[i] == score[i])) found[candidates++] = {score[i], i};
      Kept<T> held(memory, blocks, 1);
      Ordered<T> order(found, found + n, candidates, most + kChunk);
      for (int64_t k = 0; k < candidates && count < most; k++) {
        const int64_t at = order[k].at;
        const T* p = boxes + (group / kinds * n + at) * 4;
        const Box<T> box = centred ? Box<T>{p[0] - p[2] / 2, p[1] - p[3] / 2, p[0] + p[2] / 2, p[1] + p[3] / 2}
                                   : Box<T>{least(p[0], p[2]), least(p[1], p[3]), largest(p[0], p[2]), largest(p[1], p[3])};
        const T area = box.area();
        if (held.covers(box, area, 0, static_cast<T>(overlap))) continue;
        held.add(box, area, 0);
        kept[group * most + count++] = at;
      }
      counts[group] = count;
    }
  });
}

// -- selection ---------------------------------------------------------------------------------------------------------------------------
// The candidates of one image, the best first.
template <class T>
struct Candidates {
  Ordered<T>& order;
  int64_t n;
  const T* boxes;
  const SelectCall& call;

  int64_t group(int64_t k) const { return call.apart ? order[k].at % call.classes : 0; }
  Box<T> box(int64_t k) const {
    const T* p = boxes + 4 * (call.each ? order[k].at : order[k].at / call.classes);
    return {p[0], p[1], p[2], p[3]};
  }
};

// Each of these writes {score, place in the order} of what is left, at most call.most, the best first, and returns how many.
template <class T>
int64_t keep_apart(Scored<T>* picked, const Candidates<T>& given) {
  const SelectCall& call = given.call;
  const int64_t blocks = least(given.n, call.most) + 1, groups = call.apart ? call.classes : 1;
  Kept<T> held(scratch(Slot::kBoxCorners, Kept<T>::bytes(blocks, groups)), blocks, groups);
  int64_t count = 0;
  for (int64_t k = 0; k < given.n && count < call.most; k++) {
    const Box<T> box = given.box(k);
    const T area = box.area();
    const int64_t group = given.group(k);
    if (held.covers(box, area, group, static_cast<T>(call.overlap))) continue;
    held.add(box, area, group);
    picked[count++] = {given.order[k].score, k};
  }
  return count;
}

// Corners and areas of all candidates in rows of whole vectors, then their groups and two rows of zeros.
template <class T>
T* in_rows(const Candidates<T>& given, int64_t row) {
  T* rows = static_cast<T*>(scratch(Slot::kBoxCorners, 8 * row * sizeof(T)));
  memset(rows, 0, 8 * row * sizeof(T));
  for (int64_t k = 0; k < given.n; k++) {
    const Box<T> box = given.box(k);
    T* to = rows + k;
    to[0] = box.x1, to[row] = box.y1, to[2 * row] = box.x2, to[3 * row] = box.y2, to[4 * row] = box.area();
    to[5 * row] = static_cast<T>(given.group(k));
  }
  return rows;
}

// Soft suppression (Bodla et al., arXiv 1704.04503): the best of what is left lowers the scores of those that it overlaps.
template <class T>
int64_t lower_in_turn(Scored<T>* picked, const Candidates<T>& given) {
  const SelectCall& call = given.call;
  const int64_t n = given.n, row = (n + kLanes<T>) / kLanes<T> * kLanes<T>;
  T *rows = in_rows(given, row), *group = rows + 5 * row, *left = group + row;
  const T lowest = static_cast<T>(call.lowest), limit = static_cast<T>(call.overlap), sharpness = static_cast<T>(-1 / call.sigma);
  for (int64_t k = 0; k < n; k++) left[k] = given.order[k].score;
  int64_t count = 0;
  while (count < call.most) {
    T top = lowest;
    int64_t best = -1;
    for (int64_t k = 0; k < n; k++)
      if (left[k] > top) top = left[k], best = k;
    if (best < 0) break;
    picked[count++] = {top, best};
    left[best] = lowest;
    const Box<T> box = given.box(best);
    const T area = box.area();
    for (int64_t k = 0; k < n; k += kLanes<T>) {
      const Vec<T> overlap = overlaps(box, area, rows + k, row), before = load(left + k);
      const Vec<T> factor = call.how == kLinearDecay ? (overlap > limit ? T(1) - overlap : splat<T>(1))
                                                     : exp_negative<T>(overlap * overlap * sharpness);
      store(left + k, load(group + k) == group[best] && overlap > T(0) && before > lowest ? before * factor : before);
    }
  }
  return count;
}

// Matrix suppression (Wang et al., arXiv 2003.10152) with its Gaussian: every score is lowered by what overlaps it, less where that is
// itself overlapped.
template <class T>
int64_t lower_at_once(Scored<T>* picked, Scored<T>* room, const Candidates<T>& given) {
  const SelectCall& call = given.call;
  const int64_t n = given.n, row = (n + kLanes<T>) / kLanes<T> * kLanes<T>;
  T *rows = in_rows(given, row), *group = rows + 5 * row, *covered = group + row;  // the square of the largest overlap with a higher score
  Vec<T> lane;
  for (int i = 0; i < kLanes<T>; i++) lane[i] = static_cast<T>(i);
  Scored<T>* found = room;
  int64_t count = 0;
  for (int64_t k = 0; k < n; k++) {
    const Box<T> box = given.box(k);
    const T area = box.area();
    Vec<T> most{}, worst{};
    for (int64_t i = 0; i < k; i += kLanes<T>) {
      Vec<T> overlap = overlaps(box, area, rows + i, row);
      overlap = load(group + i) == group[k] && lane < static_cast<T>(k - i) ? overlap * overlap : Vec<T>{};
      most = at_least<T>(overlap, most), worst = at_least<T>(overlap - load(covered + i), worst);
    }
    const auto larger = [](Vec<T> a, Vec<T> b) { return at_least<T>(a, b); };
    covered[k] = across<T>(most, larger);
    const T score = given.order[k].score * exp_negative<T>(splat<T>(across<T>(worst, larger) * static_cast<T>(-1 / call.sigma)))[0];
    if (score > static_cast<T>(call.lowest)) found[count++] = {score, k};
  }
  const Scored<T>* order = sorted(found, found + n, count);
  count = least(count, call.most);
  for (int64_t k = 0; k < count; k++) picked[k] = order[k];
  return count;
}

template <class T>
int64_t choose(Scored<T>* picked, Scored<T>* room, const Candidates<T>& given) {
  const SelectCall& call = given.call;
  if (call.how == kHard) return keep_apart(picked, given);
  if (call.how == kLinearDecay || call.how == kGaussianDecay) return lower_in_turn(picked, given);
  if (call.how == kMatrixDecay) return lower_at_once(picked, room, given);
  const int64_t count = least(given.n, call.most);
  for (int64_t k = 0; k < count; k++) picked[k] = {given.order[k].score, k};
  return count;
}

// boxes OUT [images, most, 4], scores OUT [images, most], labels and index OUT [images, most] (-1 behind the last); see SelectCall
template <class T>
void select(T* boxes, T* scores, int64_t* labels, int64_t* index, const T* from, const T* values, const SelectCall& given) {
  const SelectCall call = given;
  const int64_t total = call.anchors * call.classes, count = least(call.candidates, total), most = least(call.most, count);
  const int64_t parts = call.images < num_threads() ? parts_of(total, 4 * kThreadWork) : 1;  // which are the best does not depend on them
  const int64_t room = least(2 * count, total / parts + 1), stated = call.images * parts;
  Scored<T>* all = static_cast<Scored<T>*>(scratch(Slot::kBoxScores, stated * (room * sizeof(Scored<T>) + sizeof(int64_t)) + 1));
  int64_t* counts = reinterpret_cast<int64_t*>(all + stated * room);
  parallel(stated, grain_of(total / parts), [=](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; s++) {
      const int64_t p = s % parts;
      counts[s] = count == 0 ? 0 : best_of(all + s * room, values + s / parts * total, total * p / parts, total * (p + 1) / parts, count,
                                           static_cast<T>(call.lowest));
    }
  });
  parallel(call.images, 1, [=](int64_t begin, int64_t end) {
    const int64_t width = largest(parts * least(count, room), count) + 1;
    Scored<T>* order = static_cast<Scored<T>*>(scratch(Slot::kBoxOrder, (4 * width + most) * sizeof(Scored<T>)));
    Scored<T>* picked = order + 4 * width;
    for (int64_t image = begin; image < end; image++) {
      int64_t n = 0;
      for (int64_t s = image * parts; s < (image + 1) * parts; s++)
        for (int64_t k = 0; k < counts[s]; k++) order[n++] = all[s * room + k];
      if (n > count) part(order, n, count), n = count;
      Ordered<T> sorting(order, order + width, n, call.how == kHard || call.how == kKeepAll ? most + kChunk : n);
      const Candidates<T> candidates{sorting, n, from + image * (call.each ? total : call.anchors) * 4, call};
      const int64_t left = choose(picked, order + 2 * width, candidates);
      for (int64_t k = 0; k < call.most; k++) {
        const int64_t to = image * call.most + k, at = k < left ? candidates.order[picked[k].at].at : -1;
        const Box<T> box = k < left ? candidates.box(picked[k].at) : Box<T>{0, 0, 0, 0};
        boxes[4 * to] = box.x1, boxes[4 * to + 1] = box.y1, boxes[4 * to + 2] = box.x2, boxes[4 * to + 3] = box.y2;
        scores[to] = k < left ? picked[k].score : T(0);
        labels[to] = k < left ? at % call.classes : -1, index[to] = k < left ? at / call.classes : -1;
      }
    }
  });
}

// -- measures of two boxes ---------------------------------------------------------------------------------------------------------------
// Sizes of boxes a and b along x and y; `whole` is of the smallest box around both, `apart` how far their centres lie from each other.
template <class T>
struct Meeting {
  T a[2], b[2], shared[2], whole[2], apart[2];
  T area, intersection, both;

  PDL_INLINE Meeting(const T* p, const T* q) {
    for (int axis = 0; axis < 2; axis++) {
      a[axis] = largest(p[axis + 2] - p[axis], T(0)), b[axis] = largest(q[axis + 2] - q[axis], T(0));
      shared[axis] = largest(least(p[axis + 2], q[axis + 2]) - largest(p[axis], q[axis]), T(0));
      whole[axis] = largest(largest(p[axis + 2], q[axis + 2]) - least(p[axis], q[axis]), T(0));
      apart[axis] = (p[axis] + p[axis + 2] - q[axis] - q[axis + 2]) / 2;
    }
    area = a[0] * a[1], intersection = shared[0] * shared[1], both = area + b[0] * b[1] - intersection;
  }
  PDL_INLINE T iou() const { return both > 0 ? intersection / both : T(0); }
  PDL_INLINE T around() const { return whole[0] * whole[1]; }
  PDL_INLINE T diagonal() const { return whole[0] * whole[0] + whole[1] * whole[1]; }
  PDL_INLINE T distance() const { return apart[0] * apart[0] + apart[1] * apart[1]; }
};

constexpr double kTurnShare = 0.40528473456935108578;  // 4 / pi^2

// atan(width / height). In float32 by the odd polynomial that fits atan best up to tan(pi / 8), 6e-8 off at most, and what
// atan(1 / r) and atan((1 - r) / (1 + r)) are beyond.
template <class T>
PDL_INLINE T angle(const T* box) {
  const T width = largest(box[2] - box[0], T(0)), height = largest(box[3] - box[1], T(0));
  if constexpr (sizeof(T) == 8) return __builtin_atan2(width, height);
  const T low = least(width, height), high = largest(width, height);
  const bool far = low > high * T(0.41421356);
  const T sum = far ? high + low : high, r = sum > 0 ? (far ? high - low : low) / sum : T(0), z = r * r;
  const T inner = ((((T(-0.06459414) * z + T(0.10746313)) * z - T(0.14264235)) * z + T(0.1999955)) * z - T(0.3333333)) * z * r + r;
  const T lower = far ? T(0.78539816339744831) - inner : inner;
  return width > height ? T(1.5707963267948966) - lower : lower;
}

// alpha of CIoU: a constant for gradients
template <class T>
PDL_INLINE T turn_weight(const Meeting<T>& m, T v) { return v > 0 ? v / (1 - m.iou() + v) : T(0); }

template <int measure, class T>
PDL_INLINE T measured(const T* a, const T* b, T turn) {
  const Meeting<T> m(a, b);
  T y = m.iou();
  if (measure == kGiou) return m.around() > 0 ? y - (m.around() - m.both) / m.around() : y;
  if (measure == kIou) return y;
  if (m.diagonal() > 0) y -= m.distance() / m.diagonal();
  if (measure == kDiou) return y;
  const T v = static_cast<T>(kTurnShare) * turn * turn;
  return y - turn_weight(m, v) * v;
}

// da += g times the gradient of `measured` in a; turn: the angle of b less that of a. What two boxes share has no gradient in a side that both
// have in one place.
template <int measure, class T>
PDL_INLINE void pull(T* da, T g, const T* a, const T* b, T turn) {
  const Meeting<T> m(a, b);
  const T share = m.both > 0 ? g / (m.both * m.both) : T(0);
  const T around = m.around(), diagonal = m.diagonal();
  T turning = 0;
  if (measure == kCiou) {
    const T v = static_cast<T>(kTurnShare) * turn * turn, size = m.a[0] * m.a[0] + m.a[1] * m.a[1];
    turning = size > 0 ? g * turn_weight(m, v) * 2 * static_cast<T>(kTurnShare) * turn / size : T(0);
  }
  for (int axis = 0; axis < 2; axis++) {
    const int other = 1 - axis;
    for (int side = 0; side < 2; side++) {
      const T p = a[axis + 2 * side], q = b[axis + 2 * side], sign = side ? T(1) : T(-1);
      const T area = m.a[axis] > 0 ? sign * m.a[other] : T(0);
      const T shared = m.shared[axis] > 0 && (side ? p < q : p > q) ? sign * m.shared[other] : T(0);
      const bool outer = m.whole[axis] > 0 && (side ? p > q : p < q);
      T d = share * (shared * (m.both + m.intersection) - m.intersection * area);
      if (measure == kGiou && around > 0)
        d += g * ((area - shared) - (outer ? m.both * sign * m.whole[other] / around : T(0))) / around;
      if ((measure == kDiou || measure == kCiou) && diagonal > 0)
        d -= g * (m.apart[axis] - (outer ? m.distance() * 2 * sign * m.whole[axis] / diagonal : T(0))) / diagonal;
      if (measure == kCiou && m.a[axis] > 0) d += turning * sign * (axis == 0 ? m.a[1] : -m.a[0]);
      da[axis + 2 * side] += d;
    }
  }
}

// body(number of the measure as a constant)
template <class Body>
void with_measure(int measure, const Body& body) {
  if (measure == kIou) body([] { return kIou; });
  else if (measure == kGiou) body([] { return kGiou; });
  else if (measure == kDiou) body([] { return kDiou; });
  else body([] { return kCiou; });
}

// body(i, boxes beside it, how far each of them is turned against box i) for boxes begin .. end - 1 of a; nothing is turned where angles do
// not count
template <int measure, class T, class Body>
void each_box(const T* a, const T* b, const OverlapCall& call, int64_t begin, int64_t end, const Body& body) {
  T* turns = static_cast<T*>(scratch(Slot::kBoxCorners, 2 * (call.m + 1) * sizeof(T)));
  T* angles = turns + call.m + 1;
  for (int64_t j = 0; j < call.m; j++) turns[j] = 0;
  for (int64_t i = begin; i < end; i++) {
    const T* beside = b + i / call.n * call.m * 4;
    if (measure == kCiou) {
      const T own = angle(a + 4 * i);
      if (i == begin || i % call.n == 0)
        for (int64_t j = 0; j < call.m; j++) angles[j] = angle(beside + 4 * j);
      for (int64_t j = 0; j < call.m; j++) turns[j] = angles[j] - own;
    }
    body(i, beside, turns);
  }
}

// y [outer, n, m]
template <class T>
void overlap(T* y, const T* a, const T* b, const OverlapCall& given) {
  const OverlapCall call = given;
  with_measure(call.measure, [=](auto measure) {
    parallel(call.outer * call.n, grain_of(call.m * 16), [=](int64_t begin, int64_t end) {
      each_box<measure()>(a, b, call, begin, end, [=](int64_t i, const T* beside, const T* turns) {
        for (int64_t j = 0; j < call.m; j++) y[i * call.m + j] = measured<measure()>(a + 4 * i, beside + 4 * j, turns[j]);
      });
    });
  });
}

// da [outer, n, 4] from g [outer, n, m]
template <class T>
void overlap_grad(T* da, const T* g, const T* a, const T* b, const OverlapCall& given) {
  const OverlapCall call = given;
  with_measure(call.measure, [=](auto measure) {
    parallel(call.outer * call.n, grain_of(call.m * 32), [=](int64_t begin, int64_t end) {
      each_box<measure()>(a, b, call, begin, end, [=](int64_t i, const T* beside, const T* turns) {
        T sum[4] = {};
        for (int64_t j = 0; j < call.m; j++)
          if (g[i * call.m + j] != 0) pull<measure()>(sum, g[i * call.m + j], a + 4 * i, beside + 4 * j, turns[j]);
        for (int side = 0; side < 4; side++) da[4 * i + side] = sum[side];
      });
    });
  });
}

}  // namespace pdl::PDL_ISA::boxes
