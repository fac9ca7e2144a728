// Matrix products on the micro-kernel.
#pragma once
#include "epilogue.h"
#include "matrix_unit.h"
#include "pack.h"

namespace pdl::PDL_ISA {

constexpr int64_t kParallelWork = 64 * 1024;   // multiply-adds below which one more thread does not pay
constexpr int64_t kBlockK = 2048;              // numbers along k that one pass sums: a panel block of at most 256 KiB
constexpr int64_t kCopiedColumns = 8;          // panels that columns of A are used for, from which on they are copied
constexpr int64_t kNearBytes = 256 * 1024;     // what stays in a second-level cache beside other things

// Some rows of A as the micro-kernel reads them: in place or, where it cannot or the rows would share cache sets, copied.
template <class T>
struct LeftRows {
  const T* data;
  int64_t tile, block;  // from one tile of rows to the next; from one number along k to the next
  int64_t stride;       // the micro-kernel's
  bool by_columns;

  // Whether rows of this A are read in place, when they are used `times` times.
  static bool in_place(const Product<T>& p, int64_t times) {
    if (kUnit<T> == 2 && (p.a_column != 1 || p.k % 2 != 0)) return false;
    if (p.a_column != 1 && p.a_row != 1) return false;
    if (p.a_column != 1 && times >= kCopiedColumns && p.k > kCopiedColumns) return false;  // a line of the cache for every number along k
    const int64_t stride = (p.a_column == 1 ? p.a_row : p.a_column) * static_cast<int64_t>(sizeof(T));
    return times < 3 || !shares_sets(stride);
  }

  static LeftRows there(const Product<T>& p, int64_t first, int64_t step) {
    const bool by_columns = p.a_column != 1;  // the transposed form of A has consecutive rows
    return {p.a + first * p.a_row, step * p.a_row, p.a_column, by_columns ? p.a_column : p.a_row, by_columns};
  }

  // Values of scratch that `rows` rows take.
  static int64_t size(const Product<T>& p, int64_t rows) { return (turned(p) ? 2 : 1) * (rows + kUnit<T>) * (round_up(p.k, kUnit<T>) + 64 / sizeof(T)); }

  // Whether the transposed form of A is turned, as the matrix unit takes rows alone.
  static bool turned(const Product<T>& p) { return kMatrixUnit<T, PDL_VECTOR_BYTES, kMaxRows<T, 2>, false> && matrix_unit && p.a_row == 1 && p.a_column != 1; }

