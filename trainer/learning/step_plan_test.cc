#include "trainer/learning/step_plan.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "trainer/learning/matmul.h"
#include "trainer/models/entries.h"
#include "trainer/models/torch_model.h"

namespace ddprun {
namespace {

TaskBatch BatchOf(std::int64_t samples, const Shape& shape, const at::Generator& generator) {
  TaskBatch batch;
  batch.inputs = {at::rand({samples, shape[0], shape[1]}, generator)};
  batch.labels = at::randint(4, {samples}, generator, at::kLong);
  return batch;
}

// After steps of each number of samples in turn: one, two layers; a rank without a share.
void ExpectAutogradsBits(const Task& task, const std::vector<std::int64_t>& steps) {
  const at::Generator generator = at::detail::createCPUGenerator(1);
  const at::Tensor weight = at::full({}, 0.3F);
  for (const ModelEntry* const entry : {&kLinear, &kMlp}) {
    const auto model = entry->make(task, *Arguments::Parse("", entry->arguments), 1);
    ASSERT_TRUE(model->linear_layers);
    for (at::Tensor& parameter : model->parameters) {
      parameter.set_requires_grad(true);
    }
    StepPlan plan(model->parameters);
    for (const std::int64_t samples : steps) {
      const TaskBatch batch = BatchOf(samples, task.inputs[0], generator);
      for (at::Tensor& parameter : model->parameters) {
        parameter.mutable_grad().reset();
      }
      const at::Tensor output = model->forward(batch.inputs, true);
      const at::Tensor loss = at::cross_entropy_loss(output, batch.labels, {}, at::Reduction::Sum);
      loss.backward(weight);
      std::vector<at::Tensor> wanted;
      for (at::Tensor& parameter : model->parameters) {
        wanted.push_back(parameter.grad().clone());
      }
      plan.Step(batch, weight);
      EXPECT_TRUE(at::equal(plan.output(), output)) << entry->name << " " << samples;
      EXPECT_TRUE(at::equal(plan.loss(), loss)) << entry->name << " " << samples;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_TRUE(at::equal(model->parameters[i].grad(), wanted[i]))
            << entry->name << ", " << samples << " samples, " << model->names[i];
      }
    }
  }
}

TEST(StepPlan, HasAutogradsBits) {
  ExpectAutogradsBits({.inputs = {{5, 7}}, .classes = 4, .target = {}}, {8, 64, 3, 0});
}

TEST(StepPlan, HasThemWithOneDnnToo) {
  MultiplyWithOneDnn();
  ExpectAutogradsBits({.inputs = {{28, 28}}, .classes = 10, .target = {}}, {64, 300});
}

}  // namespace
}  // namespace ddprun
