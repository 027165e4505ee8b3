#include "trainer/learning/trained_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

std::shared_ptr<TorchModel> TwoWeights() {
  auto model = std::make_shared<TorchModel>();
  model->names = {"head.weight", "body.weight"};
  model->parameters = {at::ones({1}), at::full({1}, 2.0F)};
  model->buffer_names = {"seen"};
  model->buffers = {at::zeros({}, at::kLong)};
  model->forward = [p = model->parameters](const std::vector<at::Tensor>& inputs, bool) {
    return at::matmul(inputs[0] * p[0], at::ones({2, 2})) * p[1];
  };
  return model;
}

TEST(TrainedModel, AFrozenParameterIsPartOfTheStateAndNotTrained) {
  const TrainedModel model(TwoWeights(), at::kCPU, {.freeze = {"head"}}, Precision::kFloat32);
  EXPECT_TRUE(model.placed());
  EXPECT_EQ(model.names(), std::vector<std::string>{"body.weight"});
  EXPECT_TRUE(model.parameters()[0].requires_grad());
  std::vector<std::string> names;
  for (const NamedTensor& item : model.State()) {
    names.push_back(item.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"body.weight", "seen", "head.weight"}));
  EXPECT_FALSE(model.State()[2].tensor.requires_grad());
  EXPECT_TRUE(model.State()[1].changes_at_any_time);
  EXPECT_FALSE(model.State()[2].changes_at_any_time);
}

TEST(TrainedModel, AParameterWithoutGradientIsNamed) {
  TrainedModel model(TwoWeights(), at::kCPU, {}, Precision::kFloat32);
  model.parameters()[0].mutable_grad() = at::ones({1});
  const Result<std::vector<at::Tensor>> gradients = model.Gradients();
  ASSERT_FALSE(gradients);
  EXPECT_NE(gradients.error().message.find("no gradient: body.weight."), std::string::npos);
  model.parameters()[1].mutable_grad() = at::ones({1});
  EXPECT_TRUE(model.Gradients());
  model.ForgetGradients();
  EXPECT_FALSE(model.parameters()[0].grad().defined());
}

// 1 + 2^-9 is one in bfloat16, which has eight bits.
TEST(TrainedModel, ComputesInItsPrecisionAndAnswersInFloat32) {
  const at::Tensor input = at::full({1, 2}, 1.001953125F);
  for (const auto& [precision, expected] :
       {std::pair(Precision::kFloat32, 4.0078125F), {Precision::kBFloat16, 4.0F}}) {
    const TrainedModel model(TwoWeights(), at::kCPU, {}, precision);
    const at::NoGradGuard no_grad;
    const at::Tensor output = model.Output({input}, /*training=*/false);
    EXPECT_EQ(output.scalar_type(), at::kFloat);
    EXPECT_EQ(output[0][0].item<float>(), expected);
  }
}

TEST(TrainedModel, APartThatCannotBePlacedIsAnError) {
  const TrainedModel model(TwoWeights(), at::kCPU, {.split_devices = {"cpu"}}, Precision::kFloat32);
  EXPECT_FALSE(model.placed());
}

}  // namespace
}  // namespace ddprun
