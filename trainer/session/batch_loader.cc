#include "trainer/session/batch_loader.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <future>
#include <string>
#include <utility>

#include "trainer/learning/named_tensor.h"

namespace ddprun {
namespace {

struct FailedSample {
  std::uint64_t index;
  std::string why;
};

std::vector<Example> GetAll(const Data& data, std::span<const std::uint64_t> indices, int threads) {
  std::vector<Example> samples(indices.size());
  const auto get = [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      try {
        samples[i] = data.get(indices[i]);
      } catch (...) {
        throw FailedSample{indices[i], FirstLineOf(std::current_exception())};
      }
    }
  };
  if (threads < 2 || indices.size() < 2) {
    get(0, indices.size());
    return samples;
  }
  std::vector<std::future<void>> parts;
  const std::size_t count =
      std::min<std::size_t>(static_cast<std::size_t>(threads), indices.size());
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back(std::async(std::launch::async, get, indices.size() * i / count,
                               indices.size() * (i + 1) / count));
  }
  for (std::future<void>& part : parts) {
    part.wait();
  }
  for (std::future<void>& part : parts) {
    part.get();  // Throws what get() has thrown.
  }
  return samples;
}

std::string ShapesOf(const Example& sample) {
  const std::string shapes = Joined(sample, " ", [](const at::Tensor& tensor) {
    return tensor.defined() ? ShapeText(tensor.sizes()) : "none";
  });
  return shapes.empty() ? "none" : shapes;
}

Result<Example> Stack(const std::vector<Example>& samples, std::span<const std::uint64_t> indices) {
  const auto alike = [](const at::Tensor& one, const at::Tensor& other) {
    return one.defined() && other.defined() && one.sizes() == other.sizes();
  };
  for (std::size_t i = 1; i < samples.size(); ++i) {
    if (!std::equal(samples[i].begin(), samples[i].end(), samples[0].begin(), samples[0].end(),
                    alike)) {
      return Error{ErrorKind::kInvalid,
                   "the data set gave tensors of the shapes " + ShapesOf(samples[0]) +
                       " for sample " + std::to_string(indices[0]) + ", but " +
                       ShapesOf(samples[i]) + " for sample " + std::to_string(indices[i]) +
                       ". To join samples that differ in size, give the data set a function "
                       "Collate"};
    }
  }
  Example batch;
  for (std::size_t i = 0; i < samples[0].size(); ++i) {
    std::vector<at::Tensor> column;
    for (const Example& sample : samples) {
      column.push_back(sample[i]);
    }
    batch.push_back(at::stack(column));
  }
  return batch;
}

}  // namespace

std::string FirstLineOf(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  } catch (...) {
    return "it threw an exception that is not a std::exception";
  }
}

Result<Example> LoadExample(const Data& data, std::span<const std::uint64_t> indices,
                            const LoadOptions& options) {
  Example example;
  try {
    if (data.fill) {
      example = data.fill(indices);
    } else {
      std::vector<Example> samples = GetAll(data, indices, options.threads);
      if (data.collate) {
        example = data.collate(std::move(samples));
      } else {
        ASSIGN_OR_RETURN(example, Stack(samples, indices));
      }
    }
  } catch (const FailedSample& failed) {
    return Error{ErrorKind::kSystem, "the data set failed at sample " +
                                         std::to_string(failed.index) + ": " + failed.why};
  } catch (...) {
    return Error{ErrorKind::kSystem,
                 "the data set failed at a batch of " + std::to_string(indices.size()) +
                     " samples, the first of which is " + std::to_string(indices[0]) + ": " +
                     FirstLineOf(std::current_exception())};
  }
  if (example.empty() || !std::all_of(example.begin(), example.end(),
                                      [](const at::Tensor& tensor) { return tensor.defined(); })) {
    return Error{ErrorKind::kInvalid,
                 "the data set gave no tensor for sample " + std::to_string(indices[0])};
  }
  const auto count = static_cast<std::int64_t>(indices.size());
  for (const at::Tensor& tensor : example) {
    if (data.fill && (tensor.dim() == 0 || tensor.size(0) != count)) {
      return Error{ErrorKind::kInvalid,
                   "the data set's Fill was asked for " + std::to_string(count) +
                       " samples, but gave a tensor " + c10::str(tensor.sizes()) +
                       ". The first dimension of each tensor must be the samples"};
    }
  }
  return example;
}

Batch MakeBatch(Example example, std::vector<std::uint64_t> indices, std::int64_t size,
                const at::Device& device) {
  Batch batch;
  for (at::Tensor& tensor : example) {
    batch.tensors.push_back(device.is_cpu() ? std::move(tensor)
                                            : tensor.to(device, /*non_blocking=*/true));
  }
  batch.data = batch.tensors[0];
  batch.target = batch.tensors.size() > 1 ? batch.tensors[1] : at::Tensor();
  batch.size = size;
  batch.indices = std::move(indices);
  return batch;
}

std::vector<std::uint64_t> BatchLoader::IndicesOf(const FeedPart& part) {
  if (part.count == 0) {
    return {part.lead};
  }
  const auto first = part.share.begin() + static_cast<std::ptrdiff_t>(part.first);
  return {first, first + static_cast<std::ptrdiff_t>(part.count)};
}

Result<void> BatchLoader::Fill(const FeedPart& part) {
  ASSIGN_OR_RETURN(Example example, LoadExample(data_, IndicesOf(part), options_));
  if (!device_.is_cpu()) {
    for (at::Tensor& tensor : example) {
      tensor = tensor.pin_memory();
    }
  }
  slots_[part.slot] = std::move(example);
  return {};
}

Batch BatchLoader::Take(const FeedPart& part) {
  std::vector<std::uint64_t> indices = IndicesOf(part);
  if (part.count == 0) {
    indices.clear();
  }
  return MakeBatch(std::exchange(slots_[part.slot], {}), std::move(indices),
                   static_cast<std::int64_t>(part.count), device_);
}

}  // namespace ddprun