  // Rows [first, first + rows), copied to `to` in tiles of `step`.
  static LeftRows copied(T* to, const Product<T>& p, int64_t first, int64_t rows, int64_t step) {
    const T* a = p.a + first * p.a_row;
    const int64_t units = (p.k + kUnit<T> - 1) / kUnit<T>;
    if constexpr (kUnit<T> == 2)
      if (turned(p)) {  // pairs side by side, then rows of them
        const int64_t stride = units * kUnit<T> + 64 / sizeof(T);
        T* pairs = to + rows * stride;
        const T* from = a;
        for (int64_t k = 0; k < units; k++, from += kUnit<T> * p.a_column)
          interleave(pairs + k * rows * kUnit<T>, from, 2 * k + 1 < p.k ? from + p.a_column : nullptr, rows);
        transpose<Real<T>>(reinterpret_cast<Real<T>*>(to), stride / kUnit<T>, reinterpret_cast<const char*>(pairs), rows * sizeof(Real<T>), rows,
                           static_cast<int>(units));
        return {to, step * stride, 1, stride, false};
      }
    if (p.a_row == 1 && p.a_column != 1) {
      for (int64_t strip = 0; strip < units; strip += kStrip)
        for (int64_t row = 0; row < rows; row += step) {
          T* tile = to + (row * units + strip * step) * kUnit<T>;
          const T* from = a + row + strip * kUnit<T> * p.a_column;
          const int64_t here = min64(step, rows - row);
          for (int64_t k = strip; k < min64(units, strip + kStrip); k++, tile += step * kUnit<T>, from += kUnit<T> * p.a_column) {
            if constexpr (kUnit<T> == 1) copy_few(tile, from, here);
            else interleave(tile, from, 2 * k + 1 < p.k ? from + p.a_column : nullptr, here);
          }
        }
      return {to, step * units * kUnit<T>, step, step * kUnit<T>, true};
    }
    const int64_t stride = units * kUnit<T> + 64 / sizeof(T);  // a line more: neighbours fall into other sets
    for (int64_t i = 0; i < rows; i++) {
      T* row = to + i * stride;
      const T* from = a + i * p.a_row;
      if (p.a_column == 1) memcpy(row, from, p.k * sizeof(T));
      else
        for (int64_t k = 0; k < p.k; k++) row[k] = from[k * p.a_column];
      if (p.k % kUnit<T> != 0) row[p.k] = T{};
    }
    return {to, step * stride, 1, stride, false};
  }
};

// Multiplies `rows` rows with one panel of B (packed or in place), block of k by block of k.
//   out OUT element (m, n) at m * out_stride + n of the result
template <class T>
inline void panel_rows(const Product<T>& p, const LeftRows<T>& a, int64_t first, int64_t rows, int64_t step, int64_t column, int columns,
                       const T* b, int64_t b_stride, const Real<T>* bias, const ColumnSums& sums) {
  const int64_t block_k = p.wide == nullptr && kUnit<T> == 2 ? max64(1, round_up(p.k, 2)) : kBlockK;
  for (int64_t k = 0; k == 0 || k < p.k; k += block_k) {
    const T* b_block = b + k / kUnit<T> * b_stride;
    const int64_t units = (min64(block_k, p.k - k) + kUnit<T> - 1) / kUnit<T>;
    const T* a_block = a.data + k * a.block;
    Tile<T> tile{&a_block, &b_block, 1, units, a.stride, b_stride, nullptr, p.out_stride, k == 0 ? bias : nullptr, k != 0, nullptr};
    const Epilogue<T>* then = k + block_k < p.k ? nullptr : p.then;
    const bool wide = kUnit<T> == 2 && p.wide != nullptr;
    if (!wide && !a.by_columns) {
      finished_tiles<T, false>(rows, step, columns, tile, p.out, first * p.out_stride + column, then, sums);
      continue;
    }
    for (int64_t row = 0; row < rows; row += step, a_block += a.tile) {
      const int64_t to = (first + row) * p.out_stride + column;
      const int here = static_cast<int>(min64(step, rows - row));
      if (!wide) {
        finished_tile<T, true>(here, columns, tile, p.out, to, then, sums);
        continue;
      }
      tile.c = p.wide + to;
      a.by_columns ? tile_kernel<T, true>(here, columns, tile) : tile_kernel<T, false>(here, columns, tile);
    }
  }
}

// The form for few rows of A beside a transposed B: both run along k, so every value of C is a dot product and nothing is packed. Four
// columns of B at a time keep the additions from waiting for each other.
template <class T>
void dots(const Product<T>& p) {
  constexpr int lanes = kLanes<T>, wide = 4;
  parallel(p.n, max64(wide, kParallelWork / max64(1, p.k * p.m)), [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; j += wide) {
      const int columns = static_cast<int>(min64(wide, end - j));
      for (int64_t i = 0; i < p.m; i++) {
        const T *a = p.a + i * p.a_row, *b[wide];
        for (int c = 0; c < wide; c++) b[c] = p.b + (j + (c < columns ? c : 0)) * p.b_column;
        Vec<T> sum[wide] = {};
        int64_t k = 0;
        for (; k + lanes <= p.k; k += lanes)
#pragma GCC unroll 4
          for (int c = 0; c < wide; c++) sum[c] += load(a + k) * load(b[c] + k);
        for (int c = 0; c < columns; c++) {
          T total = p.bias != nullptr ? p.bias[j + c] : T(0);
          for (int64_t rest = k; rest < p.k; rest++) total += a[rest] * b[c][rest];
          for (int lane = 0; lane < lanes; lane++) total += sum[c][lane];
          p.out[i * p.out_stride + j + c] = total;
        }
      }
    }
  });
}

