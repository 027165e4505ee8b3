#include "trainer/learner.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trainer/models/torch_model.h"

namespace ddprun {
namespace {

// One weight that counts and, asked for it, one that does not.
std::shared_ptr<TorchModel> Make(const Task&, const Arguments& arguments, std::uint64_t) {
  auto model = std::make_shared<TorchModel>();
  model->names = {"used.weight", "forgotten.weight"};
  model->parameters = {at::ones({1, 1}), at::ones({1, 1})};
  if (arguments.Whole("forget") == 0) {
    model->names.pop_back();
    model->parameters.pop_back();
  }
  model->buffer_names = {"seen"};
  model->buffers = {at::zeros({}, at::kLong)};
  model->forward = [p = model->parameters, seen = model->buffers[0]](
                       const std::vector<at::Tensor>& batch, bool training) {
    if (training) {
      seen.add_(batch[0].size(0));
    }
    return at::linear(batch[0], p[0]);
  };
  return model;
}

constexpr ArgumentEntry kForget[] = {{"forget", 0, 0, 1}};
constexpr ModelEntry kModel = {.name = "one weight",
                               .about = "",
                               .recipe = {"", "sgd", 0.1, 1},
                               .most_threads = 1,
                               .evaluation_batch = 1,
                               .arguments = kForget,
                               .misfit = nullptr,
                               .make = Make};

struct World {
  explicit World(const char* arguments, double clip_norm)
      : group(std::move(*ProcessGroup::Join(WorkerEnv{}, GroupOptions{}))),
        learner(kModel, Options(arguments, clip_norm), *group) {
    EXPECT_TRUE(learner.Start(4, 4, {}));
    for (std::size_t i = 0; i < 4; ++i) {  // y = 3 x, from y = x.
      learner.room(0).inputs[0][i] = 1;
      learner.room(0).targets[i] = 3;
    }
  }
  static LearnerOptions Options(const char* arguments, double clip_norm) {
    LearnerOptions options;
    options.task = {.inputs = {{1}}, .classes = 0, .target = {1}};
    options.model_arguments = *Arguments::Parse(arguments, kForget);
    options.optimizer.kind = OptimizerKind::kSgd;
    options.clip_norm = clip_norm;
    return options;
  }
  float Weight() const {
    return *reinterpret_cast<const float*>(learner.View().model.back().bytes.data());
  }

  std::unique_ptr<ProcessGroup> group;
  Learner learner;
};

TEST(Learner, AParameterWithoutPartInTheLossIsNamed) {
  World world("forget=1", 0);
  ASSERT_TRUE(world.learner.Backward({.count = 4, .global_count = 4}));
  const Result<void> updated = world.learner.Update(0.1);
  ASSERT_FALSE(updated);
  EXPECT_EQ(updated.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(updated.error().message.find("no gradient: forgotten.weight."), std::string::npos)
      << updated.error().message;
}

// The loss is (w - 3)^2 with gradient -4 at w = 1.
TEST(Learner, PartsAddUpToTheMeanOfTheGlobalBatch) {
  for (const std::size_t parts : {1, 2, 4}) {
    World world("", 0);
    Score score;
    for (std::size_t part = 0; part < parts; ++part) {
      const Result<Score> some = world.learner.Backward(
          {.count = 4 / parts, .global_count = 4, .first = part == 0, .last = part + 1 == parts});
      ASSERT_TRUE(some);
      score += *some;
    }
    ASSERT_TRUE(world.learner.Update(0.1));
    EXPECT_FLOAT_EQ(world.Weight(), 1.4F) << parts;
    EXPECT_DOUBLE_EQ(score.loss_sum, 16);
    EXPECT_EQ(score.samples, 4u);
  }
}

TEST(Learner, ClipsToTheNorm) {
  World world("", 0.5);
  ASSERT_TRUE(world.learner.Backward({.count = 4, .global_count = 4}));
  ASSERT_TRUE(world.learner.Update(0.1));
  EXPECT_NEAR(world.Weight(), 1.05F, 1e-6);
}

TEST(Learner, ABufferIsPartOfTheModelAndKnownToChangeInAForward) {
  World world("", 0);
  ASSERT_TRUE(world.learner.Backward({.count = 3, .global_count = 3}));
  const std::vector<TensorView> model = world.learner.View().model;
  ASSERT_EQ(model.size(), 2u);
  EXPECT_EQ(model[0].name, "seen");  // Wider types come first.
  EXPECT_TRUE(model[0].forward_changes_it);
  EXPECT_FALSE(model[1].forward_changes_it);
  EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(model[0].bytes.data()), 3);
  ASSERT_TRUE(world.learner.Evaluate(2));
  EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(model[0].bytes.data()), 3);
}

}  // namespace
}  // namespace ddprun
