#include "agent/workers/worker_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

#include "agent/workers/worker_terminal.h"
#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr off_t kTailOfFile = 64 * 1024;
constexpr const char* kNowhere = "/dev/null";

Result<UniqueFd> OpenNowhere(int flags) {
  UniqueFd fd(::open(kNowhere, flags | O_CLOEXEC));
  if (!fd) {
    return SystemError("open", kNowhere, errno);
  }
  return fd;
}

// Refuses anything but an ordinary file: a worker of an earlier generation may have made a FIFO.
Result<UniqueFd> OpenLog(const fs::path& path, int flags) {
  if (path == kNowhere) {
    return OpenNowhere(O_WRONLY);
  }
  RETURN_IF_ERROR(MakeDirectories(path.parent_path(), 0755));
  return OpenOrdinary(path, O_WRONLY | O_CREAT | O_APPEND | flags, 0644);
}

UniqueFd DuplicateStdio(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  return copy ? std::move(copy) : UniqueFd(::open(kNowhere, O_WRONLY | O_CLOEXEC));
}

// Whether it is a worker's, and not a preload process's.
bool IsWorkers(const WorkerSpec& spec) {
  return spec.environment.contains("RANK");
}

std::string NameOnTerminal(const WorkerSpec& spec, const StreamPlan& plan) {
  const auto rank = spec.environment.find("RANK");
  const bool named = !plan.prefix.empty() || rank == spec.environment.end();
  return named ? plan.prefix : "[rank " + rank->second + "] ";
}

// Whether the agent reads the stream in a pipe; otherwise the worker writes to its target itself.
bool PassesTheAgent(const StreamPlan& plan, bool is_error) {
  const bool unshown_errors = is_error && plan.file.empty();  // Their last lines explain a failure.
  return plan.console || plan.read || !plan.filters.empty() || unshown_errors;
}

// A log file that was asked for takes colours and bars from the console; a mere copy does not.
bool ChangesTheConsole(const StreamPlan& plan) {
  return !plan.file.empty() && !plan.copied;
}

// Whether its worker gets a terminal.
bool IsForATerminal(int target, const StreamPlan& plan) {
  return plan.console && !ChangesTheConsole(plan) && ::isatty(target) == 1;
}

// Where the system gives no terminal, a pipe does instead, without colours and bars.
Result<Pipe> OpenPipe(int target, const StreamPlan& plan) {
  if (!IsForATerminal(target, plan)) {
    return MakePipe();
  }
  Result<Pipe> ends = OpenTerminal(target);
  if (!ends) {
    static std::once_flag said;
    std::call_once(said, [&] {
      Log(LogLevel::kDebug, "workers have pipes and no terminals: " + ends.error().message);
    });
    return MakePipe();
  }
  return ends;
}

