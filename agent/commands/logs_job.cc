#include "agent/commands/logs_job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "common/files.h"
#include "common/lifetime.h"
#include "common/text.h"
#include "common/wall_clock.h"

namespace ddprun {
namespace {

constexpr Duration kTogether{100};     // Output that comes within this time goes in one piece.
constexpr Duration kFileLimit{5'000};  // For a disk.
constexpr Duration kLookAgain{1'000};  // At a file that may have grown.
constexpr std::size_t kReadAtOnce = KeptOutput::kMostOfRecord;

// A worker's own file, read from `at` on.
struct FileEnd {
  KeptOutput::Past past;
  std::optional<std::uint32_t> lines = {};  // Only its last ones; none: its last 4 MiB.
  std::optional<off_t> at = {};             // None: where these begin.
  std::optional<off_t> until = {};          // Its end when it was first looked.
  std::string refusal = {};
};

// Threads that read files for operators: one that hangs counts until it does not.
constexpr int kMostReading = kMostAsks;
std::atomic<int> reading_files = 0;

// Where the file's last lines begin, but not before `at`.
off_t LastLinesOf(int fd, off_t at, off_t end, std::uint32_t lines) {
  std::string text(static_cast<std::size_t>(end - at), '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), at);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return at + static_cast<off_t>(StartOfLastLines(text, lines));
}

// Takes the bytes that the file has now.
UniqueFd OpenEnd(FileEnd& file) {
  Result<UniqueFd> fd = OpenOrdinary(file.past.file, O_RDONLY, 0);
  struct stat info {};
  if (!fd || ::fstat(fd->get(), &info) != 0) {
    file.refusal = fd ? "cannot be read" : fd.error().message;
    return {};
  }
  constexpr auto kMost = static_cast<off_t>(KeptOutput::kMostOfWorker);
  if (!file.at) {
    file.at = std::max<off_t>(0, info.st_size - kMost);
    file.at = file.lines ? LastLinesOf(fd->get(), *file.at, info.st_size, *file.lines) : file.at;
  }
  file.at = std::min(*file.at, info.st_size);
  file.until = file.until.value_or(info.st_size);
  return *std::move(fd);
}

// On a thread, perhaps for ever. Records of all files in turn, from number `first` on, while
// `piece` has room; without --follow it gets what was there at the first look. True: there
// may be more at once.
bool ReadFiles(std::vector<FileEnd>& files, bool follow, std::size_t most, std::size_t& first,
               std::string& piece) {
  std::vector<UniqueFd> open;
  for (FileEnd& file : files) {
    open.push_back(OpenEnd(file));
  }
  for (bool more = true; more;) {
    more = false;
    for (std::size_t n = 0; n < files.size(); ++n) {
      const std::size_t i = (first + n) % files.size();
      FileEnd& file = files[i];
      if (!open[i]) {
        continue;
      }
      const auto at_once = static_cast<off_t>(kReadAtOnce);
      const off_t left = follow ? at_once : std::min(at_once, *file.until - *file.at);
      if (left <= 0) {
        continue;
      }
      if (piece.size() + kRecordHead + kReadAtOnce > most) {
        first = i;
        return true;
      }
      std::string text(static_cast<std::size_t>(left), '\0');
      const ssize_t got = ::pread(open[i].get(), text.data(), text.size(), *file.at);
      if (got <= 0) {
        open[i] = {};
        continue;
      }
      text.resize(static_cast<std::size_t>(got));
      *file.at += got;
      AppendRecord({0, file.past.rank, file.past.generation, file.past.of, std::move(text)}, piece);
      more = true;
    }
  }
  return false;
}

class LogsJob final : public RequestJob {
 public:
  LogsJob(Loop& loop, std::shared_ptr<KeptOutput> kept, const RequestSpec& spec)
      : loop_(loop),
        kept_(std::move(kept)),
        spec_(spec),
        since_(spec.back ? UnixMilliseconds() - spec.back->count()
                         : std::numeric_limits<std::int64_t>::min()),
        timer_(loop) {}

  ~LogsJob() override { kept_->Stop(listener_); }

  void Next(std::size_t most, std::function<void(JobPiece)> done) override {
    most_ = most;
    done_ = std::move(done);
    Look();
  }

 private:
  // First the files, which tell no times; then memory; then what comes.
  void Look() {
    piece_.clear();
    FindFiles();
    Begin();
    if (!files_->empty()) {
      LookIntoFiles();
    } else {
      LookIntoMemory(false);
    }
  }

  // Each generation has others.
  void FindFiles() {
    for (KeptOutput::Past& past : kept_->PastOnes(spec_)) {
      if (past.file.empty()) {
        terminal_ = past.rank;
      } else if (past.file != "/dev/null" && known_.insert(past.file).second) {
        // A file that comes while it is followed is new from its beginning.
        files_->push_back({std::move(past), begun_ ? std::nullopt : spec_.lines});
      }
    }
  }

  // At the first look alone.
  void Begin() {
    if (std::exchange(begun_, true)) {
      return;
    }
    if (spec_.lines) {
      starts_ = kept_->StartsOfLastLines(spec_, *spec_.lines);
    } else if (!kept_->ForgottenAfter(0, spec_).empty()) {
      Note(
          "older output is not kept: ddprun keeps the last 4 MiB of each worker, 64 MiB of a node. "
          "To keep all of it set --log-dir=DIR");
    }
    if (terminal_) {
      Note("rank " + std::to_string(*terminal_) +
           " has ddprun's own terminal or output, so its output is not kept. Set --prefix=rank to "
           "keep "
           "it [output-not-kept]");
    }
  }

  void Note(const std::string& text) { AppendRecord({0, 0, 0, AnswerKind::kNote, text}, piece_); }

  void LookIntoFiles() {
    if (++reading_files > kMostReading) {
      --reading_files;
      return OnFiles(nullptr, nullptr, false);
    }
    const auto text = std::make_shared<std::string>(std::move(piece_));
    const auto more = std::make_shared<bool>(false);
    // The thread has its own, so that one that is late changes nothing here.
    const auto files = std::make_shared<std::vector<FileEnd>>(*files_);
    const auto first = std::make_shared<std::size_t>(first_);
    const auto counted = std::shared_ptr<void>(nullptr, [](void*) { --reading_files; });
    loop_.RunBounded(
        kFileLimit,
        [files, text, more, first, counted, follow = spec_.follow, most = most_] {
          *more = ReadFiles(*files, follow, most, *first, *text);
        },
        life_.Guard([this, files, text, more, first](bool in_time) {
          if (done_) {
            first_ = in_time ? *first : 0;
            OnFiles(in_time ? files : nullptr, text, *more && in_time);
          }
        }));
  }

  void OnFiles(const std::shared_ptr<std::vector<FileEnd>>& files,
               const std::shared_ptr<std::string>& text, bool more) {
    if (!files) {
      files_->clear();
      piece_.clear();
      Note("the file system of the workers' logs is not responding");
      return LookIntoMemory(false);
    }
    piece_ = std::move(*text);
    for (FileEnd& file : *files) {
      if (!file.refusal.empty()) {
        Note(file.refusal.substr(0, kMaxRefusal));
      }
    }
    std::erase_if(*files, [](const FileEnd& file) { return !file.refusal.empty(); });
    files_ = files;
    if (more) {
      Deliver(false);
    } else {
      LookIntoMemory(true);
    }
  }

  // Waits for more where it is to be followed, and nothing was found.
  void LookIntoMemory(bool have_files) {
    if (after_ > 0) {
      for (const std::uint32_t rank : kept_->ForgottenAfter(after_, spec_)) {
        Note("rank " + std::to_string(rank) +
             " printed faster than this was read: some of its lines are missing");
      }
    }
    const bool more = kept_->Read(spec_, since_, starts_, after_, most_, piece_);
    const bool ends = !spec_.follow || kept_->closed();
    if (more || !piece_.empty() || ends) {
      return Deliver(!more && ends);
    }
    kept_->Stop(listener_);
    listener_ = kept_->Listen([this] { LookSoon(); });
    if (have_files) {
      timer_.ArmAt(loop_.Now() + kLookAgain, [this] { Look(); });
    }
  }

  void LookSoon() {
    kept_->Stop(listener_);
    timer_.ArmAt(loop_.Now() + kTogether, [this] { Look(); });
  }

  void Deliver(bool last) {
    timer_.Cancel();
    loop_.Post(life_.Guard([this, last] {
      if (done_) {
        std::exchange(done_, nullptr)({std::move(piece_), last});
      }
    }));
  }

  Loop& loop_;
  const std::shared_ptr<KeptOutput> kept_;
  const RequestSpec spec_;
  const std::int64_t since_;
  std::shared_ptr<std::vector<FileEnd>> files_ = std::make_shared<std::vector<FileEnd>>();
  std::size_t first_ = 0;  // Of them, to be read next.
  std::set<std::filesystem::path> known_;
  std::optional<std::uint32_t> terminal_;
  bool begun_ = false;
  KeptOutput::Starts starts_;  // Of the last lines, where these alone are wanted.
  std::uint64_t after_ = 0;
  std::uint64_t listener_ = 0;
  std::size_t most_ = 0;
  std::string piece_;
  std::function<void(JobPiece)> done_;
  LoopTimer timer_;
  const Lifetime life_;
};

}  // namespace

std::unique_ptr<RequestJob> MakeLogsJob(Loop& loop, std::shared_ptr<KeptOutput> kept,
                                        const RequestSpec& spec) {
  return std::make_unique<LogsJob>(loop, std::move(kept), spec);
}

}  // namespace ddprun