// How a product is cut: chunks of rows, and groups of panels where the chunks are too few for the threads.
struct Pieces {
  int64_t chunk, chunks, groups;

  Pieces(int64_t m, int64_t step, int64_t panels, int64_t row_bytes, int64_t b_bytes) {
    // All of B near: a tile of A passes over it. Otherwise a panel of B passes over as many rows of A as stay near.
    chunk = b_bytes <= 2 * kNearBytes ? step : round_up(max64(1, kNearBytes / max64(1, row_bytes)), step);
    const int64_t wanted = num_threads() > 1 ? 4 * num_threads() : 1;
    if (m < chunk * wanted) chunk = max64(step, round_up((m + wanted - 1) / wanted, step));
    chunks = (m + chunk - 1) / chunk;
    groups = chunks >= wanted ? 1 : min64(panels, (wanted + chunks - 1) / chunks);
  }
};

// Sums over a long k, as of gradients of weights: blocks of k are the outer loop, so that a block of A stays in the second-level cache while
// panels of B, a first-level cache each, pass over it. Of C a tile is read and written once for every block.
template <class T>
struct Deep {
  using R = Real<T>;
  static constexpr int64_t kBlock = 256 * kUnit<T>;               // numbers along k: a panel of B is 32 KiB where registers have 64 bytes
  static constexpr int64_t kRows = 2 * kNearBytes / (256 * sizeof(R));  // of A in a block
  static constexpr int64_t kLeast = 4 * kBlock;                   // numbers along k that a slice has at least, as its sums are added up

  const Product<T>& p;
  int64_t panels, chunk, chunks, groups, slices, slice;

  static bool suits(const Product<T>& p) {
    return p.a_row == 1 && p.a_column != 1 && p.then == nullptr && p.bias == nullptr && p.k >= kLeast && p.m > 2 * kMaxRows<T, 2> &&
           p.n > kPanel<T>;
  }

  explicit Deep(const Product<T>& of) : p(of), panels((p.n + kPanel<T> - 1) / kPanel<T>) {
    const int64_t threads = num_threads(), wanted = threads > 1 ? 2 * threads : 1;
    chunk = even_rows(p.m, kRows), chunks = (p.m + chunk - 1) / chunk;
    groups = min64(min64(wanted, (panels + 3) / 4), (wanted + chunks - 1) / chunks);
    const int64_t pieces = chunks * groups;
    slices = min64((wanted + pieces - 1) / pieces, p.k / kLeast);
    slice = round_up((p.k + slices - 1) / slices, kBlock), slices = (p.k + slice - 1) / slice;
  }

  // Rows [row, row + rows), panels [first, last) and numbers [k, stop) along k.   c OUT element (m, n) at m * stride + n
  void piece(R* c, int64_t stride, int64_t row, int64_t rows, int64_t first, int64_t last, int64_t k, int64_t stop) const {
    constexpr int panel = kPanel<T>;
    constexpr int64_t most = kNearBytes / (kBlock * panel * sizeof(T));  // panels packed at a time
    const int64_t step = even_rows(rows, max_rows<T>(panel)), begin = k;
    Product<T> block = p;
    for (; k < stop; k += kBlock) {
      block.k = min64(kBlock, stop - k), block.a = p.a + row + k * p.a_column;
      T* copy = static_cast<T*>(scratch(Slot::kLeftRows, LeftRows<T>::size(block, rows) * sizeof(T)));
      const LeftRows<T> a = LeftRows<T>::copied(copy, block, 0, rows, step);
      const int64_t units = (block.k + kUnit<T> - 1) / kUnit<T>, size = units * panel * kUnit<T>;
      T* packed = static_cast<T*>(scratch(Slot::kRightPanels, most * size * sizeof(T)));
      for (int64_t at = first; at < last; at += most) {
        const int64_t end = min64(last, at + most), column = at * panel;
        pack_panels(packed, p.b + k * p.b_row + column * p.b_column, block.k, min64(p.n, end * panel) - column, p.b_row, p.b_column);
        for (int64_t i = at; i < end; i++) {
          const int columns = static_cast<int>(min64(panel, p.n - i * panel));
          const T *left = a.data, *right = packed + (i - at) * size;
          R* to = c + row * stride + i * panel;
          for (int64_t r = 0; r < rows; r += step, left += a.tile, to += step * stride) {
            const int here = static_cast<int>(min64(step, rows - r));
            for (int64_t next = step; k != begin && next < min64(2 * step, rows - r); next++) {
              __builtin_prefetch(to + next * stride, 1);
              __builtin_prefetch(to + next * stride + columns - 1, 1);
            }
            const Tile<T> tile{&left, &right, 1, units, a.stride, panel_width<T>(columns) * kUnit<T>, to, stride, nullptr, k != begin, nullptr};
            a.by_columns ? tile_kernel<T, true>(here, columns, tile) : tile_kernel<T, false>(here, columns, tile);
          }
        }
      }
    }
  }

