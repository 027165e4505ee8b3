#include "agent/worker_output.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/check.h"
#include "common/files.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr off_t kTailOfFile = 64 * 1024;
constexpr const char* kNowhere = "/dev/null";

// With what helps where ddprun has as many files open as it may.
Error Refused(std::string_view tried, std::string_view on, int error_number) {
  Error error = SystemError(tried, on, error_number);
  rlimit files{};
  if (error_number == EMFILE && ::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    error.message += "; ddprun may have " + std::to_string(files.rlim_cur) +
                     " files open at once (ulimit -n), of which each worker needs up to ten: raise "
                     "the limit, or start fewer workers on this node";
  }
  return error;
}

std::string NameOf(const WorkerSpec& spec) {
  const auto rank = spec.environment.find("RANK");
  const std::string local = "local rank " + std::to_string(spec.local_rank);
  return rank == spec.environment.end() ? local : "rank " + rank->second + " (" + local + ")";
}

// Above 2, so that connecting one of 0, 1 and 2 never overwrites the source of the next.
UniqueFd AboveStdio(UniqueFd fd) {
  if (!fd || fd.get() > STDERR_FILENO) {
    return fd;
  }
  return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

Result<UniqueFd> OpenNowhere(int flags) {
  UniqueFd fd = AboveStdio(UniqueFd(::open(kNowhere, flags | O_CLOEXEC)));
  if (!fd) {
    return Refused("open", kNowhere, errno);
  }
  return fd;
}

// A worker of an earlier generation may have put a FIFO there.
Result<UniqueFd> OpenLog(const fs::path& path, int flags) {
  if (path == kNowhere) {
    return OpenNowhere(O_WRONLY);
  }
  RETURN_IF_ERROR(MakeDirectories(path.parent_path(), 0755));
  Result<UniqueFd> file = OpenOrdinary(path, O_WRONLY | O_CREAT | O_APPEND | flags, 0644);
  if (!file) {
    return errno == EMFILE ? Refused("open", path.native(), EMFILE) : file.error();
  }
  UniqueFd fd = AboveStdio(*std::move(file));
  if (!fd) {
    return Refused("duplicate", path.native(), errno);
  }
  return fd;
}

UniqueFd DuplicateStdio(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  return copy ? std::move(copy) : UniqueFd(::open(kNowhere, O_WRONLY | O_CLOEXEC));
}

}  // namespace

std::vector<std::string> LastLinesOf(const fs::path& log) {
  const Result<UniqueFd> fd = OpenOrdinary(log, O_RDONLY, 0);
  const off_t size = fd ? ::lseek(fd->get(), 0, SEEK_END) : -1;
  if (size <= 0) {
    return {};
  }
  std::string bytes(static_cast<std::size_t>(std::min(size, kTailOfFile)), '\0');
  const ssize_t got =
      ::pread(fd->get(), bytes.data(), bytes.size(), size - static_cast<off_t>(bytes.size()));
  TailLines tail;
  tail.Feed(std::string_view(bytes).substr(0, got > 0 ? static_cast<std::size_t>(got) : 0));
  return tail.Lines();
}

Consoles::Consoles(Loop& loop)
    : out(loop, DuplicateStdio(STDOUT_FILENO), "standard output"),
      err(loop, DuplicateStdio(STDERR_FILENO), "standard error") {}

class WorkerOutput::State {
 public:
  Result<void> OpenStdin(bool inherit);
  Result<void> OpenStream(Loop& loop, int target, const WorkerSpec& spec, Consoles& consoles,
                          bool inherit);
  bool drained() const;
  void SayWhenDrained();

  std::array<int, 3> stdio{};
  std::vector<UniqueFd> child_ends;
  std::vector<std::shared_ptr<OutputStream>> streams;
  std::shared_ptr<OutputStream> errors;  // Of `streams`, or none.
  fs::path error_file;                   // Written by the worker itself, or empty.
  std::function<void()> on_drained;
};

Result<void> WorkerOutput::State::OpenStdin(bool inherit) {
  stdio[0] = STDIN_FILENO;
  if (!inherit) {
    ASSIGN_OR_RETURN(UniqueFd null, OpenNowhere(O_RDONLY));
    stdio[0] = null.get();
    child_ends.push_back(std::move(null));
  }
  return {};
}

