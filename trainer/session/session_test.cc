#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result_testing.h"
#include "proto/worker_env.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/data/batch_slots.h"  // Whose batch is not a program's: both are in one program.
#include "trainer/group/process_group.h"
#include "trainer/session/batch_loader.h"
#include "trainer/session/checkpointed_state.h"
#include "trainer/session/fused_step.h"
#include "trainer/session/session_learner.h"

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Parameters = std::vector<at::Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const Parameters&)>;

// One linear layer under an optimizer, as a program keeps them.
struct Trained {
  explicit Trained(const MakeOptimizer& make, bool with_fused_step = false) {
    if (with_fused_step) {
      fused.emplace();
    }
    torch::manual_seed(1);
    net = torch::nn::Linear(3, 2);
    optimizer = make(net->parameters());
    CheckpointedState kept;
    EXPECT_TRUE(kept.Add("net", std::static_pointer_cast<torch::nn::Module>(net.ptr())));
    EXPECT_TRUE(kept.Add("optimizer", *optimizer));
    const Result<void> closed = kept.Close();
    EXPECT_TRUE(closed) << (closed ? "" : closed.error().message);
    group = std::move(*ProcessGroup::Join(WorkerEnv{}, GroupOptions{}));
    learner = std::make_unique<SessionLearner>(
        std::move(kept), std::vector<std::shared_ptr<torch::nn::Module>>{net.ptr()}, *group,
        at::Device(at::kCPU), config);
    EXPECT_TRUE(learner->Start({}, 0));
  }
  void Step(int number) {
    const at::Tensor input = at::full({4, 3}, 0.1 * number);
    EXPECT_TRUE(learner->Backward(net->forward(input).pow(2).mean(), 1, /*exchanges=*/true));
    if (fused) {
      fused->Take(*optimizer);
    } else {
      optimizer->step();
    }
    learner->ForgetGradients();
  }
  std::string Bits() const {
    std::string bits;
    for (const Tensor& tensor : CopyNow(learner->View(), {}).model) {
      bits.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    }
    return bits;
  }

  const TrainConfig config;
  torch::nn::Linear net{nullptr};
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<ProcessGroup> group;
  std::unique_ptr<SessionLearner> learner;
  std::optional<FusedStep> fused;
};

template <class Kind, class Options>
MakeOptimizer Make(Options options) {
  return [options](const Parameters& parameters) {
    return std::make_unique<Kind>(parameters, options);
  };
}

std::vector<MakeOptimizer> EveryKind() {
  using namespace torch::optim;
  return {Make<Adam>(AdamOptions(0.1).amsgrad(true)),
          Make<AdamW>(AdamWOptions(0.1)),
          Make<SGD>(SGDOptions(0.1)),
          Make<SGD>(SGDOptions(0.1).momentum(0.9).nesterov(true)),
          Make<RMSprop>(RMSpropOptions(0.1).momentum(0.5).centered(true)),
          Make<Adagrad>(AdagradOptions(0.1)),
          [](const Parameters& parameters) {  // Groups with options of their own.
            std::vector<OptimizerParamGroup> groups;
            groups.emplace_back(Parameters{parameters[0]}, std::make_unique<AdamWOptions>(0.1));
            groups.emplace_back(Parameters{parameters[1]}, std::make_unique<AdamWOptions>(0.01));
            return std::make_unique<AdamW>(std::move(groups));
          }};
}

void ContinuesWithTheSameBits(bool fused) {
  const std::vector<MakeOptimizer> kinds = EveryKind();
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    Trained whole(kinds[kind], fused);
    Trained first(kinds[kind], fused);
    for (int step = 0; step < 3; ++step) {
      whole.Step(step);
      first.Step(step);
    }
    const Snapshot saved = CopyNow(first.learner->View(), {});
    Trained resumed(kinds[kind], fused);
    ASSERT_TRUE(resumed.learner->CopyFrom(saved)) << kind;
    for (int step = 3; step < 6; ++step) {
      whole.Step(step);
      resumed.Step(step);
    }
    EXPECT_EQ(whole.Bits(), resumed.Bits()) << kind;
    EXPECT_NE(whole.Bits(), first.Bits()) << kind;
  }
}

