#include "trainer/data/entries.h"
#include "trainer/data/generated_samples.h"

namespace ddprun {

Task SequenceTask(const Arguments& arguments) {
  const Shape source = {arguments.Whole("source"), arguments.Whole("d_model")};
  const Shape target = {arguments.Whole("target"), arguments.Whole("d_model")};
  return {.inputs = {source, target}, .classes = 0, .target = target};
}

namespace {

namespace fs = std::filesystem;

constexpr ArgumentEntry kSequenceArguments[] = {
    {"train", 2048, 1, kMostGenerated}, {"test", 64, 1, kMostGenerated}, {"source", 1, 1, 65536},
    {"target", 20, 1, 65536},           {"d_model", 512, 1, 65536},      {"seed", 1, 0, kMostSeed}};

// Uniform in [0, 1), as torch.rand; the target is the target sequence itself.
Result<Dataset> DrawSequences(const fs::path&, const Arguments& arguments) {
  const Task task = SequenceTask(arguments);
  return MakeUp(task, arguments,
                [source = NumbersIn(task.inputs[0]), target = NumbersIn(task.inputs[1])](
                    std::uint64_t draw, const BatchRoom& room) {
                  for (std::int64_t i = 0; i < source; ++i) {
                    room.inputs[0][i] = UniformFloat(Mix(draw ^ static_cast<std::uint64_t>(i)));
                  }
                  for (std::int64_t i = 0; i < target; ++i) {
                    room.targets[i] = room.inputs[1][i] =
                        UniformFloat(Mix(~draw ^ static_cast<std::uint64_t>(i)));
                  }
                });
}

}  // namespace

constinit const DatasetEntry kSeq2Seq = {.name = "seq2seq",
                                         .arguments = kSequenceArguments,
                                         .task = SequenceTask,
                                         .load = DrawSequences};

}  // namespace ddprun
