// Images read where a net says: at points between cells, in regions of interest; and boxes that overlap.
//
// Images are [N, H, W, C]. Every output cell is a weighted sum of at most 16 cells ("taps") of its image, so channels are in the lanes.
#pragma once
#include "table.h"
#include "vec.h"

namespace pdl::PDL_ISA::regions {

constexpr int64_t kGrain = 16384;   // multiply-adds that a thread should at least have
constexpr int64_t kStrip = 16;      // channels of a gradient that one thread sums

// std::min and std::max would be compiled for one instruction set and linked for all.
template <class T>
PDL_INLINE T least(T a, T b) { return b < a ? b : a; }
template <class T>
PDL_INLINE T largest(T a, T b) { return a < b ? b : a; }

inline int64_t grain_of(int64_t each) { return each >= kGrain ? 1 : kGrain / (each > 0 ? each : 1) + 1; }

// The cells that one point reads, with their weights, and how these grow with the point's two coordinates.
template <class T>
struct Taps {
  int count = 0;
  int64_t cell[16];
  T weight[16], across[16], down[16];
};

// A place on an axis moved inside by the padding mode; slope *= its derivative. Places that are no numbers go to 0.
template <class T>
T inside(T at, int64_t size, int padding, bool corners, T* slope) {
  if (padding == kReflection) {
    const T low = corners ? T(0) : T(-0.5), span = static_cast<T>(corners ? size - 1 : size);
    if (span == 0) {
      *slope = 0;
      return 0;
    }
    at -= low;
    if (at < 0) at = -at, *slope = -*slope;
    const T turns = __builtin_floor(at / span), rest = at - turns * span;
    const bool back = turns - 2 * __builtin_floor(turns / 2) != 0;
    if (back) *slope = -*slope;
    at = low + (back ? span - rest : rest);
  }
  const T last = static_cast<T>(size - 1);
  if (at > 0 && at < last) return at;
  *slope = 0;
  return at >= last ? last : T(0);
}

// Keys' kernel with a = -0.75 for the cells at -1, 0, 1, 2 beside a point `part` behind cell 0, and its derivatives.
template <class T>
void cubic(T part, T* weight, T* slope) {
  constexpr T a = T(-0.75);
  for (int k = 0; k < 4; k++) {
    const T side = k < 2 ? T(1) : T(-1), d = k < 2 ? part + T(1 - k) : T(k - 1) - part;
    const bool near = k == 1 || k == 2;
    weight[k] = near ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    slope[k] = side * (near ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a);
  }
}

// Cells along one axis with their weights and slopes; -1 for one outside. Returns how many.
template <class T>
int along(T point, int64_t size, const GridCall& call, int64_t* cell, T* weight, T* slope) {
  const T scale = static_cast<T>(call.corners ? size - 1 : size) / 2;
  T at = (point + 1) * scale - (call.corners ? T(0) : T(0.5)), factor = scale, none = 0;
  const T last = static_cast<T>(size - 1);
  if (call.padding == kZeros ? !(at > -3 && at < last + 3) : !(__builtin_fabs(at) < T(1e9))) at = -3, factor = 0;
  if (call.mode != kCubic && call.padding != kZeros) at = inside(at, size, call.padding, call.corners, &factor);
  if (call.mode == kNearest) {
    at = __builtin_rint(at);
    cell[0] = at >= 0 && at <= last ? static_cast<int64_t>(at) : -1;
    weight[0] = 1, slope[0] = 0;
    return 1;
  }
  const T low = __builtin_floor(at), part = at - low;
  const int count = call.mode == kCubic ? 4 : 2;
  if (call.mode == kCubic)
    cubic(part, weight, slope);
  else
    weight[0] = 1 - part, weight[1] = part, slope[0] = -1, slope[1] = 1;
  for (int k = 0; k < count; k++) {
    T place = low + static_cast<T>(k - count / 2 + 1);
    if (call.mode == kCubic && call.padding != kZeros) place = __builtin_rint(inside(place, size, call.padding, call.corners, &none));
    cell[k] = place >= 0 && place <= last ? static_cast<int64_t>(place) : -1;
    slope[k] *= factor;
  }
  return count;
}

template <class T>
Taps<T> taps_of(const T* point, const GridCall& call) {
  int64_t row[4], column[4];
  T down[4], down_slope[4], across[4], across_slope[4];
  const int columns = along(point[0], call.w, call, column, across, across_slope);
  const int rows = along(point[1], call.h, call, row, down, down_slope);
  Taps<T> taps;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      if (row[i] < 0 || column[j] < 0) continue;
      const int k = taps.count++;
      taps.cell[k] = row[i] * call.w + column[j];
      taps.weight[k] = down[i] * across[j];
      taps.across[k] = down[i] * across_slope[j];
      taps.down[k] = down_slope[i] * across[j];
    }
  return taps;
}

