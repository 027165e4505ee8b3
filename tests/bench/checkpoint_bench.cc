// Trains a perceptron whose state is about 100 MB and saves it now and then, as ddprun-train does;
// or loads what was saved. For checkpoint.py, which compares it with Python.
//
//   checkpoint_bench train DIR STEPS EVERY INPUTS BATCH   prints one JSON object: milliseconds of
//                                         each step, of each stand-still, of each save
//   checkpoint_bench remember DIR STEPS EVERY INPUTS BATCH   the same into memory that an agent
//                                         would keep (a socket in DIR stands for it)
//   checkpoint_bench load DIR TIMES INPUTS   milliseconds of each load into a model
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "proto/worker_env.h"
#include "trainer/checkpoint/checkpoint_store.h"
#include "trainer/checkpoint/saver.h"
#include "trainer/checkpoint/snapshot_copier.h"
#include "trainer/learning/learner.h"
#include "trainer/learning/torch_settings.h"
#include "trainer/memory_snapshots.h"
#include "trainer/models/entries.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string ListOf(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return "[" + text + "]";
}

template <class T>
T OrDie(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "checkpoint_bench: %s\n", result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

struct World {
  explicit World(std::int64_t inputs)
      : group(OrDie(ProcessGroup::Join(WorkerEnv{}, GroupOptions{}))),
        learner(*FindModel("mlp"), Options(inputs), *group) {}

  static LearnerOptions Options(std::int64_t inputs) {
    LearnerOptions options;
    options.task = {.inputs = {{inputs}}, .classes = 10, .target = {}};
    options.model_arguments = *Arguments::Parse("", FindModel("mlp")->arguments);
    return options;
  }

  CheckpointConfig Config(const std::string& directory) const {
    CheckpointConfig config;
    config.directory = directory;
    config.model = "mlp";
    config.model_description = learner.Describe();
    return config;
  }

  std::unique_ptr<ProcessGroup> group;
  Learner learner;
};

void Train(const std::string& directory, std::uint64_t steps, std::uint64_t every,
           std::int64_t inputs, std::size_t batch) {
  World world(inputs);
  Learner& learner = world.learner;
  CheckpointStore store(RealFileSystem(), world.Config(directory));
  OrDie(store.Claim(MakeWriter("bench", Term{1}, Generation{1}, WorldId{1})));
  Saver saver(store, SaverOptions{});
  SnapshotCopier copier([&](Snapshot&& snapshot) { saver.Save(std::move(snapshot)); });
  double stands_still = 0;
  learner.BeforeUpdate([&] {
    const Clock::time_point start = Clock::now();
    copier.Wait();
    stands_still += MillisecondsSince(start);
  });
  OrDie(learner.Start(batch, batch, {}));
  std::fill_n(learner.room(0).inputs[0], static_cast<std::int64_t>(batch) * inputs, 0.5F);
  TrainState state;
  state.model = "mlp";
  state.model_description = learner.Describe();
  std::vector<double> step_times;
  std::vector<double> waits;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const Clock::time_point start = Clock::now();
    OrDie(learner.Backward({.count = batch, .global_count = batch, .seed = step}));
    OrDie(learner.Update(1e-3));
    if (step > 1 && (step - 1) % every == 0) {
      waits.push_back(std::exchange(stands_still, 0));
    }
    stands_still = 0;
    if (step % every == 0 && saver.HasRoom()) {
      state.step = step;
      const Clock::time_point begin = Clock::now();
      copier.Begin(learner.View(), state, saver.TakeSpent());
      stands_still = MillisecondsSince(begin);
    }
    step_times.push_back(MillisecondsSince(start));
  }
  copier.Wait();
  saver.Drain();
  std::vector<double> saves;
  double bytes = 0;
  for (const SaveResult& result : saver.TakeResults()) {
    CHECK(!result.error);
    saves.push_back(1000 * result.seconds);
    bytes = static_cast<double>(result.bytes);
  }
  OrDie(saver.Close());
  std::printf("{\"bytes\": %.0f, \"steps\": %s, \"stalls\": %s, \"saves\": %s}\n", bytes,
              ListOf(step_times).c_str(), ListOf(waits).c_str(), ListOf(saves).c_str());
}

// Nobody reads the socket: what is sent there is kept by it.
int SocketAt(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX};
  CHECK(fd >= 0 && path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  CHECK(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

void Remember(const std::string& directory, std::uint64_t steps, std::uint64_t every,
              std::int64_t inputs, std::size_t batch) {
  WorkerEnv env;
  env.notify_socket = directory + "/notify";
  env.world_id = WorldId{1};
  const int socket = SocketAt(env.notify_socket);
  World world(inputs);
  Learner& learner = world.learner;
  MemorySnapshots memory(env);
  double stands_still = 0;
  learner.BeforeUpdate([&] {
    const Clock::time_point start = Clock::now();
    memory.WaitForCopy();
    stands_still += MillisecondsSince(start);
  });
  OrDie(learner.Start(batch, batch, {}));
  std::fill_n(learner.room(0).inputs[0], static_cast<std::int64_t>(batch) * inputs, 0.5F);
  TrainState state;
  std::vector<double> waits;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    OrDie(learner.Backward({.count = batch, .global_count = batch, .seed = step}));
    OrDie(learner.Update(1e-3));
    if (step > 1 && (step - 1) % every == 0) {
      waits.push_back(stands_still);
    }
    stands_still = 0;
    if (step % every == 0) {
      state.step = step;
      const Clock::time_point begin = Clock::now();
      memory.Begin(learner.View(), state);
      stands_still = MillisecondsSince(begin);
    }
  }
  memory.WaitForCopy();
  std::printf("{\"stalls\": %s}\n", ListOf(waits).c_str());
  ::close(socket);
}

void Load(const std::string& directory, int times, std::int64_t inputs) {
  World world(inputs);
  std::vector<double> loads;
  CheckpointStore store(RealFileSystem(), world.Config(directory));
  OrDie(store.Claim(MakeWriter("bench", Term{1}, Generation{2}, WorldId{2})));
  for (int i = 0; i < times; ++i) {
    const Clock::time_point start = Clock::now();
    const LoadOutcome outcome = OrDie(store.Load());
    CHECK(outcome.checkpoint);
    OrDie(world.learner.CopyFrom(outcome.checkpoint->snapshot));
    loads.push_back(MillisecondsSince(start));
  }
  OrDie(store.Close());
  std::printf("{\"loads\": %s}\n", ListOf(loads).c_str());
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  ddprun::SetThreads(1);
  if ((verb == "train" || verb == "remember") && argc == 7) {
    (verb == "train" ? ddprun::Train : ddprun::Remember)(argv[2], std::stoull(argv[3]),
                                                         std::stoull(argv[4]), std::stoll(argv[5]),
                                                         std::stoull(argv[6]));
    return 0;
  }
  if (verb == "load" && argc == 5) {
    ddprun::Load(argv[2], std::stoi(argv[3]), std::stoll(argv[4]));
    return 0;
  }
  std::fprintf(stderr,
               "usage: checkpoint_bench train|remember DIR STEPS EVERY INPUTS BATCH | "
               "load DIR TIMES INPUTS\n");
  return 2;
}
