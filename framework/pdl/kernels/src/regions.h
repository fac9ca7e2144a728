// Images read where a net says: at points between cells, in regions of interest.
//
// Images are [N, H, W, C]. Every output cell is a weighted sum of at most 16 cells ("taps") of its image, so channels are in the lanes.
#pragma once
#include "table.h"
#include "vec.h"

namespace pdl::PDL_ISA::regions {

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

// y += x * weight
template <class T>
PDL_INLINE void add(T* y, const T* x, T weight, int64_t n) {
  constexpr int64_t L = kLanes<T>;
  int64_t i = 0;
  for (; i + L <= n; i += L) store(y + i, load(y + i) + load(x + i) * weight);
  if (i < n) store_tail(y + i, load_tail(y + i, n - i) + load_tail(x + i, n - i) * weight, n - i);
}

// a . b
template <class T>
PDL_INLINE T product(const T* a, const T* b, int64_t n) {
  constexpr int64_t L = kLanes<T>;
  Vec<T> sum{};
  int64_t i = 0;
  for (; i + L <= n; i += L) sum += load(a + i) * load(b + i);
  if (i < n) sum += load_tail(a + i, n - i) * load_tail(b + i, n - i);
  return across_sum<T>(sum);
}

// dx and dgrid from g [n, cells, c]: sums over points run in their order, in bands of rows, so that threads share no cell.
template <class T>
void grid_sample_grad(T* dx, T* dgrid, const T* g, const T* x, const T* grid, const GridCall& given) {
  const GridCall call = given;
  const int64_t image = call.h * call.w * call.c;
  parallel(call.n * call.cells, grain_of(call.c * 4 + 64), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const Taps<T> taps = taps_of(grid + 2 * i, call);
      T across = 0, down = 0;
      for (int k = 0; k < taps.count; k++) {
        const T* from = x + i / call.cells * image + taps.cell[k] * call.c;
        const T dot = product(g + i * call.c, from, call.c);
        across += taps.across[k] * dot, down += taps.down[k] * dot;
      }
      dgrid[2 * i] = across, dgrid[2 * i + 1] = down;
    }
  });
  const int64_t bands = call.n == 0 ? 1 : least(call.h, (4 * num_threads() + call.n - 1) / call.n);
  parallel(call.n * bands, grain_of(call.cells * (call.c * 4 + 64) / bands), [=](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; s++) {
      const int64_t n = s / bands, first = call.h * (s % bands) / bands * call.w, stop = call.h * (s % bands + 1) / bands * call.w;
      T* to = dx + n * image;
      memset(to + first * call.c, 0, (stop - first) * call.c * sizeof(T));
      for (int64_t i = n * call.cells; i < (n + 1) * call.cells; i++) {
        const Taps<T> taps = taps_of(grid + 2 * i, call);
        for (int k = 0; k < taps.count; k++) {
          if (taps.cell[k] < first || taps.cell[k] >= stop) continue;
          T* at = to + taps.cell[k] * call.c;
          const T *from = g + i * call.c, weight = taps.weight[k];
          add(at, from, weight, call.c);
        }
      }
    }
  });
}

// Where a region begins along the rows and the columns, the length of one of its bins, and how many samples a bin has: none where its corners
// are swapped and the number follows from the length.
struct Bins {
  double start[2], length[2];
  int64_t samples[2];

