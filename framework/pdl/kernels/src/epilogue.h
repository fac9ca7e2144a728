// What is done to a tile of a product while it is near: residual, activation, statistics of its columns.
#pragma once
#include "tile.h"
#include "vmath.h"

namespace pdl::PDL_ISA {

// Sums over the rows of one part, for [columns]: each a number of rows, a shift near the mean, sum (v - shift), sum (v - shift)^2. The shift
// keeps the variance from being a difference of large numbers (Chan, Golub and LeVeque, 1983).
struct ColumnSums {
  double *count, *shift, *sum, *square;

  static int64_t bytes(int64_t columns) { return 4 * columns * static_cast<int64_t>(sizeof(double)); }
  static ColumnSums at(void* memory, int part, int64_t columns) {
    double* base = static_cast<double*>(memory) + 4 * columns * part;
    return {base, base + columns, base + 2 * columns, base + 3 * columns};
  }
  ColumnSums from(int64_t column) const { return {count + column, shift + column, sum + column, square + column}; }
};

// Adds the first `columns` values of every row to the sums.   row IN (i): where row i begins
template <class T, class Row>
inline void add_columns(const ColumnSums& sums, int rows, int columns, const Row& row) {
  using R = Real<T>;
  constexpr int lanes = kLanes<R>;
  for (int j = 0; j < columns; j += lanes) {
    const int here = columns - j < lanes ? columns - j : lanes;
    const auto get = [&](int i) __attribute__((always_inline)) {
      const T* at = row(i) + j;
      return here == lanes ? load(at) : load_tail(at, here);
    };
    if (sums.count[j] == 0) {
      Vec<R> first{};
      for (int i = 0; i < rows; i++) first += get(i);
      for (int l = 0; l < here; l++) sums.shift[j + l] = static_cast<R>(first[l] / rows);
    }
    R shift[lanes] = {}, sum[lanes], square[lanes];
    for (int l = 0; l < here; l++) shift[l] = static_cast<R>(sums.shift[j + l]);
    Vec<R> s{}, q{};
    const Vec<R> centre = load(shift);
    for (int i = 0; i < rows; i++) {
      const Vec<R> d = get(i) - centre;
      s += d, q += d * d;
    }
    store(sum, s), store(square, q);
    for (int l = 0; l < here; l++) sums.count[j + l] += rows, sums.sum[j + l] += sum[l], sums.square[j + l] += square[l];
  }
}

// Mean and (biased) variance of every column from the sums of all parts, in their order.   mean OUT [n], var OUT [n]
template <class R>
inline void column_statistics(R* mean, R* var, void* memory, int parts, int64_t columns, int64_t n) {
  for (int64_t j = 0; j < n; j++) {
    double count = 0, centre = 0, square = 0;  // square: sum (v - centre)^2
    for (int p = 0; p < parts; p++) {
      const ColumnSums part = ColumnSums::at(memory, p, columns).from(j);
      const double more = *part.count;
      if (more == 0) continue;
      const double own = *part.shift + *part.sum / more, apart = own - centre;
      square += *part.square - *part.sum * *part.sum / more + apart * apart * count * more / (count + more);
      centre += apart * more / (count + more);
      count += more;
    }
    mean[j] = static_cast<R>(centre);
    var[j] = static_cast<R>(square > 0 || square != square ? square / count : 0);
  }
}

// The memory in which the parts of a range count, and what comes of it.
struct Statistics {
  void* memory;
  int parts;
  int64_t columns;

