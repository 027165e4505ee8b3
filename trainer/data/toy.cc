#include "trainer/data/entries.h"
#include "trainer/data/generated_samples.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kToyInputs = 10;
constexpr std::int64_t kToyTargets = 5;
constexpr ArgumentEntry kToyArguments[] = {{"train", 1000, 1, kMostGenerated},
                                           {"test", 200, 1, kMostGenerated},
                                           {"seed", 1, 0, kMostSeed}};

float Signed(std::uint64_t draw) {
  return 2 * UniformFloat(draw) - 1;
}

Task ToyTask(const Arguments&) {
  return {.inputs = {{kToyInputs}}, .classes = 0, .target = {kToyTargets}};
}

Result<Dataset> DrawToy(const fs::path&, const Arguments& arguments) {
  return MakeUp(ToyTask(arguments), arguments,
                [weights = GeneratedKey(arguments, 2)](std::uint64_t draw, const BatchRoom& room) {
                  for (std::int64_t i = 0; i < kToyInputs; ++i) {
                    room.inputs[0][i] = Signed(Mix(draw ^ static_cast<std::uint64_t>(i)));
                  }
                  for (std::int64_t t = 0; t < kToyTargets; ++t) {
                    room.targets[t] = 0;
                    for (std::int64_t i = 0; i < kToyInputs; ++i) {
                      const auto place = static_cast<std::uint64_t>(t * kToyInputs + i);
                      room.targets[t] += room.inputs[0][i] * Signed(Mix(weights ^ place));
                    }
                  }
                });
}

}  // namespace

constinit const DatasetEntry kToyData = {
    .name = "toy", .arguments = kToyArguments, .task = ToyTask, .load = DrawToy};

}  // namespace ddprun
