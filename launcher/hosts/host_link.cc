#include "launcher/hosts/host_link.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "agent/workers/wait_status.h"
#include "common/log.h"
#include "common/text.h"

namespace ddprun {
namespace {

constexpr Duration kOutputLimit{1'000};  // After the process's end, for those who keep its pipes.
constexpr Duration kFollowLimit{3'000};
constexpr std::size_t kMostQuoted = 3;  // Lines.
constexpr std::string_view kWordsOfSsh[] = {"client_loop: ", "Connection ", "Timeout, ",
                                            "Read from remote host", "ssh"};
constexpr auto kReadable = boost::asio::posix::descriptor_base::wait_read;

}  // namespace

HostLink::HostLink(AsioLoop& loop, std::size_t host, const std::string& name,
                   const std::string& word, Told told)
    : loop_(loop),
      host_(host),
      name_(name),
      told_(std::move(told)),
      marks_(word),
      input_(loop.io()),
      pidfd_(loop.io()),
      limit_(loop) {}

HostLink::~HostLink() {
  Kill();
}

void HostLink::Start(WorkerSpec spec, Consoles& consoles, MergedConsole& errors) {
  auto in = MakePipe();
  auto out = MakePipe();
  auto err = MakePipe();
  for (const auto* const pipe : {&in, &out, &err}) {
    if (!*pipe) {
      return Tell(HostGone{host_, pipe->error().message});
    }
  }
  runs_ = true;
  input_.assign(in->writer.Release());
  input_.native_non_blocking(true);
  out_ = std::make_shared<OutputStream>(
      loop_, std::move(out->reader),
      OutputStream::Plan{.console = &consoles.out,
                         .open_line = &consoles.open_line,
                         .prefix = "[" + name_ + "] ",
                         .shown = [this](std::string_view bytes) { return TakeMarks(bytes); }});
  err_ = std::make_shared<OutputStream>(
      loop_, std::move(err->reader),
      OutputStream::Plan{
          .console = &consoles.err,
          .merged = &errors,
          .rank = static_cast<std::uint32_t>(host_),
          .shown = [this](std::string_view bytes) { return greeted_ ? std::string(bytes) : ""; },
          .keep_tail = true});
  for (const auto& stream : {out_, err_}) {
    stream->Start(life_.Guard([this] { LookForEnd(); }));
  }
  // On a thread that lives as long as the loop: the process dies with it. It has its ends then.
  using Ends = std::array<UniqueFd, 3>;
  auto ends = std::make_shared<Ends>(
      Ends{std::move(in->reader), std::move(out->writer), std::move(err->writer)});
  auto launched = std::make_shared<Result<LaunchedWorker>>(Error{});
  loop_.RunOnDisk(
      [spec = std::move(spec), ends = std::move(ends), launched] {
        const auto& [in, out, err] = *ends;
        *launched = LaunchWorker(spec, {in.get(), out.get(), err.get()});
        *ends = {};
      },
      [self = shared_from_this(), launched] { self->OnLaunched(std::move(*launched)); });
}

void HostLink::OnLaunched(Result<LaunchedWorker> launched) {
  if (!launched) {
    runs_ = false;
    return Tell(HostGone{host_, launched.error().message});
  }
  pid_ = launched->pid;
  if (dropped_) {
    Kill();
  }
  pidfd_.assign(launched->pidfd.Release());
  pidfd_.async_wait(kReadable, life_.Guard([this](boost::system::error_code error) {
    if (!error) {
      OnExit();
    }
  }));
}

// Its streams are read to their end first: they have the reason, or the exit code.
void HostLink::OnExit() {
  int wait_status = 0;
  const bool reaped = ::waitpid(pid_, &wait_status, 0) == pid_;
  pid_ = 0;
  runs_ = false;
  boost::system::error_code ignored;
  pidfd_.close(ignored);
  status_ = reaped ? DecodeWaitStatus(wait_status) : ExitStatus(Exited{});
  limit_.ArmAt(loop_.Now() + kOutputLimit, [this] {
    out_->Abandon();
    err_->Abandon();
  });
  LookForEnd();
}

void HostLink::LookForEnd() {
  if (status_ && out_->drained() && err_->drained()) {
    limit_.Cancel();
    if (marks_.run_code() && !marks_.exit_code()) {  // The connection broke just then.
      Tell(HostEnds{host_, *marks_.run_code(), true});
    }
    Tell(HostGone{host_, WhyGone()});
  }
}

std::string HostLink::WhyGone() const {
  std::vector<std::string> lines = err_->LastLines();
  const std::size_t quoted = greeted_ ? 1 : kMostQuoted;
  if (greeted_) {  // The run's lines came the same way. These are ssh's.
    std::erase_if(lines, [](const std::string& line) {
      return std::ranges::none_of(kWordsOfSsh,
                                  [&](std::string_view word) { return line.starts_with(word); });
    });
  }
  lines.erase(lines.begin(),
              lines.end() - static_cast<std::ptrdiff_t>(std::min(lines.size(), quoted)));
  const std::string how = "the launch agent ended: " + Describe(*status_);
  return lines.empty() ? how : InOneLine(Joined(lines, "; ")) + " (" + how + ")";
}

// Posted: the callback may end this link.
void HostLink::Tell(const HostsEvent& event) {
  loop_.Post([weak = weak_from_this(), event] {
    if (const auto self = weak.lock(); self && !self->dropped_) {
      self->told_(event);
    }
  });
}

std::string HostLink::TakeMarks(std::string_view bytes) {
  heard_ = true;
  std::string shown = marks_.Feed(bytes);
  if (marks_.lacks() != lacks_) {
    lacks_ = marks_.lacks();
    Tell(HostLacks{host_, *lacks_});
  }
  if (marks_.greeted() && !greeted_) {
    err_->ReadAllThereIs();  // Text before the greeting is not the run's there, either.
    greeted_ = true;
    Tell(HostGreets{host_});
  }
  if (const std::optional<int> code = marks_.exit_code(); code && !ended_) {
    ended_ = true;
    Tell(HostEnds{host_, *code, marks_.run_code().has_value()});
    CloseInput();  // A process that keeps the host's streams open may keep ssh, too.
  }
  return shown;
}

void HostLink::Send(std::string_view bytes) {
  Send(std::make_shared<const std::string>(bytes));
}

void HostLink::Send(std::shared_ptr<const std::string> bytes) {
  queued_.push_back(std::move(bytes));
  Write();
}

void HostLink::SayStillThere() {
  if (greeted_ && queued_.empty() && !writing_) {
    Send({&kStillThere, 1});
  }
}

void HostLink::Write() {
  boost::system::error_code ignored;
  if (writing_ || !input_.is_open()) {
    return;
  }
  if (queued_.empty()) {
    if (closes_input_) {
      input_.close(ignored);
    }
    return;
  }
  writing_ = true;
  const auto written = std::move(queued_.front());
  queued_.pop_front();
  boost::asio::async_write(
      input_, boost::asio::buffer(*written),
      life_.Guard([this, written](boost::system::error_code error, std::size_t) {
        writing_ = false;
        if (error) {  // It does not read any more; its end says why.
          queued_.clear();
          closes_input_ = true;
        }
        Write();
      }));
}

void HostLink::CloseInput() {
  closes_input_ = true;
  Write();
  if (!status_) {
    limit_.ArmAt(loop_.Now() + kFollowLimit, [this] { Kill(); });
  }
}

void HostLink::Drop() {
  dropped_ = true;
  if (greeted_) {
    CloseInput();
  } else {
    Kill();
  }
}

// Not only ssh: a launch agent may be a script.
void HostLink::Kill() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
  }
}

}  // namespace ddprun