// y [n, cells, c] from x [n, h, w, c] at grid [n, cells, 2].
template <class T>
void grid_sample(T* y, const T* x, const T* grid, const GridCall& given) {
  const GridCall call = given;
  parallel(call.n * call.cells, grain_of(call.c * (call.mode == kCubic ? 16 : 4) + 64), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const Taps<T> taps = taps_of(grid + 2 * i, call);
      const T* image = x + i / call.cells * call.h * call.w * call.c;
      T* to = y + i * call.c;
      for (int64_t c = 0; c < call.c; c++) to[c] = 0;
      for (int k = 0; k < taps.count; k++) {
        const T* from = image + taps.cell[k] * call.c;
        for (int64_t c = 0; c < call.c; c++) to[c] += taps.weight[k] * from[c];
      }
    }
  });
}

// dx and dgrid from g [n, cells, c]: sums over points run in their order, in strips of channels, so that threads share no cell.
template <class T>
void grid_sample_grad(T* dx, T* dgrid, const T* g, const T* x, const T* grid, const GridCall& given) {
  const GridCall call = given;
  const int64_t image = call.h * call.w * call.c, strips = (call.c + kStrip - 1) / kStrip;
  parallel(call.n * call.cells, grain_of(call.c * 4 + 64), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const Taps<T> taps = taps_of(grid + 2 * i, call);
      T across = 0, down = 0;
      for (int k = 0; k < taps.count; k++) {
        const T* from = x + i / call.cells * image + taps.cell[k] * call.c;
        T dot = 0;
        for (int64_t c = 0; c < call.c; c++) dot += g[i * call.c + c] * from[c];
        across += taps.across[k] * dot, down += taps.down[k] * dot;
      }
      dgrid[2 * i] = across, dgrid[2 * i + 1] = down;
    }
  });
  parallel(call.n * strips, grain_of(call.cells * kStrip * 4), [=](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; s++) {
      const int64_t n = s / strips, first = s % strips * kStrip, stop = least(first + kStrip, call.c);
      T* to = dx + n * image;
      for (int64_t cell = 0; cell < call.h * call.w; cell++)
        for (int64_t c = first; c < stop; c++) to[cell * call.c + c] = 0;
      for (int64_t i = n * call.cells; i < (n + 1) * call.cells; i++) {
        const Taps<T> taps = taps_of(grid + 2 * i, call);
        for (int k = 0; k < taps.count; k++)
          for (int64_t c = first; c < stop; c++) to[taps.cell[k] * call.c + c] += taps.weight[k] * g[i * call.c + c];
      }
    }
  });
}

// A sample between two cells of an axis.
template <class T>
struct Sample {
  int64_t low, high;
  T below, above;
};

