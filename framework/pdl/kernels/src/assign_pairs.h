// Target assignment one to one: queries and ground truths in pairs.
#pragma once
#include "assign.h"

namespace pdl::assign {

// For each row (rows <= columns) its column, so that the sum of costs [rows, columns] is the lowest: a row after the other, by a shortest
// path to a free column that turns pairs over (Jonker and Volgenant 1987; Crouse 2016).
class Pairing {
 public:
  Pairing(std::vector<double> cost, int64_t rows, int64_t columns)
      : cost_(std::move(cost)), columns_(static_cast<size_t>(columns)), of_row_(static_cast<size_t>(rows)), of_column_(columns_),
        length_(columns_), row_of_(columns_, -1), before_(columns_), column_of_(static_cast<size_t>(rows), -1) {
    for (int64_t r = 0; r < rows; r++) add(r);
  }

  const std::vector<int64_t>& columns() const { return column_of_; }

 private:
  void add(int64_t start) {
    std::fill(length_.begin(), length_.end(), std::numeric_limits<double>::infinity());
    std::vector<char> done(columns_);
    double reached = 0;
    size_t end = columns_;
    for (int64_t row = start; end == columns_;) {
      const double* costs = cost_.data() + static_cast<size_t>(row) * columns_;
      const double base = reached - of_row_[row];
      size_t nearest = columns_;
      for (size_t c = 0; c < columns_; c++) {
        if (done[c]) continue;
        const double way = base + costs[c] - of_column_[c];
        if (way < length_[c]) length_[c] = way, before_[c] = row;
        if (nearest == columns_ || length_[c] < length_[nearest]) nearest = c;
      }
      reached = length_[nearest];
      done[nearest] = 1;
      if (row_of_[nearest] < 0) end = nearest;
      else row = row_of_[nearest];
    }
    of_row_[start] += reached;
    for (size_t c = 0; c < columns_; c++) {
      if (!done[c]) continue;
      if (c != end) of_row_[row_of_[c]] += reached - length_[c];
      of_column_[c] -= reached - length_[c];
    }
    for (int64_t c = static_cast<int64_t>(end), r = -1; r != start;) {
      r = row_of_[c] = before_[c];
      std::swap(c, column_of_[r]);
    }
  }

  std::vector<double> cost_;
  size_t columns_;
  std::vector<double> of_row_, of_column_, length_;  // prices of rows and columns; lengths of paths
  std::vector<int64_t> row_of_, before_, column_of_;  // pairs, -1 where there is none; the row that a column's path comes from
};

// The pairing of queries with ground truths, as many as there are of the fewer, of the lowest sum of costs. Costs that are no number, or
// beyond 1e12, count as 1e12.    index OUT [n, q], cost IN [n, q, m], labels IN [n, m]
template <class T>
void hungarian(int64_t* index, const T* cost, const int64_t* labels, int64_t n, int64_t q, int64_t m) {
  each_image(n, [=](int64_t image) {
    const std::vector<int64_t> valid = Truth<T>{nullptr, labels, n, m}.valid(image);
    const int64_t truths = static_cast<int64_t>(valid.size()), rows = std::min(truths, q), columns = std::max(truths, q);
    const bool by_truth = truths <= q;
    std::vector<double> costs(static_cast<size_t>(rows * columns));
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < columns; c++) {
        const double x = static_cast<double>(cost[(image * q + (by_truth ? c : r)) * m + valid[by_truth ? r : c]]);
        costs[r * columns + c] = x < 1e12 ? std::max(x, -1e12) : 1e12;
      }
    const Pairing pairing(std::move(costs), rows, columns);
    std::fill(index + image * q, index + (image + 1) * q, kBackground);
    for (int64_t r = 0; r < rows; r++) {
      const int64_t c = pairing.columns()[r];
      index[image * q + (by_truth ? c : r)] = valid[by_truth ? r : c];
    }
  });
}

}  // namespace pdl::assign
