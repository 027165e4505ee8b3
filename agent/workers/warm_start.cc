#include "agent/workers/warm_start.h"

#include <fcntl.h>
#include <linux/major.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <tuple>
#include <utility>

#include "agent/workers/memory_room.h"
#include "agent/workers/preload_note.h"
#include "agent/workers/python_hook.h"
#include "common/log.h"
#include "common/slug.h"
#include "proto/worker_env.h"

namespace ddprun {
namespace {

// Of worker_terminal.h, say: each has a number of its own.
bool IsPseudoTerminal(const struct stat& stream) {
  const unsigned driver = major(stream.st_rdev);
  return S_ISCHR(stream.st_mode) && driver >= UNIX98_PTY_SLAVE_MAJOR &&
         driver < UNIX98_PTY_SLAVE_MAJOR + UNIX98_PTY_MAJOR_COUNT;
}

// Device and inode may differ; the answers that a program gets about its streams at its start do
// not.
bool SameKind(const struct stat& a, const struct stat& b) {
  if (IsPseudoTerminal(a) && IsPseudoTerminal(b)) {
    return true;
  }
  const bool device = S_ISCHR(a.st_mode);
  return (a.st_mode & S_IFMT) == (b.st_mode & S_IFMT) && (!device || a.st_rdev == b.st_rdev);
}

// Any copy of torch has this library, whatever its name ends in.
bool HasLoadedTorch(pid_t worker) {
  std::ifstream maps("/proc/" + std::to_string(worker) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/libtorch") != std::string::npos) {
      return true;
    }
  }
  return false;
}

std::map<std::string, std::string> Without(std::map<std::string, std::string> environment,
                                           const std::set<std::string>& names) {
  for (const std::string& name : names) {
    environment.erase(name);
  }
  return environment;
}

// Set by the user's shell, and no program depends on them.
const std::set<std::string> kOfShells = {"_", "OLDPWD", "SHLVL"};

}  // namespace

std::set<std::string> NamesOfWorkers(bool one_gpu_each) {
  std::set<std::string> names = {"TORCHELASTIC_TIMER_FILE"};
  for (const auto& [name, value] : ToEnvironment({})) {
    names.insert(name);
  }
  names.insert(std::begin(kBlockVariables), std::end(kBlockVariables));
  if (one_gpu_each) {
    names.insert("CUDA_VISIBLE_DEVICES");
  }
  return names;
}

WarmStart::WarmStart(WarmPlan plan, OnStarted on_started)
    : plan_(std::move(plan)), on_started_(std::move(on_started)) {
  const auto python = ReadPythonCommand(plan_.spec.command, plan_.spec.directory);
  shared_words_ = plan_.spec.command.argv.size();
  if (python) {
    shared_words_ -= python->argv.size() - python->arguments;
    interpreter_ = python->argv;
    interpreter_.resize(python->arguments);
  }
  if (plan_.given) {
    TakeGiven();
  }
}

PreloadPurpose WarmStart::Purpose() const {
  const WorkerSpec& spec = plan_.spec;
  const auto& argv = spec.command.argv;
  std::error_code ignored;
  const auto directory =
      spec.directory.empty() ? std::filesystem::current_path(ignored) : spec.directory;
  PreloadPurpose purpose{
      .preload = plan_.preload,
      .file = spec.command.file.native(),
      .directory = directory.native(),
      .command = {argv.begin(), argv.begin() + static_cast<std::ptrdiff_t>(shared_words_)},
      .environment = Without(Without(spec.environment, plan_.own), kOfShells)};
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    purpose.streams[i] = {streams_[i].st_mode, streams_[i].st_rdev};
  }
  return purpose;
}

void WarmStart::TakeGiven() {
  const Result<PreloadPurpose> kept = ReadPurpose(plan_.given->plan);
  const std::string difference = kept ? DifferenceOf(*kept, Purpose()) : "version";
  auto given = PreloadHandle::Take(std::move(*plan_.given));
  if (!difference.empty()) {
    SayKeptOneIsNotUsed("its " + difference + " differs from this run's");
    return;
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    std::tie(streams_[i].st_mode, streams_[i].st_rdev) = kept->streams[i];
  }
  given_ = true;
  process_ = std::move(given);
}

void WarmStart::SayKeptOneIsNotUsed(const std::string& why) {
  Set("the kept preload process is not used: " + why);
  Log(LogLevel::kInfo, "not using the kept preload process: " + why + " [kept-preload-not-used]");
}

std::shared_ptr<PreloadHandle> WarmStart::Current() const {
  const std::lock_guard lock(mutex_);
  return process_;
}

void WarmStart::Set(std::string state) {
  const std::lock_guard lock(mutex_);
  state_ = std::move(state);
}

