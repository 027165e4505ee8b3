// A rank's samples of a step as tensors.
//
// Included only by files that see libtorch anyway.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "trainer/data/batch_feed.h"
#include "trainer/include/ddprun/trainer.h"

namespace ddprun {

// The text of an exception of the program's own code, in one line.
std::string FirstLineOf(std::exception_ptr thrown);

// Samples at these indices, in this order, on the host. Several threads call Get where `options`
// ask for it. kInvalid: the data set gave no tensors; kSystem: it threw.
Result<Example> LoadExample(const Data& data, std::span<const std::uint64_t> indices,
                            const LoadOptions& options);

// To the device, and the names of its parts. `size`: samples with a weight.
Batch MakeBatch(Example example, std::vector<std::uint64_t> indices, std::int64_t size,
                const at::Device& device);

// The batches of a feed, one for each of its slots.
class BatchLoader {
 public:
  BatchLoader(Data data, const LoadOptions& options, at::Device device)
      : data_(std::move(data)), options_(options), device_(device) {}

  const Data& data() const { return data_; }
  // For BatchFeed: loads the part into its slot. A rank without a share loads one sample.
  Result<void> Fill(const FeedPart& part);
  // The batch of a part that Fill has loaded. Once.
  Batch Take(const FeedPart& part);

 private:
  static std::vector<std::uint64_t> IndicesOf(const FeedPart& part);

  const Data data_;
  const LoadOptions options_;
  const at::Device device_;
  std::array<Example, BatchFeed::kSlots> slots_;
};

}  // namespace ddprun
