// One table of kernels per instruction set; table() is the one in use.
//
// How to add a family, say `fancy`:
//   1. src/fancy.h     the kernels: templates on T (float, double) in namespace pdl::PDL_ISA, on vec.h
//   2. here            template <class T> struct FancyTable { void (*fancy)(T* y, const T* x, int64_t n); };   and a line in PDL_FAMILIES
//   3. src/fancy.cpp   Kernels<T>::fancy and PDL_INSTANTIATE(Fancy, fancy), or both in the unit of a family like it; a new unit joins the
//                      list in meson.build
//   4. fancy.pyx       checks dtypes and shapes, and launches PDL_REAL(fancy, fancy) of stored.h with the GIL released, as norm.pyx does;
//                      its name joins the list in meson.build
#pragma once
#include <cstdint>

#include "bf16.h"

namespace pdl {

// The functions of pointwise.unary, with their parameters (a, b, c).
enum Unary {
  kRelu,         // max(x, 0)
  kClip,         // min(max(x, a), b)
  kLeakyRelu,    // x, or a x below 0
  kElu,          // b x, or b a (e^(c x) - 1) below 0
  kHardSwish,    // x min(max(x / 6 + 1/2, 0), 1)
  kHardSigmoid,  // min(max(x / 6 + 1/2, 0), 1)
  kSigmoid,
  kLogSigmoid,
  kSoftplus,     // log(1 + e^(a x)) / a
  kSoftsign,     // x / (1 + |x|)
  kGelu,         // x Phi(x)
  kGeluTanh,     // its approximation by tanh
  kSilu,         // x sigmoid(x)
  kMish,         // x tanh(log(1 + e^x))
  kTanh,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kErf,
  kErfc,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kSquare,
  kNegative,
  kAbs,
};
enum Binary { kAdd, kSubtract, kMultiply, kDivide, kMaximum, kMinimum };

// What is done to the values of a product before they are stored: activation(value + residual), and the statistics of what is stored.
template <class T>
struct Epilogue {
  int activation = -1;                        // of enum Unary, or -1
  Real<T> a = 0, b = 0, c = 0;                // its parameters
  const T* residual = nullptr;                // IN laid out as the output, or null
  T* before = nullptr;                        // OUT what the activation is applied to, laid out as the output, or null
  Real<T>*mean = nullptr, *var = nullptr;     // OUT of every column: mean and biased variance, or null
};

template <class T>
struct PointwiseTable {
  void (*unary)(int name, T* y, const T* x, int64_t n, Real<T> a, Real<T> b, Real<T> c);
  // The residual, `before` and the activation of an epilogue for y + at [rows, columns] of x like it; not shared out among threads.
  void (*finish)(const Epilogue<T>& how, T* y, int64_t at, int64_t stride, const Real<T>* x, int64_t x_stride, int64_t rows,
                 int64_t columns);
  void (*unary_grad)(int name, T* dx, const T* g, const T* ref, int64_t n, Real<T> a, Real<T> b, Real<T> c);
  void (*binary)(int name, T* out, const T* a, const T* b, int64_t outer, int64_t rows, int64_t columns, int beside, bool swapped);
  void (*sums)(T* y, const T* x, int64_t outer, int64_t n, int64_t inner, Real<T> divisor);
  void (*extremes)(T* y, const T* x, int64_t outer, int64_t n, int64_t inner, bool largest);
};

// Between storage types.
struct CastTable {
  void (*narrow)(bf16* y, const float* x, int64_t n);
  void (*widen)(float* y, const bf16* x, int64_t n);
};

// Pictures of bytes.
struct ImageTable {
  void (*area)(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t y_step, int64_t width, const int32_t* row_start,
               const int32_t* row_source, const float* row_weight, const int32_t* column_start, const int32_t* column_source,
               const float* column_weight, float scale, bool half_up);
  void (*linear)(uint8_t* y, const uint8_t* x, int64_t h, int64_t w, int64_t c, int64_t y_step, int64_t width, const int32_t* rows,
                 const int32_t* columns);  // [4, h] and [4, w]: low, high, and their weights of 11 bits
  void (*lookup)(float* y, const uint8_t* x, const float* table, int64_t n, int64_t c);
  void (*highest)(uint8_t* y, const float* x, int64_t h, int64_t w, int64_t c, int64_t height, int64_t width, const double* factor,
                  const double* shift);  // of rows and of columns
};

template <class T>
struct NormTable {
  void (*group_norm)(T* y, T* mean, T* rstd, const T* x, const T* scale, const T* shift, int64_t n, int64_t rows, int64_t columns,
                     int64_t groups, double eps);
  void (*group_norm_grad)(T* dx, T* dscale, T* dshift, const T* g, const T* x, const T* mean, const T* rstd, const T* scale, int64_t n,
                          int64_t rows, int64_t columns, int64_t groups);
};

// Activations that kernels apply on the way (`act` below).
enum Act { kActNone, kActRelu, kActRelu6, kActHardSwish, kActSilu };

template <class S, class T = Real<S>>
struct BatchNormTable {
  void (*batch_norm)(S* y, T* mean, T* var, T* rstd, const S* x, const T* scale, const T* shift, const S* residual, int64_t rows,
                     int64_t columns, double eps, int act);
  void (*batch_norm_grad)(S* dx, T* dscale, T* dshift, S* dresidual, const S* g, const S* x, const S* y, const T* mean, const T* rstd,
                          const T* scale, const T* shift, int64_t rows, int64_t columns, int act);
  void (*apply)(S* y, const S* x, const T* mean, const T* var, const T* scale, const T* shift, const S* residual, int64_t rows,
                int64_t columns, double eps, int act);
  void (*apply_grad)(S* dx, T* dmean, T* dvar, T* dscale, T* dshift, S* dresidual, const S* g, const S* x, const S* y, const T* mean,
                     const T* var, const T* scale, const T* shift, int64_t rows, int64_t columns, double eps, int act);
};

template <class T>
struct SoftmaxTable {
  void (*softmax)(T* y, const T* x, int64_t rows, int64_t columns, bool logarithm);
  void (*softmax_grad)(T* dx, const T* g, const T* y, int64_t rows, int64_t columns, bool logarithm);
  void (*cross_entropy)(Real<T>* loss, Real<T>* lse, const T* x, const int64_t* labels, const Real<T>* weight, int64_t rows, int64_t columns,
                        double smoothing, int64_t ignored);
  void (*cross_entropy_grad)(T* dx, const Real<T>* g, const T* x, const Real<T>* lse, const int64_t* labels, const Real<T>* weight,
                             int64_t rows, int64_t columns, double smoothing, int64_t ignored, double factor, bool shared);
  void (*soft_cross_entropy)(Real<T>* loss, Real<T>* lse, Real<T>* mass, const T* x, const Real<T>* target, const Real<T>* weight, int64_t rows,
                             int64_t columns, double smoothing);
  void (*soft_cross_entropy_grad)(T* dx, const Real<T>* g, const T* x, const Real<T>* lse, const Real<T>* mass, const Real<T>* target,
                                  const Real<T>* weight, int64_t rows, int64_t columns, double smoothing, double factor, bool shared);
};

// Optimiser steps, each with its lists of arrays: parameters, gradients, then state.
enum Update {
  kSgd,              // (buffers where momentum is not 0)
  kAdam,             // means, squares
  kAdamMax,          // means, squares, largest squares
  kLamb,             // means, squares, directions (written)
  kRmsprop,          // squares
  kRmspropMomentum,  // squares, buffers
  kRmspropCentred,   // squares, means
  kRmspropBoth,      // squares, means, buffers
  kAdagrad,          // sums
  kAdagradMomentum,  // sums, velocities
  kAdadelta,         // squares, steps
};
struct UpdateRule {
  double lr, weight_decay, scale;          // gradients are multiplied by `scale` first
  double momentum, dampening, beta1, beta2, eps;
  double correction1, correction2;         // 1 - beta^step
  bool nesterov, first, decoupled;
  bool under_root;                         // sqrt(s + eps) in place of sqrt(s) + eps
};

template <class T>
struct UpdateTable {
  void (*step)(int rule, T* const* lists, const int64_t* sizes, int64_t count, const UpdateRule& h);
  void (*axpy)(T* const* lists, const int64_t* sizes, int64_t count, double keep, const double* factor, bool shared);
  void (*squares)(double* out, T* const* arrays, const int64_t* sizes, int64_t count);
  void (*adagrad_rows)(T* p, const T* g, T* sums, T* velocity, const int64_t* rows, int64_t n, int64_t columns, const UpdateRule& h);
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
  void (*max_pool_dx)(T* dx, const T* g, const int32_t* index, const PoolGrid& cells, const PoolGrid& windows);
  void (*avg_pool)(T* y, const T* x, const PoolGrid& grid);
  void (*avg_pool_dx)(T* dx, const T* g, const PoolGrid& cells, const PoolGrid& windows);
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
  void (*combine)(int64_t* rows, T* values, const int64_t* index, const T* g, int64_t n, int64_t columns, int64_t left_out);
};

// Columns below `first`, and excluded[start[i]..start[i + 1]) of row i in ascending order, are not ranked; `start` may be null.
template <class T>
struct RankingTable {
  void (*count)(int64_t* above, int64_t* equal, const T* scores, const int64_t* targets, int64_t rows, int64_t columns, int64_t first,
                const int64_t* start, const int64_t* excluded);
  void (*top)(T* values, int64_t* indices, const T* scores, int64_t rows, int64_t columns, int64_t k, int64_t first, const int64_t* start,
              const int64_t* excluded);
  void (*products)(T* values, int64_t* indices, const T* queries, const T* table, const T* bias, int64_t rows, int64_t inputs, int64_t columns,
                   int64_t k, int64_t first, const int64_t* start, const int64_t* excluded);
};

// The pattern of a sparse matrix by rows: the nonzeros of row i are [indptr[i], indptr[i + 1]); their columns; where their values stand among the
// nonzeros, or null: in this order. The kernels answer 0, or where the pattern is wrong, see csr.h.
struct CsrPattern {
  const int64_t* indptr;
  const int32_t *indices, *edges;
  int64_t rows, columns, nonzeros;
};

template <class T>
struct CsrTable {
  int64_t (*spmm)(T* y, const T* x, const T* value, const CsrPattern& p, int64_t heads, int64_t channels);
  int64_t (*spmm_scattered)(T* y, const T* x, const T* value, const CsrPattern& p, int64_t width);
  int64_t (*sddmm)(T* y, const T* q, const T* k, const CsrPattern& p, int64_t heads, int64_t channels);
  int64_t (*edge_softmax)(T* y, const T* x, const CsrPattern& p, int64_t heads);
  int64_t (*edge_softmax_grad)(T* dx, const T* g, const T* y, const CsrPattern& p, int64_t heads);
  int64_t (*extremum)(T* y, int32_t* winner, const T* x, const T* value, const CsrPattern& p, int64_t heads, int64_t channels, T sign);
  int64_t (*extremum_grad_x)(T* dx, const T* g, const int32_t* winner, const T* value, const CsrPattern& p, int64_t heads, int64_t channels);
  int64_t (*extremum_grad_value)(T* dvalue, const T* g, const int32_t* winner, const T* x, const CsrPattern& p, int64_t heads, int64_t channels);
  int64_t (*inverse_sizes)(T* y, const CsrPattern& p);
};

// Distances of all pairs of rows (distance.h), `metric` one of these; dx, dy from the gradient g [rows, others] (of kL2 over the distance).
enum Distance { kL1, kL2, kComplex };
template <class T>
struct DistanceTable {
  void (*forward)(int metric, T* out, const T* x, const T* y, int64_t rows, int64_t others, int64_t columns);
  void (*backward)(int metric, T* dx, T* dy, const T* g, const T* x, const T* y, int64_t rows, int64_t others, int64_t columns);
};

// Complex numbers [states, 2^n] changed by a program of gates, what observables make of them and measurements find (statevector.h, statevector_grad.h, pauli.h,
// measure.h).
template <class T>
struct StateVectorTable {
  void (*run)(T* z, int64_t states, int n, const int64_t* program, const double* values, int64_t values_stride, bool zero);
  void (*backward)(T* z, T* l, int64_t states, int n, const int64_t* program, const double* values, int64_t values_stride, double* sums, int64_t slots);
  void (*pauli)(T* out, const T* z, int64_t states, int n, const int64_t* groups, const double* values, int64_t values_stride, double* energies);
  void (*probabilities)(double* out, const T* z, int64_t states, int n, const int64_t* bits, int count);
  void (*sample)(int64_t* out, double* total, const T* z, int64_t states, int n, const double* draws, int64_t shots);
};

// One direction of a recurrent layer over all its steps; G gates and A kept values a unit: kRnn 1 and 1 (its state), kGru 3 (r, z, n) and 4 (r, z,
// n, the state's part of n), kLstm 4 (i, f, g, o) and 5 (i, f, g, o, c before). Steps from lengths[n] on are padding: y is 0 there, the state stays.
enum Cell { kRnn, kGru, kLstm };
template <class T>
struct Recurrence {
  int64_t n, steps, hidden;
  bool reverse;            // from the last step to the first
  const int64_t* lengths;  // IN [n] in [0, steps], or null
  const T* w;              // IN [hidden, G hidden]
  // forward
  const T *gates, *bias;   // IN [n, steps, G hidden] from the input; IN [G hidden] or null, added to the product with the state
  const T *h0, *c0;        // IN [n, hidden] or null (zeros); kLstm alone has c
  T *y, *h, *c;            // OUT [n, steps, hidden], the last states OUT [n, hidden]
  T *acts, *before;        // OUT [n, steps, A hidden], the state before each step OUT [n, steps, hidden]
  // backward
  const T *gy, *gh, *gc;   // IN gradients of y, h and c, each or null
  const T *acts_in, *before_in;
  T *dgates, *dh0, *dc0;   // OUT like gates, h0 and c0
  T* dlast;                // OUT [n, steps, hidden] with kGru: the gradient of the state's part of n
  T *dw, *dbias;           // OUT like w and bias; dbias may be null
};

template <class T>
struct CellsTable {
  void (*forward)(int cell, const Recurrence<T>& r);
  void (*backward)(int cell, const Recurrence<T>& r);
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
  int64_t (*row_size)(int64_t u);
  void (*loss)(T* out, T* scratch, const CtcBatch<T>& batch);
  void (*gradient)(T* d, T* scratch, const T* g, const CtcBatch<T>& batch);
};

// A linear-chain CRF: emissions [n, t, k], tags [n, t] (null where there are none), lengths [n], transitions [k, k] from row to column, starts and
// ends [k].
template <class T>
struct CrfBatch {
  const T *emissions, *transitions, *starts, *ends;
  const int64_t *tags, *lengths;
  int64_t n, t, k;
};

template <class T>
struct CrfTable {
  void (*loss)(T* out, const CrfBatch<T>& batch);
  void (*gradient)(T* emissions, T* transitions, T* starts, T* ends, const T* g, const CrfBatch<T>& batch);
  void (*marginals)(T* out, const CrfBatch<T>& batch);
  void (*decode)(int64_t* tags, const CrfBatch<T>& batch);
};

// One matrix product.   out OUT [m, n] rows contiguous, a IN [m, k], b IN [k, n], any strides; bias IN [n] or null;
// wide OUT in place of out, not rounded to T, or null
template <class T>
struct Product {
  int64_t m, n, k;
  T* out;
  int64_t out_stride;
  const T* a;
  int64_t a_row, a_column;
  const T* b;
  int64_t b_row, b_column;
  const T* bias;
  Real<T>* wide = nullptr;
  const Epilogue<T>* then = nullptr;
};

template <class T>
struct GemmTable {
  void (*matmul)(const Product<T>& first, int64_t batch, const int64_t* offsets);
};

// One convolution: sizes along depth, height and width.
struct Geometry {
  int64_t n;
  int64_t in[3], out[3], kernel[3];
  int64_t stride[3], pad[3], dilation[3];
  int64_t c, o, groups;  // all input channels, all output channels
};

template <class T>
struct ConvTable {
  void (*forward)(T* y, const T* x, const T* w, const T* bias, const Geometry& g);
  void (*dx)(T* dx, const T* dy, const T* w, const Geometry& g);
  void (*dw)(T* dw, Real<T>* wide, const T* x, const T* dy, const Geometry& g);  // OUT dw or, where not null, wide
  void (*forward_then)(T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>& then);
};

// An array [n, heads, rows, columns]: strides of the first three in elements, the values of a row side by side.
struct AttentionArray {
  void* data;
  int64_t strides[3];
};
enum AttentionMask { kNoMask, kKeepMask, kAddMask };  // of bytes (0: kept out), or of numbers that are added

// Attention of q [n, heads, l, e] to k [n, heads, s, e], v [n, heads, s, d]. lse [n, heads, l] in the type of the arithmetic, contiguous.
// With `relative`, the scores (i, j) of query and key have the products of `moved` [n, heads, l, e] (i) and `places` [n, heads, l + s - 1, e]
// (l - 1 - i + j) added.
struct AttentionCall {
  int64_t n, heads, l, s, e, d;
  AttentionArray q, k, v, y, g, dq, dk, dv;  // the last four in the gradient; y and lse are OUT in `forward`, IN in `backward`
  AttentionArray moved, places, dmoved, dplaces;
  void* lse;
  const void* mask;
  int mask_kind;
  int64_t mask_strides[4];
  bool causal, relative;
  double scale, dropout;
  uint64_t seed;
};

// One for each storage type: float, double, bf16. `dropout`: see attention.h; `activation` is a Unary, or -1 for none.
struct AttentionTable {
  void (*forward)(const AttentionCall& call);
  void (*backward)(const AttentionCall& call);
  void (*dropout)(void* y, const void* x, const void* ref, int activation, int64_t rows, int64_t columns, double p, uint64_t seed);
};

// Attention of t new positions a row to those that it has kept. Arrays contiguous, of the storage type; the new positions of row r go to
// lengths[r] .. lengths[r] + counts[r] of its room, where counts[r] of the t are real.
struct CachedCall {
  int64_t rows, t, room, heads, kv_heads, e, d;
  void* y;                          // OUT [rows, t, heads, d]; 0 where a position is not real
  void *keys, *values;              // IN OUT [rows, room, kv_heads, e] and [rows, room, kv_heads, d]
  const void *q, *k, *v;            // IN  [rows, t, heads, e], [rows, t, kv_heads, e], [rows, t, kv_heads, d]
  const int64_t *lengths, *counts;  // IN  [rows]
  double scale;
};
template <class T>
struct CachedTable {
  int64_t (*attend)(const CachedCall& call);
};

// Layer norm of t = x + residual, x dropped out before; arrays [rows, columns] of the storage type, the others of the arithmetic.
struct LayerNormCall {
  int64_t rows, columns;
  void *y, *total;               // OUT [rows, columns] y, t (null: x is t); in the gradient dx, dresidual (null without dropout: it is dx)
  void *mean, *rstd;             // OUT [rows], in the gradient IN; mean null: RMS norm
  const void *x, *residual;      // IN  [rows, columns]; residual may be null; in the gradient x is t
  const void *scale, *shift;     // IN  [columns] or null
  const void *g, *g_total;       // IN  [rows, columns] gradients of y and of t (or null)
  void *dscale, *dshift;         // OUT [columns] or null
  double eps, dropout;
  uint64_t seed;
};

// One for each storage type: float, double, bf16.
struct LayerNormTable {
  void (*forward)(const LayerNormCall& call);
  void (*backward)(const LayerNormCall& call);
};

// A linear layer and the cross-entropy of its scores x w + bias, for many classes, which are taken in blocks. Where `width` is not 0 the rows
// of w are classes, and rows of x are taken in groups of this many, a multiple of 16.
template <class T>
struct Classifier {
  int64_t rows, inputs, classes, block, width, ignored;  // a label equal to `ignored` counts nothing
  double smoothing, factor;
  bool shared;                           // one g for all rows
  const T *x, *w, *bias;                 // IN [rows, inputs], [inputs, classes] or [classes, inputs], [classes] or null
  const int64_t* labels;                 // IN [rows] checked
  const int64_t* ids;                    // IN [classes] or null, with `width`: see classifier_rows.h; those of labels are below 2^31, and not negative
  T *loss, *lse, *scores;                // OUT [rows], [rows], [blocks, rows, block] or [groups, classes, width]
  const T *g, *lse_in, *scores_in;       // backward: IN the gradient of the loss, times `factor`; what forward gave
  T *dx, *dw, *dbias;                    // OUT like x, w and bias; dbias may be null
};

template <class T>
struct ClassifierTable {
  void (*forward)(const Classifier<T>& p);
  void (*backward)(const Classifier<T>& p);
};

// What an input goes through before a convolution reads it: f((x - mean) / sqrt(var + eps) scale + shift), f the activation.
template <class T>
struct NormInput {
  const T *mean, *var;     // null: the input is taken as it is
  const T *scale, *shift;  // may be null
  double eps;
  int act;
};

template <class S, class T = Real<S>>
struct NormConvTable {
  void (*forward)(S* y, T* mean, T* var, const S* x, const NormInput<T>& in, const T* w, const Geometry& g);
  void (*backward)(S* dx, T* dw, T* dmean, T* dvar, T* dscale, T* dshift, const S* g, const S* y, const T* y_mean, const T* g_mean,
                   const T* g_var, const S* x, const NormInput<T>& in, const T* w, const Geometry& geometry);
  void (*moments)(T* mean, T* var, const S* x, int64_t rows, int64_t columns);
  void (*moments_grad)(S* dx, const S* g, const S* x, const T* mean, const T* g_mean, const T* g_var, int64_t rows, int64_t columns);
};

// One copy: loops over `dims` axes, steps in bytes; `item` bytes an element.
constexpr int kCopyDims = 8;
struct CopyCall {
  char* to;
  const char* from;
  int32_t item, dims;
  int64_t shape[kCopyDims], to_step[kCopyDims], from_step[kCopyDims];
};
enum NumberType { kBool, kUint8, kInt8, kInt16, kInt32, kInt64, kFloat, kDouble };
struct CopyTable {
  void (*copy)(const CopyCall& call);
  void (*convert)(void* y, int to, const void* x, int from, int64_t n);  // contiguous, types by NumberType
};

// How weights are packed for inference (packed.h): panels of a matrix [kernel... * c, o], Winograd's points of 3x3 taps, or what blocks.h
// keeps of a matrix.
enum Packed { kPackedRows, kPackedWinograd4, kPackedWinograd2, kPackedTaps, kPackedBlocks };
constexpr int kBlockWide = 16;

// `form` is a Packed; groups are 1, and Winograd wants 3x3 taps of stride 1, a padding in multiples of the dilation, c and o multiples of
// 16 and no float64. Blocks are of float32, and packed by the caller.
template <class T>
struct PackedTable {
  int64_t (*size)(int form, const Geometry& g);                   // values of T
  void (*pack)(int form, T* to, const T* w, const Geometry& g);   // to OUT [size]
  void (*forward)(int form, T* y, const T* x, const T* w, const T* bias, const Geometry& g, const Epilogue<T>& then);
  // A pointwise convolution in rows, and a depthwise one (g): expand.h. `expands`: whether they have this form, 0 or 1.
  int64_t (*expands)(int64_t inputs, const Geometry& g);
  void (*expand_depthwise)(T* y, const T* x, const T* w, const T* b, int64_t inputs, const Epilogue<T>& inner, const T* window, const T* bias,
                           const Geometry& g, const Epilogue<T>& then);
};

// A chain of elementwise steps on one array [outer, rows, columns].
struct ChainStep {
  int name;        // a Binary, or, where operand is -1, a Unary with its parameters
  int operand;     // the number of the input that is the other side
  bool swapped;    // operand o value, not value o operand
  double a, b, c;
};
struct ChainCall {
  // How an input lies beside y: like it, [columns], [outer, columns], [outer, rows], or one value
  enum Beside { kSame, kRow, kOuterRow, kColumn, kOne };
  static constexpr int kInputs = 8, kSteps = 16;
  void* y;                     // OUT [outer, rows, columns]
  const void* in[kInputs];     // IN; the first is what the steps begin with, and like y
  int beside[kInputs];
  int64_t outer, rows, columns;
  int inputs, steps;
  ChainStep step[kSteps];
};

template <class T>
struct ChainTable {
  void (*run)(const ChainCall& call);
};

// Quantised nets (int8.h). What is done to a scaled sum before it is stored: v = sum * multiplier (+ residual), perhaps hardswish, then clamped.
struct QuantThen {
  uint8_t* y;               // OUT bytes: round(v) + zero; or null
  float* wide;              // OUT v itself, where y is null
  const uint8_t* residual;  // IN like y, or null: + (residual - residual_zero) * residual_scale
  int zero, residual_zero;
  float residual_scale;
  float low, high;          // bounds of v, so that they hold ReLU, ReLU6 and saturation
  float after;              // factor behind hardswish
  bool swish;
};

// tile: 0 for direct summation, 2 or 4 for Winograd's filters of so many pixels a side (int8_winograd.h)
struct Int8Table {
  int unit;  // numbers of a sum that one lane takes at once: 4 bytes, or 2 of them in 16 bits each
  int64_t (*packed_bytes)(const Geometry& g, int tile);
  // packed OUT [packed_bytes], w IN [kernel..., c / groups, o], bias IN [o] or null, multiplier IN [o]
  void (*pack)(int8_t* packed, const int8_t* w, const int32_t* bias, const float* multiplier, int x_zero, const Geometry& g, int tile);
  void (*convolution)(const QuantThen& then, const uint8_t* x, int x_zero, const int8_t* packed, const Geometry& g, int tile);
  // zero points IN are bytes as y and q are: u8, or s8 where `is_signed`
  void (*quantise)(uint8_t* y, const float* x, const float* scale, const uint8_t* zero, int64_t outer, int64_t axis, int64_t inner, int low, int high,
                   bool is_signed);
  void (*dequantise)(float* y, const uint8_t* q, const float* scale, const uint8_t* zero, int64_t outer, int64_t axis, int64_t inner, bool is_signed);
  void (*add)(uint8_t* y, const uint8_t* a, const uint8_t* b, int64_t n, int a_zero, float a_scale, int b_zero, float b_scale, int zero, float low,
              float high);
  void (*look_up)(uint8_t* y, const uint8_t* x, const uint8_t* table, int64_t n);
  void (*max_pool)(uint8_t* y, const uint8_t* x, const PoolGrid& grid);
  void (*avg_pool)(const QuantThen& then, const uint8_t* x, int x_zero, float factor, const PoolGrid& grid);
};

// Where points outside of an image read, and what a point between cells reads.
enum Padding { kZeros, kBorder, kReflection };
enum Between { kLinear, kNearest, kCubic };

// Images [n, h, w, c] at `cells` points each; -1 and 1 are the outer edges of the corner cells, or their centres (corners).
struct GridCall {
  int64_t n, h, w, c, cells;
  int mode, padding;
  bool corners;
};

// Regions of images [images, h, w, c] in `rows` by `columns` bins of ratio^2 samples (0: about one a cell); coordinates are multiplied by `scale`,
// and cells' centres lie at halves (half) or at whole numbers. Region r lies on image[r], -1: on none.
struct RoiCall {
  int64_t images, h, w, c, rois, rows, columns, ratio;
  double scale;
  bool half, largest;
};

template <class T>
struct RegionsTable {
  void (*grid_sample)(T* y, const T* x, const T* grid, const GridCall& call);
  void (*grid_sample_grad)(T* dx, T* dgrid, const T* g, const T* x, const T* grid, const GridCall& call);
  void (*roi_align)(T* y, const T* x, const T* rois, const int64_t* image, const RoiCall& call);
  void (*roi_align_grad)(T* dx, const T* g, const T* rois, const int64_t* image, const RoiCall& call);
};

// What is done to boxes that overlap one with a higher score: nothing, they go, or their scores are lowered.
enum Suppression { kKeepAll, kHard, kLinearDecay, kGaussianDecay, kMatrixDecay };
enum Overlap { kIou, kGiou, kDiou, kCiou };

// Of the `candidates` best scores above `lowest` of an image [anchors, classes] the `most` best that are left. Boxes are [images, anchors, 4], or
// [images, anchors, classes, 4] (each); `apart`: boxes of several classes do not meet.
struct SelectCall {
  int64_t images, anchors, classes, candidates, most;
  int how;
  double overlap, lowest, sigma;
  bool apart, each;
};

// Boxes a [outer, n, 4] and b [outer, m, 4]: (x1, y1, x2, y2).
struct OverlapCall {
  int64_t outer, n, m;
  int measure;
};

template <class T>
struct BoxesTable {
  void (*select)(T* boxes, T* scores, int64_t* labels, int64_t* index, const T* from, const T* values, const SelectCall& call);
  void (*suppress)(int64_t* kept, int64_t* counts, const T* boxes, const T* scores, int64_t groups, int64_t kinds, int64_t n, int64_t most,
                   double overlap, double lowest, bool any, bool centred);
  void (*overlap)(T* y, const T* a, const T* b, const OverlapCall& call);
  void (*overlap_grad)(T* da, const T* g, const T* a, const T* b, const OverlapCall& call);
};

// Losses of a logit x and its target in [0, 1], element by element, with weights of positive and negative ones, and of a distribution over bins
// (focal.h).
enum Focal { kSigmoidFocal, kQualityFocal, kVarifocal };

template <class T>
struct FocalTable {
  void (*loss)(T* y, const T* x, const T* target, int64_t n, int kind, double positive, double negative, double gamma);
  void (*slope)(T* dx, const T* g, const T* x, const T* target, int64_t n, int kind, double positive, double negative, double gamma);
  void (*distribution)(T* loss, T* lse, const T* x, const T* target, int64_t rows, int64_t bins);
  void (*distribution_slope)(T* dx, const T* g, const T* x, const T* lse, const T* target, int64_t rows, int64_t bins);
};

// Columns of queries and keys turned by angles of their positions (rotary.h).
template <class T>
struct RotaryTable {
  void (*rotate)(T* y, const T* x, const Real<T>* cos, const Real<T>* sin, int64_t rows, int64_t columns, int64_t turns, int64_t heads,
                 int64_t size, bool back);
};

// How frames of signals [signals, samples] are transformed (fft.h): frame f is the `size` samples from f hop - left on, filled up with zeros to n.
// A transform of n real points is one of `points` complex ones, n / 2 of an even n, in `stages` of radix[s] whose product that is.
enum PadMode { kPadZero, kPadReflect, kPadSymmetric, kPadEdge };
enum Spectral { kSpectrum, kPower, kMagnitude };
struct FftCall {
  int64_t signals, samples, frames, size, hop, left;
  int mode;                         // of enum PadMode: what is read beyond a signal
  bool remove_dc;                   // frames less their means
  double preemphasis, floor, scale; // of products with a bank, scale log(max(y, floor)) where floor is above 0
  int64_t n, points, stages, largest;  // the largest radix
  const int64_t *radix, *place;     // [stages], [points]
  const void *twiddles, *turns;     // of T: of each stage [length / radix, radix - 1, 2]; [points / 2 + 1, 2] e^(-2 pi i k / n)
};

template <class T>
struct FftTable {
  void (*forward)(int what, T* y, const T* x, const T* window, const T* bank, int64_t width, const FftCall& call);
  void (*inverse)(T* y, const T* x, const T* window, int64_t rows, double edge, double inner, const FftCall& call);
  void (*overlap_add)(T* y, const T* x, const FftCall& call);
};

// Products with weights of 8 or 4 bits (nbits.h).
struct NBitsTable {
  void (*product)(float* y, const float* x, const int32_t* packed, const float* levels, const float* bias, int64_t rows, int64_t k, int64_t n,
                  int64_t group, int bits);
};

// All families of the table: FAMILY(Name, name) for float32 and float64, STORED(Name, name) for bfloat16 as a type of storage, too.
#define PDL_FAMILIES(FAMILY, STORED) \
  STORED(Gemm, gemm) \
  STORED(Conv, conv) \
  STORED(Packed, packed) \
  STORED(NormConv, norm_conv) \
  STORED(BatchNorm, batch_norm) \
  STORED(Pointwise, pointwise) \
  STORED(Chain, chain) \
  STORED(Softmax, softmax) \
  STORED(Rotary, rotary) \
  STORED(Pooling, pooling) \
  STORED(Cached, cached) \
  FAMILY(Norm, norm) \
  FAMILY(Cells, cells) \
  FAMILY(Classifier, classifier) \
  FAMILY(Update, update) \
  FAMILY(Rows, rows) \
  FAMILY(Csr, csr) \
  FAMILY(Ranking, ranking) \
  FAMILY(Distance, distance) \
  FAMILY(Crf, crf) \
  FAMILY(Ctc, ctc) \
  FAMILY(Regions, regions) \
  FAMILY(Boxes, boxes) \
  FAMILY(Focal, focal) \
  FAMILY(Fft, fft) \
  FAMILY(StateVector, statevector)

struct Table {
  const char* isa;
#define FAMILY(Name, name) const Name##Table<float>* name##_f32; const Name##Table<double>* name##_f64;
#define STORED(Name, name) FAMILY(Name, name) const Name##Table<bf16>* name##_bf16;
  PDL_FAMILIES(FAMILY, STORED)
#undef FAMILY
#undef STORED
  const AttentionTable* attention[3];
  const LayerNormTable* layer_norm[3];
  const CastTable* cast;
  const CopyTable* copying;
  const ImageTable* image;
  const Int8Table* int8;
  const NBitsTable* nbits;
};

// What the table of an instruction set consists of, in its namespace. A family's unit defines its member and instantiates it by
// PDL_INSTANTIATE(Name, name) or PDL_INSTANTIATE_STORED(Name, name); of the units that are compiled again for AVX512-BF16, bfloat16 alone.
#define PDL_MEMBER(Name, name) static const Name##Table<T> name;
#define PDL_DECLARE_KERNELS \
  template <class T> \
  struct Kernels { \
    PDL_FAMILIES(PDL_MEMBER, PDL_MEMBER) \
    static const AttentionTable attention; \
    static const LayerNormTable layer_norm; \
  }; \
  extern const CastTable kCastTable; \
  extern const CopyTable kCopyTable; \
  extern const ImageTable kImageTable; \
  extern const Int8Table kInt8Table; \
  extern const NBitsTable kNBitsTable; \
  extern const Table kTable;

#if defined(PDL_ISA)
namespace PDL_ISA { PDL_DECLARE_KERNELS }
#endif
#if defined(__AVX512BF16__)
#define PDL_INSTANTIATE(Name, name)
#define PDL_INSTANTIATE_STORED(Name, name) template const Name##Table<bf16> Kernels<bf16>::name;
#else
#define PDL_INSTANTIATE(Name, name) \
  template const Name##Table<float> Kernels<float>::name; \
  template const Name##Table<double> Kernels<double>::name;
#define PDL_INSTANTIATE_STORED(Name, name) \
  PDL_INSTANTIATE(Name, name) \
  template const Name##Table<bf16> Kernels<bf16>::name;
#endif

// The table chosen when the library was loaded: the best the CPU has, or the one that PDL_CPU names.
const Table& table();

// Why PDL_CPU could not be honoured, or nullptr.
const char* isa_problem();

// fancy_table(pointer) picks a family's table by the type of a pointer: Cython's fused types want that.
#define FAMILY(Name, name) \
  template <class T> \
  const Name##Table<T>* name##_table(const T*); \
  template <> \
  inline const Name##Table<float>* name##_table(const float*) { return table().name##_f32; } \
  template <> \
  inline const Name##Table<double>* name##_table(const double*) { return table().name##_f64; }
#define STORED(Name, name) \
  FAMILY(Name, name) \
  template <> \
  inline const Name##Table<bf16>* name##_table(const bf16*) { return table().name##_bf16; }
PDL_FAMILIES(FAMILY, STORED)
#undef FAMILY
#undef STORED

}  // namespace pdl
