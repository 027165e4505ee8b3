// ddprun-train's mlp on MNIST as a program of its own on the trainer's library: what train.py
// compares.
#include <ddprun/trainer.h>

struct Digits {
  explicit Digits(const std::string& root, std::uint64_t count)
      : mnist(root), samples(std::min(count, static_cast<std::uint64_t>(*mnist.size()))) {}
  std::uint64_t size() const { return samples; }
  ddprun::Example Fill(std::span<const std::uint64_t> indices) const {
    const torch::Tensor rows =
        torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()));
    return {images.index_select(0, rows), mnist.targets().index_select(0, rows)};
  }
  torch::data::datasets::MNIST mnist;
  torch::Tensor images = mnist.images().flatten(1).sub(0.1307).div_(0.3081);
  std::uint64_t samples;
};

int main(int argc, char** argv) {
  const auto body = [](ddprun::Session& session) {
    auto net = session.Replicate(torch::nn::Sequential(
        torch::nn::Linear(784, 50), torch::nn::ReLU(), torch::nn::Linear(50, 10)));
    torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(1e-3));
    session.Keep("net", net);
    session.Keep("optimizer", optimizer);
    for (ddprun::Batch& batch : session.Batches(
             Digits(session.flag("data"), static_cast<std::uint64_t>(session.number("samples"))))) {
      const torch::Tensor loss =
          torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      session.Backward(loss);
      session.Step(optimizer);
      session.EndStep({{"loss", loss}});
    }
  };
  return ddprun::Train(argc, argv, body,
                       {.description = "Learns handwritten digits.",
                        .flags = {{"data", "", "Where MNIST's files are", false},
                                  {"samples", "60000", "How many to learn from"}}});
}
