#include "trainer/data/entries.h"
#include "trainer/data/made_up.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kToyInputs = 10;
constexpr std::int64_t kToyTargets = 5;
constexpr ArgumentEntry kToyArguments[] = {
    {"train", 1000, 1, kMostMadeUp}, {"test", 200, 1, kMostMadeUp}, {"seed", 1, 0, kMostSeed}};

float Signed(std::uint64_t draw) {
  return 2 * UniformFloat(draw) - 1;
}

Samples ToySamples(std::uint32_t count, std::uint64_t key, std::uint64_t weight_key) {
  return {
      count,
      [key, weight_key](std::span<const std::uint32_t> indices, const std::optional<AugmentKey>&,
                        const BatchRoom& room) -> Result<void> {
        float* input = room.inputs[0];
        float* target = room.targets;
        for (const std::uint32_t index : indices) {
          const std::uint64_t draw = Mix(key ^ index);
          for (std::int64_t i = 0; i < kToyInputs; ++i) {
            input[i] = Signed(Mix(draw ^ static_cast<std::uint64_t>(i)));
          }
          for (std::int64_t t = 0; t < kToyTargets; ++t) {
            target[t] = 0;
            for (std::int64_t i = 0; i < kToyInputs; ++i) {
              const auto place = static_cast<std::uint64_t>(t * kToyInputs + i);
              target[t] += input[i] * Signed(Mix(weight_key ^ place));
            }
          }
          input += kToyInputs;
          target += kToyTargets;
        }
        return {};
      }};
}

Task ToyTask(const Arguments&) {
  return {.inputs = {{kToyInputs}}, .classes = 0, .target = {kToyTargets}};
}

Result<Dataset> DrawToy(const fs::path&, const Arguments& arguments) {
  const std::uint64_t weights = MadeUpKey(arguments, 2);
  return Dataset{ToyTask(arguments),
                 ToySamples(static_cast<std::uint32_t>(arguments.Whole("train")),
                            MadeUpKey(arguments, 0), weights),
                 ToySamples(static_cast<std::uint32_t>(arguments.Whole("test")),
                            MadeUpKey(arguments, 1), weights)};
}

}  // namespace

constinit const DatasetEntry kToyData = {
    .name = "toy", .arguments = kToyArguments, .task = ToyTask, .load = DrawToy};

}  // namespace ddprun
