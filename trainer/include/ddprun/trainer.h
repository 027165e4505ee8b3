// ddprun's trainer as a library: a program with a model of its own joins the ranks that a launcher
// has started, trains with distributed data parallelism, and continues from its checkpoints with
// the same bits as if it had never stopped.
//
//   int main(int argc, char** argv) {
//     return ddprun::Train(argc, argv, [](ddprun::Session& session) {
//       auto net = session.Replicate(std::make_shared<Net>());
//       torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(3e-4));
//       session.Keep("net", net);
//       session.Keep("optimizer", optimizer);
//       for (ddprun::Batch& batch : session.Batches(MyData())) {
//         torch::Tensor loss = Loss(net->forward(batch.data), batch.target);
//         session.Backward(loss);
//         optimizer.step();
//         session.EndStep({{"loss", loss}});
//       }
//     });
//   }
//
// Every rank runs this program and makes the same calls in the same order, in one thread. An error
// ends the program with the exit code that a launcher expects (docs/own-model.md). Within 0.x a
// program that compiles with one version compiles with the next; programs are compiled anew for
// each version and each libtorch.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddprun {

#define DDPRUN_TRAINER_API __attribute__((visibility("default")))

// A flag of the program's own: --NAME=VALUE.
struct Flag {
  std::string name;   // The name without dashes: "width".
  std::string value;  // The value where the command line gives none.
  std::string help;   // The line of --help.
  // True: ranks with different values do not start, and a checkpoint of another value is refused.
  // Set it to false for values that may differ, such as paths.
  bool same_on_all_ranks = true;
};

struct Program {
  std::string name;  // The name of the checkpoint directory. Empty: the file name of argv[0].
  std::string description;  // The first lines of --help.
  std::int64_t epochs = 5;  // The default of --epochs.
  std::int64_t batch = 64;  // The default of --batch: samples of one rank in a step.
  std::vector<Flag> flags;  // A flag that ddprun has already ends the program with exit code 2.
};

// The tensors of one sample: data and target, or any other number of tensors.
using Example = std::vector<torch::Tensor>;

// The samples of one rank in one step, on the session's device. If the last batch of an epoch is
// too small for all ranks, a rank without a share gets one sample, which is not learned from.
// --drop-last leaves out a last batch that is smaller than the others.
struct Batch {
  // The tensors of an example, with the samples as first dimension.
  std::vector<torch::Tensor> tensors;
  torch::Tensor data;                  // The first tensor.
  torch::Tensor target;                // The second tensor, if there is one.
  std::int64_t size = 0;               // The number of samples that are learned from; 0: none.
  std::vector<std::uint64_t> indices;  // The places of these samples in the data set.
};

// A named number of a step or a validation: the mean over the samples of the batch.
struct Metric {
  Metric(std::string metric_name, torch::Tensor metric_value)
      : name(std::move(metric_name)), tensor(std::move(metric_value)) {}
  Metric(std::string metric_name, double metric_value)
      : name(std::move(metric_name)), number(metric_value) {}

  std::string name;
  torch::Tensor tensor;  // A tensor of one number (see EndStep); undefined: `number` is the value.
  double number = 0;     // The value where `tensor` is undefined.
};

// A data set as a session takes it. Batches() and Validate() make one of any object with
//   size()            the number of samples, and
//   Get(index)        a torch::Tensor, a pair of them, a torch::data::Example<> or an Example; or
//   Fill(indices)     the whole batch at once: an Example whose tensors have one row per index.
// Samples from Get are stacked. If they differ in size, Collate(std::vector<Example>) makes the
// batch. libtorch's own data sets, with size() and get(), can be used too. The functions are const,
// and threads call them at the same time. One index must give the same sample each time.
struct Data {
  // The number of samples.
  std::uint64_t size = 0;
  // Makes a whole batch; unset: `get` makes each sample.
  std::function<Example(std::span<const std::uint64_t> indices)> fill;
  // Makes one sample; not called where `fill` is set.
  std::function<Example(std::uint64_t index)> get;
  // Makes a batch of samples from `get`; unset: they are stacked.
  std::function<Example(std::vector<Example> samples)> collate;
};

struct LoadOptions {
  // Threads that call Get for one batch: too many take the cores of the training; 0: one thread
  // prepares the next batch.
  int threads = 0;
};

class Session;

// The loop over all batches of a training.
class DDPRUN_TRAINER_API Batches {
 public:
  class DDPRUN_TRAINER_API Iterator {
   public:
    explicit Iterator(Session* session) : session_(session) {}
    Batch& operator*() const;
    Iterator& operator++();
    bool operator!=(std::default_sentinel_t end) const;

   private:
    Session* session_;
  };

  explicit Batches(Session* session) : session_(session) {}
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;
  // A loop that is left by `break` ends the training early. The training is then evaluated, and
  // saved as finished. All ranks must leave the loop after the same step.
  ~Batches();
  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