Result<void> OpenStream(int target, const WorkerSpec& spec, bool inherit, OpenedOutput& opened) {
  const bool is_error = target == STDERR_FILENO;
  const StreamPlan& plan = is_error ? spec.err : spec.out;
  const bool as_it_is =
      inherit && plan.console && !ChangesTheConsole(plan) && plan.prefix.empty() && !plan.merge;
  if (as_it_is && !plan.read && plan.file.empty()) {
    opened.stdio[target] = target;
    return {};
  }
  UniqueFd file;
  if (!plan.file.empty()) {
    ASSIGN_OR_RETURN(file, OpenLog(plan.file, O_TRUNC));
  }
  if (!PassesTheAgent(plan, is_error)) {
    if (!file) {
      ASSIGN_OR_RETURN(file, OpenNowhere(O_WRONLY));
    }
    opened.stdio[target] = file.get();
    opened.child_ends.push_back(std::move(file));
    return {};
  }
  ASSIGN_OR_RETURN(Pipe pipe, OpenPipe(target, plan));
  opened.stdio[target] = pipe.writer.get();
  opened.child_ends.push_back(std::move(pipe.writer));
  OpenedOutput::Stream stream{.target = target,
                              .pipe = std::move(pipe.reader),
                              .file = std::move(file),
                              .as_it_is = as_it_is};
  if (!plan.filters.empty()) {
    ASSIGN_OR_RETURN(stream.filtered, OpenLog(plan.filtered_file, 0));
  }
  opened.streams.push_back(std::move(stream));
  return {};
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

Consoles::Consoles(Loop& loop, std::shared_ptr<KeptOutput> the_kept, ProgressPlan the_progress)
    : out(loop, DuplicateStdio(STDOUT_FILENO), "standard output"),
      err(loop, DuplicateStdio(STDERR_FILENO), "standard error"),
      merged_out(loop, out),
      merged_err(loop, err),
      kept(std::move(the_kept)),
      progress(std::move(the_progress)) {
  if (CanBeDrawnOver(STDOUT_FILENO)) {
    out_terminal = std::make_shared<TerminalConsole>(loop, out, STDOUT_FILENO);
  }
  if (IsSameTerminal(STDOUT_FILENO, STDERR_FILENO)) {
    err_terminal = out_terminal;
  } else if (CanBeDrawnOver(STDERR_FILENO)) {
    err_terminal = std::make_shared<TerminalConsole>(loop, err, STDERR_FILENO);
  }
}

void Consoles::LookAtWindows() {
  for (const auto& terminal : {out_terminal, err_terminal}) {
    if (terminal) {
      terminal->LookAtWindow();
    }
  }
}

Result<OpenedOutput> OpenOutput(const WorkerSpec& spec, bool inherit) {
  OpenedOutput opened;
  if (!inherit) {
    ASSIGN_OR_RETURN(UniqueFd null, OpenNowhere(O_RDONLY));
    opened.stdio[STDIN_FILENO] = null.get();
    opened.child_ends.push_back(std::move(null));
  }
  RETURN_IF_ERROR(OpenStream(STDOUT_FILENO, spec, inherit, opened));
  RETURN_IF_ERROR(OpenStream(STDERR_FILENO, spec, inherit, opened));
  return opened;
}

std::string Consoles::Unread() {
  merged_out.Finish();
  merged_err.Finish();
  return !out.Idle() ? out.name() : !err.Idle() ? err.name() : "";
}

void Consoles::Flush(Duration limit) {
  constexpr Duration kLeast{100};  // The first console may have used the whole limit.
  const auto began = std::chrono::steady_clock::now();
  merged_out.Finish();
  merged_err.Finish();
  out.Flush(limit);
  const auto used = std::chrono::ceil<Duration>(std::chrono::steady_clock::now() - began);
  err.Flush(std::max(kLeast, limit - used));
}

void WorkerOutput::Add(AsioLoop& loop, Consoles& consoles, const WorkerSpec& spec,
                       OpenedOutput::Stream opened) {
  const bool is_error = opened.target == STDERR_FILENO;
  const StreamPlan& plan = is_error ? spec.err : spec.out;
  OutputSink& console = is_error ? consoles.err : consoles.out;
  OutputStream::Plan stream{.console = plan.console ? &console : nullptr,
                            .as_it_is = opened.as_it_is,
                            .open_line = &consoles.open_line,
                            .filters = plan.filters,
                            .prefix = plan.prefix,
                            .keep_tail = is_error,
                            .kept = IsWorkers(spec) ? consoles.kept : nullptr,
                            .local_rank = spec.local_rank};
  if (plan.merge) {
    stream.merged = is_error ? &consoles.merged_err : &consoles.merged_out;
    stream.merged->Expect(plan.merge->shown, plan.merge->world);
    stream.rank = plan.merge->rank;
  }
  TerminalConsole* const terminal =
      (is_error ? consoles.err_terminal : consoles.out_terminal).get();
  if (plan.console && terminal != nullptr && plan.rows && !plan.merge && !opened.as_it_is) {
    stream.terminal = terminal;
    stream.console = &terminal->sink();
    stream.name = NameOnTerminal(spec, plan);
  }
  if (plan.read && consoles.progress.forms && IsWorkers(spec)) {
    if (!progress_) {
      progress_ = std::make_shared<PrintedProgress>(loop, consoles.progress, spec.local_rank);
    }
    stream.reader = [reader = progress_, is_error](std::string_view bytes) {
      reader->Feed(is_error, bytes);
    };
  }
  if (opened.file) {
    stream.file = std::make_unique<OutputSink>(loop, std::move(opened.file), plan.file.native());
  }
  if (opened.filtered) {
    stream.filtered =
        std::make_unique<OutputSink>(loop, std::move(opened.filtered), plan.filtered_file.native());
  }
  streams_.push_back(
      std::make_unique<OutputStream>(loop, std::move(opened.pipe), std::move(stream)));
  errors_ = is_error ? streams_.back().get() : errors_;
}

bool WorkerOutput::drained() const {
  for (const auto& stream : streams_) {
    if (!stream->drained()) {
      return false;
    }
  }
  return true;
}

void WorkerOutput::SayWhenDrained() {
  if (on_drained_ && drained()) {
    std::exchange(on_drained_, nullptr)();
  }
}

WorkerOutput::WorkerOutput(AsioLoop& loop, Consoles& consoles, const WorkerSpec& spec,
                           OpenedOutput opened) {
  std::set<AnswerKind> past = {AnswerKind::kOut, AnswerKind::kErr};
  for (OpenedOutput::Stream& stream : opened.streams) {
    past.erase(stream.target == STDERR_FILENO ? AnswerKind::kErr : AnswerKind::kOut);
    Add(loop, consoles, spec, std::move(stream));
  }
  for (const AnswerKind stream : past) {
    if (consoles.kept && IsWorkers(spec)) {
      consoles.kept->GoesPast(spec.local_rank, stream,
                              (stream == AnswerKind::kErr ? spec.err : spec.out).file);
    }
  }
  if (!PassesTheAgent(spec.err, true)) {
    error_file_ = spec.err.file;
  }
}

void WorkerOutput::Start(std::function<void()> on_drained) {
  on_drained_ = std::move(on_drained);
  SetWindows();  // The sizes may have changed since the terminals were made.
  for (const auto& stream : streams_) {
    stream->Start([this] { SayWhenDrained(); });
  }
}

LastErrors WorkerOutput::TakeLastErrors() {
  for (const auto& stream : streams_) {
    stream->ReadAllThereIs();
  }
  if (progress_) {
    progress_->End();
  }
  return errors_ != nullptr ? LastErrors{errors_->LastLines(), {}} : LastErrors{{}, error_file_};
}

void WorkerOutput::SetWindows() {
  for (const auto& stream : streams_) {
    stream->SetWindow(stream.get() == errors_ ? STDERR_FILENO : STDOUT_FILENO);
  }
}

void WorkerOutput::Abandon() {
  for (const auto& stream : streams_) {
    stream->Abandon();
  }
}

}  // namespace ddprun