  template <class T>
  Bins(const T* roi, const RoiCall& call) {
    const double shift = call.half ? 0.5 : 0;
    for (int a = 0; a < 2; a++) {
      start[a] = static_cast<double>(roi[1 - a]) * call.scale - shift;
      double whole = static_cast<double>(roi[3 - a]) * call.scale - shift - start[a];
      if (!call.half) whole = largest(whole, 1.0);
      length[a] = whole / static_cast<double>(a == 0 ? call.rows : call.columns);
      const double wanted = call.ratio > 0 ? static_cast<double>(call.ratio) : __builtin_ceil(length[a]);
      samples[a] = wanted >= 1 ? static_cast<int64_t>(least(wanted, static_cast<double>(1 << 20))) : 0;
    }
  }
  // Sample k of bin b along an axis of `size` cells: whether it lies on the image, and if so between which cells.
  template <class T>
  PDL_INLINE bool sample(int a, int64_t b, int64_t k, int64_t size, int64_t* low, int64_t* high, T* above) const {
    double at = start[a] + static_cast<double>(b) * length[a] + (static_cast<double>(k) + 0.5) * length[a] / static_cast<double>(samples[a]);
    if (!(at >= -1 && at <= static_cast<double>(size))) return false;
    at = least(largest(at, 0.0), static_cast<double>(size - 1));
    *low = static_cast<int64_t>(at), *high = least(*low + 1, size - 1);
    *above = static_cast<T>(at - static_cast<double>(*low));
    return true;
  }
  // Samples of a bin outside of which none lies on the image: range[0] .. range[1] - 1, two more at each end than division finds, for rounding.
  // So a huge region costs what it shares with the image.
  void near(int a, int64_t b, int64_t size, int64_t* range) const {
    const double most = static_cast<double>(samples[a]), step = length[a] / largest(most, 1.0);
    const double first = start[a] + static_cast<double>(b) * length[a] + 0.5 * step;
    const double ends[2] = {(-1 - first) / step, (static_cast<double>(size) - first) / step};
    const double low = __builtin_floor(least(ends[0], ends[1])) - 2, high = __builtin_ceil(largest(ends[0], ends[1])) + 3;
    range[0] = 0, range[1] = step == 0 ? samples[a] : 0;
    if (low <= high)  // not where a corner is no number, or all samples are one
      range[0] = static_cast<int64_t>(least(largest(low, 0.0), most)), range[1] = static_cast<int64_t>(least(largest(high, 0.0), most));
  }
  // The samples of a bin that lie on the image, which are neighbours: range[0] .. range[1] - 1.
  template <class T>
  void inside(int a, int64_t b, int64_t size, int64_t* range) const {
    int64_t low, high, around[2];
    T above;
    near(a, b, size, around);
    range[0] = range[1] = 0;
    for (int64_t k = around[0]; k < around[1]; k++)
      if (sample(a, b, k, size, &low, &high, &above)) {
        if (range[1] == 0) range[0] = k;
        range[1] = k + 1;
      }
  }
};

// A cell that a bin reads along an axis, with its weight.
template <class T>
struct Tap {
  int64_t cell;
  T weight;
};

// What the bins of a region read along one axis, each cell once; samples that are not on the image count as 0.
template <class T>
class Along {
 public:
  Along(void* memory, const Bins& bins, int a, int64_t count, int64_t size)
      : room_(room_of(bins.samples[a], size)), taps_(static_cast<Tap<T>*>(memory)), filled_(reinterpret_cast<int64_t*>(taps_ + count * room_)) {
    const T share = T(1) / static_cast<T>(largest<int64_t>(bins.samples[a], 1));
    for (int64_t b = 0; b < count; b++) {
      filled_[b] = 0;
      int64_t low, high, around[2];
      bins.near(a, b, size, around);
      for (int64_t k = around[0]; k < around[1]; k++) {
        T above;
        if (!bins.sample(a, b, k, size, &low, &high, &above)) continue;
        add(b, low, (1 - above) * share);
        add(b, high, above * share);
      }
    }
  }
  static int64_t bytes(const Bins& bins, int a, int64_t count, int64_t size) {
    return count * (room_of(bins.samples[a], size) * static_cast<int64_t>(sizeof(Tap<T>)) + static_cast<int64_t>(sizeof(int64_t)));
  }
  const Tap<T>* begin(int64_t b) const { return taps_ + b * room_; }
  const Tap<T>* end(int64_t b) const { return begin(b) + filled_[b]; }

