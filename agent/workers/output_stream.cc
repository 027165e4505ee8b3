#include "agent/workers/output_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/workers/worker_terminal.h"
#include "common/wall_clock.h"

namespace ddprun {
namespace {

constexpr std::size_t kPiece = 64 * 1024;
// A worker may enlarge its pipe up to the system's limit, 1 MiB by default: 16 pieces. A terminal
// holds less than 128 KiB, and gives 4 KiB at a time.
constexpr int kMostReads = 32;

}  // namespace

OutputStream::OutputStream(AsioLoop& loop, UniqueFd pipe, Plan plan)
    : loop_(loop),
      pipe_(loop.io(), pipe.Release()),
      patience_(loop.io()),
      plan_(std::move(plan)),
      assembler_(plan_.prefix) {
  pipe_.native_non_blocking(true);  // Our end of a pipe of ours: no other process shares this
                                    // description.
  if (plan_.terminal != nullptr) {
    row_ = plan_.terminal->Add(plan_.prefix, plan_.name);
  }
}

OutputStream::~OutputStream() {
  if (row_) {
    plan_.terminal->End(*row_);
  }
}

void OutputStream::Start(std::function<void()> on_drained) {
  on_drained_ = std::move(on_drained);
  ReadWhenReady();
}

void OutputStream::WaitForRoom(OutputSink& full) {
  full.WhenWritten(life_.Guard([this] {
    if (!ended_ && !reading_) {
      ReadWhenReady();
    }
  }));
  if (&full == plan_.console) {
    return;  // People may take their time.
  }
  patience_.expires_after(OutputSink::kPatience);
  patience_.async_wait(life_.Guard([this](boost::system::error_code error) {
    OutputSink* const still = error || ended_ ? nullptr : FullSink();
    if (still != nullptr && still != plan_.console && !reading_) {
      still->PassOver();
      ReadWhenReady();
    }
  }));
}

void OutputStream::ReadWhenReady() {
  if (OutputSink* const full = FullSink()) {
    WaitForRoom(*full);
    return;
  }
  patience_.cancel();
  reading_ = true;
  pipe_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                   life_.Guard([this](boost::system::error_code error) {
                     if (error || ended_) {
                       return;
                     }
                     reading_ = false;
                     if (ReadOnePiece() == Outcome::kEnd) {
                       End();
                     } else {
                       ReadWhenReady();
                     }
                   }));
}

OutputStream::Outcome OutputStream::ReadOnePiece() {
  char bytes[kPiece];
  const ssize_t got = ::read(pipe_.native_handle(), bytes, sizeof bytes);
  if (got > 0) {
    Take({bytes, static_cast<std::size_t>(got)});
    return Outcome::kMore;
  }
  const bool empty = got < 0 && (errno == EAGAIN || errno == EINTR);
  return empty ? Outcome::kEmpty : Outcome::kEnd;
}

void OutputStream::Take(std::string_view bytes) {
  if (plan_.keep_tail) {
    tail_.Feed(bytes);
  }
  if (plan_.kept) {
    plan_.kept->Append(plan_.local_rank, plan_.keep_tail ? AnswerKind::kErr : AnswerKind::kOut,
                       bytes, UnixMilliseconds());
  }
  if (plan_.file) {
    plan_.file->Append(bytes);
  }
  if (plan_.reader) {
    plan_.reader(bytes);
  }
  if (row_) {
    plan_.terminal->Feed(*row_, bytes);
  }
  if (plan_.as_it_is) {
    plan_.console->Append(bytes);
  } else if (HasLines()) {
    std::string lines;
    const bool goes_on = assembler_.open();
    const std::string shown = plan_.shown ? plan_.shown(bytes) : "";
    assembler_.Feed(plan_.shown ? shown : bytes, loop_.Now(), lines);
    ShowLines(lines, goes_on);
  }
}

bool OutputStream::HasLines() const {
  const bool shown = plan_.console != nullptr && plan_.terminal == nullptr;
  return !plan_.as_it_is && (shown || plan_.filtered != nullptr);
}

// `goes_on`: they begin within a line, without a prefix.
void OutputStream::ShowLines(const std::string& lines, bool goes_on) {
  if (plan_.merged != nullptr) {
    plan_.merged->Put(plan_.rank, lines);
  } else if (plan_.console != nullptr && plan_.terminal == nullptr && !lines.empty()) {
    Show(lines, goes_on);
  }
  if (plan_.filtered) {
    const std::size_t end = goes_on ? std::min(lines.find('\n'), lines.size() - 1) + 1 : 0;
    const std::string_view all = lines;
    plan_.filtered->Append(LinesWithAny(all.substr(0, end), plan_.filters, 0));
    plan_.filtered->Append(LinesWithAny(all.substr(end), plan_.filters, plan_.prefix.size()));
  }
}

// Another stream's long line ends where this one's come between, and begins anew after them.
void OutputStream::Show(const std::string& lines, bool goes_on) {
  OpenLine& open = *plan_.open_line;
  const bool ours = open.stream == this;
  if (open.stream != nullptr && !ours) {
    open.console->Append("\n");
  }
  if (goes_on && !ours) {
    plan_.console->Append(plan_.prefix);
  }
  plan_.console->Append(lines);
  open = assembler_.open() ? OpenLine{this, plan_.console} : OpenLine{};
}

void OutputStream::SetWindow(int terminal) {
  if (!ended_) {
    CopyWindow(terminal, pipe_.native_handle());
  }
}

void OutputStream::ReadAllThereIs() {
  Outcome outcome = ended_ ? Outcome::kEmpty : Outcome::kMore;
  for (int reads = 0; outcome == Outcome::kMore && reads < kMostReads; ++reads) {
    outcome = ReadOnePiece();
  }
  if (outcome == Outcome::kEnd) {
    End();
  }
}

void OutputStream::Abandon() {
  ReadAllThereIs();
  End();
}

void OutputStream::End() {
  if (ended_) {
    return;
  }
  ended_ = true;
  boost::system::error_code ignored;
  pipe_.close(ignored);
  if (row_) {
    plan_.terminal->End(*std::exchange(row_, std::nullopt));
  }
  if (HasLines()) {
    std::string lines;
    const bool goes_on = assembler_.open();
    assembler_.Finish(lines);
    ShowLines(lines, goes_on);
  }
  SayWhenDrained();
}

void OutputStream::SayWhenDrained() {
  if (drained()) {
    loop_.Post(life_.Guard([this] {
      if (on_drained_) {
        std::exchange(on_drained_, nullptr)();
      }
    }));
    return;
  }
  UnwrittenFile()->WhenWritten(life_.Guard([this] { SayWhenDrained(); }));
}

OutputSink* OutputStream::FullSink() const {
  if (plan_.console != nullptr && !plan_.console->HasRoom()) {
    return plan_.console;
  }
  for (OutputSink* const file : {plan_.file.get(), plan_.filtered.get()}) {
    if (file != nullptr && !file->HasRoom()) {
      return file;
    }
  }
  return nullptr;
}

OutputSink* OutputStream::UnwrittenFile() const {
  for (OutputSink* const file : {plan_.file.get(), plan_.filtered.get()}) {
    if (file != nullptr && !file->Idle()) {
      return file;
    }
  }
  return nullptr;
}

}  // namespace ddprun
