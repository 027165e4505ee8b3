#include "trainer/learning/model_learner.h"

#include <ATen/ATen.h>
#include <ATen/core/Generator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/check.h"
#include "trainer/data/batch_slots.h"
#include "trainer/group/torch_group.h"
#include "trainer/learning/compiled_forward.h"
#include "trainer/learning/gradient_exchange.h"
#include "trainer/learning/gradient_scale.h"
#include "trainer/learning/optimizer.h"
#include "trainer/learning/score_accumulator.h"
#include "trainer/learning/step_plan.h"
#include "trainer/learning/step_replay.h"
#include "trainer/learning/trained_model.h"
#include "trainer/profiler/recorder.h"

namespace ddprun {

static_assert(ModelLearner::kEvaluationSlot + 1 == BatchSlots::kSlots);

namespace {

bool IsApart(const LearnerOptions& options) {
  return options.apart || options.device.kind != DeviceKind::kCpu;
}

double LossesOfOneSample(const Task& task, Loss loss) {
  if (task.classifies()) {
    return 1;
  }
  const auto numbers = static_cast<double>(NumbersIn(task.target));
  return loss == Loss::kCrossEntropy ? numbers / static_cast<double>(task.target[0]) : numbers;
}

}  // namespace

struct ModelLearner::Impl {
  Impl(const ModelEntry& entry, const LearnerOptions& learner_options, ProcessGroup& process_group);

  Result<void> AddGradients(const Part& part);
  void ForwardBackward(const TaskBatch& batch, bool first, bool last);
  void ByAutograd(const TaskBatch& batch, bool first, bool exchanges);
  // The sum over samples, so that parts and ranks add up.
  at::Tensor LossOf(const at::Tensor& output, const TaskBatch& batch) const;
  // Without `lr`: the optimizer has begun this step already.
  Result<void> UpdateFromGradients(std::optional<double> lr);