 private:
  static int64_t room_of(int64_t samples, int64_t size) { return least(2 * samples, size); }
  // Samples of a bin go one way, so a cell that was met before is among the last three.
  void add(int64_t b, int64_t cell, T weight) {
    Tap<T>* taps = taps_ + b * room_;
    for (int64_t k = filled_[b] - 1; k >= 0 && k >= filled_[b] - 3; k--)
      if (taps[k].cell == cell) {
        taps[k].weight += weight;
        return;
      }
    taps[filled_[b]++] = {cell, weight};
  }
  int64_t room_;
  Tap<T>* taps_;
  int64_t* filled_;
};

// body(rows, columns) with the two axes of a region.
template <class T, class Body>
PDL_INLINE void with_taps(const T* roi, const RoiCall& call, const Body& body) {
  const Bins bins(roi, call);
  void* down = scratch(Slot::kRegionRows, Along<T>::bytes(bins, 0, call.rows, call.h));
  void* across = scratch(Slot::kRegionColumns, Along<T>::bytes(bins, 1, call.columns, call.w));
  body(Along<T>(down, bins, 0, call.rows, call.h), Along<T>(across, bins, 1, call.columns, call.w));
}

// to [count vectors of channels] = what one bin reads
template <class T, int count>
PDL_INLINE void mean_of(T* to, const T* from, const Tap<T>* u, const Tap<T>* u_end, const Tap<T>* v_begin, const Tap<T>* v_end, const RoiCall& call,
                        int64_t tail) {
  Vec<T> sum[count]{};
  for (; u < u_end; u++)
    for (const Tap<T>* v = v_begin; v < v_end; v++) {
      const T* at = from + (u->cell * call.w + v->cell) * call.c;
      const Vec<T> weight = splat<T>(u->weight * v->weight);
      for (int k = 0; k < count; k++) sum[k] += weight * (tail == 0 ? load(at + k * kLanes<T>) : load_tail(at, tail));
    }
  for (int k = 0; k < count; k++) tail == 0 ? store(to + k * kLanes<T>, sum[k]) : store_tail(to, sum[k], tail);
}

template <class T>
void mean_region(T* to, const T* from, const T* roi, const RoiCall& call) {
  constexpr int64_t L = kLanes<T>;
  with_taps(roi, call, [&](const Along<T>& rows, const Along<T>& columns) {
    for (int64_t i = 0; i < call.rows; i++)
      for (int64_t j = 0; j < call.columns; j++, to += call.c) {
        const Tap<T> *u = rows.begin(i), *u_end = rows.end(i), *v = columns.begin(j), *v_end = columns.end(j);
        int64_t c = 0;
        for (; c + 8 * L <= call.c; c += 8 * L) mean_of<T, 8>(to + c, from + c, u, u_end, v, v_end, call, 0);
        for (; c + L <= call.c; c += L) mean_of<T, 1>(to + c, from + c, u, u_end, v, v_end, call, 0);
        if (c < call.c) mean_of<T, 1>(to + c, from + c, u, u_end, v, v_end, call, call.c - c);
      }
  });
}

// The largest of the weighted cells beside each sample, as ONNX has it.
template <class T>
void largest_of_region(T* to, const T* from, const T* roi, const RoiCall& call) {
  const Bins bins(roi, call);
  int64_t* inside[2];  // of each bin along an axis, the samples that lie on the image: from .. up to
  for (int a = 0; a < 2; a++) {
    const int64_t count = a == 0 ? call.rows : call.columns;
    inside[a] = static_cast<int64_t*>(scratch(a == 0 ? Slot::kRegionRows : Slot::kRegionColumns, 2 * (count + 1) * sizeof(int64_t)));
    for (int64_t b = 0; b < count; b++) bins.inside<T>(a, b, a == 0 ? call.h : call.w, inside[a] + 2 * b);
  }
  for (int64_t i = 0; i < call.rows; i++)
    for (int64_t j = 0; j < call.columns; j++, to += call.c) {
      const int64_t *rows = inside[0] + 2 * i, *columns = inside[1] + 2 * j, each = bins.samples[0] * bins.samples[1];
      const bool all = each > 0 && (rows[1] - rows[0]) * (columns[1] - columns[0]) == each;  // else samples outside count as 0
      for (int64_t c = 0; c < call.c; c++) to[c] = all ? -__builtin_inff() : T(0);
      for (int64_t p = rows[0]; p < rows[1]; p++)
        for (int64_t q = columns[0]; q < columns[1]; q++) {
          int64_t top, bottom, left, right;
          T down, across;
          if (!bins.sample(0, i, p, call.h, &top, &bottom, &down) || !bins.sample(1, j, q, call.w, &left, &right, &across)) continue;
          const T *a = from + (top * call.w + left) * call.c, *b = from + (top * call.w + right) * call.c;
          const T *d = from + (bottom * call.w + left) * call.c, *e = from + (bottom * call.w + right) * call.c;
          const T wa = (1 - down) * (1 - across), wb = (1 - down) * across, wd = down * (1 - across), we = down * across;
          for (int64_t c = 0; c < call.c; c++)
            to[c] = largest(to[c], largest(largest(wa * a[c], wb * b[c]), largest(wd * d[c], we * e[c])));
        }
    }
}

