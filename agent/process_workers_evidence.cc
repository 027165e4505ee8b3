// What is kept of workers that hang or failed.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "agent/process_workers.h"
#include "agent/watch/evidence_bundle.h"
#include "agent/watch/left_behind.h"
#include "common/files.h"
#include "common/log.h"
#include "rendezvous/real_names.h"

namespace ddprun {
namespace {

void SayWhereEvidenceIs(const std::filesystem::path& bundle) {
  Log(LogLevel::kWarning,
      "what is known of the hang (stacks, what torch recorded, last lines) is in " +
          bundle.native());
}

// Python's stack first, wherever a tool told it; as lines.
std::string ForPeople(std::string text) {
  constexpr std::size_t kMaxShown = 8 * 1024;
  if (const std::size_t tool = text.find("\n-- py-spy:\n"); tool != text.npos) {
    text = text.substr(tool + 1) + text.substr(0, tool + 1);
  }
  std::istringstream lines(text.substr(0, kMaxShown));
  std::string shown;
  for (std::string line; std::getline(lines, line);) {
    shown += Printable(line) + "\n";
  }
  return shown + "(--log-dir keeps those of all, and more)\n";
}

// Says that there is none where nothing else was said when nobody has it any more.
struct LiveEvidence {
  Loop& loop;
  LiveStacks::Done done;
  std::vector<ErrandRecord> records;

  LiveEvidence(Loop& the_loop, LiveStacks::Done whom) : loop(the_loop), done(std::move(whom)) {}
  LiveEvidence(const LiveEvidence&) = delete;
  LiveEvidence& operator=(const LiveEvidence&) = delete;
  ~LiveEvidence() { Say(ErrandStream::kNote, "no evidence is kept of it: it is being stopped"); }

