#include "agent/watch/hang_evidence.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/watch/evidence_bundle.h"
#include "common/log.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// The part of it that a thread may own.
HangEvidenceRequest AskedOf(const HangEvidenceRequest& request) {
  HangEvidenceRequest asked = request;
  asked.last_lines = nullptr;
  asked.take_live = nullptr;
  asked.abort = nullptr;
  return asked;
}

Result<void> AllHaveStacks(const HangEvidenceRequest& request) {
  for (const HungWorker& worker : request.workers) {
    const fs::path file = StacksOf(request, worker);
    std::error_code error;
    if (!fs::is_regular_file(file, error) || fs::file_size(file, error) == 0) {
      return Error{ErrorKind::kUnavailable, "cannot write '" + file.native() + "'"};
    }
  }
  return {};
}

}  // namespace

fs::path StacksOf(const HangEvidenceRequest& request, const HungWorker& worker) {
  return request.bundle.empty() ? worker.stacks
                                : RankFile(request.bundle, worker.rank, kStacksFile);
}

// The dumps that torch's recorders were asked for.
struct HangEvidence::Dumps {
  std::vector<HungWorker> promised;
  fs::file_time_type since;
  std::size_t kept = 0;
};

// `torchfrtrace` reads a directory of them.
void HangEvidence::KeepDumps(Dumps& dumps, const fs::path& bundle) {
  const auto end = std::chrono::steady_clock::now() + kOfDumps;
  for (const HungWorker& worker : dumps.promised) {
    const auto left = std::max(std::chrono::steady_clock::duration::zero(),
                               end - std::chrono::steady_clock::now());
    const Result<void> kept = KeepDump(worker.recorder, worker.rank, dumps.since,
                                       std::chrono::floor<std::chrono::milliseconds>(left),
                                       DumpFile(bundle, worker.rank));
    dumps.kept += kept ? 1 : 0;
    if (!kept) {
      Log(LogLevel::kWarning, "cannot keep NCCL's flight recorder of rank " +
                                  std::to_string(worker.rank) + ": " + kept.error().message);
    }
  }
}

HangEvidence::HangEvidence(Loop& loop, std::string program)
    : loop_(loop), taker_(loop, std::move(program)), dumped_(loop) {}

HangEvidence::~HangEvidence() {
  WhenWritten(nullptr);
  Forget();
}

void HangEvidence::Take(HangEvidenceRequest request, Duration limit,
                        std::function<void(const HangEvidenceRequest&)> done) {
  Forget();
  request_ = std::move(request);
  limit_ = limit;
  done_ = std::move(done);
  if (request_.bundle.empty()) {
    TakeStacks();
    return;
  }
  const auto made = std::make_shared<Result<void>>();
  dumps_ = std::make_shared<Dumps>();
  OnDisk(
      kOfDisk,
      [made, bundle = request_.bundle, workers = request_.workers, dumps = dumps_] {
        *made = MakeBundle(bundle);
        dumps->since = fs::file_time_type::clock::now();
        std::copy_if(workers.begin(), workers.end(), std::back_inserter(dumps->promised),
                     [](const auto& one) { return AskForDump(one.recorder, one.rank); });
      },
      [this, made](bool in_time) {
        if (!in_time) {
          dumps_ = nullptr;
        }
        if (!in_time || !*made) {
          Log(LogLevel::kWarning, "cannot keep evidence of this hang except stacks: " +
                                      (in_time ? made->error().message
                                               : "the file system of '" + request_.bundle.native() +
                                                     "' is not responding"));
          request_.bundle.clear();
        }
        TakeStacks();
      });
}

void HangEvidence::Forget() {
  round_.Renew();
  taker_.Forget();
  dumped_.Cancel();
  aborted_.clear();
  done_ = nullptr;
  Written();
}

void HangEvidence::WhenWritten(std::function<void()> then) {
  then_ = std::move(then);
  if (!writing_) {
    Written();
  }
}

void HangEvidence::Ended(std::uint32_t local_rank) {
  if (aborted_.erase(local_rank) > 0 && aborted_.empty()) {
    dumped_.Cancel();
    WriteRest();
  }
}

