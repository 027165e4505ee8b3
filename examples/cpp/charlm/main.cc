// A language model of bytes: a decoder-only transformer that learns to continue a text.
//
//   ddprun --nproc-per-node=2 build/charlm --data=TEXT --validate-every=200
#include <ddprun/trainer.h>

#include <filesystem>
#include <iostream>

// Windows of a text that do not overlap; the target is the window one byte later.
struct Windows {
  torch::Tensor text;  // uint8
  std::int64_t length;

  std::uint64_t size() const { return static_cast<std::uint64_t>((text.size(0) - 1) / length); }
  ddprun::Example Fill(std::span<const std::uint64_t> indices) const {
    const torch::Tensor first =
        torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end())).unsqueeze(1) *
        length;
    const torch::Tensor at = first + torch::arange(length);
    return {text.index({at}).to(torch::kLong), text.index({at + 1}).to(torch::kLong)};
  }
};

struct Block : torch::nn::Module {
  Block(std::int64_t width, std::int64_t head_count, double dropout) : heads(head_count) {
    before = register_module("ln_1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    between = register_module("ln_2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    qkv = register_module("c_attn", torch::nn::Linear(width, 3 * width));
    project = register_module("c_proj", torch::nn::Linear(width, width));
    up = register_module("c_fc", torch::nn::Linear(width, 4 * width));
    down = register_module("c_out", torch::nn::Linear(4 * width, width));
    drop = register_module("drop", torch::nn::Dropout(dropout));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto split = [&](const torch::Tensor& part) {
      return part.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
    };
    const std::vector<torch::Tensor> parts = qkv(before(x)).chunk(3, 2);
    const torch::Tensor attention = torch::scaled_dot_product_attention(
        split(parts[0]), split(parts[1]), split(parts[2]), {}, 0.0, /*is_causal=*/true);
    const torch::Tensor mixed = x + drop(project(attention.transpose(1, 2).reshape(x.sizes())));
    return mixed + drop(down(torch::gelu(up(between(mixed)))));
  }
  std::int64_t heads;
  torch::nn::LayerNorm before{nullptr}, between{nullptr};
  torch::nn::Linear qkv{nullptr}, project{nullptr}, up{nullptr}, down{nullptr};
  torch::nn::Dropout drop{nullptr};
};

struct Transformer : torch::nn::Module {
  Transformer(std::int64_t length, std::int64_t width, int layers, std::int64_t heads,
              double dropout) {
    bytes = register_module("wte", torch::nn::Embedding(256, width));
    places = register_module("wpe", torch::nn::Embedding(length, width));
    blocks = register_module("h", torch::nn::ModuleList());
    for (int i = 0; i < layers; ++i) {
      blocks->push_back(std::make_shared<Block>(width, heads, dropout));
    }
    norm = register_module("ln_f", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    output = register_module("lm_head", torch::nn::Linear(width, 256));
  }
  torch::Tensor forward(const torch::Tensor& text) {
    torch::Tensor x = bytes(text) + places(torch::arange(text.size(1), text.device()));
    for (const auto& block : *blocks) {
      x = block->as<Block>()->forward(x);
    }
    return output(norm(x));
  }
  torch::nn::Embedding bytes{nullptr}, places{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear output{nullptr};
};

torch::Tensor Loss(const torch::Tensor& scores, const ddprun::Batch& batch) {
  return torch::nn::functional::cross_entropy(scores.view({-1, 256}), batch.target.view({-1}));
}

std::string Sample(Transformer& model, std::string text, int count, torch::Device device) {
  const torch::NoGradGuard no_grad;
  model.eval();
  torch::Tensor bytes =
      torch::tensor(std::vector<std::int64_t>(text.begin(), text.end()), device).unsqueeze(0);
  for (int i = 0; i < count; ++i) {
    const torch::Tensor seen = bytes.slice(1, -model.places->options.num_embeddings());
    const torch::Tensor scores = model.forward(seen).select(1, -1) / 0.8;
    bytes = torch::cat({bytes, torch::multinomial(scores.softmax(1), 1)}, 1);
    text += static_cast<char>(bytes[0][-1].item<std::int64_t>());
  }
  return text;
}

void Body(ddprun::Session& session) {
  const auto all = static_cast<std::int64_t>(std::filesystem::file_size(session.flag("data")));
  TORCH_CHECK(all > 1000, "--data must name a text of 1,000 bytes or more");
  const torch::Tensor bytes =
      torch::from_file(session.flag("data"), /*shared=*/false, all, torch::kByte);
  const auto length = static_cast<std::int64_t>(session.number("context"));
  auto model = session.Replicate(std::make_shared<Transformer>(
      length, static_cast<std::int64_t>(session.number("width")),
      static_cast<int>(session.number("layers")),
      static_cast<std::int64_t>(session.number("heads")), session.number("dropout")));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  session.Keep("", model);
  session.Keep("optimizer", optimizer);
  const auto forward = session.CompiledForward(
      session.flag("eval-package"), model,
      [&](const std::vector<torch::Tensor>& inputs) { return model->forward(inputs[0]); });
  session.Validate(Windows{bytes.narrow(0, all - all / 10, all / 10), length},
                   [&](ddprun::Batch& batch) -> std::vector<ddprun::Metric> {
                     return {{"loss", Loss(forward({batch.data}), batch)}};
                   });
  for (ddprun::Batch& batch :
       session.Batches(Windows{bytes.narrow(0, 0, all - all / 10), length})) {
    torch::Tensor sum = torch::zeros({}, session.device());
    for (const ddprun::Batch& part : session.Parts(batch)) {
      const torch::Tensor loss = Loss(model->forward(part.data), part);
      session.Backward(loss);
      sum += loss.detach() * part.size;
    }
    torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
    session.Step(optimizer);
    session.EndStep({{"loss", sum / batch.size}});
  }
  if (session.is_main()) {
    std::cout << Sample(*model, "The ", 200, session.device()) << std::endl;
  }
}

int main(int argc, char** argv) {
  return ddprun::Train(argc, argv, Body,
                       {.description = "Learns to continue a text, byte by byte.",
                        .epochs = 1,
                        .batch = 16,
                        .flags = {{"data", "", "Text to learn from", false},
                                  {"context", "128", "Bytes that the model sees"},
                                  {"width", "128", "Numbers for each byte"},
                                  {"layers", "4", "Blocks"},
                                  {"heads", "4", "Heads of attention in a block"},
                                  {"dropout", "0.1", "Part of the numbers that is left out"},
                                  {"eval-package", "", "Validates with this package", false}}});
}