std::string WarmStart::State() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void WarmStart::Look(const std::vector<pid_t>& workers) {
  if (const auto current = Current(); current && !current->gone()) {
    if (!current->ready()) {
      Await(LaunchUnderWay());
      // Modules that did not load will not load later.
      made_ = current->gone() ? kMostPreloadProcesses : made_;
      return;
    }
    current->LookWhetherItLives();
    if (!current->gone()) {
      return;
    }
  }
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_ || made_ == kMostPreloadProcesses) {
    return;
  }
  if (const std::string why = WhyNotYet(workers); !why.empty()) {
    Set("not loaded ahead yet: " + why);
  } else if (const Result<void> started = Start(); !started) {
    made_ = kMostPreloadProcesses;
    SayCold(started.error().message);
  }
  next_look_ = now + (probe_ ? kProbePause : pause_);
}

std::string WarmStart::WhyNotYet(const std::vector<pid_t>& workers) {
  const bool before = std::exchange(loaded_, std::ranges::all_of(workers, HasLoadedTorch));
  pause_ = loaded_ ? kFirstPause : std::min(2 * pause_, kLongestPause);
  return !loaded_  ? "not all workers have loaded torch"
         : !before ? "the workers have just loaded torch"
                   : WhyNoRoom(kLeastRoom, {.cgroup = OwnCgroup("memory")});
}

void WarmStart::Prepare() {
  if (const auto current = Current(); plan_.automatic || (current && !current->gone())) {
    return;
  }
  if (made_ == kMostPreloadProcesses) {
    return;
  }
  if (const Result<void> started = Start(); !started) {
    made_ = kMostPreloadProcesses;
    // kNotFound: a program that is no preload process by itself.
    if (started.error().kind != ErrorKind::kNotFound) {
      SayCold(started.error().message);
    }
  }
}

// Whether this interpreter would load the hook. False: it has not answered yet. An automatic plan
// asks again at the next look, since a start of workers must not wait for a slow interpreter.
Result<bool> WarmStart::HasAnswered(const WorkerSpec& probe) {
  const auto now = std::chrono::steady_clock::now();
  if (!probe_) {
    const UniqueFd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
    ASSIGN_OR_RETURN(probe_,
                     PreloadHandle::Start(probe, {nowhere.get(), nowhere.get(), nowhere.get()}));
    probed_until_ = now + kMostProbing;
  }
  const Duration limit = plan_.automatic ? Duration{0} : kMostProbing;
  const bool answered = probe_->AwaitReady(limit, LaunchUnderWay()).has_value();
  if (!answered && plan_.automatic && !probe_->gone() && now < probed_until_) {
    return false;
  }
  probe_.reset();
  if (!answered) {
    return Error{ErrorKind::kUnavailable,
                 "'" + probe.command.argv[0] +
                     "' does not load what --preload needs (does it change "
                     "PYTHONPATH, or start another interpreter?)"};
  }
  return true;
}

Result<void> WarmStart::Start() {
  PythonHook hook{.spec = plan_.spec};
  if (plan_.preload.empty()) {
    RETURN_IF_ERROR(CheckPreloadNote(hook.spec.command.file));
  } else {
    ASSIGN_OR_RETURN(hook, AddPythonHook({.preload = plan_.preload,
                                          .background = plan_.automatic,
                                          .keep = plan_.keep.idle > Duration{0},
                                          .own = plan_.own},
                                         plan_.spec));
  }
  const WorkerSpec& spec = hook.spec;
  if (!plan_.preload.empty() && made_ == 0) {
    ASSIGN_OR_RETURN(const bool answered, HasAnswered(hook.probe));
    if (!answered) {
      Set("not loaded ahead yet: the interpreter starts slowly");
      return {};
    }
  }
  ASSIGN_OR_RETURN(OpenedOutput output, OpenOutput(spec, plan_.inherit));
  for (int target = 0; target < 3; ++target) {
    if (::fstat(output.stdio[target], &streams_[target]) != 0) {
      return SystemError("look at", "the streams of a preload process", errno);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return {};
    }
  }
  ASSIGN_OR_RETURN(auto started, PreloadHandle::Start(spec, output.stdio));
  output.child_ends.clear();
  ++made_;
  waited_ = given_ = false;
  {
    const std::lock_guard lock(mutex_);
    process_ = std::move(started);
    if (closed_) {
      process_->End();
    } else {
      on_started_(spec, std::move(output));
    }
  }
  Set("is loading " + plan_.preload);
  return {};
}

std::string WarmStart::WaitsFor() const {
  const auto current = Current();
  return !current || current->gone() || current->ready() || waited_ || plan_.automatic || given_
             ? ""
         : plan_.preload.empty()
             ? "starting the preload process of '" + plan_.spec.command.file.native() + "'"
             : "preloading " + plan_.preload + " (once for each node; restarts find it done)";
}