TEST(SessionLearner, ContinuesEveryOptimizerWithTheSameBits) {
  ContinuesWithTheSameBits(/*fused=*/false);
  ContinuesWithTheSameBits(/*fused=*/true);
}

TEST(FusedStep, LearnsWhatTheOptimizersOwnStepLearns) {
  const std::vector<MakeOptimizer> kinds = EveryKind();
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    Trained own(kinds[kind]);
    Trained fused(kinds[kind], /*with_fused_step=*/true);
    Trained both(kinds[kind], /*with_fused_step=*/true);
    const at::Tensor start = own.net->weight.detach().clone();
    FusedStep taken;
    for (int step = 0; step < 6; ++step) {
      own.Step(step);
      fused.Step(step);
      both.fused = step % 2 == 0 ? std::optional(taken) : std::nullopt;
      both.Step(step);
      taken = both.fused.value_or(taken);
    }
    EXPECT_FALSE(at::allclose(own.net->weight, start)) << kind;
    EXPECT_TRUE(at::allclose(own.net->weight, fused.net->weight, 1e-5, 1e-6)) << kind;
    EXPECT_TRUE(at::allclose(own.net->weight, both.net->weight, 1e-5, 1e-6)) << kind;
  }
}

// libtorch makes the state in the first step; made before, it must not change what is learned.
TEST(SessionLearner, LearnsWhatTheOptimizerLearnsAlone) {
  using namespace torch::optim;
  for (const MakeOptimizer& make :
       {Make<Adam>(AdamOptions(0.1)), Make<SGD>(SGDOptions(0.1).momentum(0.9).weight_decay(0.1)),
        Make<RMSprop>(RMSpropOptions(0.1).momentum(0.5))}) {
    Trained kept(make);
    torch::manual_seed(1);
    torch::nn::Linear net(3, 2);
    const auto optimizer = make(net->parameters());
    for (int step = 0; step < 3; ++step) {
      kept.Step(step);
      optimizer->zero_grad();
      net->forward(at::full({4, 3}, 0.1 * step)).pow(2).mean().backward();
      optimizer->step();
    }
    EXPECT_TRUE(at::equal(kept.net->weight, net->weight));
  }
}

TEST(SessionLearner, NamesWhatIsNotTrained) {
  Trained trained(Make<torch::optim::SGD>(torch::optim::SGDOptions(0.1)));
  EXPECT_EQ(trained.learner->Frozen(), "none");
  trained.net->weight.set_requires_grad(false);
  EXPECT_EQ(trained.learner->Frozen(), "net.weight");
}

// The optimizer's state of a parameter that is trained now, or that was, would be lost.
TEST(SessionLearner, ACheckpointOfOtherTrainedParametersIsRefusedWithAdvice) {
  const MakeOptimizer adam = Make<torch::optim::Adam>(torch::optim::AdamOptions(0.1));
  const Trained whole(adam);
  const Trained one([&](const Parameters& parameters) { return adam({parameters[0]}); });
  const auto refusal = [](const Trained& resumed, const Trained& saved) {
    return resumed.learner->CopyFrom(CopyNow(saved.learner->View(), {})).error().message;
  };
  EXPECT_THAT(
      refusal(whole, one),
      AllOf(HasSubstr("lacks the tensor 'optimizer.exp_avg.net.bias':"), HasSubstr("--init-from")));
  EXPECT_THAT(refusal(one, whole), HasSubstr("has the tensor 'optimizer.exp_avg.net.bias', which "
                                             "has no place here:"));
}