  void Say(ErrandStream of, const std::string& text) {
    if (!done) {
      return;
    }
    for (ErrandRecord& record : records) {
      record.of = of;
      record.text = text;
    }
    loop.Post([hears = std::exchange(done, nullptr), told = std::move(records)] { hears(told); });
  }
};

}  // namespace

// Bytes that a worker printed, for its bundle; the loop copies them.
std::size_t ProcessWorkers::MostLines() const {
  constexpr std::size_t kOfOne = 64 * 1024;
  constexpr std::size_t kOfAll = std::size_t{4} << 20;
  return std::min(kOfOne, kOfAll / std::max(options_->core.workers, 1U));
}

void ProcessWorkers::KeepEvidenceOfFailure() {
  if (std::exchange(kept_evidence_, true) || options_->evidence.empty()) {
    return;
  }
  NodePart part{.node = options_->core.node, .workers = {}, .last_lines = {}};
  std::vector<FailureEvidence::Recorder> recorders;
  for (std::uint32_t local = 0; local < options_->core.workers; ++local) {
    const std::uint32_t rank = placement_.first_rank + local;
    part.workers.push_back({rank, static_cast<pid_t>(pids_[local])});
    part.last_lines.emplace_back(rank, kept_->LastOf(local, MostLines()));
    recorders.push_back({rank, RecorderNamesIn(environment_, NotifySocketOfWorker(local))});
  }
  failure_evidence_.Keep(BundleOf(options_->evidence, placement_.generation), std::move(part),
                         std::move(recorders), began_, plan_);
}

void ProcessWorkers::WhenEvidenceIsKept(std::function<void()> done) {
  hang_evidence_.WhenWritten(
      [this, done = std::move(done)] { failure_evidence_.WhenWritten(done); });
}

void ProcessWorkers::TakeStacks(const std::vector<std::uint32_t>& local_ranks, Duration limit,
                                std::function<void()> done) {
  kept_evidence_ = true;
  live_stacks_.Forget();  // Two tools cannot hold one worker, and these are the last of it.
  hang_evidence_.Take(WishFor(local_ranks), limit,
                      [this, done = std::move(done)](const HangWish& carried_out) {
                        if (!carried_out.bundle.empty()) {
                          SayWhereEvidenceIs(carried_out.bundle);
                          done();
                        } else if (!carried_out.workers.empty()) {
                          TellOfStacks(StacksOf(carried_out, carried_out.workers.front()), done);
                        } else {
                          done();
                        }
                      });
}

// Those that run.
HangWish ProcessWorkers::WishFor(const std::vector<std::uint32_t>& local_ranks) {
  HangWish wish{
      .bundle = options_->evidence.empty() ? std::filesystem::path()
                                           : BundleOf(options_->evidence, placement_.generation),
      .node = options_->core.node,
      .workers = {},
      .last_lines = [kept = kept_,
                     most = MostLines()](std::uint32_t local) { return kept->LastOf(local, most); },
      .may_abort = !environment_["PYTHONFAULTHANDLER"].empty(),
      .abort =
          [this](const HungWorker& worker) {
            if (runner_.PidOf(worker.local_rank) == worker.pid) {
              constexpr rlimit kNone{0, 0};  // Its stack is wanted, not its memory.
              ::prlimit(worker.pid, RLIMIT_CORE, &kNone, nullptr);
              ::kill(worker.pid, SIGABRT);
            }
          }};
  const bool stays = options_->directory_stays;
  for (const std::uint32_t local : local_ranks) {
    if (const pid_t pid = runner_.PidOf(local); pid != 0) {
      wish.workers.push_back({pid, local, placement_.first_rank + local,
                              WorkersFile(attempt_, local, kStacksFile, stays),
                              stays ? WorkersFile(attempt_, local, "stderr.log", stays) : "",
                              NotifySocketOfWorker(local),
                              RecorderNamesIn(environment_, NotifySocketOfWorker(local))});
    }
  }
  return wish;
}

void ProcessWorkers::KeepLiveEvidence(const ErrandWish& wanted, LiveStacks::Done done) {
  std::vector<std::uint32_t> locals;
  for (std::uint32_t local = 0; local < pids_.size(); ++local) {
    if (Wants(wanted, placement_.first_rank + local)) {
      locals.push_back(local);
    }
  }
  HangWish wish = WishFor(locals);
  // Answered also where it is superseded, or its workers end.
  const auto answer = std::make_shared<LiveEvidence>(loop_, std::move(done));
  for (const HungWorker& worker : wish.workers) {
    answer->records.push_back(
        {UnixMilliseconds(), worker.rank, placement_.generation.value, ErrandStream::kNote, ""});
  }
  if (wish.workers.empty() || wish.bundle.empty() || kept_evidence_ || !live_evidence_.expired()) {
    if (!kept_evidence_) {
      answer->Say(ErrandStream::kNote, wish.bundle.empty()
                                           ? "no evidence is kept without --log-dir or --run-dir"
                                           : "evidence of it is being kept already");
    }
    return;
  }
  live_evidence_ = answer;
  wish.may_abort = false;
  wish.take_live = [this, workers = wish.workers](const std::vector<StackJob>& jobs,
                                                  std::function<void()> taken) {
    std::vector<LiveStacks::Target> targets;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      targets.push_back({jobs[i].pid, workers[i].rank, placement_.generation.value, jobs[i].notify,
                         jobs[i].file, jobs[i].recorder});
    }
    live_stacks_.Take(std::move(targets), [taken = std::move(taken)](const auto&) { taken(); });
  };
  hang_evidence_.Take(std::move(wish), Duration{0}, [answer](const HangWish& carried_out) {
    if (!carried_out.failed.empty()) {
      answer->Say(ErrandStream::kNote, "not all evidence of it is kept: " + carried_out.failed);
    } else if (!carried_out.bundle.empty()) {
      SayWhereEvidenceIs(carried_out.bundle);
      answer->Say(ErrandStream::kDone, carried_out.bundle.native());
    } else {
      answer->Say(ErrandStream::kNote,
                  "no evidence is kept of it: its directory could not be made");
    }
  });
}

std::string ProcessWorkers::NotifySocketOfWorker(std::uint32_t local_rank) const {
  if (!plan_ || local_rank >= plan_->sockets.paths().size()) {
    return "";
  }
  return plan_->sockets.paths()[local_rank];
}

// The files go with the run.
void ProcessWorkers::TellOfStacks(const std::filesystem::path& file, std::function<void()> done) {
  const auto text = std::make_shared<Result<std::string>>(std::string());
  loop_.RunBounded(
      LeftBehind::kLimit, [text, file] { *text = ReadOrdinary(file, 2 << 20); },
      [text, done = std::move(done)](bool in_time) {
        if (in_time && *text) {
          LogReport(LogLevel::kWarning, ForPeople(**text));
        } else {
          Log(LogLevel::kWarning,
              in_time ? text->error().message
                      : "the workers' stacks cannot be read: their disk does not answer");
        }
        done();
      });
}

}  // namespace ddprun