  void run() const {
    R* sums = nullptr;  // [slices, m, n] where they are not the result themselves
    if constexpr (kUnit<T> == 1) sums = p.out;
    else sums = p.wide;
    const bool direct = slices == 1 && sums != nullptr;
    const int64_t stride = direct ? p.out_stride : p.n, share = p.m * p.n;
    if (!direct) sums = static_cast<R*>(scratch(Slot::kProductSums, slices * share * sizeof(R)));
    parallel(chunks * groups * slices, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        const int64_t part = i / (chunks * groups), row = i / groups % chunks * chunk, group = i % groups;
        piece(sums + (direct ? 0 : part * share), stride, row, min64(chunk, p.m - row), panels * group / groups, panels * (group + 1) / groups,
              part * slice, min64(p.k, (part + 1) * slice));
      }
    });
    if (!direct)
      parallel(p.m, max64(1, kParallelWork / (slices * p.n)), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++)
          for (int64_t j = 0; j < p.n; j += kLanes<R>) {
            const int64_t lanes = min64(kLanes<R>, p.n - j);
            const auto of = [&](int64_t part) {
              const R* from = sums + part * share + i * p.n + j;
              return lanes == kLanes<R> ? load<R>(from) : load_tail<R>(from, lanes);
            };
            Vec<R> sum = of(0);
            for (int64_t part = 1; part < slices; part++) sum += of(part);
            const auto put = [&](auto* to) { lanes == kLanes<R> ? store(to, sum) : store_tail(to, sum, lanes); };
            p.wide != nullptr ? put(p.wide + i * p.out_stride + j) : put(p.out + i * p.out_stride + j);
          }
      });
  }
};

