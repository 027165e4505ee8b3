// Points of a square in two classes: outside (0) or inside (1) of a circle. Made up.
#include "trainer/data/entries.h"
#include "trainer/data/generated_samples.h"

namespace ddprun {

static Task CircleTask(const Arguments&) {
  return {.inputs = {{2}}, .classes = 2, .target = {}};
}

static void Point(std::uint64_t draw, const BatchRoom& room) {
  float* const point = room.inputs[0];
  point[0] = 2 * UniformFloat(draw) - 1;
  point[1] = 2 * UniformFloat(Mix(draw)) - 1;
  *room.labels = point[0] * point[0] + point[1] * point[1] < 0.64F;
}

static Result<Dataset> DrawCircle(const std::filesystem::path&, const Arguments& arguments) {
  return MakeUp(CircleTask(arguments), arguments, Point);
}

constinit const DatasetEntry kCircle = {
    .name = "circle", .arguments = kGeneratedArguments, .task = CircleTask, .load = DrawCircle};

}  // namespace ddprun
