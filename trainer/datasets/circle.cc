// Points of a square in two classes: outside (0) or inside (1) of a circle. Made up.
#include "trainer/datasets/entries.h"
#include "trainer/datasets/made_up.h"

namespace ddprun {
namespace {

constexpr ArgumentEntry kArguments[] = {
    {"train", 5000, 1, kMostMadeUp}, {"test", 1000, 1, kMostMadeUp}, {"seed", 1, 0, kMostSeed}};

Task CircleTask(const Arguments&) {
  return {.inputs = {{2}}, .classes = 2, .target = {}};
}

Samples Points(double count, std::uint64_t key) {
  return {static_cast<std::uint32_t>(count),
          [key](std::span<const std::uint32_t> indices, const std::optional<AugmentKey>&,
                const BatchRoom& room) {
            for (std::size_t i = 0; i < indices.size(); ++i) {
              float* const point = room.inputs[0] + 2 * i;
              const std::uint64_t draw = Mix(key ^ indices[i]);
              point[0] = 2 * UniformFloat(draw) - 1;
              point[1] = 2 * UniformFloat(Mix(draw)) - 1;
              room.labels[i] = point[0] * point[0] + point[1] * point[1] < 0.64F;
            }
          }};
}

}  // namespace

constinit const DatasetEntry kCircle = {
    .name = "circle",
    .about = "made up: points inside or outside of a circle",
    .bundled = "",
    .reads_files = false,
    .files = [](const std::filesystem::path&) { return std::vector<std::string>(); },
    .arguments = kArguments,
    .task = CircleTask,
    .load = [](const std::filesystem::path&, const Arguments& arguments) -> Result<Dataset> {
      return Dataset{CircleTask(arguments),
                     Points(arguments.Number("train"), MadeUpKey(arguments, 0)),
                     Points(arguments.Number("test"), MadeUpKey(arguments, 1))};
    }};

}  // namespace ddprun
