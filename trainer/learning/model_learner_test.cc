#include "trainer/learning/model_learner.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "trainer/checkpoint/saver.h"
#include "trainer/learning/graph_testing.h"
#include "trainer/learning/step_replay.h"
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
                               .recipe = {"", "sgd", 0.1, 1},
                               .most_threads = 1,
                               .evaluation_batch = 1,
                               .arguments = kForget,
                               .misfit = nullptr,
                               .make = Make};

struct World {
  explicit World(const char* arguments, double clip_norm, bool measure_norm = false)
      : World(Options(arguments, clip_norm, measure_norm)) {}
  explicit World(const LearnerOptions& options)
      : group(std::move(*ProcessGroup::Join(WorkerEnv{}, GroupOptions{}))),
        learner(kModel, options, *group) {
    EXPECT_TRUE(learner.Start({}, 0));
    EXPECT_TRUE(learner.MakeRoom(5, 4));   // More than most steps have here: others' shares.
    for (std::size_t i = 0; i < 4; ++i) {  // y = 3 x, from y = x.
      learner.room(0).inputs[0][i] = 1;
      learner.room(0).targets[i] = 3;
    }
  }
  static LearnerOptions Options(const char* arguments, double clip_norm, bool measure_norm) {
    LearnerOptions options;
    options.task = {.inputs = {{1}}, .classes = 0, .target = {1}};
    options.config.model_arguments = *Arguments::Parse(arguments, kForget);
    options.config.optimizer_options.kind = OptimizerKind::kSgd;
    if (clip_norm > 0) {
      options.config.learning.clip_norm = clip_norm;
    }
    options.config.learning.grad_norm = measure_norm;
    return options;
  }
  float Weight() const {
    return *reinterpret_cast<const float*>(learner.View().model.back().bytes.data());
  }

  std::unique_ptr<ProcessGroup> group;
  ModelLearner learner;
};

// The loss is (w - 3)^2 with gradient -4 at w = 1.
TEST(Learner, PartsAddUpToTheMeanOfTheGlobalBatch) {
  for (const std::size_t parts : {1, 2, 4}) {
    World world("", 0);
    for (std::size_t part = 0; part < parts; ++part) {
      ASSERT_TRUE(world.learner.Backward(
          {.count = 4 / parts, .global_count = 4, .first = part == 0, .last = part + 1 == parts}));
    }
    const Score score = *world.learner.TakeScore();
    ASSERT_TRUE(world.learner.Update(0.1));
    EXPECT_FLOAT_EQ(world.Weight(), 1.4F) << parts;
    EXPECT_DOUBLE_EQ(score.loss_sum, 16);
    EXPECT_EQ(score.samples, 4u);
    EXPECT_EQ(world.learner.TakeScore()->samples, 0u);
  }
}

TEST(Learner, ClipsToTheNorm) {
  World world("", 0.5);
  ASSERT_TRUE(world.learner.Backward({.count = 4, .global_count = 4}));
  ASSERT_TRUE(world.learner.Update(0.1));
  EXPECT_NEAR(world.Weight(), 1.05F, 1e-6);
  ASSERT_TRUE(world.learner.GradientNorm());
  EXPECT_NEAR(*world.learner.GradientNorm(), 4, 1e-6);  // Before clipping.
}