void WarmStart::Await(const LaunchUnderWay& under_way) {
  const auto current = Current();
  if (!current || current->ready() || current->gone()) {  // Gone: it has been said why.
    return;
  }
  const bool waits = !std::exchange(waited_, true) && (given_ || !plan_.automatic);
  const Duration limit = !waits ? Duration{0} : given_ ? kMostChecking : kMostLoading;
  const Result<void> ready = current->AwaitReady(limit, under_way);
  const bool loading = !ready && !current->gone();
  if (!ready && given_ && !under_way.given_up()) {
    SayKeptOneIsNotUsed(ready.error().message);
    current->End();
  } else if (!ready && !under_way.given_up() && !(loading && plan_.automatic)) {
    SayCold((plan_.automatic ? "" : "the preload process cannot be used: ") +
            ready.error().message);
  }
  if (!ready) {
    return;
  }
  const std::string& left_out = current->remark();
  const std::string loaded = plan_.preload.empty() ? "the program" : plan_.preload;
  Set("has loaded " + loaded + (left_out.empty() ? "" : " without " + left_out) +
      ": the next start of workers is a fork");
  if (!left_out.empty() && made_ == 1 && !plan_.automatic) {
    Log(LogLevel::kInfo, "the preload process has loaded " + plan_.preload + " without " +
                             left_out + " [preload-without]");
  }
}

std::string WarmStart::WhyCold(const WorkerSpec& spec, const ChildStdio& stdio) const {
  const std::vector<std::string>& argv = spec.command.argv;
  const std::vector<std::string>& plans = plan_.spec.command.argv;
  if (argv.size() < shared_words_ ||
      !std::equal(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(shared_words_),
                  argv.begin()) ||
      (plan_.preload.empty() && argv != plans)) {
    return "their arguments differ from one to another";
  }
  if (const std::string name = FirstDifference(Without(spec.environment, plan_.own),
                                               Without(plan_.spec.environment, plan_.own));
      !name.empty()) {
    return "their variable " + name + " differs from the preload process's";
  }
  if (!spec.cpus.empty() && (spec.environment.contains("OMP_PROC_BIND") ||
                             !spec.environment.contains("OMP_NUM_THREADS"))) {
    return "OpenMP looked at the CPUs before the preload process knew a worker's own ones";
  }
  for (int target = 0; target < 3; ++target) {
    struct stat stream {};
    if (::fstat(stdio[target], &stream) != 0 || !SameKind(stream, streams_[target])) {
      return "their stream " + std::to_string(target) +
             " is of another kind than the preload process's";
    }
  }
  return "";
}

std::vector<std::string> WarmStart::CommandLineOf(const WorkerSpec& spec) const {
  if (spec.command.argv == plan_.spec.command.argv && !given_) {
    return {};
  }
  std::vector<std::string> words = interpreter_;
  words.insert(words.end(), spec.command.argv.begin() + static_cast<std::ptrdiff_t>(shared_words_),
               spec.command.argv.end());
  return words;
}

Result<LaunchedWorker> WarmStart::Launch(const WorkerSpec& spec, const ChildStdio& stdio,
                                         LaunchUnderWay& under_way) {
  const auto current = Current();
  if (current && current->ready()) {
    std::string why = WhyCold(spec, stdio);
    if (why.empty()) {
      Result<LaunchedWorker> worker = current->Fork(spec, stdio, CommandLineOf(spec), under_way);
      if (worker || under_way.given_up()) {
        return worker;
      }
      const bool programs_doing = worker.error().kind == ErrorKind::kInvalid;
      why = (programs_doing ? "" : "the preload process: ") + worker.error().message;
      made_ = programs_doing ? kMostPreloadProcesses : made_;
    }
    SayCold(why);
  }
  return LaunchWorker(spec, stdio, &under_way);
}

void WarmStart::SayCold(const std::string& why) {
  Set("not used: " + why);
  if (std::exchange(said_, why) != why) {
    const bool asked = !plan_.preload.empty() && !plan_.automatic;
    Log(asked ? LogLevel::kWarning : LogLevel::kDebug,
        asked ? "--preload not used: " + WithoutSlug(why) +
                    ". Restarts will be slower [preload-not-used]"
              : "preload process not used: " + why);
  }
}

pid_t WarmStart::Keep() {
  const auto current = Current();
  if (plan_.keep.idle == Duration{0} || plan_.preload.empty() || !current ||
      !current->ready()) {  // One that loads still holds the run's streams.
    return 0;
  }
  const std::string name = plan_.keep.socket.native() + "-" + std::to_string(::getpid());
  const Result<UniqueFd> listener = ListenForLaunch(name);
  const Result<UniqueFd> plan = FileOf(Purpose());
  if (!listener || !plan) {
    Log(LogLevel::kInfo,
        "the preload process is not kept: " + (listener ? plan.error() : listener.error()).message +
            " [preload-not-kept]");
    return 0;
  }
  const Result<pid_t> kept = current->Keep(listener->get(), plan->get(), plan_.keep.idle);
  if (!kept) {
    ::unlink(name.c_str());
  }
  return kept ? *kept : 0;
}

void WarmStart::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (process_) {
    process_->End();
  }
}

}  // namespace ddprun