void HangEvidence::AllGone() {
  taker_.Forget();
  if (!aborted_.empty()) {
    dumped_.Cancel();
    WriteRest();
  } else if (!writing_) {
    Forget();
  }
}

void HangEvidence::OnDisk(Duration limit, std::function<void()> work,
                          std::function<void(bool)> then) {
  loop_.RunBounded(limit, std::move(work), round_.Guard(std::move(then)));
}

void HangEvidence::TakeStacks() {
  std::vector<StackJob> jobs;
  for (const HungWorker& worker : request_.workers) {
    jobs.push_back({.pid = worker.pid,
                    .title = "stacks of rank " + std::to_string(worker.rank) + " (pid " +
                             std::to_string(worker.pid) + ")",
                    .file = StacksOf(request_, worker),
                    .also = worker.errors,
                    .notify = worker.notify,
                    .recorder = request_.bundle.empty()
                                    ? fs::path()
                                    : RankFile(request_.bundle, worker.rank, "collectives.json")});
  }
  if (request_.take_live) {
    request_.take_live(std::move(jobs), round_.Guard([this] { WaitForDumps({}); }));
    return;
  }
  taker_.Take(std::move(jobs), limit_,
              [this](const std::vector<int>& codes) { WaitForDumps(codes); });
}

void HangEvidence::WaitForDumps(const std::vector<int>& codes) {
  if (!dumps_ || dumps_->promised.empty() || request_.bundle.empty()) {
    OnTaken(codes);
    return;
  }
  OnDisk(
      kOfDumps + kOfDisk / 2,
      [dumps = dumps_, bundle = request_.bundle] { KeepDumps(*dumps, bundle); },
      [this, codes, dumps = dumps_](bool in_time) {
        if (in_time && dumps->kept > 0) {
          Log(LogLevel::kWarning, "to analyse NCCL's flight recorder: torchfrtrace --prefix " +
                                      std::string(kDumpPrefix) + " " + request_.bundle.native());
        }
        OnTaken(codes);
      });
}

void HangEvidence::OnTaken(const std::vector<int>& codes) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == kFramesUnknown && request_.may_abort) {
      Log(LogLevel::kWarning,
          "rank " + std::to_string(request_.workers[i].rank) +
              " does not report its Python stack (something may hold its interpreter): sending "
              "SIGABRT, so that it prints the stack on its stderr");
      request_.abort(request_.workers[i]);
      aborted_.insert(request_.workers[i].local_rank);
    }
  }
  if (!aborted_.empty()) {
    dumped_.ArmAt(loop_.Now() + kOfDump, [this] { WriteRest(); });
  } else {
    WriteRest();
  }
}

void HangEvidence::WriteRest() {
  aborted_.clear();
  writing_ = true;
  if (request_.bundle.empty()) {
    Finish();
    return;
  }
  NodePart part{.node = request_.node, .workers = {}, .last_lines = {}, .logs = request_.logs};
  for (const HungWorker& worker : request_.workers) {
    part.workers.push_back({worker.rank, worker.pid});
    part.last_lines.emplace_back(worker.rank, request_.last_lines(worker.local_rank));
  }
  const auto written = std::make_shared<Result<void>>();
  OnDisk(
      kOfDisk,
      [written, part = std::move(part), asked = AskedOf(request_)] {
        *written = WriteNodePart(asked.bundle, part);
        *written = *written ? AllHaveStacks(asked) : *written;
      },
      [this, written](bool in_time) {
        if (!in_time || !*written) {
          request_.failed =
              in_time ? written->error().message
                      : "the file system of '" + request_.bundle.native() + "' is not responding";
          Log(LogLevel::kWarning, "cannot keep all evidence of this hang: " + request_.failed);
        }
        Finish();
      });
}

void HangEvidence::Finish() {
  if (const auto done = std::exchange(done_, nullptr)) {
    done(request_);
  }
  Written();
}

void HangEvidence::Written() {
  writing_ = false;
  if (const auto then = std::exchange(then_, nullptr)) {
    then();
  }
}

}  // namespace ddprun
