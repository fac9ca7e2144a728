// What measurements of a state find: the weights |z|^2 of outcomes, and outcomes drawn by them. Nothing of the state's size is made beside it.
#pragma once
#include "statevector.h"

namespace pdl::PDL_ISA::statevector {

constexpr int kBlock = 9;     // bits of a block of amplitudes
constexpr int kShared = 12;   // up to 2^12 outcomes every thread has sums of its own
constexpr int kLargeState = 16;  // qubits from which a state is worth all threads

// Sum of |z|^2 over contiguous amplitudes
template <class T>
double weight_of(const T* z, int64_t amplitudes) {
  const int64_t n = 2 * amplitudes;
  double total = 0;
  if (n < kLanes<T>) {
    for (int64_t i = 0; i < n; i++) total += double(z[i]) * double(z[i]);
    return total;
  }
  for (int64_t i = 0; i < n;) {  // short sums: float stays exact enough
    Vec<T> sum{};
    const int64_t stop = i + 64 * kLanes<T> < n ? i + 64 * kLanes<T> : n;
    for (; i < stop; i += kLanes<T>) sum += load(z + i) * load(z + i);
    total += across_sum<T>(sum);
  }
  return total;
}

// body(state) for all: small states side by side, large ones one after the other with all threads inside
template <class Body>
void each_state(int64_t states, int n, const Body& body) {
  if (n >= kLargeState) {
    for (int64_t s = 0; s < states; s++) body(s);
    return;
  }
  parallel(states, (kWork >> n) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; s++) body(s);
  });
}

// The outcomes' index of a setting of bits, of which bits[j] is the outcome's bit j
PDL_INLINE int64_t outcome_of(int64_t x, const int64_t* bits, int count) {
  int64_t y = 0;
  for (int j = 0; j < count; j++) y |= (x >> bits[j] & 1) << j;
  return y;
}

// out [2^count] = the weights of what `count` bits of one state may be found as
template <class T>
void probabilities_of(double* out, const T* z, int n, const int64_t* bits, int count) {
  int64_t kept = 0;
  for (int j = 0; j < count; j++) kept |= int64_t(1) << bits[j];
  const int block = n < kBlock ? n : kBlock;
  int run = 0;  // so many of the lowest bits are not looked at: their amplitudes are added first
  while (run < block && !(kept >> run & 1)) run++;
  const int64_t runs = int64_t(1) << (block - run), blocks = int64_t(1) << (n - block), outcomes = int64_t(1) << count;
  int64_t* places = static_cast<int64_t*>(scratch(Slot::kStateOffsets, runs * sizeof(int64_t)));
  for (int64_t r = 0; r < runs; r++) places[r] = outcome_of(r << run, bits, count);
  const auto add = [=](int64_t b, double* to) {
    to += outcome_of(b << block, bits, count);
    const T* from = z + (b << (block + 1));
    if (!run)
      for (int64_t r = 0; r < runs; r++) to[places[r]] += double(from[2 * r]) * double(from[2 * r]) + double(from[2 * r + 1]) * double(from[2 * r + 1]);
    else
      for (int64_t r = 0; r < runs; r++) to[places[r]] += weight_of(from + (r << (run + 1)), int64_t(1) << run);
  };
  if (count <= kShared) {
    const int64_t grain = kWork >> block;
    const int parts = parts_of(blocks, grain);
    double* partial = static_cast<double*>(scratch(Slot::kStateParts, parts * outcomes * sizeof(double)));
    for (int64_t i = 0; i < parts * outcomes; i++) partial[i] = 0;
    parallel_parts(blocks, parts, [=](int64_t begin, int64_t end, int part) {
      for (int64_t b = begin; b < end; b++) add(b, partial + part * outcomes);
    });
    for (int64_t y = 0; y < outcomes; y++) {
      out[y] = 0;
      for (int part = 0; part < parts; part++) out[y] += partial[part * outcomes + y];
    }
    return;
  }
  int64_t top = 0;  // the four highest of more than kShared bits are above a block: by them the work falls into parts with outcomes of their own
  for (int bit = n - 1, found = 0; found < 4; bit--)
    if (kept >> bit & 1) top |= int64_t(1) << bit, found++;
  for (int64_t y = 0; y < outcomes; y++) out[y] = 0;
  parallel(16, 1, [=](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; part++) {
      int64_t wanted = 0, left = part;
      for (int bit = 0; bit < n; bit++)
        if (top >> bit & 1) wanted |= (left & 1) << bit, left >>= 1;
      for (int64_t b = 0; b < blocks; b++)
        if (((b << block) & top) == wanted) add(b, out);
    }
  });
}

// out [states, 2^count]
template <class T>
void probabilities(double* out, const T* z, int64_t states, int n, const int64_t* bits, int count) {
  each_state(states, n, [=](int64_t s) { probabilities_of(out + (s << count), z + (s << (n + 1)), n, bits, count); });
}

// out [shots] = indices of amplitudes of one state for draws from [0, 1), ascending; returns the state's weight, and draws nothing where that is no number
// above 0
template <class T>
double sample_of(int64_t* out, const T* z, int n, const double* draws, int64_t shots) {
  const int block = n < kBlock ? n : kBlock;
  const int64_t blocks = int64_t(1) << (n - block);
  double* ends = static_cast<double*>(scratch(Slot::kStateParts, blocks * sizeof(double)));
  parallel(blocks, kWork >> block, [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) ends[b] = weight_of(z + (b << (block + 1)), int64_t(1) << block);
  });
  double total = 0;
  for (int64_t b = 0; b < blocks; b++) total += ends[b], ends[b] = total;
  if (!(total > 0 && total < __builtin_inf())) return total;
  const double most = total * (1 - 0x1p-52);
  parallel(shots, 64, [=](int64_t begin, int64_t end) {
    const auto at = [=](int64_t i) { return draws[i] * total < most ? draws[i] * total : most; };
    for (int64_t i = begin; i < end;) {
      int64_t b = 0;  // the first block that ends behind the draw
      for (int64_t step = blocks; step /= 2;)
        if (ends[b + step - 1] <= at(i)) b += step;
      double here = b ? ends[b - 1] : 0;
      int64_t last = b << block;
      for (int64_t x = last; x < (b + 1) << block && i < end && at(i) < ends[b]; x++) {
        const double weight = double(z[2 * x]) * double(z[2 * x]) + double(z[2 * x + 1]) * double(z[2 * x + 1]);
        if (!(weight > 0)) continue;
        for (here += weight, last = x; i < end && at(i) < here && at(i) < ends[b]; i++) out[i] = x;
      }
      for (; i < end && at(i) < ends[b]; i++) out[i] = last;  // the block's sum was rounded otherwise
    }
  });
  return total;
}

// out [states, shots], total [states]
template <class T>
void sample(int64_t* out, double* total, const T* z, int64_t states, int n, const double* draws, int64_t shots) {
  each_state(states, n, [=](int64_t s) { total[s] = sample_of(out + s * shots, z + (s << (n + 1)), n, draws + s * shots, shots); });
}

}  // namespace pdl::PDL_ISA::statevector
