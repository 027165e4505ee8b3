// A program on the trainer's library that does one thing in another way than the examples: --how.
#include <ddprun/trainer.h>

#include <cmath>
#include <stdexcept>

namespace {

struct Points {
  std::string how;
  std::uint64_t count = 64;
  std::uint64_t size() const { return count; }
  torch::data::Example<> Get(std::uint64_t index) const {
    if (how == "get throws") {
      throw 42;
    }
    const double x = static_cast<double>(index) / 64;
    return {torch::tensor({x, 1 - x}, torch::kFloat), torch::tensor(x > 0.5 ? 1 : 0, torch::kLong)};
  }
};

struct Net : torch::nn::Module {
  Net() {
    first = register_module("first", torch::nn::Linear(2, 4));
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    last = register_module("last", torch::nn::Linear(4, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::relu(norm(first(x)))); }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear last{nullptr};
};

// A backward that fails with an exception that is not libtorch's.
struct Fails : torch::autograd::Function<Fails> {
  static torch::Tensor forward(torch::autograd::AutogradContext* /*context*/,
                               const torch::Tensor& x) {
    return x * 1;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* /*context*/,
                                               const torch::autograd::tensor_list& /*gradients*/) {
    throw std::runtime_error("its own backward");
  }
};

std::vector<ddprun::Metric> ScoreOf(ddprun::Session& session, const std::string& how, Net& net,
                                    const ddprun::Batch& batch) {
  const torch::Tensor loss =
      torch::nn::functional::cross_entropy(net.forward(batch.data), batch.target);
  if (how == "misuses in a score") {
    session.flag("none");
  } else if (how == "scores nothing") {
    return {};
  } else if ((how == "scores other names" && batch.indices[0] > 0) ||
             (how == "scores on rank 0" && session.is_main())) {
    return {{"loss", loss}, {"other", 1.0}};
  }
  return {{"loss", loss}, {"twice", loss * 2}};
}

// All gradients of one step.
void LearnFrom(ddprun::Session& session, const std::string& how, Net& net, torch::nn::Linear& aside,
               const torch::Tensor& other, const ddprun::Batch& batch) {
  bool first = true;
  for (const ddprun::Batch& part : session.Parts(batch)) {
    TORCH_CHECK(how != "wants larger parts" || part.size > 3, "a part is small");
    const torch::Tensor data = how.ends_with("another") ? part.data * other : part.data;
    torch::Tensor loss = torch::nn::functional::cross_entropy(net.forward(data), part.target);
    if (how == "reaches a module early" && first) {
      loss = loss + aside(part.data).mean();
    } else if (how == "its backward throws") {
      loss = Fails::apply(loss);
    }
    if (how == "its own backward") {
      loss.backward();
    } else {
      session.Backward(loss);
    }
    if (how == "leaves the parts") {
      return;
    }
    first = false;
  }
  if (how == "adds a loss") {
    const torch::Tensor before = net.last->bias.grad().clone();
    torch::Tensor sum = torch::zeros({});
    for (const torch::Tensor& parameter : net.parameters()) {
      sum = sum + parameter.sum();
    }
    session.Backward(sum);
    TORCH_CHECK((net.last->bias.grad() - before).allclose(torch::ones({2}), 1e-4, 1e-4),
                "a loss after the parts is not one of the whole batch");
  }
}

std::vector<ddprun::Metric> MetricsOf(const std::string& how, double late, bool is_main) {
  if (how == "has no loss on rank 1") {
    return {{"loss", is_main ? 0.5 : std::nan("")}};
  }
  if (how == "names a metric twice") {
    return {{"late", late}, {"late", late}};
  }
  if (how == "gives two numbers") {
    return {{"late", torch::zeros({2})}};
  }
  return {{how == "two lines" ? "a\nb" : "late", late}};
}

void Body(ddprun::Session& session) {
  const std::string how = session.flag("how");
  auto net = session.Replicate(std::make_shared<Net>());
  if (how == "replicates a part") {
    session.Replicate(net->first);
  }
  torch::nn::Linear aside(2, 1);
  if (how == "reaches a module early") {
    session.Replicate(aside);
  }
  net->norm->train(how == "normalises");
  const bool trains = how == "trains another";
  torch::Tensor other = torch::ones({1, 2}, torch::TensorOptions().requires_grad(true));
  torch::optim::SGD of_other({other}, torch::optim::SGDOptions(0.1));
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  if (how != "keeps nothing") {
    session.Keep("net", net);
    if (how != "keeps no optimizer") {
      session.Keep("optimizer", optimizer);
    }
  }
  session.Validate(Points{.how = "", .count = how == "validates on one" ? 1U : 64U},
                   [&](ddprun::Batch& batch) { return ScoreOf(session, how, *net, batch); });
  double late = 0;
  if (how == "keeps on rank 0" && session.is_main()) {
    session.Keep("late", late);
  }
  try {
    for (ddprun::Batch& batch :
         session.Batches(Points{.how = how, .count = how == "normalises" ? 65U : 64U})) {
      if (how == "keeps late") {
        session.Keep("late", late);
      } else if (how == "changes early" && session.step() > 0) {
        const torch::NoGradGuard no_grad;
        net->first->bias.fill_(1);
      } else if (how == "adds a group") {
        optimizer.add_param_group(torch::optim::OptimizerParamGroup({torch::zeros({1})}));
      } else if (how == "adds to a group") {
        optimizer.param_groups()[0].params().push_back(torch::zeros({1}));
      } else if (session.step() == 1 &&
                 (how == "leaves together" || (how == "leaves on rank 1" && !session.is_main()))) {
        break;
      } else if (how == "throws") {
        throw "no exception";
      } else if (how == "catches") {
        throw std::runtime_error("its own");
      }
      LearnFrom(session, how, *net, aside, other, batch);
      optimizer.step();
      if (trains) {
        of_other.step();
      }
      session.EndStep(MetricsOf(how, late, session.is_main()));
      if (how == "misuses in a score") {
        break;
      }
    }
  } catch (const std::runtime_error&) {
    return;
  }
  TORCH_CHECK(net->norm->is_training() == (how == "normalises") && net->first->is_training(),
              "modes were changed");
}

}  // namespace

int main(int argc, char** argv) {
  ddprun::Program program;
  program.name = "session_program";
  program.flags = {{.name = "how", .value = "", .help = "what it does"}};
  if (argc > 1 && std::string(argv[1]) == "--taken") {
    program.flags.push_back({.name = "epochs", .value = "", .help = "a flag of the trainer"});
  }
  return ddprun::Train(argc, argv, Body, program);
}
