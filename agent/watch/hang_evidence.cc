#include "agent/watch/hang_evidence.h"

#include <set>
#include <utility>

#include "agent/watch/evidence_bundle.h"
#include "common/log.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

}  // namespace

fs::path StacksOf(const HangWish& wish, const HungWorker& worker) {
  return wish.bundle.empty() ? worker.own / kStacksFile
                             : RankFile(wish.bundle, worker.rank, kStacksFile);
}

class HangEvidence::State : public std::enable_shared_from_this<State> {
 public:
  State(Loop& loop, std::string program)
      : loop_(loop), taker_(loop, std::move(program)), dumped_(loop) {}

  void Take(HangWish wish, Duration limit, std::function<void(const HangWish&)> done) {
    Forget();
    wish_ = std::move(wish);
    limit_ = limit;
    done_ = std::move(done);
    if (wish_.bundle.empty()) {
      TakeStacks();
      return;
    }
    const auto made = std::make_shared<Result<void>>();
    OnDisk([made, bundle = wish_.bundle] { *made = MakeBundle(bundle); },
           [this, made](bool in_time) {
             if (!in_time || !*made) {
               Log(LogLevel::kWarning,
                   "no evidence is kept of this hang but stacks: " +
                       (in_time ? made->error().message
                                : "the disk of '" + wish_.bundle.native() + "' does not answer"));
               wish_.bundle.clear();
             }
             TakeStacks();
           });
  }

  void Forget() {
    ++round_;
    taker_.Forget();
    dumped_.Cancel();
    aborted_.clear();
    done_ = nullptr;
    Written();
  }

  void WhenWritten(std::function<void()> then) {
    then_ = std::move(then);
    if (!writing_) {
      Written();
    }
  }

  void Ended(std::uint32_t local_rank) {
    if (aborted_.erase(local_rank) > 0 && aborted_.empty()) {
      dumped_.Cancel();
      WriteRest();
    }
  }

  void AllGone() {
    taker_.Forget();
    if (!aborted_.empty()) {
      dumped_.Cancel();
      WriteRest();
    } else if (!writing_) {
      Forget();
    }
  }

 private:
  void OnDisk(std::function<void()> work, std::function<void(bool)> then) {
    loop_.RunBounded(
        kOfDisk, std::move(work),
        [weak = weak_from_this(), round = round_, then = std::move(then)](bool in_time) {
          if (const auto self = weak.lock(); self && self->round_ == round) {
            then(in_time);
          }
        });
  }

  void TakeStacks() {
    std::vector<StackJob> jobs;
    for (const HungWorker& worker : wish_.workers) {
      jobs.push_back({.pid = worker.pid,
                      .title = "stacks of rank " + std::to_string(worker.rank) + " (pid " +
                               std::to_string(worker.pid) + ")",
                      .file = StacksOf(wish_, worker),
                      .also = worker.own / "stderr.log",
                      .notify = worker.notify,
                      .recorder = wish_.bundle.empty()
                                      ? fs::path()
                                      : RankFile(wish_.bundle, worker.rank, "collectives.json")});
    }
    taker_.Take(std::move(jobs), limit_, [this](const std::vector<int>& codes) { OnTaken(codes); });
  }

  void OnTaken(const std::vector<int>& codes) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (codes[i] == kFramesUnknown && wish_.may_abort) {
        Log(LogLevel::kWarning, "rank " + std::to_string(wish_.workers[i].rank) +
                                    " does not tell where its Python stands (its interpreter may "
                                    "be held): SIGABRT, so that it prints that on its stderr");
        wish_.abort(wish_.workers[i]);
        aborted_.insert(wish_.workers[i].local_rank);
      }
    }
    if (!aborted_.empty()) {
      dumped_.ArmAt(loop_.Now() + kOfDump, [this] { WriteRest(); });
    } else {
      WriteRest();
    }
  }

  void WriteRest() {
    aborted_.clear();
    writing_ = true;
    if (wish_.bundle.empty()) {
      Finish();
      return;
    }
    NodePart part{.node = wish_.node, .workers = {}, .last_lines = {}};
    for (const HungWorker& worker : wish_.workers) {
      part.workers.push_back({worker.rank, worker.pid});
      part.last_lines.emplace_back(worker.rank, wish_.last_lines(worker.local_rank));
    }
    const auto written = std::make_shared<Result<void>>();
    OnDisk([written, part = std::move(part),
            bundle = wish_.bundle] { *written = WriteNodePart(bundle, part); },
           [this, written](bool in_time) {
             if (!in_time || !*written) {
               Log(LogLevel::kWarning,
                   "not all evidence of this hang is kept: " +
                       (in_time ? written->error().message
                                : "the disk of '" + wish_.bundle.native() + "' does not answer"));
             }
             Finish();
           });
  }

  void Finish() {
    if (const auto done = std::exchange(done_, nullptr)) {
      done(wish_);
    }
    Written();
  }

  void Written() {
    writing_ = false;
    if (const auto then = std::exchange(then_, nullptr)) {
      then();
    }
  }

  Loop& loop_;
  StackTaker taker_;
  LoopTimer dumped_;
  std::set<std::uint32_t> aborted_;  // Local ranks that have not ended yet.
  bool writing_ = false;             // The last part.
  HangWish wish_;
  Duration limit_{0};
  std::function<void(const HangWish&)> done_;
  std::function<void()> then_;
  std::uint64_t round_ = 0;
};

HangEvidence::HangEvidence(Loop& loop, std::string program)
    : state_(std::make_shared<State>(loop, std::move(program))) {}

HangEvidence::~HangEvidence() {
  state_->WhenWritten(nullptr);
  state_->Forget();
}

void HangEvidence::Take(HangWish wish, Duration limit, std::function<void(const HangWish&)> done) {
  state_->Take(std::move(wish), limit, std::move(done));
}

void HangEvidence::Ended(std::uint32_t local_rank) {
  state_->Ended(local_rank);
}

void HangEvidence::AllGone() {
  state_->AllGone();
}

void HangEvidence::Forget() {
  state_->Forget();
}

void HangEvidence::WhenWritten(std::function<void()> then) {
  state_->WhenWritten(std::move(then));
}

}  // namespace ddprun
