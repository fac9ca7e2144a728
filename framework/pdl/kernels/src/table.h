// One table of kernels per instruction set; table() is the one in use.
//
// How to add a family, say `fancy`:
//   1. src/fancy.h     the kernels: templates on T (float, double) in namespace pdl::PDL_ISA, on vec.h
//   2. here            template <class T> struct FancyTable { void (*fancy)(T* y, const T* x, int64_t n); };   a member pair in
//                      Table (FAMILY(Fancy, fancy)) and an accessor (ACCESSOR(Fancy, fancy)), which picks by the type of a pointer: Cython's fused types want that
//   3. src/isa.cpp     #include "fancy.h" and one line per member in the table at its end
//   4. fancy.pyx       checks dtypes and shapes, calls fancy_table(&x[0]).fancy(...) with the GIL released; its name joins the list in
//                      meson.build. Cython calls the pointers only if they are declared as methods: see pointwise.pyx
#pragma once
#include <cstdint>

namespace pdl {

template <class T>
struct PointwiseTable {
  void (*relu)(T* y, const T* x, int64_t n);
};

// Pooling: `to` is written cell by cell, `from` is read in windows. Sizes are D, H, W; lo and hi are indexed by a cell of `to`, scale by an output cell.
struct PoolGrid {
  int64_t batch, channels, to[3], from[3];
  const int32_t *lo[3], *hi[3];
  int32_t step[3];
  const double* scale[3];
};

template <class T>
struct PoolingTable {
  void (*max_pool)(T* y, int32_t* index, const T* x, const PoolGrid& grid);
  void (*max_pool_dx)(T* dx, const T* g, const int32_t* index, const PoolGrid& grid);
  void (*avg_pool)(T* y, const T* x, const PoolGrid& grid);
  void (*avg_pool_dx)(T* dx, const T* g, const PoolGrid& grid);
  void (*pick)(T* y, const T* x, const int32_t* index, int64_t batch, int64_t out, int64_t in, int64_t channels);
  void (*place)(T* dx, const T* g, const int32_t* index, int64_t batch, int64_t out, int64_t in, int64_t channels);
};

template <class T>
struct RowsTable {
  void (*take)(char* out, const char* table, const int64_t* index, int64_t n, int64_t bytes);
  void (*add)(T* table, const int64_t* index, const T* g, int64_t rows, int64_t n, int64_t columns);
  void (*extremum)(T* y, int32_t* winner, const T* x, const int64_t* index, int64_t rows, int64_t n, int64_t columns, T sign);
  void (*mix)(T* y, const T* x, const int64_t* start, const int64_t* source, const double* weight, int64_t outer, int64_t out, int64_t in,
              int64_t inner);
};

// CTC: log_p [n, t, c], target [n, u], steps [n], labels [n].
template <class T>
struct CtcBatch {
  const T* log_p;
  const int64_t *target, *steps, *labels;
  int64_t n, t, c, u, blank;
};

template <class T>
struct CtcTable {
  void (*loss)(T* out, T* scratch, const CtcBatch<T>& batch);
  void (*gradient)(T* d, T* scratch, const T* g, const CtcBatch<T>& batch);
};

#define FAMILY(Name, name) \
  Name##Table<float> name##_f32; \
  Name##Table<double> name##_f64;

struct Table {
  const char* isa;
  FAMILY(Pointwise, pointwise)
  FAMILY(Pooling, pooling)
  FAMILY(Rows, rows)
  FAMILY(Ctc, ctc)
};

// The table chosen when the library was loaded: the best the CPU has, or the one that PDL_CPU names.
const Table& table();

// Why PDL_CPU could not be honoured, or nullptr.
const char* isa_problem();

#define ACCESSOR(Name, name) \
  template <class T> \
  const Name##Table<T>* name##_table(const T*); \
  template <> \
  inline const Name##Table<float>* name##_table(const float*) { return &table().name##_f32; } \
  template <> \
  inline const Name##Table<double>* name##_table(const double*) { return &table().name##_f64; }

ACCESSOR(Pointwise, pointwise)
ACCESSOR(Pooling, pooling)
ACCESSOR(Rows, rows)
ACCESSOR(Ctc, ctc)

}  // namespace pdl
