#include "agent/commands/commands.h"

#include <algorithm>
#include <utility>

namespace ddprun {

Commands::Commands(Loop& loop, SyncChannel& channel, std::function<Membership()> self,
                   MakeRequestJob make)
    : loop_(loop),
      channel_(channel),
      self_(std::move(self)),
      make_(std::move(make)),
      timer_(loop),
      finish_(loop) {}

void Commands::Start() {
  timer_.ArmAt(loop_.Now() + kBegin, [this] { Open(); });
}

void Commands::Finish(Duration limit, bool followed, std::function<void()> done) {
  needs_follower_ = followed;
  finished_ = std::move(done);
  EndIfTold();
  if (finished_) {
    finish_.ArmAt(loop_.Now() + limit, [this] {
      jobs_.clear();
      needs_follower_ = false;
      EndIfTold();
    });
  }
}

void Commands::EndIfTold() {
  if (finished_ && jobs_.empty() && (had_follower_ || !needs_follower_)) {
    finish_.Cancel();
    std::exchange(finished_, nullptr)();
  }
}

void Commands::Open() {
  opened_ = loop_.Now();
  stream_ = channel_.OpenCommands(self_());
  if (stream_) {
    stream_->Listen([this](const NodeCommand& command) { OnCommand(command); },
                    [this] { OnEnded(); });
  } else {  // No server has been asked, so it costs nothing to try again soon.
    retry_ = kFirstRetry;
    OnEnded();
  }
}

// Another server may answer at the next one, so nothing of the jobs is kept.
void Commands::OnEnded() {
  stream_.reset();
  jobs_.clear();
  if (loop_.Now() >= opened_ + kLastRetry) {
    retry_ = kFirstRetry;
  }
  timer_.ArmAt(loop_.Now() + retry_, [this] { Open(); });
  retry_ = std::min(2 * retry_, kLastRetry);
  EndIfTold();
}

void Commands::OnCommand(const NodeCommand& command) {
  retry_ = kFirstRetry;
  if (command.over) {
    jobs_.erase(command.request);
    EndIfTold();
    return;
  }
  if (jobs_.size() >= kMostJobs && !jobs_.contains(command.request)) {
    return;  // No honest server gives so many.
  }
  Job& job = jobs_[command.request];
  if (!job.work) {
    job.work = make_(command.spec);
    job.follows = command.spec.follow;
  }
  if (!std::exchange(job.busy, true)) {
    job.work->Next(command.piece_bytes, [this, request = command.request](JobPiece piece) {
      OnPiece(request, std::move(piece));
    });
  }
}

void Commands::OnPiece(std::uint64_t request, JobPiece piece) {
  const auto job = jobs_.find(request);
  if (job != jobs_.end()) {
    job->second.busy = piece.last;
    had_follower_ = had_follower_ || (piece.last && job->second.follows);
    stream_->Send(
        {request, std::move(piece.bytes), piece.last, piece.refusal.substr(0, kMaxRefusal)});
  }
}

}  // namespace ddprun