// The samples of a region's axis that lie on the image, bin by bin: those of bin b are starts[b] .. starts[b + 1]. Returns how many a bin has
// with those outside.
template <class T>
int64_t samples_of(Sample<T>* samples, int64_t* starts, double start, double length, int64_t bins, int64_t ratio, int64_t size) {
  const double cell = length / static_cast<double>(bins);
  const double wanted = ratio > 0 ? static_cast<double>(ratio) : __builtin_ceil(cell);
  const int64_t count = wanted >= 1 ? static_cast<int64_t>(least(wanted, static_cast<double>(1 << 20))) : 1;
  int64_t made = 0;
  for (int64_t b = 0; b < bins; b++) {
    starts[b] = made;
    for (int64_t k = 0; k < count; k++) {
      double at = start + static_cast<double>(b) * cell + (static_cast<double>(k) + 0.5) * cell / static_cast<double>(count);
      if (!(at >= -1 && at <= static_cast<double>(size))) continue;
      at = least(largest(at, 0.0), static_cast<double>(size - 1));
      const int64_t low = static_cast<int64_t>(at);
      const T part = static_cast<T>(at - static_cast<double>(low));
      if (samples != nullptr) samples[made] = {low, least(low + 1, size - 1), 1 - part, part};
      made++;
    }
  }
  starts[bins] = made;
  return count;
}

// y [rois, rows, columns, c]: the mean, or the largest, of bilinear samples in each bin of a region [x1, y1, x2, y2] of image[r].
template <class T>
void roi_align(T* y, const T* x, const T* rois, const int64_t* image, const RoiCall& given) {
  const RoiCall call = given;
  parallel(call.rois, grain_of(call.rows * call.columns * call.c * 16), [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const T* roi = rois + 4 * r;
      const double shift = call.half ? 0.5 : 0;
      double start[2], length[2];
      for (int a = 0; a < 2; a++) {
        start[a] = static_cast<double>(roi[1 - a]) * call.scale - shift;
        length[a] = static_cast<double>(roi[3 - a]) * call.scale - shift - start[a];
        if (!call.half) length[a] = largest(length[a], 1.0);
      }
      int64_t* starts = static_cast<int64_t*>(scratch(Slot::kRegionStarts, (call.rows + call.columns + 2) * sizeof(int64_t)));
      int64_t* beside = starts + call.rows + 1;
      samples_of<T>(nullptr, starts, start[0], length[0], call.rows, call.ratio, call.h);
      samples_of<T>(nullptr, beside, start[1], length[1], call.columns, call.ratio, call.w);
      const int64_t over = starts[call.rows];
      Sample<T>* down = static_cast<Sample<T>*>(scratch(Slot::kRegionSamples, (over + beside[call.columns] + 1) * sizeof(Sample<T>)));
      Sample<T>* across = down + over;
      const int64_t each = samples_of(down, starts, start[0], length[0], call.rows, call.ratio, call.h) *
                           samples_of(across, beside, start[1], length[1], call.columns, call.ratio, call.w);
      const T* from = x + image[r] * call.h * call.w * call.c;
      T* to = y + r * call.rows * call.columns * call.c;
      for (int64_t i = 0; i < call.rows; i++)
        for (int64_t j = 0; j < call.columns; j++, to += call.c) {
          const bool all = (starts[i + 1] - starts[i]) * (beside[j + 1] - beside[j]) == each;  // else samples outside count as 0
          for (int64_t c = 0; c < call.c; c++) to[c] = call.largest && all ? -__builtin_inff() : T(0);
          for (int64_t p = starts[i]; p < starts[i + 1]; p++)
            for (int64_t q = beside[j]; q < beside[j + 1]; q++) {
              const Sample<T>&u = down[p], &v = across[q];
              const T *a = from + (u.low * call.w + v.low) * call.c, *b = from + (u.low * call.w + v.high) * call.c;
              const T *d = from + (u.high * call.w + v.low) * call.c, *e = from + (u.high * call.w + v.high) * call.c;
              const T wa = u.below * v.below, wb = u.below * v.above, wd = u.above * v.below, we = u.above * v.above;
              if (call.largest)
                for (int64_t c = 0; c < call.c; c++)
                  to[c] = largest(to[c], largest(largest(wa * a[c], wb * b[c]), largest(wd * d[c], we * e[c])));
              else
                for (int64_t c = 0; c < call.c; c++) to[c] += wa * a[c] + wb * b[c] + wd * d[c] + we * e[c];
            }
          const T share = T(1) / static_cast<T>(each);
          if (!call.largest)
            for (int64_t c = 0; c < call.c; c++) to[c] *= share;
        }
    }
  });
}