 private:
  Session* session_;
};

// A batch in parts of at most --micro-batch samples. Backward adds their gradients up, and averages
// them over the ranks with the last part.
class DDPRUN_TRAINER_API Parts {
 public:
  class DDPRUN_TRAINER_API Iterator {
   public:
    Iterator(Session* session, const std::vector<Batch>* parts)
        : session_(session), parts_(parts) {}
    const Batch& operator*() const { return (*parts_)[at_]; }
    Iterator& operator++();
    bool operator!=(std::default_sentinel_t) const { return at_ < parts_->size(); }

   private:
    Session* session_;
    const std::vector<Batch>* parts_;
    std::size_t at_ = 0;
  };

  Parts(Session* session, std::vector<Batch> parts) : session_(session), parts_(std::move(parts)) {}
  Iterator begin() const { return {session_, &parts_}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  Session* session_;
  std::vector<Batch> parts_;
};

namespace internal {
template <class Set>
Data DataOf(Set set);
}  // namespace internal

class DDPRUN_TRAINER_API Session {
 public:
  struct Impl;
  explicit Session(Impl* impl) : impl_(impl) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const;
  int world_size() const;
  int local_rank() const;
  bool is_main() const { return rank() == 0; }  // Rank 0 prints and saves.
  torch::Device device() const;                 // The device of this rank's tensors.
  std::int64_t epoch() const;                   // The present epoch, from 0.
  std::int64_t step() const;                    // Finished steps, also those before a restart.

  // The value of one of the program's own flags, as text or as a number.
  const std::string& flag(const std::string& name) const;
  double number(const std::string& name) const;

  // Moves a module to device(). Its parameters start with rank 0's values, and Backward averages
  // their gradients over the ranks. A loss that uses the module must use all of its parameters.
  template <class Module>
  std::shared_ptr<Module> Replicate(std::shared_ptr<Module> module) {
    ReplicateModule(module);
    return module;
  }
  template <class Contained>
  torch::nn::ModuleHolder<Contained> Replicate(torch::nn::ModuleHolder<Contained> holder) {
    ReplicateModule(holder.ptr());
    return holder;
  }

  // Adds a module, an optimizer, a tensor or a number to every checkpoint. Call it before Batches;
  // the object must outlive the loop. A checkpoint names a module's parameters NAME.PARAMETER, with
  // PARAMETER as PyTorch has it; with an empty name PARAMETER alone. Change a module's parameters
  // only between Backward and EndStep: until Backward a checkpoint may still copy them.
  void Keep(const std::string& name, const std::shared_ptr<torch::nn::Module>& module);
  template <class Contained>
  void Keep(const std::string& name, const torch::nn::ModuleHolder<Contained>& holder) {
    Keep(name, std::static_pointer_cast<torch::nn::Module>(holder.ptr()));
  }
  // Adam, AdamW, SGD, RMSprop or Adagrad. EndStep sets the gradients of its parameters to zero, and
  // --schedule changes its learning rates.
  void Keep(const std::string& name, torch::optim::Optimizer& optimizer);
  // The program changes a kept tensor or number in place; a checkpoint holds rank 0's value.
  void Keep(const std::string& name, const torch::Tensor& tensor);
  void Keep(const std::string& name, double& value);
  void Keep(const std::string& name, std::int64_t& value);

  // Evaluates `data` every --validate-every steps and after the last one. `score` gets batches of
  // at most --batch samples; no gradient is recorded, and kept modules are in eval mode. It returns
  // means over the batch, of which the first is the loss. Call it before Batches.
  template <class Set>
  void Validate(Set data, std::function<std::vector<Metric>(Batch&)> score) {
    ValidateData(internal::DataOf(std::move(data)), std::move(score));
  }

  // Loads a faster forward of a replicated module for Validate, on the CPU. `file` is a package
  // that torch.export and AOTInductor made in Python. It is code that runs in this process, so load
  // only one that you trust. The function uses the module's present parameters, returns the
  // package's first output, and records no gradient. `eager` is the forward in C++: the first batch
  // of the package is compared with it. If `file` is empty, `eager` is returned.
  using Forward = std::function<torch::Tensor(const std::vector<torch::Tensor>& inputs)>;
  template <class Module>
  Forward CompiledForward(const std::string& file, const std::shared_ptr<Module>& module,
                          Forward eager) {
    return LoadForward(file, *module, std::move(eager));
  }
  template <class Contained>
  Forward CompiledForward(const std::string& file, const torch::nn::ModuleHolder<Contained>& holder,
                          Forward eager) {
    return LoadForward(file, *holder, std::move(eager));
  }