// out = a @ b (+ bias): panels of B are packed once (unless few rows use them and they lie well), then tiles run in parallel.
template <class T>
void matmul_one(Product<T> p) {
  using R = Real<T>;
  if (p.n == 1 && p.out_stride == 1 && p.bias == nullptr && p.then == nullptr)  // a column is a row of the transposed product
    p = {1, p.m, p.k, p.out, p.m, p.b, p.b_column, p.b_row, p.a, p.a_column, p.a_row, nullptr, p.wide, p.then};
  if constexpr (kUnit<T> == 1)
    if (p.m <= 4 && p.then == nullptr && p.b_row == 1 && p.b_column != 1 && (p.a_column == 1 || p.k == 1)) return dots(p);
  if (Deep<T>::suits(p)) return Deep<T>(p).run();
  constexpr int panel = kPanel<T>;
  const int64_t panels = (p.n + panel - 1) / panel, units = max64(1, (p.k + kUnit<T> - 1) / kUnit<T>);
  const int64_t work = max64(1, p.k * panel);
  const bool in_place = kUnit<T> == 1 && p.b_column == 1 && p.m <= 2 * kMaxRows<T, 2>;
  const auto direct = [&](int columns) { return in_place && (Edge<R, PDL_VECTOR_BYTES>::kMasked || columns == panel); };
  const int64_t packed_size = units * panel * kUnit<T>;
  T* packed = static_cast<T*>(scratch(Slot::kRightPanels, panels * (packed_size * sizeof(T) + panel * sizeof(R))));
  R* bias = reinterpret_cast<R*>(packed + panels * packed_size);
  for (int64_t j = 0; p.bias != nullptr && j < panels * panel; j++) bias[j] = j < p.n ? value(p.bias[j]) : R(0);
  parallel(panels, max64(1, kParallelWork / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const int columns = static_cast<int>(min64(panel, p.n - i * panel));
      if (direct(columns)) continue;
      pack_panel(packed + i * packed_size, p.b + i * panel * p.b_column, p.k, columns, panel_width<T>(columns), p.b_row, p.b_column);
    }
  });
  const int64_t step = even_rows(p.m, max_rows<T>(static_cast<int>(min64(p.n, panel))));
  const Pieces pieces(p.m, step, panels, p.k * sizeof(T), panels * packed_size * sizeof(T));
  const bool there = LeftRows<T>::in_place(p, panels);
  const int64_t grain = max64(1, kParallelWork * pieces.groups / (work * panels * pieces.chunk));
  const int parts = pieces_of(pieces.chunks * pieces.groups, grain);
  const Statistics statistics(p.then, parts, panels * panel);
  parallel_parts(pieces.chunks * pieces.groups, parts, [&](int64_t begin, int64_t end, int part) {
    T* copy = there ? nullptr : static_cast<T*>(scratch(Slot::kLeftRows, LeftRows<T>::size(p, pieces.chunk) * sizeof(T)));
    LeftRows<T> a{};
    for (int64_t i = begin; i < end; i++) {
      const int64_t group = i % pieces.groups, first = i / pieces.groups * pieces.chunk, rows = min64(pieces.chunk, p.m - first);
      if (there) a = LeftRows<T>::there(p, first, step);
      else if (i == begin || group == 0) a = LeftRows<T>::copied(copy, p, first, rows, step);
      for (int64_t at = panels * group / pieces.groups; at < panels * (group + 1) / pieces.groups; at++) {
        const int columns = static_cast<int>(min64(panel, p.n - at * panel));
        const bool unpacked = direct(columns);
        const int64_t b_stride = unpacked ? p.b_row : panel_width<T>(columns) * kUnit<T>;
        panel_rows(p, a, first, rows, step, at * panel, columns,
                   unpacked ? p.b + at * panel : packed + at * packed_size, b_stride, p.bias == nullptr ? nullptr : bias + at * panel,
                   statistics.of(part, at * panel));
      }
    }
  });
  statistics.finish(p.then, p.n);
}

// A batch of products: many small ones run side by side, few large ones one after another.
//   offsets IN [batch, 3]: offsets of out, a and b for every product
template <class T>
void matmul(const Product<T>& first, int64_t batch, const int64_t* offsets) {
  const int64_t work = first.m * first.n * max64(1, first.k);
  const auto run = [&](int64_t i) {
    Product<T> p = first;
    p.a += offsets[3 * i + 1], p.b += offsets[3 * i + 2];
    if (p.wide != nullptr) p.wide += offsets[3 * i];
    else p.out += offsets[3 * i];
    const Epilogue<T> own = p.then == nullptr ? Epilogue<T>{} : from_column(*p.then, offsets[3 * i]);
    if (p.then != nullptr) p.then = &own;
    matmul_one(p);
  };
  if (batch >= 2 * num_threads() && work < 64 * kParallelWork) {
    parallel(batch, max64(1, kParallelWork / max64(1, work)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) run(i);
    });
  } else {
    for (int64_t i = 0; i < batch; i++) run(i);
  }
}

// Instantiated in gemm.cpp alone.
#define PDL_EXTERN(T) \
  extern template void matmul_one<T>(Product<T>); \
  extern template void matmul<T>(const Product<T>&, int64_t, const int64_t*);
PDL_EXTERN(float)
PDL_EXTERN(double)
PDL_EXTERN(bf16)
#undef PDL_EXTERN

}  // namespace pdl::PDL_ISA