TEST(SessionLearner, NamesWhatTakesNoPartInTheLoss) {
  Trained trained(Make<torch::optim::SGD>(torch::optim::SGDOptions(0.1)));
  const Result<void> half = trained.learner->Backward(trained.net->weight.sum(), 1, true);
  EXPECT_TRUE(Fails(half, ErrorKind::kInvalid, "no part in the loss: bias"));
  const Result<void> many = trained.learner->Backward(trained.net->weight * 2, 1, true);
  EXPECT_TRUE(Fails(many, "[2,3]"));
}

TEST(SessionLearner, MetricsAreMeansOverSamples) {
  Trained trained(Make<torch::optim::SGD>(torch::optim::SGDOptions(0.1)));
  trained.learner->AddMetric({"loss", at::full({}, 2.0)}, 3);
  trained.learner->AddMetric({"loss", 6.0}, 1);
  trained.learner->AddMetric({"loss", std::nan("")}, 0);  // A rank without a share.
  trained.learner->AddMetric({"other", 1.0}, 4);
  trained.learner->AddSamples(4);
  const Score score = *trained.learner->TakeScore();
  EXPECT_EQ(score.loss_sum, 12);
  EXPECT_EQ(score.samples, 4U);
  EXPECT_EQ(score.others.at("other"), 4);
  EXPECT_EQ(trained.learner->TakeScore()->samples, 0U);
}

TEST(CheckpointedState, RefusesWhatACheckpointCannotHold) {
  CheckpointedState kept;
  ASSERT_TRUE(kept.Add("one", at::zeros({2})));
  EXPECT_THAT(kept.Add("one", at::zeros({2})).error().message, HasSubstr("two tensors"));
  EXPECT_THAT(kept.Add("view", at::zeros({2, 3}).t()).error().message, HasSubstr("contiguous"));
  EXPECT_FALSE(kept.Add("complex", at::zeros({2}, at::kComplexFloat)));
  torch::nn::Linear net(3, 2);
  torch::optim::SGD damped(net->parameters(),
                           torch::optim::SGDOptions(0.1).momentum(0.9).dampening(0.1));
  ASSERT_TRUE(kept.Add("damped", damped));
  EXPECT_THAT(kept.Close().error().message, HasSubstr("dampening"));
}

TEST(CheckpointedState, NamesTheTrainedThatIsNotKept) {
  CheckpointedState kept;
  torch::nn::Linear net(3, 2);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
  ASSERT_TRUE(kept.Add("optimizer", optimizer));
  ASSERT_TRUE(kept.Add("weight", net->weight));
  EXPECT_THAT(kept.Problems({net.ptr()}),
              ElementsAre(StartsWith("parameter 1 [2] in group 0 of optimizer 'optimizer' is")));
}

TEST(CheckpointedState, RefusesAnOptimizerThatHasAParameterTwice) {
  CheckpointedState kept;
  torch::nn::Linear net(3, 2);
  torch::optim::SGD optimizer({net->weight, net->weight}, torch::optim::SGDOptions(0.1));
  ASSERT_TRUE(kept.Add("weight", net->weight));
  ASSERT_TRUE(kept.Add("optimizer", optimizer));
  EXPECT_THAT(kept.Close().error().message, HasSubstr("has the parameter 'weight' twice"));
}

struct Pairs {
  std::uint64_t size() const { return 5; }
  std::pair<at::Tensor, at::Tensor> Get(std::uint64_t index) const {
    return {at::full({2}, static_cast<double>(index)), at::full({}, static_cast<double>(index))};
  }
};

struct Words {  // Of as many letters as their index.
  std::uint64_t size() const { return 5; }
  at::Tensor Get(std::uint64_t index) const { return at::ones({static_cast<std::int64_t>(index)}); }
  Example Collate(const std::vector<Example>& samples) const {
    std::vector<at::Tensor> words;
    for (const Example& sample : samples) {
      words.push_back(sample[0]);
    }
    return {torch::nn::utils::rnn::pad_sequence(words, /*batch_first=*/true)};
  }
};