Result<void> WorkerOutput::State::OpenStream(Loop& loop, int target, const WorkerSpec& spec,
                                             Consoles& consoles, bool inherit) {
  const bool is_error = target == STDERR_FILENO;
  const StreamPlan& plan = is_error ? spec.err : spec.out;
  OutputSink& console = is_error ? consoles.err : consoles.out;
  if (inherit && plan.console && plan.file.empty() && plan.prefix.empty()) {
    stdio[target] = target;
    return {};
  }
  UniqueFd file;
  if (!plan.file.empty()) {
    ASSIGN_OR_RETURN(file, OpenLog(plan.file, O_TRUNC));
  }
  if (!plan.console && file && plan.filters.empty()) {
    error_file = is_error ? plan.file : error_file;
    stdio[target] = file.get();
    child_ends.push_back(std::move(file));
    return {};
  }
  if (!plan.console && !is_error && plan.filters.empty()) {
    ASSIGN_OR_RETURN(UniqueFd null, OpenNowhere(O_WRONLY));
    stdio[target] = null.get();
    child_ends.push_back(std::move(null));
    return {};
  }
  // Unshown errors pass here too: their last lines explain a failure.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Refused("make a pipe for the output of", NameOf(spec), errno);
  }
  UniqueFd read_end = AboveStdio(UniqueFd(ends[0]));
  UniqueFd write_end = AboveStdio(UniqueFd(ends[1]));
  if (!read_end || !write_end) {
    return Refused("duplicate a pipe for the output of", NameOf(spec), errno);
  }
  OutputStream::Plan stream{.console = plan.console ? &console : nullptr,
                            .open_line = &consoles.open_line,
                            .prefix = plan.prefix,
                            .keep_tail = is_error};
  if (file) {
    stream.file = std::make_unique<OutputSink>(loop, std::move(file), plan.file.native());
  }
  if (!plan.filters.empty()) {
    ASSIGN_OR_RETURN(UniqueFd filtered, OpenLog(plan.filtered_file, 0));
    stream.filters = plan.filters;
    stream.filtered =
        std::make_unique<OutputSink>(loop, std::move(filtered), plan.filtered_file.native());
  }
  streams.push_back(std::make_shared<OutputStream>(loop, std::move(read_end), std::move(stream)));
  errors = is_error ? streams.back() : errors;
  stdio[target] = write_end.get();
  child_ends.push_back(std::move(write_end));
  return {};
}

bool WorkerOutput::State::drained() const {
  for (const auto& stream : streams) {
    if (!stream->drained()) {
      return false;
    }
  }
  return true;
}

void WorkerOutput::State::SayWhenDrained() {
  if (on_drained && drained()) {
    std::exchange(on_drained, nullptr)();
  }
}

WorkerOutput::WorkerOutput(std::shared_ptr<State> state) : state_(std::move(state)) {}
WorkerOutput::~WorkerOutput() = default;

Result<std::unique_ptr<WorkerOutput>> WorkerOutput::Open(Loop& loop, Consoles& consoles,
                                                         const WorkerSpec& spec, bool inherit) {
  auto state = std::make_shared<State>();
  RETURN_IF_ERROR(state->OpenStdin(inherit));
  RETURN_IF_ERROR(state->OpenStream(loop, STDOUT_FILENO, spec, consoles, inherit));
  RETURN_IF_ERROR(state->OpenStream(loop, STDERR_FILENO, spec, consoles, inherit));
  return std::unique_ptr<WorkerOutput>(new WorkerOutput(std::move(state)));
}

ChildStdio WorkerOutput::child_stdio() const {
  CHECK(state_->stdio[0] == STDIN_FILENO || !state_->child_ends.empty());
  return state_->stdio;
}

void WorkerOutput::Start(std::function<void()> on_drained) {
  state_->child_ends.clear();
  state_->on_drained = std::move(on_drained);
  for (const auto& stream : state_->streams) {
    stream->Start([weak = std::weak_ptr<State>(state_)] {
      if (const auto state = weak.lock()) {
        state->SayWhenDrained();
      }
    });
  }
}

LastErrors WorkerOutput::TakeLastErrors() {
  for (const auto& stream : state_->streams) {
    stream->ReadAllThereIs();
  }
  return state_->errors ? LastErrors{state_->errors->LastLines(), {}}
                        : LastErrors{{}, state_->error_file};
}

bool WorkerOutput::drained() const {
  return state_->drained();
}

void WorkerOutput::Abandon() {
  for (const auto& stream : state_->streams) {
    stream->Abandon();
  }
}

}  // namespace ddprun
