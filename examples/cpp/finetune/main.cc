// Continues with the parameters that another training has published, and trains the last layer
// alone: points of another circle than examples/cpp/mlp.
//
//   ddprun --nproc-per-node=2 mlp --publish=circle
//   ddprun --nproc-per-node=2 finetune --init-from=circle
#include <ddprun/trainer.h>

struct Points {
  std::uint64_t size() const { return 20'000; }
  ddprun::Example Get(std::uint64_t index) const {
    const double x = static_cast<double>(index % 200) / 100 - 1;
    const double y = static_cast<double>(index / 200) / 50 - 1;
    return {torch::tensor({x, y}, torch::kFloat),
            torch::tensor(static_cast<std::int64_t>(x * x + y * y < 0.3))};
  }
};

struct Net : torch::nn::Module {  // With the names that the parameters have in the file.
  Net() {
    hidden = register_module("hidden", torch::nn::Linear(2, 32));
    output = register_module("output", torch::nn::Linear(32, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) { return output(torch::relu(hidden(x))); }
  torch::nn::Linear hidden{nullptr};
  torch::nn::Linear output{nullptr};
};

int main(int argc, char** argv) {
  return ddprun::Train(argc, argv, [](ddprun::Session& session) {
    auto net = session.Replicate(std::make_shared<Net>());
    for (torch::Tensor& parameter : net->hidden->parameters()) {
      parameter.set_requires_grad(false);
    }
    torch::optim::SGD optimizer(net->output->parameters(),
                                torch::optim::SGDOptions(0.1).momentum(0.9));
    session.Keep("net", net);
    session.Keep("optimizer", optimizer);
    for (ddprun::Batch& batch : session.Batches(Points())) {
      const torch::Tensor scores = net->forward(batch.data);
      const torch::Tensor loss = torch::nn::functional::cross_entropy(scores, batch.target);
      session.Backward(loss);
      optimizer.step();
      session.EndStep({{"loss", loss},
                       {"accuracy", scores.argmax(1).eq(batch.target).to(torch::kFloat).mean()}});
    }
  });
}
