#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "common/check.h"
#include "common/text.h"
#include "trainer/data/sampler.h"
#include "trainer/include/ddprun/trainer.h"
#include "trainer/learning/autocast.h"
#include "trainer/learning/compiled_forward.h"
#include "trainer/learning/torch_settings.h"
#include "trainer/learning/trained_model.h"
#include "trainer/loop/start.h"
#include "trainer/loop/steps.h"
#include "trainer/models/module_model.h"
#include "trainer/session/batch_loader.h"
#include "trainer/session/fused_step.h"
#include "trainer/session/session_learner.h"
#include "trainer/worker_process.h"

namespace ddprun {
namespace {

// Until a rank says that it waits for the others to leave the loop, too.
constexpr Duration kMostLeaving{5'000};

// Thrown to leave the program's function. It does not derive from std::exception, so a program's
// handler for those does not catch it.
struct LeaveProgram {
  Result<TrainingEnd> end;
};

template <class T>
T OrLeave(Result<T> result) {
  if (!result) {
    throw LeaveProgram{result.error()};
  }
  if constexpr (!std::is_void_v<T>) {
    return *std::move(result);
  }
}

[[noreturn]] void Misuse(const std::string& text) {
  throw LeaveProgram{Error{ErrorKind::kInvalid, text}};
}

// An exception of the program's own code: no peer's fault, so starting again would not help.
Error ProgramFailed(std::exception_ptr thrown) {
  return {ErrorKind::kSystem, "the program failed: " + FirstLineOf(std::move(thrown))};
}

void Seed(const at::Device& device, std::uint64_t seed) {
  SeedInitialisation(seed);
  if (!device.is_cpu()) {
    at::Generator random = at::globalContext().defaultGenerator(device);
    const std::lock_guard<std::mutex> lock(random.mutex());
    random.set_current_seed(seed);
  }
}

// Puts kept modules into eval mode. Its destructor puts each submodule back into its earlier mode.
class Evaluating {
 public:
  explicit Evaluating(const std::vector<std::shared_ptr<torch::nn::Module>>& modules) {
    for (const std::shared_ptr<torch::nn::Module>& kept : modules) {
      for (const std::shared_ptr<torch::nn::Module>& module : kept->modules()) {
        modes_.emplace_back(module, module->is_training());
      }
    }
    for (const std::shared_ptr<torch::nn::Module>& kept : modules) {
      kept->eval();
    }
  }
  ~Evaluating() {
    for (const auto& [module, training] : modes_) {  // Parents first: train() reaches the children.
      module->train(training);
    }
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

bool Holds(const torch::nn::Module& module, const at::Tensor& parameter) {
  const std::vector<at::Tensor> all = module.parameters();
  return std::any_of(all.begin(), all.end(),
                     [&](const at::Tensor& own) { return own.is_same(parameter); });
}

std::size_t CountParameters(const CheckpointedState& kept) {
  std::size_t count = 0;
  for (const torch::optim::Optimizer* const optimizer : kept.optimizers()) {
    for (const torch::optim::OptimizerParamGroup& group : optimizer->param_groups()) {
      count += group.params().size();
    }
  }
  return count;
}

std::string NamesOf(const std::vector<Metric>& metrics) {
  const std::string names = Joined(metrics, ", ", &Metric::name);
  return names.empty() ? "none" : names;
}

// The word of a text that has this place in it. A space ends each word.
std::string WordAt(const std::string& text, std::size_t at) {
  const std::size_t space = at == 0 ? text.npos : text.rfind(' ', at - 1);
  const std::size_t begin = space == text.npos ? 0 : space + 1;
  const std::string word = text.substr(begin, text.find(' ', begin) - begin);
  return word.empty() ? "nothing more" : word;
}

void CheckMetrics(const std::string& call, const std::vector<Metric>& metrics) {
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const Metric& metric = metrics[i];
    if (metric.tensor.defined() && metric.tensor.numel() != 1) {
      Misuse(call + ": the metric '" + metric.name +
             "' must be one number, not a tensor of shape " + ShapeText(metric.tensor.sizes()));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (metrics[j].name == metric.name) {
        Misuse(call + ": two metrics are named '" + metric.name + "'. Give them different names");
      }
    }
  }
}

}  // namespace

struct Session::Impl {
  Impl(Training& of_training, TrainingSteps& of_steps)
      : training(of_training),
        steps(of_steps),
        device(TorchDevice(of_training.device)),
        precision(of_training.config.learning.precision) {}

  void Begin(Data data, const LoadOptions& options);
  CheckpointedState& OpenList();
  void MakeLearner();
  Result<std::unique_ptr<BatchFeed>> MakeFeed();
  bool PreparesAhead();
  Result<Score> ScoreOf(std::span<const std::uint32_t> indices);
  void AgreeOnMetrics(const std::string& call, const std::vector<Metric>& metrics,
                      std::optional<std::string>& agreed);
  void AgreeOnTensors();
  void SetLearningRates();
  void TakeBatch();
  Result<void> LeaveTogether();
  void Finish();

  Training& training;
  TrainingSteps& steps;
  const at::Device device;
  const Precision precision;

  std::vector<std::shared_ptr<torch::nn::Module>> replicated;
  CheckpointedState kept;  // Empty once the learner has taken it.
  std::optional<Data> validation;
  std::function<std::vector<Metric>(Batch&)> score;

  std::optional<BatchLoader> loader;
  LoadOptions load_options;
  SessionLearner* learner = nullptr;
  FusedStep fused;
  std::vector<double> rates;   // The learning rates that the program gave the optimizers' groups.
  std::size_t parameters = 0;  // In these groups.
  std::optional<std::string> metric_names;
  std::optional<std::string> score_names;  // Of the metrics of a validation.

  std::optional<Batch> batch;  // Empty if no step is open.
  std::uint64_t global_count = 0;
  std::size_t parts = 1;  // How many parts the open step has.
  std::size_t part = 0;   // The current part of the open step, from 0.
  std::int64_t part_size = 0;
  std::int64_t whole_size = 0;  // Of all parts.
  std::optional<Autocast> autocast;
  std::optional<Result<TrainingEnd>> end;
};

void Session::Impl::MakeLearner() {
  if (replicated.empty()) {
    Misuse("Batches: no module is replicated. Call session.Replicate(module) before");
  }
  OrLeave(kept.Close());
  if (kept.model().empty()) {
    Misuse(
        "Batches: nothing is kept, so no checkpoint could hold the training. Call session.Keep "
        "for the module and its optimizer before");
  }
  for (const std::string& what : kept.Problems(replicated)) {
    if (training.IsRankZero()) {
      training.Say(LogLevel::kWarning, what);
    }
  }
  for (torch::optim::Optimizer* const optimizer : kept.optimizers()) {
    for (const torch::optim::OptimizerParamGroup& group : optimizer->param_groups()) {
      rates.push_back(group.options().get_lr());
    }
  }
  parameters = CountParameters(kept);
  auto made = std::make_unique<SessionLearner>(std::move(kept), replicated, *training.group, device,
                                               training.config);
  learner = made.get();
  training.learner = std::move(made);
  AgreeOnTensors();
}

void Session::Impl::Begin(Data data, const LoadOptions& options) {
  if (loader) {
    Misuse("Batches: a program has one loop over batches");
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (data.size == 0 || data.size > kMost) {
    Misuse("Batches: the data set has " + std::to_string(data.size) + " samples, not 1 to " +
           std::to_string(kMost));
  }
  if (const std::optional<std::int64_t> most = training.config.limit_train) {
    data.size = std::min(data.size, static_cast<std::uint64_t>(*most));
  }
  if (training.config.run.validate_every > 0 && !validation) {
    Misuse("--validate-every: this program has no validation data (session.Validate)");
  }
  MakeLearner();
  Dataset& set = training.dataset;
  set.train.count = static_cast<std::uint32_t>(data.size);
  training.samples_on_disk = true;  // The program's data set may read from a disk.
  if (validation) {
    set.validation = Samples{static_cast<std::uint32_t>(validation->size), {}};
    set.validation_is = "validation set";
    set.test.count = set.validation->count;  // Compared over the ranks.
    training.final_sets = {{"validation", &*set.validation}};
    training.evaluation_batch = static_cast<std::uint64_t>(training.config.batch);
    training.evaluate = [this](const Samples&, std::span<const std::uint32_t> indices) {
      return ScoreOf(indices);
    };
  }
  load_options = options;
  loader.emplace(std::move(data), options, device);
  OrLeave(CompareSamples(training));
  training.heartbeat.Phase(kRestorePhase);
  if (!OrLeave(steps.Begin([this] { return MakeFeed(); }))) {
    OrLeave(learner->Start({}, 0));  // The result for all ranks: the program may use it.
    end = TrainingEnd::kFinished;
  }
  learner->ForgetGradients();
}

// Whether a thread prepares batches ahead. The first sample's size decides, if --prefetch is auto.
bool Session::Impl::PreparesAhead() {
  const std::string& prefetch = training.config.learning.prefetch;
  if (prefetch != "auto" || load_options.threads > 0) {
    return prefetch != "off";
  }
  const std::uint64_t first = 0;
  std::uint64_t numbers = 0;
  for (const at::Tensor& tensor : OrLeave(LoadExample(loader->data(), {&first, 1}, {}))) {
    numbers += static_cast<std::uint64_t>(tensor.numel());
  }
  return PrefetchWanted(
      training.config.learning,
      numbers * LargestShare(training.state.global_batch, training.env.world_size));
}

Result<std::unique_ptr<BatchFeed>> Session::Impl::MakeFeed() {
  return std::make_unique<BatchFeed>(
      training.dataset.train.count,
      training.Feed(LargestShare(training.state.global_batch, training.env.world_size),
                    PreparesAhead()),
      [this](const FeedPart& filled, const AugmentKey&) { return loader->Fill(filled); });
}

Result<Score> Session::Impl::ScoreOf(std::span<const std::uint32_t> indices) {
  const std::vector<std::uint64_t> wide(indices.begin(), indices.end());
  Example example;
  {
    const ReadWatch::Reading reading(training.reads);
    ASSIGN_OR_RETURN(example, LoadExample(*validation, wide, load_options));
  }
  try {
    const at::NoGradGuard no_grad;
    const Evaluating evaluating(learner->kept().modules());
    const Autocast forward(precision, device.type());
    Batch scored =
        MakeBatch(std::move(example), wide, static_cast<std::int64_t>(wide.size()), device);
    const std::vector<Metric> metrics = score(scored);
    if (metrics.empty()) {
      return Error{ErrorKind::kInvalid,
                   "Validate: the score has no metric. The first one must be the loss"};
    }
    AgreeOnMetrics("Validate", metrics, score_names);
    Score result;
    result.samples = wide.size();
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      (i == 0 ? result.loss_sum : result.others[metrics[i].name]) +=
          ValueOf(metrics[i]) * static_cast<double>(wide.size());
    }
    return result;
  } catch (const LeaveProgram& leave) {
    // Not thrown on: the evaluation may run in the destructor of Batches.
    CHECK(!leave.end);
    return leave.end.error();
  } catch (...) {
    return ProgramFailed(std::current_exception());
  }
}

// Metrics are summed over the ranks by their position, so names must be the same everywhere.
// `agreed`: the names of the first step, or of the first batch of a validation.
void Session::Impl::AgreeOnMetrics(const std::string& call, const std::vector<Metric>& metrics,
                                   std::optional<std::string>& agreed) {
  CheckMetrics(call, metrics);
  const std::string mine = NamesOf(metrics);
  if (!agreed) {
    if (std::any_of(mine.begin(), mine.end(),
                    [](unsigned char c) { return std::iscntrl(c) != 0; })) {
      Misuse(call + ": the name of a metric has a control character, such as the end of a line");
    }
    const std::string first = OrLeave(training.group->BroadcastText(mine));
    if (first != mine) {
      Misuse(call + ": the metrics of rank " + std::to_string(training.env.rank) + " are " + mine +
             ", those of rank 0 are " + first + ". All ranks need the same");
    }
    agreed = mine;
  } else if (*agreed != mine) {
    Misuse(call + ": the metrics are " + mine + ", those of the first time were " + *agreed +
           ". They must always be the same");
  }
}

// The tensors of one rank are sent to the others, so all must keep and replicate the same.
void Session::Impl::AgreeOnTensors() {
  std::string mine = learner->Describe() + " ";
  for (const NamedTensor& item : learner->kept().optimizer()) {
    mine += item.name + " ";
  }
  for (const std::shared_ptr<torch::nn::Module>& module : replicated) {
    for (const auto& item : module->named_parameters()) {
      mine += item.key() + ShapeText(item.value().sizes()) + " ";
    }
  }
  const std::string first = OrLeave(training.group->BroadcastText(mine));
  if (first != mine) {
    const auto at = static_cast<std::size_t>(
        std::mismatch(mine.begin(), mine.end(), first.begin(), first.end()).first - mine.begin());
    Misuse("Batches: rank " + std::to_string(training.env.rank) + " keeps or replicates " +
           WordAt(mine, at) + " where rank 0 has " + WordAt(first, at) +
           ". All ranks need the same calls of Keep and Replicate, and the same shapes");
  }
}

// Without a flag that asks for other rates, the program's own stay.
void Session::Impl::SetLearningRates() {
  if (CountParameters(learner->kept()) != parameters) {
    Misuse(
        "add_param_group: call it before Batches, and so add_parameters. No checkpoint holds the "
        "state of what a kept optimizer gets later");
  }
  const LearningOptions& learning = training.config.learning;
  if (learning.schedule == "constant" && learning.warmup_steps == 0 && !training.config.scale_lr) {
    return;
  }
  std::size_t next = 0;
  for (torch::optim::Optimizer* const optimizer : learner->kept().optimizers()) {
    for (torch::optim::OptimizerParamGroup& group : optimizer->param_groups()) {
      group.options().set_lr(training.LearningRate(rates[next++]));
    }
  }
}

void Session::Impl::TakeBatch() {
  const FeedPart* const next = OrLeave(steps.NextPart());
  batch = loader->Take(*next);
  global_count = next->batch.count;
  parts = 1;
  part = 0;
  part_size = whole_size = batch->size;
  Seed(device, StepSeed(training.state.seed, training.state.step, training.env.rank));
  SetLearningRates();
  if (precision != Precision::kFloat32) {
    autocast.emplace(precision, device.type());
  }
}

// Peers that still take steps wait for this rank in a collective: another one here would not meet
// theirs, and Gloo ends a process for that.
Result<void> Session::Impl::LeaveTogether() {
  const std::string key = "left the loop after step " + std::to_string(training.state.step);
  const std::string left = "rank " + std::to_string(training.env.rank) +
                           " left the loop over session.Batches after step " +
                           std::to_string(training.state.step);
  const std::string rule = "All ranks must leave it after the same step";
  // A little sooner than peers give this rank up.
  const Duration patience = training.config.peer_timeout * 7 / 8;
  const Duration first = std::min(kMostLeaving, patience / 2);
  ASSIGN_OR_RETURN(bool together, training.group->Count(key));
  if (!together) {
    ASSIGN_OR_RETURN(together, training.group->AllCounted(key, first));
  }
  if (!together) {
    training.Say(LogLevel::kWarning, left + ", and waits for the other ranks. " + rule);
    ASSIGN_OR_RETURN(together, training.group->AllCounted(key, patience - first));
  }
  if (!together) {
    return Error{ErrorKind::kInvalid, left + ", and not all others did. " + rule};
  }
  return {};
}

void Session::Impl::Finish() {
  end = steps.Finish();
  if (!*end || **end == TrainingEnd::kStopped) {
    throw LeaveProgram{*end};
  }
}

int Session::rank() const {
  return static_cast<int>(impl_->training.env.rank);
}

int Session::world_size() const {
  return static_cast<int>(impl_->training.env.world_size);
}

int Session::local_rank() const {
  return static_cast<int>(impl_->training.env.local_rank);
}

torch::Device Session::device() const {
  return impl_->device;
}

std::int64_t Session::epoch() const {
  return static_cast<std::int64_t>(impl_->training.state.epoch);
}

std::int64_t Session::step() const {
  return static_cast<std::int64_t>(impl_->training.state.step);
}

const std::string& Session::flag(const std::string& name) const {
  for (const ProgramFlag& own : impl_->training.config.program_flags) {
    if (own.name == name) {
      return own.value;
    }
  }
  Misuse("flag(\"" + name + "\"): the program has no such flag (Program::flags)");
}

double Session::number(const std::string& name) const {
  const std::string& text = flag(name);
  const std::optional<double> value = ParseNumber<double>(text);
  if (!value) {
    Misuse("--" + name + " must be a number, not '" + text + "'");
  }
  return *value;
}

void Session::ReplicateModule(const std::shared_ptr<torch::nn::Module>& module) {
  if (impl_->loader) {
    Misuse("Replicate: call it before Batches");
  }
  for (const std::shared_ptr<torch::nn::Module>& other : impl_->replicated) {
    for (const auto& item : module->named_parameters()) {
      if (Holds(*other, item.value())) {
        Misuse("Replicate: the parameter '" + item.key() +
               "' is replicated already. Replicate a module once, without those that it contains");
      }
    }
  }
  module->to(impl_->device);
  impl_->replicated.push_back(module);
}

CheckpointedState& Session::Impl::OpenList() {
  if (loader) {
    Misuse("Keep: call it before Batches");
  }
  return kept;
}

void Session::Keep(const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
  OrLeave(impl_->OpenList().Add(name, module));
}

void Session::Keep(const std::string& name, torch::optim::Optimizer& optimizer) {
  OrLeave(impl_->OpenList().Add(name, optimizer));
}

void Session::Keep(const std::string& name, const torch::Tensor& tensor) {
  OrLeave(impl_->OpenList().Add(name, tensor));
}

void Session::Keep(const std::string& name, double& value) {
  OrLeave(impl_->OpenList().Add(name, at::from_blob(&value, {}, at::kDouble)));
}

void Session::Keep(const std::string& name, std::int64_t& value) {
  OrLeave(impl_->OpenList().Add(name, at::from_blob(&value, {}, at::kLong)));
}

void Session::ValidateData(Data data, std::function<std::vector<Metric>(Batch&)> score) {
  if (impl_->loader || impl_->validation || data.size == 0 ||
      data.size > std::numeric_limits<std::uint32_t>::max()) {
    Misuse("Validate: call it once, before Batches, with a data set that is not empty");
  }
  impl_->validation = std::move(data);
  impl_->score = std::move(score);
}

Session::Forward Session::LoadForward(const std::string& file, const torch::nn::Module& module,
                                      Forward eager) {
  if (file.empty()) {
    return eager;
  }
  if (impl_->precision != Precision::kFloat32) {
    Misuse(
        "CompiledForward: --autocast does not apply to a package, which computes as it was "
        "exported");
  }
  std::vector<NamedTensor> state;
  for (const auto& item : module.named_parameters()) {
    state.push_back({item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers()) {
    state.push_back({item.key(), item.value()});
  }
  return [compiled = OrLeave(LoadCompiledForward(file, state, std::move(eager)))](
             const std::vector<torch::Tensor>& inputs) { return OrLeave(compiled(inputs)); };
}

void Session::BeginBatches(Data data, const LoadOptions& options) {
  impl_->Begin(std::move(data), options);
}

void Session::NextBatch() {
  if (impl_->batch) {
    Misuse("the step of a batch was not ended: call session.EndStep once for each batch");
  }
  if (impl_->end) {
    return;
  }
  if (impl_->steps.MoreSteps()) {
    impl_->TakeBatch();
  } else {
    impl_->Finish();
  }
}

Parts Session::Parts(const Batch& batch) {
  std::vector<Batch> parts;
  const std::int64_t most = impl_->training.config.micro_batch;
  const std::int64_t rows = std::max<std::int64_t>(batch.size, 1);
  // Of about equal size: a rest of one sample is too little for batch norm.
  const std::int64_t part_count = (rows + most - 1) / most;
  for (std::int64_t i = 0; i < part_count; ++i) {
    const std::int64_t first = rows * i / part_count;
    const std::int64_t count = rows * (i + 1) / part_count - first;
    Example example;
    for (const torch::Tensor& tensor : batch.tensors) {
      if (tensor.dim() == 0 || tensor.size(0) != rows) {
        Misuse("Parts: a tensor of the batch does not have the samples as its first dimension");
      }
      example.push_back(tensor.narrow(0, first, count));
    }
    const auto begin = batch.indices.begin() + std::min(first, batch.size);
    parts.push_back(MakeBatch(std::move(example), {begin, begin + std::min(count, batch.size)},
                              std::min(count, batch.size), impl_->device));
  }
  impl_->parts = parts.size();
  impl_->part = 0;
  impl_->part_size = parts[0].size;
  return ddprun::Parts(this, std::move(parts));
}

Parts::Iterator& Parts::Iterator::operator++() {
  ++at_;
  session_->impl_->part = at_;
  // After the last part a loss is of the whole batch again.
  session_->impl_->part_size =
      at_ < parts_->size() ? (*parts_)[at_].size : session_->impl_->whole_size;
  return *this;
}

void Session::Backward(const torch::Tensor& loss) {
  if (!impl_->batch) {
    Misuse("Backward: call it in the loop over batches, before EndStep");
  }
  impl_->autocast.reset();  // Of the forward alone.
  const double weight = static_cast<double>(impl_->part_size) *
                        static_cast<double>(impl_->training.env.world_size) /
                        static_cast<double>(impl_->global_count);
  OrLeave(impl_->learner->Backward(loss, weight, impl_->part + 1 >= impl_->parts));
  if (impl_->precision != Precision::kFloat32) {
    impl_->autocast.emplace(impl_->precision, impl_->device.type());
  }
}

void Session::Step(torch::optim::Optimizer& optimizer) {
  impl_->fused.Take(optimizer);
}

void Session::EndStep(const std::vector<Metric>& metrics) {
  Impl& my = *impl_;
  if (!my.batch) {
    Misuse("EndStep: call it once for each batch");
  }
  my.autocast.reset();
  OrLeave(my.learner->CheckStep());
  if (const std::string what = my.learner->TrainedElsewhere();
      !what.empty() && my.training.IsRankZero()) {
    my.training.Say(LogLevel::kWarning, what);
  }
  my.AgreeOnMetrics("EndStep", metrics, my.metric_names);
  const auto samples = static_cast<std::size_t>(my.batch->size);
  for (const Metric& metric : metrics) {
    my.learner->AddMetric(metric, samples);
  }
  my.learner->AddSamples(samples);
  my.batch.reset();
  OrLeave(my.steps.EndStep());
  my.learner->ForgetGradients();
}

// Perhaps the program's loop was left while steps remained. RunBody has the error of the end.
Batches::~Batches() {
  Session::Impl& my = *session_->impl_;
  if (my.end || std::uncaught_exceptions() > 0) {
    return;
  }
  my.batch.reset();
  my.autocast.reset();
  // After the last step all ranks leave.
  const Result<void> left = my.steps.MoreSteps() ? my.LeaveTogether() : Result<void>();
  my.training.stopped_early = true;
  my.end = left ? my.steps.Finish() : left.error();
}

Batches::Iterator Batches::begin() const {
  session_->NextBatch();
  return Iterator(session_);
}

Batch& Batches::Iterator::operator*() const {
  return *session_->impl_->batch;
}

Batches::Iterator& Batches::Iterator::operator++() {
  session_->NextBatch();
  return *this;
}

bool Batches::Iterator::operator!=(std::default_sentinel_t) const {
  return session_->impl_->batch.has_value();
}

namespace {

Result<TrainingEnd> RunBody(Session::Impl& impl, const std::function<void(Session&)>& body) {
  Seed(impl.device, static_cast<std::uint64_t>(impl.training.config.seed));
  try {
    Session session(&impl);
    body(session);
  } catch (const LeaveProgram& leave) {
    return leave.end;
  } catch (...) {
    return ProgramFailed(std::current_exception());
  }
  if (!impl.end) {
    return Error{ErrorKind::kInvalid,
                 impl.loader ? "an exception left the loop over session.Batches, and the program "
                               "caught it: the steps after the last checkpoint are lost"
                             : "the program ended without a loop over session.Batches: nothing was "
                               "trained"};
  }
  return *impl.end;
}

TrainConfig DefaultsOf(const Program& program, const char* argv0) {
  TrainConfig config;
  config.model =
      program.name.empty() ? std::filesystem::path(argv0).filename().native() : program.name;
  config.dataset = "its own data";
  config.epochs = program.epochs;
  config.batch = program.batch;
  for (const Flag& own : program.flags) {
    config.program_flags.push_back({own.name, own.value, own.help, own.same_on_all_ranks});
  }
  return config;
}

}  // namespace

int Train(int argc, char** argv, const std::function<void(Session&)>& body,
          const Program& program) {
  const TrainConfig defaults = DefaultsOf(program, argc > 0 ? argv[0] : "program");
  std::optional<Session::Impl> impl;  // Outlives the steps, whose thread loads batches with it.
  const WorkerProgram worker = {
      .name = defaults.model,
      .parse =
          [&](int count, const char* const* words) {
            return ParseProgram(defaults, program.description, count, words);
          },
      .most_threads = [](const TrainConfig&) { return 64; },
      .warm_up =
          [](const TrainConfig&) {
            SetThreads(1);  // No pool of them: a fork would lose it.
            (void)at::ones({1}).sum().item<float>();
          },
      .train = [&](Training& training,
                   TrainingSteps& steps) { return RunBody(impl.emplace(training, steps), body); }};
  EndProcess(RunWorker(worker, argc, argv));
}

}  // namespace ddprun