  // for n values, `how` saying whether they are wanted at all
  template <class T>
  Statistics(const Epilogue<T>* how, int part_count, int64_t n) : memory(nullptr), parts(part_count), columns(n) {
    if (how == nullptr || how->mean == nullptr) return;
    memory = scratch(Slot::kColumnSums, parts * ColumnSums::bytes(columns));
    memset(memory, 0, parts * ColumnSums::bytes(columns));
  }
  ColumnSums of(int part, int64_t column = 0) const {
    return memory == nullptr ? ColumnSums{} : ColumnSums::at(memory, part, columns).from(column);
  }
  // Mean and (biased) variance of every column, the parts merged in their order.
  template <class T>
  void finish(const Epilogue<T>* how, int64_t n) const {
    if (memory != nullptr) column_statistics(how->mean, how->var, memory, parts, columns, n);
  }
};

// One group of the columns of an epilogue.
template <class T>
inline Epilogue<T> from_column(Epilogue<T> how, int64_t column) {
  if (how.residual != nullptr) how.residual += column;
  if (how.before != nullptr) how.before += column;
  if (how.mean != nullptr) how.mean += column, how.var += column;
  return how;
}

// Whether a kernel may do the activation of an epilogue to values in its registers, and what that is then.
template <class T>
inline bool bounded(const Epilogue<T>& how) {
  return how.activation == kRelu || how.activation == kClip || (how.activation == kHardSwish && how.before == nullptr);
}
template <class T>
inline Bounds<Real<T>> bounds_of(const Epilogue<T>& how) {
  using R = Real<T>;
  const bool clip = how.activation == kClip;
  return {clip ? how.a : R(0), clip ? how.b : static_cast<R>(__builtin_inf()), how.activation == kHardSwish};
}

// The activation of an epilogue on vectors: clamps in registers, other functions by the table.
template <class T>
struct Function {
  int name;
  bool clamp;
  Vec<T> low, high;
  T a, b, c;

  template <class S>
  explicit Function(const Epilogue<S>* how) : name(-1), clamp(false), low(), high(), a(0), b(0), c(0) {
    if (how == nullptr) return;
    name = how->activation, a = how->a, b = how->b, c = how->c;
    clamp = name == kRelu || name == kClip;
    low = splat<T>(name == kClip ? a : T(0)), high = splat<T>(name == kClip ? b : static_cast<T>(__builtin_inf()));
  }
  PDL_INLINE Vec<T> clamped(Vec<T> v) const { return at_most<T>(at_least<T>(v, low), high); }
  void call(T* v, int64_t n) const {
    const Epilogue<T> how{.activation = name, .a = a, .b = b, .c = c};
    pointwise_table(static_cast<const T*>(nullptr))->finish(how, v, 0, 0, v, 0, 1, n);
  }
  PDL_INLINE void apply(Vec<T>* v, int n) const {
    if (clamp)
      for (int i = 0; i < n; i++) v[i] = clamped(v[i]);
    else if (name >= 0) call(reinterpret_cast<T*>(v), int64_t(n) * kLanes<T>);
  }
};

// What the epilogue does to values that lie in `tile` before they go to out + at; they may lie there already.   tile IN [rows, columns]
template <class T>
inline void finish(const Real<T>* tile, int64_t tile_stride, int64_t rows, int64_t columns, T* out, int64_t at, int64_t stride,
                   const Epilogue<T>& how) {
  Epilogue<T> call = how;
  if (how.activation < 0) call.activation = kClip, call.a = -static_cast<Real<T>>(__builtin_inf()), call.b = -call.a;
  pointwise_table(out)->finish(call, out, at, stride, tile, tile_stride, rows, columns);
}

// The epilogue (without statistics, null for none) of a kernel that writes a run of values at once: it finishes them itself where it can.
template <class T>
class RowEpilogue {
  using R = Real<T>;

 public:
  explicit RowEpilogue(const Epilogue<T>* then) : how_(then) {
    if (how_ == nullptr || how_->residual != nullptr) return;
    bounded_ = bounded(*how_);
    if (bounded_) bounds_ = bounds_of(*how_);
    if (bounded_ || how_->activation < 0) how_ = nullptr;
  }

  // What the kernel does in its registers, or null.
  const Bounds<R>* bounds() const { return bounded_ ? &bounds_ : nullptr; }

  // What is left to be done to y[at .. at + n), which lies near.
  void operator()(T* y, int64_t at, int64_t n) const {
    if (how_ == nullptr) return;
    if constexpr (kUnit<T> == 1) {
      finish(y + at, 0, 1, n, y, at, 0, *how_);
    } else {
      constexpr int64_t width = 16 * kPanel<T>;
      alignas(64) R tile[width];
      for (int64_t i = 0; i < n; i += width) {
        const int64_t here = min64(width, n - i);
        for (int64_t j = 0; j < here; j++) tile[j] = value(y[at + i + j]);
        finish(tile, 0, 1, here, y, at + i, 0, *how_);
      }
    }
  }

