// A network of your own, trained on as many processes as the launcher starts:
//
//   cmake -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build
//   ddprun --nproc-per-node=2 build/mlp --epochs=20
//
// Kill a worker while it runs: it continues from the state in memory. Run it again with more
// --epochs: it continues from its last checkpoint.
#include <ddprun/trainer.h>

// Whether a point of a square lies inside of a circle.
struct Points {
  std::uint64_t size() const { return 20'000; }
  torch::data::Example<> Get(std::uint64_t index) const {
    const double x = static_cast<double>(index % 200) / 100 - 1;
    const double y = static_cast<double>(index / 200) / 50 - 1;
    return {torch::tensor({x, y}, torch::kFloat),
            torch::tensor(static_cast<std::int64_t>(x * x + y * y < 0.5))};
  }
};

struct Net : torch::nn::Module {
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
    torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(3e-3));
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
