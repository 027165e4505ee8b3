#include "trainer/worker_process.h"

#include <malloc.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <vector>

#include "common/cgroup.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "common/task_queue.h"
#include "proto/life_lock.h"
#include "proto/notify.h"
#include "proto/preload_process.h"
#include "proto/worker_env.h"
#include "trainer/device/choose_device.h"
#include "trainer/disk/disk_wait.h"
#include "trainer/extras/extras.h"
#include "trainer/extras/sagemaker.h"
#include "trainer/group/process_group.h"
#include "trainer/learning/torch_settings.h"
#include "trainer/stop_request.h"

namespace ddprun {
namespace {

// Each step frees what it allocated. Given back to the system it would come back page by page, each
// cleared and entered: a tenth of the time of a VGG11. So what was in use once is kept, in huge
// pages where the system allows it; a variable that the user has set is kept.
void KeepFreedMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  setenv("THP_MEM_ALLOC_ENABLE", "1", /*replace=*/0);  // libtorch looks at its first tensor.
}

// This rank's share of the cores that this process may use, as far as the model has a use for them.
int ThreadsFor(const WorkerProgram& program, const TrainConfig& config, const WorkerEnv& env) {
  if (const auto text = GetProcessEnv("OMP_NUM_THREADS")) {
    int threads = 0;
    std::from_chars(text->data(), text->data() + text->size(), threads);  // "4,2": the first.
    if (threads > 0) {
      return threads;
    }
  }
  if (config.threads > 0) {
    return static_cast<int>(config.threads);
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  const auto usable = static_cast<int>(WithinCpuQuota(static_cast<std::size_t>(count)));
  const int share = usable / static_cast<int>(env.local_world_size);
  return std::clamp(share, 1, program.most_threads(config));
}

int ExitCodeFor(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
    case ErrorKind::kNotFound:
      return kExitUsage;
    case ErrorKind::kUnavailable:
      return kExitRestart;
    case ErrorKind::kRefused:
      return kExitDoNotRestart;
    case ErrorKind::kSystem:
      return 1;
  }
  return 1;
}

// "Restart me" to a launcher; to a shell, the code that the signal would have given.
int CodeOfStop(const WorkerEnv& env) {
  const std::optional<int> signal = StopRequest::Signal();
  return env.run_id.empty() && signal ? kExitSignalBase + *signal : kExitRestart;
}

// Lines for a person or a pipe are waited for; those for a file, whose disk may hang, not for long.
void FlushOutput() {
  std::fflush(stdout);
  struct stat info {};
  const bool file = fstat(STDERR_FILENO, &info) == 0 && S_ISREG(info.st_mode);
  FlushLog(file ? kMostFlushing : std::chrono::hours(24));
}

// At once and without destructors: a process group that lost a peer waits in them for its
// time-out, while the launcher waits for this process.
[[noreturn]] void EndAtOnce(const Error& error, const std::optional<SageMaker>& sagemaker,
                            std::optional<int> code = std::nullopt) {
  Log(LogLevel::kError, error.message);
  if (sagemaker && error.kind != ErrorKind::kUnavailable) {  // A lost peer is not the reason.
    TaskQueue disk;
    disk.Post([sagemaker, text = error.message] { WriteFailure(*sagemaker, text); });
    (void)disk.Drain(kMostFlushing);
  }
  FlushOutput();
  _exit(code.value_or(ExitCodeFor(error.kind)));
}

// A person's flags come last, and the last of a flag counts.
std::variant<TrainConfig, EarlyExit> ParseWith(const WorkerProgram& program,
                                               const std::optional<SageMaker>& sagemaker, int argc,
                                               char** argv) {
  std::vector<const char*> arguments(argv, argv + argc);
  if (sagemaker) {
    std::ranges::transform(sagemaker->arguments, std::inserter(arguments, arguments.begin() + 1),
                           &std::string::c_str);
  }
  return program.parse(static_cast<int>(arguments.size()), arguments.data());
}

// Started as a preload process, this process has loaded what a worker needs once it is here: each
// worker continues from here, in a process of its own.
void ServeAsPreloadProcess(const WorkerProgram& program, int argc, char** argv) {
  const int socket = ddprun_preload_open();
  if (socket < 0) {
    return;
  }
  const auto parsed = program.parse(argc, argv);
  if (const auto* const config = std::get_if<TrainConfig>(&parsed)) {
    program.warm_up(*config);
  }
  ddprun_preload_serve(socket);
}

}  // namespace

int RunWorker(const WorkerProgram& program, int argc, char** argv) {
  ServeAsPreloadProcess(program, argc, argv);
  TakeLifeLock();                 // One that was forked has it.
  std::signal(SIGPIPE, SIG_IGN);  // A reader that goes does not end a training.
  std::signal(SIGXFSZ, SIG_IGN);  // Nor does ulimit -f: the write fails instead.
  KeepFreedMemory();
  QueueLog();  // The reader, or its disk, may stand still: peers would take this rank for gone.
  const Result<std::optional<SageMaker>> sagemaker = DetectSageMaker(environ);
  if (!sagemaker) {
    StartLog(program.name, LogLevel::kInfo);
    EndAtOnce(sagemaker.error(), std::nullopt);
  }
  const auto parsed = ParseWith(program, *sagemaker, argc, argv);
  if (const auto* const early = std::get_if<EarlyExit>(&parsed)) {
    if (*sagemaker && early->code != kExitOk) {
      WriteFailure(**sagemaker, early->text);
    }
    std::fputs(early->text.c_str(), early->code == kExitOk ? stdout : stderr);
    return early->code;
  }
  const auto& config = std::get<TrainConfig>(parsed);
  StartLog(program.name, LogLevel::kInfo);
  const Result<WorkerEnv> env = FromEnvironment(GetProcessEnv);
  if (!env) {
    EndAtOnce(env.error(), *sagemaker);
  }
  // Before anything asks libtorch about GPUs.
  const Result<Device> device = OpenDevice(config.device_spec, config.backend_choice, *env);
  if (!device) {
    EndAtOnce(device.error(), *sagemaker);
  }
  EndWhenNcclGivesUp([](const Error& error) { EndAtOnce(error, std::nullopt); });
  const Notifier notifier(env->notify_socket);
  notifier.Send("READY=1\nPHASE=join\nEXTEND_TIMEOUT_USEC=600000000");
  if (!config.checkpoint_dir.empty()) {
    notifier.Send("SAVE_SIGNAL=" + std::to_string(StopRequest::SaveSignal()));
  }
  SetThreads(ThreadsFor(program, config, *env));
  if (config.learning.deterministic) {
    DemandDeterminism();
  }
  const auto fail = [&](const Error& error) {
    const bool gave_up = error.kind == ErrorKind::kUnavailable && StopRequest::Signal();
    EndAtOnce(error, *sagemaker, gave_up ? std::optional(CodeOfStop(*env)) : std::nullopt);
  };
  Training training(config, *env, notifier, *device, fail);
  TrainingSteps steps(training);
  AddExtras(training, steps);
  const Result<TrainingEnd> end = steps.Run([&] { return program.train(training, steps); });
  if (!end) {
    fail(end.error());
  }
  return *end == TrainingEnd::kStopped ? CodeOfStop(*env) : kExitOk;
}

void EndProcess(int code) {
  FlushOutput();
  _exit(code);
}

}  // namespace ddprun