struct WordsWithoutConst : Words {
  Example Collate(const std::vector<Example>& samples) { return Words::Collate(samples); }
};
static_assert(internal::CollatesIfItCan<Words> && internal::CollatesIfItCan<Pairs>);
static_assert(!internal::CollatesIfItCan<WordsWithoutConst>);

TEST(BatchLoader, StacksCollatesAndKeepsTheOrderOnManyThreads) {
  const std::vector<std::uint64_t> indices = {4, 0, 3};
  const Data pairs = internal::DataOf(Pairs());
  for (const int threads : {0, 2, 8}) {
    const Example batch = *LoadExample(pairs, indices, {.threads = threads});
    ASSERT_EQ(batch.size(), 2U);
    EXPECT_EQ(batch[0].sizes(), (std::vector<std::int64_t>{3, 2}));
    EXPECT_TRUE(at::equal(batch[1], at::tensor({4.0F, 0.0F, 3.0F})));
  }
  const Example padded = *LoadExample(internal::DataOf(Words()), indices, {});
  EXPECT_EQ(padded[0].sizes(), (std::vector<std::int64_t>{3, 4}));
}

TEST(BatchLoader, SaysWhatTheDataSetHasThrown) {
  Data data{.size = 3,
            .fill = {},
            .get = [](std::uint64_t index) -> Example {
              if (index == 2) {
                return {at::ones({2})};
              }
              throw std::runtime_error("no such file\nand more");
            },
            .collate = {}};
  const std::vector<std::uint64_t> indices = {2, 1};
  for (const int threads : {0, 2}) {
    const Result<Example> loaded = LoadExample(data, indices, {.threads = threads});
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().message, "the data set failed at sample 1: no such file");
  }
  data.get = [](std::uint64_t) { return Example{}; };
  EXPECT_FALSE(LoadExample(data, indices, {}));
}

TEST(BatchLoader, NamesTheSampleThatDiffersInSize) {
  const std::vector<std::uint64_t> indices = {2, 2, 1};
  Data data{.size = 3, .fill = {}, .get = {}, .collate = {}};
  const auto message = [&] { return LoadExample(data, indices, {}).error().message; };
  data.get = [](std::uint64_t index) { return Example{at::ones({3}), at::ones({index == 1, 4})}; };
  EXPECT_THAT(message(),
              AllOf(HasSubstr("shapes [3] [0,4] for sample 2, but [3] [1,4] for sample 1"),
                    HasSubstr("a function Collate")));
  data.get = [](std::uint64_t index) { return Example(index, at::ones({})); };
  EXPECT_THAT(message(), HasSubstr("shapes [] [] for sample 2, but [] for sample 1"));
  data.get = [](std::uint64_t index) { return Example{index == 1 ? at::Tensor() : at::ones({})}; };
  EXPECT_THAT(message(), HasSubstr("but none for sample 1"));
}

TEST(BatchLoader, RefusesABatchWithoutARowForEachSample) {
  const std::vector<std::uint64_t> indices = {2, 1};
  Data data{.size = 3, .fill = {}, .get = {}, .collate = {}};
  data.fill = [](std::span<const std::uint64_t>) { return Example{at::ones({2, 5}), at::ones(1)}; };
  const Result<Example> loaded = LoadExample(data, indices, {});
  EXPECT_TRUE(Fails(loaded, "asked for 2 samples, but gave a tensor [1]"));
}

TEST(BatchLoader, ARankWithoutAShareLoadsOneSampleWithoutAWeight) {
  BatchLoader loader(internal::DataOf(Pairs()), {}, at::kCPU);
  FeedPart part;
  part.batch.count = 1;
  part.lead = 3;
  ASSERT_TRUE(loader.Fill(part));
  const Batch batch = loader.Take(part);
  EXPECT_EQ(batch.size, 0);
  EXPECT_TRUE(batch.indices.empty());
  EXPECT_EQ(batch.target.item<double>(), 3);
}

}  // namespace
}  // namespace ddprun
