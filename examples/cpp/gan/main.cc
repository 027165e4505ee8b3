// Two networks against each other: one makes points of a circle out of noise, the other one tells
// them from real ones. Two losses and two optimizers in each step.
//
//   ddprun --nproc-per-node=2 build/gan --epochs=20
#include <ddprun/trainer.h>

#include <cmath>
#include <iostream>

namespace F = torch::nn::functional;

struct Circle {
  std::uint64_t size() const { return 8'192; }
  torch::Tensor Get(std::uint64_t index) const {
    const double angle = 2 * M_PI * static_cast<double>(index) / static_cast<double>(size());
    return torch::tensor({std::cos(angle), std::sin(angle)}, torch::kFloat);
  }
};

torch::nn::Sequential Layers(std::int64_t in, std::int64_t out) {
  using namespace torch::nn;
  return Sequential(Linear(in, 64), LeakyReLU(), Linear(64, 64), LeakyReLU(), Linear(64, out));
}

torch::Tensor ToldAs(const torch::Tensor& score, double real) {
  return F::binary_cross_entropy_with_logits(score, torch::full_like(score, real));
}

void Body(ddprun::Session& session) {
  auto maker = session.Replicate(Layers(4, 2));
  auto judge = session.Replicate(Layers(2, 1));
  const auto options = torch::optim::AdamOptions(1e-3).betas({0.5, 0.999});
  torch::optim::Adam maker_optimizer(maker->parameters(), options);
  torch::optim::Adam judge_optimizer(judge->parameters(), options);
  session.Keep("maker", maker);
  session.Keep("judge", judge);
  session.Keep("maker_optimizer", maker_optimizer);
  session.Keep("judge_optimizer", judge_optimizer);
  for (ddprun::Batch& batch : session.Batches(Circle())) {
    const torch::Tensor noise = torch::randn({batch.data.size(0), 4}, session.device());
    const torch::Tensor made = maker->forward(noise);
    const torch::Tensor judged =
        ToldAs(judge->forward(batch.data), 1) + ToldAs(judge->forward(made.detach()), 0);
    session.Backward(judged);
    judge_optimizer.step();
    const torch::Tensor fooled = ToldAs(judge->forward(made), 1);
    session.Backward(fooled);  // It reaches both networks; only one of them is changed.
    maker_optimizer.step();
    session.EndStep({{"loss", fooled}, {"judge", judged}});
  }
  if (session.is_main()) {
    const torch::NoGradGuard no_grad;
    std::cout << "mean radius of points made: "
              << maker->forward(torch::randn({1000, 4}, session.device()))
                     .norm(2, 1)
                     .mean()
                     .item<double>()
              << std::endl;
  }
}

int main(int argc, char** argv) {
  return ddprun::Train(argc, argv, Body);
}