 private:
  const Epilogue<T>* how_;
  bool bounded_ = false;
  Bounds<R> bounds_;
};

// The epilogue on rows that are written already.   y IN/OUT [rows, n]
template <class T>
void finish_rows(T* y, int64_t rows, int64_t n, const Epilogue<T>& how) {
  constexpr int height = 16, width = kPanel<T>;
  const int64_t strips = (rows + height - 1) / height, grain = max64(1, 65536 / max64(1, n * height));
  const int parts = pieces_of(strips, grain);
  const Statistics statistics(&how, parts, n);
  const bool changes = how.residual != nullptr || how.activation >= 0;
  parallel_parts(strips, parts, [&](int64_t begin, int64_t end, int part) {
    alignas(64) Real<T> tile[height * width];
    for (int64_t i = begin; i < end; i++)
      for (int64_t column = 0; column < n; column += width) {
        const int here = static_cast<int>(min64(height, rows - i * height)), columns = static_cast<int>(min64(width, n - column));
        const int64_t at = i * height * n + column;
        if constexpr (kUnit<T> == 1) {
          if (changes) finish(y + at, n, here, columns, y, at, n, how);
        } else if (changes) {
          for (int r = 0; r < here; r++)
            for (int j = 0; j < columns; j++) tile[r * columns + j] = value(y[at + r * n + j]);
          finish(tile, columns, here, columns, y, at, n, how);
        }
        if (how.mean != nullptr) add_columns<T>(statistics.of(part, column), here, columns, [&](int r) { return y + at + r * n; });
      }
  });
  statistics.finish(&how, n);
}

// Whether the micro-kernel does the whole epilogue while it has the sums in registers.
template <class T, bool kColumns>
inline bool finishes(const Epilogue<T>* how, bool accumulate) {
  if (how == nullptr || (how->residual == nullptr && how->activation < 0)) return true;
  const bool simple = how->before == nullptr && (how->activation < 0 || bounded(*how));
  return kFinishes<T, kColumns> && simple && !(kUnit<T> == 2 && accumulate);
}

// tile_kernel for the tile that lies at out + at, and the epilogue (where not null).
//   out OUT the whole result; sums IN/OUT of the tile's first column on
template <class T, bool kColumns>
inline void finished_tile(int rows, int columns, Tile<T> t, T* out, int64_t at, const Epilogue<T>* how, const ColumnSums& sums) {
  const int64_t stride = t.c_stride;
  Bounds<Real<T>> bounds;
  if (finishes<T, kColumns>(how, t.accumulate)) {
    if (how != nullptr && how->residual != nullptr) t.residual = how->residual + at;
    if (how != nullptr && how->activation >= 0) bounds = bounds_of(*how), t.bounds = &bounds;
    if constexpr (kUnit<T> == 1) t.c = out + at;
    else t.rounded = out + at;
    tile_kernel<T, kColumns>(rows, columns, t);
  } else if (t.repeat > 1) {
    for (int64_t left = t.repeat; left > 0; left--, t.shift += rows * t.a_stride, t.next += t.k * t.pace, at += rows * stride)
      t.repeat = 1, finished_tile<T, kColumns>(rows, columns, t, out, at, how, sums);
    return;
  } else {
    alignas(64) Real<T> tile[kMaxRows<T, 1> * kPanel<T>];
    for (int i = 0; t.accumulate && i < rows; i++)
      for (int j = 0; j < columns; j++) tile[i * columns + j] = value(out[at + i * stride + j]);
    t.c = tile, t.c_stride = columns;
    tile_kernel<T, kColumns>(rows, columns, t);
    finish(tile, columns, rows, columns, out, at, stride, *how);
  }
  for (int64_t i = 0; how != nullptr && how->mean != nullptr && i < t.repeat; i++, at += rows * stride)
    add_columns<T>(sums, rows, columns, [&](int r) { return out + at + r * stride; });
}

// The same for any number of rows, in tiles of `step`.
template <class T, bool kColumns>
inline void finished_tiles(int64_t rows, int64_t step, int columns, Tile<T> t, T* out, int64_t at, const Epilogue<T>* how, const ColumnSums& sums) {
  t.repeat = rows / step;
  if (t.repeat > 0) finished_tile<T, kColumns>(static_cast<int>(step), columns, t, out, at, how, sums);
  const int64_t done = t.repeat * step;
  if (done == rows) return;
  t.shift += done * t.a_stride, t.next += t.repeat * t.k * t.pace, t.repeat = 1;
  finished_tile<T, kColumns>(static_cast<int>(rows - done), columns, t, out, at + done * t.c_stride, how, sums);
}

}  // namespace pdl::PDL_ISA