  // The batches of --epochs, in an order that depends on --seed alone. Each sample of an epoch is
  // learned from once, whatever the number of ranks and however often the training is interrupted.
  // When the loop begins, the kept objects get the state of the checkpoint to continue from. If a
  // stop is requested, the state is saved after EndStep, and the program ends from within the loop,
  // by an exception that is no std::exception. Call it once, after Replicate of at least one
  // module.
  template <class Set>
  ddprun::Batches Batches(Set data, const LoadOptions& options = {}) {
    BeginBatches(internal::DataOf(std::move(data)), options);
    return ddprun::Batches(this);
  }
  // for (const Batch& part : session.Parts(batch)) session.Backward(...)
  ddprun::Parts Parts(const Batch& batch);

  // Calls backward() of a loss, which must be a mean over the samples of the batch or part. Then it
  // averages the gradients over all samples of the step on all ranks. It may be called for several
  // losses.
  void Backward(const torch::Tensor& loss);
  // Takes the step of an optimizer, after Backward. For kept Adam, AdamW and SGD it uses libtorch's
  // fused kernels, whose results differ from optimizer.step() only in rounding. For others it calls
  // optimizer.step().
  void Step(torch::optim::Optimizer& optimizer);
  // Ends the step of this batch. A metric's tensor on a GPU is read when the next report is due, so
  // that no step waits for it; one on the CPU is read at once. Pass the same metrics in each step
  // on all ranks. The metric "loss" is shown as the loss.
  void EndStep(const std::vector<Metric>& metrics = {});

 private:
  friend class ddprun::Batches;
  friend class ddprun::Batches::Iterator;
  friend class ddprun::Parts::Iterator;

  Forward LoadForward(const std::string& file, const torch::nn::Module& module, Forward eager);
  void ReplicateModule(const std::shared_ptr<torch::nn::Module>& module);
  void ValidateData(Data data, std::function<std::vector<Metric>(Batch&)> score);
  void BeginBatches(Data data, const LoadOptions& options);
  void NextBatch();

  Impl* impl_;
};

// Runs the program: reads the flags, joins the other ranks, calls `body`, writes the result. The
// flags are `program.flags` and those of ddprun-train that are not about its models (--help lists
// them). Return the value from main: it is the exit code.
DDPRUN_TRAINER_API int Train(int argc, char** argv, const std::function<void(Session&)>& body,
                             const Program& program = {});

// ---- Arguments of Batches and Validate ----

namespace internal {

inline Example ToExample(Example example) {
  return example;
}
inline Example ToExample(torch::Tensor data) {
  return {std::move(data)};
}
inline Example ToExample(std::pair<torch::Tensor, torch::Tensor> pair) {
  return {std::move(pair.first), std::move(pair.second)};
}
inline Example ToExample(torch::data::Example<> example) {
  return {std::move(example.data), std::move(example.target)};
}

inline std::uint64_t ToSize(std::uint64_t size) {
  return size;
}
inline std::uint64_t ToSize(std::optional<std::size_t> size) {
  return size.value();
}

template <class Set>
concept FillsBatches = requires(const Set& set, std::span<const std::uint64_t> indices) {
  { set.Fill(indices) } -> std::convertible_to<Example>;
};
template <class Set>
concept HasGet = requires(const Set& set, std::uint64_t index) {
  ToExample(set.Get(index));
};
template <class Set>
concept Collates = requires(const Set& set, std::vector<Example> samples) {
  { set.Collate(samples) } -> std::convertible_to<Example>;
};

template <class Set>
concept HasLibtorchsGet = requires(Set& set, std::size_t index) {
  ToExample(set.get(index));
};

// A Collate of another signature, such as one that is not const, would be passed over in silence.
template <class Set>
concept CollatesIfItCan = Collates<Set> || !requires {
  &Set::Collate;
};

template <class Set>
Data DataOf(Set given) {
  static_assert(
      std::is_same_v<Set, Data> || FillsBatches<Set> || HasGet<Set> || HasLibtorchsGet<Set>,
      "a data set needs Get(std::uint64_t index) const, or "
      "ddprun::Example Fill(std::span<const std::uint64_t> indices) const");
  static_assert(
      CollatesIfItCan<Set>,
      "Collate must be: ddprun::Example Collate(std::vector<ddprun::Example> samples) const");
  if constexpr (std::is_same_v<Set, Data>) {
    return given;
  } else {
    const auto set = std::make_shared<Set>(std::move(given));
    Data data;
    data.size = ToSize(std::as_const(*set).size());
    if constexpr (FillsBatches<Set>) {
      data.fill = [set](std::span<const std::uint64_t> indices) {
        return std::as_const(*set).Fill(indices);
      };
    } else if constexpr (HasGet<Set>) {
      data.get = [set](std::uint64_t index) { return ToExample(std::as_const(*set).Get(index)); };
    } else {  // libtorch's.
      data.get = [set](std::uint64_t index) {
        return ToExample(set->get(static_cast<std::size_t>(index)));
      };
    }
    if constexpr (Collates<Set>) {
      data.collate = [set](std::vector<Example> samples) {
        return std::as_const(*set).Collate(std::move(samples));
      };
    }
    return data;
  }
}

}  // namespace internal

}  // namespace ddprun