  const LearnerOptions options;
  ProcessGroup& group;
  const at::Device device;
  TrainedModel model;
  // How many losses are in a sample's, of which PyTorch takes the mean: for float targets one of
  // each number, or one of each distribution.
  const double losses_of_one_sample;
  Optimizer optimizer;
  std::optional<GradientScale> scale;  // With float16.
  ScoreAccumulator scores;
  at::Generator random;
  at::Tensor weight;        // The weight of a sample's loss in this step.
  double weight_there = 0;  // The value in `weight`, known without a look at the device.
  at::Tensor norm;          // Of the last step's gradients, if has_norm.
  bool has_norm = false;
  CompiledForward evaluation;           // If the options have a package: set by Start.
  std::optional<BatchSlots> slots;      // Set by MakeRoom.
  std::optional<StepPlan> plan;         // If the model has one.
  std::optional<StepReplay> replay;     // If the options have a graph.
  std::optional<TaskBatch> whole_step;  // For Update, which replays the whole step with it.
  const Buckets no_buckets;
  std::unique_ptr<GradientExchange>
      exchange;  // None in a group of one. Last: refers to the others.
};

ModelLearner::Impl::Impl(const ModelEntry& entry, const LearnerOptions& learner_options,
                         ProcessGroup& process_group)
    : options(learner_options),
      group(process_group),
      device(TorchDevice(options.device)),
      model(entry.make(options.task, options.config.model_arguments,
                       static_cast<std::uint64_t>(options.config.seed)),
            device, options.config.run, options.config.learning.precision),
      losses_of_one_sample(LossesOfOneSample(options.task, options.config.learning.loss_kind)),
      optimizer(options.config.optimizer_options, model.names(), model.parameters()),
      scores(device),
      random(at::globalContext().defaultGenerator(device)),
      weight(at::zeros({}, at::TensorOptions(at::kFloat).device(device))),
      norm(at::zeros_like(weight)) {
  if (options.config.learning.precision == Precision::kFloat16) {
    scale.emplace(device);
  }
  if (options.task.classifies() && model.IsPlainLinear()) {
    plan.emplace(model.parameters());
  }
  if (!options.graph) {
    return;
  }
  if (scale) {
    // The host must look at the gradients to know whether there is an update, so that is not
    // recorded.
    replay.emplace(options.graph, model.parameters(), [this](const TaskBatch& batch) {
      ForwardBackward(batch, /*first=*/true, /*last=*/true);
    });
    return;
  }
  replay.emplace(options.graph, std::vector<at::Tensor>(), [this](const TaskBatch& batch) {
    ForwardBackward(batch, /*first=*/true, /*last=*/true);
    // Cannot fail: a parameter without a gradient would have been found in the steps before.
    CHECK(UpdateFromGradients(std::nullopt));
  });
}

Result<void> ModelLearner::Impl::AddGradients(const Part& part) {
  if (part.first) {
    random.set_current_seed(part.seed);
  }
  // The exchange divides by the number of ranks. This weight undoes that and divides by all samples
  // of the global batch. Without an exchange, if all ranks have equal shares, it gives the mean
  // over this rank's samples.
  const double counts = (scale ? scale->factor() : 1) *
                        (static_cast<double>(group.size()) /
                         (static_cast<double>(part.global_count) * losses_of_one_sample));
  if (weight_there != counts) {
    weight.fill_(counts);
    weight_there = counts;
  }
  const TaskBatch batch = slots->Take(part.slot, part.count);
  scores.AddSamples(part.count);
  if (replay && part.regular && part.first && part.last && replay->IsWarm()) {
    whole_step = batch;
    return {};
  }
  ForwardBackward(batch, part.first, part.last);
  slots->Done();
  return {};
}

void ModelLearner::Impl::ForwardBackward(const TaskBatch& batch, bool first, bool last) {
  const bool exchanges = exchange && last;
  if (plan && first && last && !(exchanges && exchange->during_backward())) {
    plan->Step(batch, weight);
    scores.Add(plan->output(), plan->loss(), batch, losses_of_one_sample);
  } else {
    ByAutograd(batch, first, exchanges);
  }
  if (exchanges && model.Gradients()) {  // Else the update says which are missing.
    exchange->AfterBackward();
  }
  scores.Join();
}

void ModelLearner::Impl::ByAutograd(const TaskBatch& batch, bool first, bool exchanges) {
  if (first) {
    model.ForgetGradients();
  }
  std::optional<NamedRange> range(std::in_place, "forward");
  const at::Tensor output = model.Output(batch.inputs, /*training=*/true);
  const at::Tensor loss = LossOf(output, batch);
  range.reset();
  if (exchanges) {
    exchange->BeforeBackward();
  }
  scores.Add(output, loss, batch, losses_of_one_sample);
  const NamedRange backward("backward");
  loss.backward(weight);
}

at::Tensor ModelLearner::Impl::LossOf(const at::Tensor& output, const TaskBatch& batch) const {
  if (options.task.classifies()) {
    return at::cross_entropy_loss(output, batch.labels, {}, at::Reduction::Sum);
  }
  if (options.config.learning.loss_kind == Loss::kCrossEntropy) {
    return at::cross_entropy_loss(output, batch.targets, {}, at::Reduction::Sum);
  }
  return at::mse_loss(output, batch.targets, at::Reduction::Sum);
}

Result<void> ModelLearner::Impl::UpdateFromGradients(std::optional<double> lr) {
  ASSIGN_OR_RETURN(const std::vector<at::Tensor> gradients, model.Gradients());
  const bool finite = !scale || scale->Unscale(gradients);
  const LearningOptions& learning = options.config.learning;
  if (learning.clip_norm || learning.grad_norm) {
    // The gradients are averaged by now, so every rank gets the same norm.
    norm.copy_(ClipNorm(gradients, learning.clip_norm.value_or(0)));
    has_norm = true;
  }
  if (finite) {
    if (lr) {
      optimizer.Begin(*lr);
    }
    optimizer.Apply(gradients, /*recorded=*/!lr.has_value());
  }
  return {};
}

ModelLearner::ModelLearner(const ModelEntry& model, const LearnerOptions& options,
                           ProcessGroup& group)
    : Learner(group, IsApart(options)), impl_(std::make_unique<Impl>(model, options, group)) {}

ModelLearner::~ModelLearner() = default;

Result<void> ModelLearner::Start(const Buckets& buckets, std::uint32_t from) {
  Impl& my = *impl_;
  RETURN_IF_ERROR(my.model.placed());
  const TrainConfig& config = my.options.config;
  if (!config.run.eval_package.empty()) {
    ASSIGN_OR_RETURN(my.evaluation,
                     LoadCompiledForward(config.run.eval_package, my.model.State(),
                                         [&my](const std::vector<at::Tensor>& inputs) {
                                           return my.model.Output(inputs, /*training=*/false);
                                         }));
  }
  return Collectively(my.group.rank(), "receive the parameters", [&]() -> Result<void> {
    if (my.replay && my.device.is_cuda()) {
      // The default stream cannot be recorded, nor DDP's hooks that were made for it.
      const c10::impl::VirtualGuardImpl gpu(my.device.type());
      const c10::Stream before = gpu.exchangeStream(gpu.getStreamFromGlobalPool(my.device));
      before.synchronize();
    }
    if (my.group.torch() == nullptr) {
      return {};
    }
    ReceiveState(from);
    if (!config.run.no_sync) {
      my.exchange =
          std::make_unique<GradientExchange>(my.model.parameters(), *my.group.torch(), buckets,
                                             config.BucketBytes(), config.learning.compression);
    }
    return {};
  });
}

Result<void> ModelLearner::MakeRoom(std::size_t part, std::size_t evaluation) {
  Impl& my = *impl_;
  try {
    my.slots.emplace(my.options.task, my.device, IsApart(my.options), part, evaluation);
    return {};
  } catch (const std::exception&) {
    return DescribeCurrentException();
  }
}

BatchRoom ModelLearner::room(std::size_t slot) {
  return impl_->slots->room(slot);
}

bool ModelLearner::Replays() const {
  return impl_->replay && impl_->replay->replays();
}

bool ModelLearner::HasParameters() const {
  return !impl_->model.parameters().empty();
}

Result<void> ModelLearner::Backward(const Part& part) {
  CHECK(part.count <= impl_->slots->most(part.slot) && part.global_count > 0);
  try {
    return impl_->AddGradients(part);
  } catch (const std::exception&) {
    return CollectiveError(impl_->group.rank(),
                           "finish step " + std::to_string(impl_->optimizer.steps() + 1));
  }
}

Result<void> ModelLearner::Update(double lr) {
  Impl& my = *impl_;
  AwaitCopies();
  const std::string step = "finish step " + std::to_string(my.optimizer.steps() + 1);
  return Collectively(my.group.rank(), step, [&]() -> Result<void> {
    if (const auto batch = std::exchange(my.whole_step, std::nullopt)) {
      const bool updates = !my.scale;
      if (updates) {
        my.optimizer.Begin(lr);
      }
      RETURN_IF_ERROR(my.replay->Step(*batch, my.slots->place()));
      my.slots->Done();
      if (updates) {
        return {};
      }
    }
    const NamedRange range("optimizer");
    RETURN_IF_ERROR(my.UpdateFromGradients(lr));
    if (my.exchange) {
      my.exchange->AfterStep();
    }
    return {};
  });
}

std::optional<double> ModelLearner::GradientNorm() const {
  return impl_->has_norm ? std::optional<double>(impl_->norm.item<double>()) : std::nullopt;
}

Result<double> ModelLearner::DistanceFromRankZero() {
  return Collectively(impl_->group.rank(), "compare the parameters", [&]() -> Result<double> {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor>& parameters = impl_->model.parameters();
    std::vector<at::Tensor> first;
    for (const at::Tensor& parameter : parameters) {
      first.push_back(parameter.detach().clone());
    }
    if (impl_->group.torch() != nullptr) {
      Broadcast(*impl_->group.torch(), first);
    }
    double most = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      most = std::max(most, (first[i] - parameters[i]).abs().max().item<double>());
    }
    return most;
  });
}

