// A thread's scratch memory: eight blocks, which kernels share. Which block each of them works in stands here and nowhere else; what is in
// use at the same time, by a kernel and by those that it calls, is checked when this is compiled.
#pragma once
#include <cstdint>
#include <new>

namespace pdl {

enum class Slot : int {
  kWideRow = 0,                                                                               // softmax.h, pooling.h
  kWideSums = 0, kPartialSums = 1,                                                            // sums.h
  kLeftRows = 0, kRightPanels = 1, kProductSums = 7,                                          // gemm.h
  kWindows = 0, kPanelBias = 1, kSharedWindows = 2, kTapProducts = 3,                         // packed.h, expand.h, blocks.h
  kTurned = 0, kStrips = 1,                                                                   // distance.h, focal.h
  kStateTile = 0, kStateOffsets = 1, kStateStarts = 2, kStateParts = 3,                       // statevector*.h, measure.h, pauli.h
  kFilterPoints = 1, kChunkPoints = 2, kPartPoints = 3, kFilledImages = 4,                    // winograd.h, int8_winograd.h
  kAreaSums = 2,                                                                              // image.h
  kGroupSums = 2,                                                                             // nbits.h
  kScatteredSums = 2,                                                                         // csr.h
  kCellWeights = 2, kCellStates = 3,                                                          // cells.h
  kHead = 2, kHeadShares = 3,                                                                 // attention.h
  kCachedBlock = 2, kCachedShares = 3, kCachedSums = 4,                                       // cached.h
  kClassifierInputs = 2, kClassifierRows = 3, kClassifierBlock = 4, kClassifierOwners = 6,    // classifier.h, classifier_rows.h
  kRankingEntries = 2, kRankingSizes = 3, kRankingScores = 4,                                 // ranking.h
  kRegionRows = 2, kRegionColumns = 3,                                                      // regions.h
  kBoxOrder = 2, kBoxCorners = 3, kBoxScores = 4,                                             // boxes.h
  kFftPoints = 2, kFftRows = 3, kFftBands = 4,                                                // fft.h
  kCrfChain = 2, kCrfRows = 3, kCrfSums = 4,                                                  // crf.h
  kConvWeights = 2, kConvRows = 3, kConvPointers = 4, kConvSums = 5, kConvOutputs = 6,        // conv.h, conv_dw.h
  kByteRows = 3, kBytePointers = 4,                                                           // int8_*.h
  kIndexFrom = 4, kIndexTo = 5,                                                               // sorted_index.h
  kIndexStarts = 6,                                                                           // rows.h, keys.h
  kChannelRows = 4, kChannelWeights = 7,                                                      // depthwise.h, expand.h, grouped.h, norm_conv.h
  kFoldedWeights = 6,                                                                         // depthwise.h
  kChainOperands = 6,                                                                         // chain.h
  kColumnSums = 7,                                                                            // epilogue.h
};

constexpr int kSlots = 8;

// There is no memory for a kernel to work in: MemoryError in Python.
class NoMemory : public std::bad_alloc {
 public:
  explicit NoMemory(int64_t wanted);
  const char* what() const noexcept override { return text_; }
  int64_t bytes;

 private:
  char text_[64];
};

// Memory of the calling thread, 64-byte aligned, valid until its next call with the same slot. It grows and is kept. Throws NoMemory.
void* scratch(Slot slot, int64_t bytes);

namespace slots {

consteval unsigned bits(Slot slot) {
  if (static_cast<int>(slot) >= kSlots) throw "there are kSlots slots";
  return 1u << static_cast<int>(slot);
}
consteval unsigned bits(unsigned set) { return set; }

// What is in use at the same time, slots and sets of slots; does not compile where two are the same memory.
template <class... A>
consteval unsigned together(A... held) {
  unsigned all = 0;
  (..., ((all & bits(held)) != 0 ? throw "two of these are the same memory" : void(all |= bits(held))));
  return all;
}

using enum Slot;
constexpr unsigned kSums = together(kWideSums, kPartialSums);
constexpr unsigned kProduct = together(kLeftRows, kRightPanels, kColumnSums);
constexpr unsigned kDeepProduct = together(kLeftRows, kRightPanels, kProductSums);
constexpr unsigned kPackedProduct = together(kWindows, kPanelBias, kSharedWindows, kTapProducts);
constexpr unsigned kExpansion = together(kPanelBias, kChannelRows, kChannelWeights);
constexpr unsigned kDistances = together(kTurned, kStrips);
constexpr unsigned kStates = together(kStateTile, kStateOffsets, kStateStarts, kStateParts);
constexpr unsigned kWinograd = together(kFilterPoints, kChunkPoints, kPartPoints, kFilledImages, kColumnSums);
constexpr unsigned kCells = together(kCellWeights, kCellStates, kProduct);
constexpr unsigned kAttention = together(kHead, kHeadShares);
constexpr unsigned kCached = together(kCachedBlock, kCachedShares);
constexpr unsigned kPrompts = together(kCachedSums, kAttention);
constexpr unsigned kClassifier = together(kClassifierInputs, kClassifierRows, kClassifierBlock, kClassifierOwners);
constexpr unsigned kRanking = together(kRankingEntries, kRankingSizes, kRankingScores, kProduct);
constexpr unsigned kRegions = together(kRegionRows, kRegionColumns);
constexpr unsigned kBoxes = together(kBoxOrder, kBoxCorners, kBoxScores);
constexpr unsigned kFft = together(kFftPoints, kFftRows, kFftBands);
constexpr unsigned kCrf = together(kCrfChain, kCrfRows, kCrfSums);
constexpr unsigned kConvolution = together(kConvWeights, kConvRows, kConvPointers, kColumnSums);
constexpr unsigned kWeightGradient = together(kConvRows, kConvPointers, kConvSums, kConvOutputs);
constexpr unsigned kBytes = together(kByteRows, kBytePointers);
constexpr unsigned kIndex = together(kIndexFrom, kIndexTo, kIndexStarts);
constexpr unsigned kDepthwise = together(kChannelRows, kChannelWeights, kFoldedWeights);

}  // namespace slots

}  // namespace pdl
