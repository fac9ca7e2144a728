// Chains of elementwise functions, block by block: values are read once, go through all steps in the first-level cache, and are written once.
#pragma once
#include <new>
#include <type_traits>

#include "pointwise.h"
#include "tile.h"

namespace pdl::PDL_ISA::chains {

constexpr int64_t kBlock = 1024;  // values that go through the steps together

// Rows and columns of one block of an array [outer, rows, columns]: some whole rows of one of `outer`, or a piece of a row.
struct Block {
  int64_t outer, row, rows, column, columns;
};

// An operand of a chain, for one block after the other.
template <class S>
class Operand {
  using R = Real<S>;

 public:
  Operand(const ChainCall& call, int number)
      : call_(call), at_(static_cast<const S*>(call.in[number])), beside_(call.beside[number]), known_(-1) {}

  // out = f(in, operand) over a block of n values that begins at value `at`
  template <class Out, class In, class F>
  void apply(Out* out, const In* in, int64_t at, int64_t n, const Block& block, const F& f) {
    switch (beside_) {
      case ChainCall::kSame: return map_range(0, n, out, f, in, at_ + at);
      case ChainCall::kOne: return with(out, in, n, value(*at_), f);
      case ChainCall::kColumn:
        for (int64_t r = 0, c = block.columns; r < block.rows; r++)
          with(out + r * c, in + r * c, c, value(at_[block.outer * call_.rows + block.row + r]), f);
        return;
      default: break;
    }
    const S* row = at_ + (beside_ == ChainCall::kRow ? 0 : block.outer * call_.columns) + block.column;
    if (block.rows == 1) return map_range(0, n, out, f, in, row);
    spread(row);
    map_range(0, n, out, f, in, static_cast<const R*>(spread_));
  }

 private:
  template <class Out, class In, class F>
  static void with(Out* out, const In* in, int64_t n, R one, const F& f) {
    const Vec<R> whole = splat<R>(one);
    map_range(0, n, out, [&](Vec<R> v) __attribute__((always_inline)) { return f(v, whole); }, in);
  }
  // The row as often as a block has rows; kept until another row comes.
  void spread(const S* row) {
    const int64_t key = row - at_;
    if (key == known_) return;
    known_ = key;
    const int64_t most = min64(call_.rows, kBlock / call_.columns);
    for (int64_t j = 0; j < call_.columns; j++) spread_[j] = value(row[j]);
    for (int64_t i = 1; i < most; i++) memcpy(spread_ + i * call_.columns, spread_, call_.columns * sizeof(R));
  }

  const ChainCall& call_;
  const S* at_;
  int beside_;
  int64_t known_;
  alignas(64) R spread_[kBlock];
};

template <class Out, class In>
inline void pass(Out* out, const In* in, int64_t n) {
  using V = Vec<Real<In>>;
  map_range(0, n, out, [](V v) __attribute__((always_inline)) { return v; }, in);
}

// One step of a block: from `in` to `out`, which may be one. Functions of one value are computed in R, in `values` where it must be.
template <class S, class Out, class In, class R = Real<S>>
inline void step(const ChainStep& how, Out* out, const In* in, R* values, int64_t at, int64_t n, const Block& block,
                 Operand<S>* const* operands) {
  if (how.operand < 0) {
    const auto call = [&](R* to, const R* from) {
      pointwise_table(from)->unary(how.name, to, from, n, static_cast<R>(how.a), static_cast<R>(how.b), static_cast<R>(how.c));
    };
    if constexpr (std::is_same_v<Out, R> && std::is_same_v<In, R>) return call(out, in);
    if constexpr (!std::is_same_v<In, R>) pass(values, in, n);
    if constexpr (std::is_same_v<In, R>) call(values, in);
    else call(values, values);
    if constexpr (!std::is_same_v<Out, R>) pass(out, static_cast<const R*>(values), n);
    return;
  }
  using V = Vec<R>;
  const auto run = [&](const auto& f) { operands[how.operand]->apply(out, in, at, n, block, f); };
  switch (how.name) {
    case kAdd: return run([](V p, V q) { return p + q; });
    case kMultiply: return run([](V p, V q) { return p * q; });
    case kSubtract: return how.swapped ? run([](V p, V q) { return q - p; }) : run([](V p, V q) { return p - q; });
    case kDivide: return how.swapped ? run([](V p, V q) { return q / p; }) : run([](V p, V q) { return p / q; });
    case kMaximum: return run([](V p, V q) { return p > q || p != p ? p : q; });
    case kMinimum: return run([](V p, V q) { return p < q || p != p ? p : q; });
  }
}

// All steps of a block: the first reads x, the last writes y, what lies between stays in `values`.
template <class S, class R = Real<S>>
inline void steps(const ChainCall& call, S* y, const S* x, R* values, int64_t at, int64_t n, const Block& block,
                  Operand<S>* const* operands) {
  const int last = call.steps - 1;
  if (last < 0) return pass(y, x, n);
  if (last == 0) return step(call.step[0], y, x, values, at, n, block, operands);
  step(call.step[0], values, x, values, at, n, block, operands);
  for (int s = 1; s < last; s++) step(call.step[s], values, static_cast<const R*>(values), values, at, n, block, operands);
  step(call.step[last], y, static_cast<const R*>(values), values, at, n, block, operands);
}

// y OUT [outer, rows, columns], may be an input that is shaped like it: every block is read before it is written
template <class S>
void run(const ChainCall& call) {
  using R = Real<S>;
  const int64_t height = call.columns < kBlock ? min64(call.rows, kBlock / call.columns) : 1;  // rows of a block
  const int64_t pieces = (call.columns + kBlock - 1) / kBlock, bands = (call.rows + height - 1) / height;
  const int64_t width = min64(call.columns, kBlock);
  parallel(call.outer * bands * pieces, max64(1, kPointwiseGrain / (2 * height * width)), [&](int64_t begin, int64_t end) {
    alignas(64) R values[kBlock];
    // One operand's memory a slot would be stack for eight of them; scratch grows once a thread.
    char* memory = static_cast<char*>(scratch(Slot::kChainOperands, call.inputs * round_up(static_cast<int64_t>(sizeof(Operand<S>)), 64)));
    Operand<S>* operands[ChainCall::kInputs];
    for (int i = 0; i < call.inputs; i++)
      operands[i] = new (memory + i * round_up(static_cast<int64_t>(sizeof(Operand<S>)), 64)) Operand<S>(call, i);
    S* y = static_cast<S*>(call.y);
    const S* x = static_cast<const S*>(call.in[0]);
    for (int64_t i = begin; i < end; i++) {
      const int64_t row = i / pieces % bands * height, column = i % pieces * kBlock;
      const Block block{i / pieces / bands, row, min64(height, call.rows - row), column, min64(kBlock, call.columns - column)};
      const int64_t at = (block.outer * call.rows + row) * call.columns + column, n = block.rows * block.columns;
      steps(call, y + at, x + at, values, at, n, block, operands);
    }
  });
}

}  // namespace pdl::PDL_ISA::chains