Result<Score> ModelLearner::TakeScore() {
  CHECK(!impl_->whole_step);
  return Collectively(impl_->group.rank(), "compute the loss",
                      [&]() -> Result<Score> { return impl_->scores.Take(); });
}

Result<Score> ModelLearner::Evaluate(std::size_t count) {
  Impl& my = *impl_;
  CHECK(count <= my.slots->most(kEvaluationSlot) && !my.whole_step);
  return Collectively(my.group.rank(), "evaluate the model", [&]() -> Result<Score> {
    const at::NoGradGuard no_grad;
    const Score training = my.scores.Take();
    const TaskBatch batch = my.slots->Take(kEvaluationSlot, count);
    at::Tensor output;
    if (my.evaluation) {
      ASSIGN_OR_RETURN(output, my.evaluation(batch.inputs));
    } else {
      output = my.model.Output(batch.inputs, /*training=*/false);
    }
    const at::Tensor loss = my.LossOf(output, batch);
    my.scores.Add(output, loss, batch, my.losses_of_one_sample);
    my.scores.Join();
    my.slots->Done();
    my.scores.AddSamples(count);
    const Score found = my.scores.Take();
    my.scores.Restore(training);
    return found;
  });
}

std::vector<NamedTensor> ModelLearner::ModelTensors() const {
  return impl_->model.State();
}

std::vector<NamedTensor> ModelLearner::OptimizerTensors() const {
  std::vector<NamedTensor> state = impl_->optimizer.state();
  if (impl_->scale) {
    state.push_back(impl_->scale->state());
  }
  return state;
}

const Buckets& ModelLearner::buckets() const {
  return impl_->exchange ? impl_->exchange->buckets() : impl_->no_buckets;
}

}  // namespace ddprun
