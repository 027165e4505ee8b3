#include "trainer/data/entries.h"
#include "trainer/data/made_up.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr ArgumentEntry kSequenceArguments[] = {
    {"train", 2048, 1, kMostMadeUp}, {"test", 64, 1, kMostMadeUp}, {"source", 1, 1, 65536},
    {"target", 20, 1, 65536},        {"d_model", 512, 1, 65536},   {"seed", 1, 0, kMostSeed}};

Task SequenceTask(const Arguments& arguments) {
  const Shape source = {arguments.Whole("source"), arguments.Whole("d_model")};
  const Shape target = {arguments.Whole("target"), arguments.Whole("d_model")};
  return {.inputs = {source, target}, .classes = 0, .target = target};
}

// Uniform in [0, 1), as torch.rand; the target is the target sequence itself.
Samples SequenceSamples(std::uint32_t count, std::uint64_t key, std::size_t source,
                        std::size_t target) {
  return {count,
          [key, source, target](std::span<const std::uint32_t> indices,
                                const std::optional<AugmentKey>&,
                                const BatchRoom& room) -> Result<void> {
            float* out[] = {room.inputs[0], room.inputs[1]};
            float* told = room.targets;
            for (const std::uint32_t index : indices) {
              const std::uint64_t draw = Mix(key ^ index);
              for (std::size_t i = 0; i < source; ++i) {
                *out[0]++ = UniformFloat(Mix(draw ^ i));
              }
              for (std::size_t i = 0; i < target; ++i) {
                *told++ = *out[1]++ = UniformFloat(Mix(~draw ^ i));
              }
            }
            return {};
          }};
}

Result<Dataset> DrawSequences(const fs::path&, const Arguments& arguments) {
  const Task task = SequenceTask(arguments);
  const auto samples = [&](const char* count, std::uint64_t part) {
    return SequenceSamples(static_cast<std::uint32_t>(arguments.Whole(count)),
                           MadeUpKey(arguments, part),
                           static_cast<std::size_t>(NumbersIn(task.inputs[0])),
                           static_cast<std::size_t>(NumbersIn(task.inputs[1])));
  };
  return Dataset{task, samples("train", 0), samples("test", 1)};
}

}  // namespace

constinit const DatasetEntry kSeq2Seq = {.name = "seq2seq",
                                         .arguments = kSequenceArguments,
                                         .task = SequenceTask,
                                         .load = DrawSequences};

}  // namespace ddprun