// y [rois, rows, columns, c]: the mean, or the largest, of bilinear samples in each bin of a region [x1, y1, x2, y2]; zeros for one on no image.
template <class T>
void roi_align(T* y, const T* x, const T* rois, const int64_t* image, const RoiCall& given) {
  const RoiCall call = given;
  const int64_t each = call.rows * call.columns * call.c;
  parallel(call.rois, grain_of(each * 8), [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r++) {
      const T* from = x + image[r] * call.h * call.w * call.c;
      if (image[r] < 0) memset(y + r * each, 0, each * sizeof(T));
      else if (call.largest) largest_of_region(y + r * each, from, rois + 4 * r, call);
      else mean_region(y + r * each, from, rois + 4 * r, call);
    }
  });
}

// to [h, w, c] += what the rows [top, bottom) of the image owe to one region
template <class T>
void spread_region(T* to, const T* from, const T* roi, const RoiCall& call, int64_t top, int64_t bottom) {
  const Bins bins(roi, call);
  const double ends[2] = {bins.start[0], bins.start[0] + bins.length[0] * static_cast<double>(call.rows)};
  if (largest(ends[0], ends[1]) < static_cast<double>(top - 1) || least(ends[0], ends[1]) > static_cast<double>(bottom + 1)) return;
  with_taps(roi, call, [&](const Along<T>& rows, const Along<T>& columns) {
    for (int64_t i = 0; i < call.rows; i++)
      for (const Tap<T>* u = rows.begin(i); u < rows.end(i); u++) {
        if (u->cell < top || u->cell >= bottom) continue;
        for (int64_t j = 0; j < call.columns; j++)
          for (const Tap<T>* v = columns.begin(j); v < columns.end(j); v++) {
            T* at = to + (u->cell * call.w + v->cell) * call.c;
            const T *g = from + (i * call.columns + j) * call.c, weight = u->weight * v->weight;
            add(at, g, weight, call.c);
          }
      }
  });
}

// dx [images, h, w, c] of the mean from g: sums over regions run in their order, in bands of rows, so that threads share no cell.
template <class T>
void roi_align_grad(T* dx, const T* g, const T* rois, const int64_t* image, const RoiCall& given) {
  const RoiCall call = given;
  const int64_t each = call.rows * call.columns * call.c, bands = least(call.h, (4 * num_threads() + call.images - 1) / call.images);
  parallel(call.images * bands, grain_of(call.rois * each * 8 / (call.images * bands) + call.h * call.w * call.c / bands),
           [=](int64_t begin, int64_t end) {
             for (int64_t s = begin; s < end; s++) {
               const int64_t n = s / bands, top = call.h * (s % bands) / bands, bottom = call.h * (s % bands + 1) / bands;
               T* to = dx + n * call.h * call.w * call.c;
               memset(to + top * call.w * call.c, 0, (bottom - top) * call.w * call.c * sizeof(T));
               for (int64_t r = 0; r < call.rois; r++)
                 if (image[r] == n) spread_region(to, g + r * each, rois + 4 * r, call, top, bottom);
             }
           });
}

}  // namespace pdl::PDL_ISA::regions