template <class T>
struct Candidate {
  T score;
  int64_t box;
};

// The candidates by descending score, equal ones in their order (merge sort); in one of the two blocks.
template <class T>
const Candidate<T>* sorted(Candidate<T>* from, Candidate<T>* to, int64_t n) {
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * run) {
      const int64_t middle = least(begin + run, n), end = least(begin + 2 * run, n);
      int64_t a = begin, b = middle;
      for (int64_t i = begin; i < end; i++) to[i] = b >= end || (a < middle && !(from[b].score > from[a].score)) ? from[a++] : from[b++];
    }
    Candidate<T>* other = from;
    from = to, to = other;
  }
  return from;
}

// Of each group of scores [groups, n] the boxes kept: from the highest score down, equal ones by their place, those that overlap none kept before
// by more than `overlap` (intersection over union), at most `most`.    kept OUT [groups, most], counts OUT [groups], boxes IN [groups / kinds, n, 4]:
// two opposite corners, or centre and size; scores that are not above `lowest` do not count.
template <class T>
void suppress(int64_t* kept, int64_t* counts, const T* boxes, const T* scores, int64_t groups, int64_t kinds, int64_t n, int64_t most,
              double overlap, double lowest, bool any, bool centred) {
  parallel(groups, grain_of(n * 64), [=](int64_t begin, int64_t end) {
    Candidate<T>* found = static_cast<Candidate<T>*>(scratch(Slot::kBoxOrder, 2 * (n + 1) * sizeof(Candidate<T>)));
    T* low_y = static_cast<T*>(scratch(Slot::kBoxCorners, 5 * (n + 1) * sizeof(T)));
    T *low_x = low_y + n, *high_y = low_x + n, *high_x = high_y + n, *area = high_x + n;
    for (int64_t group = begin; group < end; group++) {
      int64_t candidates = 0, count = 0;
      const T* score = scores + group * n;
      for (int64_t i = 0; i < n; i++)
        if (score[i] > static_cast<T>(lowest) || (any && score[i] == score[i])) found[candidates++] = {score[i], i};
      const Candidate<T>* order = sorted(found, found + n, candidates);
      for (int64_t k = 0; k < candidates && count < most; k++) {
        const T* box = boxes + (group / kinds * n + order[k].box) * 4;
        T y1, x1, y2, x2;
        if (centred) {
          x1 = box[0] - box[2] / 2, x2 = box[0] + box[2] / 2, y1 = box[1] - box[3] / 2, y2 = box[1] + box[3] / 2;
        } else {
          y1 = least(box[0], box[2]), y2 = largest(box[0], box[2]), x1 = least(box[1], box[3]), x2 = largest(box[1], box[3]);
        }
        const T own = (y2 - y1) * (x2 - x1);
        bool covered = false;
        for (int64_t j = 0; j < count && !covered; j += 64) {
          int hits = 0;
          for (int64_t i = j; i < least(j + 64, count); i++) {
            const T height = least(y2, high_y[i]) - largest(y1, low_y[i]), width = least(x2, high_x[i]) - largest(x1, low_x[i]);
            const T shared = height * width, both = own + area[i] - shared;
            hits += (height > 0) & (width > 0) & (own > 0) & (area[i] > 0) & (both > 0) & (shared / both > static_cast<T>(overlap));
          }
          covered = hits != 0;
        }
        if (covered) continue;
        low_y[count] = y1, low_x[count] = x1, high_y[count] = y2, high_x[count] = x2, area[count] = own;
        kept[group * most + count++] = order[k].box;
      }
      counts[group] = count;
    }
  });
}

}  // namespace pdl::PDL_ISA::regions