TEST(Learner, MeasuresTheNormWithoutClipping) {
  World measured("", 0, /*measure_norm=*/true);
  EXPECT_FALSE(measured.learner.GradientNorm());  // No step yet.
  ASSERT_TRUE(measured.learner.Backward({.count = 4, .global_count = 4}));
  ASSERT_TRUE(measured.learner.Update(0.1));
  EXPECT_NEAR(*measured.learner.GradientNorm(), 4, 1e-6);
  EXPECT_NEAR(measured.Weight(), 1.4F, 1e-6);

  World silent("", 0);
  ASSERT_TRUE(silent.learner.Backward({.count = 4, .global_count = 4}));
  ASSERT_TRUE(silent.learner.Update(0.1));
  EXPECT_FALSE(silent.learner.GradientNorm());
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

// As on a GPU: what is learned from, and what a snapshot sees, are copies.
TEST(Learner, LearnsTheSameFromMemoryApart) {
  LearnerOptions options = World::Options("", 0, false);
  options.apart = true;
  World world(options);
  for (std::size_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(world.learner.Backward({.count = 4, .global_count = 4}));
    std::fill_n(world.learner.room(0).inputs[0], 4, 7.0F);  // Free to be filled again.
    ASSERT_TRUE(world.learner.Update(0.1));
    std::fill_n(world.learner.room(0).inputs[0], 4, 1.0F);
  }
  int waits = 0;
  world.learner.BeforeUpdate([&] { ++waits; });
  const Snapshot after = CopyNow(world.learner.View(), {});
  EXPECT_EQ(waits, 1);  // Until the copy before this one has been read.
  EXPECT_FALSE(world.learner.View().model[0].forward_changes_it);
  ASSERT_TRUE(world.learner.Backward({.count = 4, .global_count = 4}));
  ASSERT_TRUE(world.learner.Update(0.1));
  EXPECT_NEAR(world.Weight(), 3 - 2 * 0.8 * 0.8 * 0.8 * 0.8, 1e-6);
  EXPECT_NEAR(*reinterpret_cast<const float*>(after.model.back().bytes.data()),
              3 - 2 * 0.8 * 0.8 * 0.8, 1e-6);

  World other("", 0);  // Here they are where they are used.
  ASSERT_TRUE(other.learner.CopyFrom(after));
  EXPECT_NEAR(other.Weight(), 3 - 2 * 0.8 * 0.8 * 0.8, 1e-6);
}

// Steps of four samples and, every fifth time, of three, as at the end of an epoch.
std::vector<float> WeightsOverSteps(World& world, std::size_t steps, Score& score) {
  std::vector<float> weights;
  for (std::size_t step = 1; step <= steps; ++step) {
    for (std::size_t i = 0; i < 4; ++i) {
      world.learner.room(0).targets[i] = static_cast<float>(step % 7 + i);
    }
    const std::size_t count = step % 5 == 0 ? 3 : 4;
    EXPECT_TRUE(
        world.learner.Backward({.count = count, .global_count = count, .regular = count == 4}));
    EXPECT_TRUE(world.learner.Update(0.1));
    weights.push_back(world.Weight());
  }
  score = *world.learner.TakeScore();
  return weights;
}

TEST(Learner, ReplaysFullStepsOnceItIsWarmAndLearnsTheSame) {
  constexpr std::size_t kSteps = 40;  // 32 of them full.
  LearnerOptions options = World::Options("", 0, false);
  World plain(options);
  Score expected;
  const std::vector<float> weights = WeightsOverSteps(plain, kSteps, expected);
  EXPECT_FALSE(plain.learner.Replays());

  // As a rank with one sample less than the others has it: a step is whole by what all know.
  const auto graph = std::make_shared<FakeGraph>();
  options.graph = graph;
  World world(options);
  Score score;
  EXPECT_EQ(WeightsOverSteps(world, kSteps, score), weights);
  EXPECT_TRUE(world.learner.Replays());
  EXPECT_EQ(graph->replays, 32 - static_cast<int>(StepReplay::kWarmSteps));
  EXPECT_EQ(score.samples, expected.samples);
  EXPECT_EQ(score.loss_sum, expected.loss_sum);
}

TEST(Learner, StepsOfSeveralPartsOrNotRegularEverywhereAreNotReplayed) {
  const std::vector<Part> alone = {{.count = 4, .global_count = 9, .regular = false}};
  const std::vector<Part> parts = {{.count = 2, .global_count = 4, .last = false},
                                   {.count = 2, .global_count = 4, .first = false}};
  for (const auto& step : {alone, parts}) {
    LearnerOptions options = World::Options("", 0, false);
    const auto graph = std::make_shared<FakeGraph>();
    options.graph = graph;
    World world(options);
    for (std::size_t i = 0; i < 2 * StepReplay::kWarmSteps; ++i) {
      for (const Part& part : step) {
        ASSERT_TRUE(world.learner.Backward(part));
      }
      ASSERT_TRUE(world.learner.Update(0.01));
    }
    EXPECT_EQ(graph->replays, 0);
  }
}

TEST(Learner, AFrozenParameterIsNotCopiedAsABufferIs) {
  LearnerOptions options = World::Options("forget=1", 0, false);
  options.config.run.freeze = {"forgotten"};
  World world(options);
  ASSERT_TRUE(world.learner.Backward({.count = 4, .global_count = 4}));
  ASSERT_TRUE(world.learner.Update(0.1));
  int changing = 0;
  std::vector<std::string> names;
  for (const TensorView& tensor : world.learner.View().model) {
    names.push_back(tensor.name);
    changing += tensor.forward_changes_it ? 1 : 0;
    EXPECT_EQ(tensor.forward_changes_it, tensor.name == "seen") << tensor.name;
  }
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(changing, 1);
  EXPECT_EQ(world.learner.Frozen(), "forgotten.weight");
  EXPECT_EQ(World("", 0).learner.Frozen(), "none");
}

double LossScaleIn(const Snapshot& snapshot) {
  for (const Tensor& tensor : snapshot.optimizer) {
    if (tensor.name == "loss_scale") {
      return *reinterpret_cast<const double*>(tensor.bytes.data());
    }
  }
  return 0;
}

// At the first scale the gradient of 65536 is more than float16 holds; at half of it all is well.
TEST(Learner, SkipsAStepThatOverflowsAndKeepsTheScaleInItsSnapshot) {
  LearnerOptions options = World::Options("", 0, false);
  options.config.learning.precision = Precision::kFloat16;
  World world(options);
  ASSERT_TRUE(world.learner.Backward({.count = 4, .global_count = 4}));
  ASSERT_TRUE(world.learner.Update(0.1));
  EXPECT_EQ(world.Weight(), 1);
  EXPECT_EQ(LossScaleIn(CopyNow(world.learner.View(), {})), 32768);
  std::size_t steps = 1;
  for (; world.Weight() == 1 && steps < 10; ++steps) {
    ASSERT_TRUE(world.learner.Backward({.count = 4, .global_count = 4}));
    ASSERT_TRUE(world.learner.Update(0.1));
  }
  EXPECT_NEAR(world.Weight(), 1.4, 1e-3);
  const Snapshot after = CopyNow(world.learner.View(), {});
  EXPECT_EQ(LossScaleIn(after), 65536 / static_cast<double>(1 << (steps - 1)));

  World resumed(options);
  ASSERT_TRUE(resumed.learner.CopyFrom(after));
  EXPECT_EQ(LossScaleIn(CopyNow(resumed.learner.View(), {})), LossScaleIn(after));
  options.config.learning.precision = Precision::kBFloat16;
  EXPECT_EQ(LossScaleIn(CopyNow(World(options).learner.View(), {})), 0);  // None.
  World plain("", 0);  // From float16 to float32 and back: the scale is dropped, then fresh.
  ASSERT_TRUE(plain.learner.CopyFrom(after));
  ASSERT_TRUE(resumed.learner.CopyFrom(CopyNow(plain.learner.View(), {})));
}

TEST(Learner, MomentumMayBeginOrEndWhereATrainingResumes) {
  LearnerOptions options = World::Options("", 0, false);
  World without(options);
  options.config.optimizer_options.momentum = 0.9;
  World with(options);
  EXPECT_TRUE(with.learner.CopyFrom(CopyNow(without.learner.View(), {})));
  EXPECT_TRUE(without.learner.CopyFrom(CopyNow(with.learner.View(), {})));
}

// Gives back what it is given.
std::shared_ptr<TorchModel> MakeEcho(const Task&, const Arguments&, std::uint64_t) {
  auto model = std::make_shared<TorchModel>();
  model->forward = [](const std::vector<at::Tensor>& batch, bool) { return batch[0]; };
  return model;
}

constexpr ModelEntry kEcho = {.name = "echo",
                              .recipe = {"", "sgd", 0.1, 1},
                              .most_threads = 1,
                              .evaluation_batch = 1,
                              .arguments = {},
                              .misfit = nullptr,
                              .make = MakeEcho};

// Of one sample for which the model gives `output`.
double LossFor(const Task& task, Loss loss, const std::vector<float>& output,
               const std::vector<float>& target) {
  LearnerOptions options;
  options.task = task;
  options.config.learning.loss_kind = loss;
  const auto group = std::move(*ProcessGroup::Join(WorkerEnv{}, GroupOptions{}));
  ModelLearner learner(kEcho, options, *group);
  EXPECT_TRUE(learner.Start({}, 0));
  EXPECT_TRUE(learner.MakeRoom(1, 1));
  const BatchRoom room = learner.room(ModelLearner::kEvaluationSlot);
  std::ranges::copy(output, room.inputs[0]);
  if (task.classifies()) {
    room.labels[0] = 0;
  } else {
    std::ranges::copy(target, room.targets);
  }
  return learner.Evaluate(1)->loss_sum;
}

// As torch.nn.functional.cross_entropy of the same numbers in Python: the mean over distributions.
TEST(Loss, FloatTargetsCanBeProbabilities) {
  const double first = std::log(2);                       // -log(1/2)
  const double second = std::log(1 + std::exp(1)) - 0.5;  // Half of each.
  const double third = std::log(1 + std::exp(2));         // The smaller one is right.
  EXPECT_NEAR(LossFor({.inputs = {{2, 3}}, .classes = 0, .target = {2, 3}}, Loss::kCrossEntropy,
                      {0, 1, 2, 0, 0, 0}, {1, 0.5F, 0, 0, 0.5F, 1}),
              (first + second + third) / 3, 1e-6);
}

TEST(Loss, SquaresAreOfEachNumber) {
  EXPECT_EQ(
      LossFor({.inputs = {{2}}, .classes = 0, .target = {2}}, Loss::kByTargets, {2, 4}, {0, 0}),
      10);
}

TEST(Loss, LabelsHaveOneLossASample) {
  EXPECT_NEAR(LossFor({.inputs = {{2}}, .classes = 2, .target = {}}, Loss::kByTargets, {0, 0}, {}),
              std::log(2), 1e-6);
}

}  // namespace
}  // namespace ddprun
