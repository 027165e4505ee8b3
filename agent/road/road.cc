#include "agent/road/road.h"

#include <algorithm>
#include <utility>

namespace ddprun {

Road::Road(Loop& loop, SyncChannel& channel, std::function<RoadName()> self, MakeErrandJob make)
    : loop_(loop),
      channel_(channel),
      self_(std::move(self)),
      make_(std::move(make)),
      timer_(loop),
      finish_(loop) {}

Road::~Road() {
  *alive_ = false;
}

void Road::Start() {
  SpeakAt(loop_.Now() + kBegin);
}

void Road::Finish(Duration limit, std::function<void()> done) {
  finished_ = std::move(done);
  EndIfTold();
  if (finished_) {
    finish_.ArmAt(loop_.Now() + limit, [this] {
      jobs_.clear();
      EndIfTold();
    });
  }
}

void Road::EndIfTold() {
  if (finished_ && jobs_.empty()) {
    finish_.Cancel();
    std::exchange(finished_, nullptr)();
  }
}

void Road::SpeakAt(Time when) {
  timer_.ArmAt(std::max(when, spoke_ + kPause), [this] { Speak(); });
}

void Road::Speak() {
  const RoadName self = self_();
  RoadCall call{self.run_id, self.node, self.incarnation, edition_, {}};
  carries_ = false;
  for (auto& [id, job] : jobs_) {
    if (job.piece && !job.sent && !carries_) {
      call.piece = job.piece;
      carries_ = true;
      carried_ = id;
    }
  }
  spoke_ = loop_.Now();
  timer_.ArmAt(spoke_ + (carries_ ? kPieceLimit : kParkLimit), [this] {
    edition_ = 0;
    Speak();
  });
  channel_.SendRoad(call, [this, alive = alive_, number = ++calls_](Result<RoadReply> reply) {
    if (*alive && number == calls_) {
      OnReply(std::move(reply));
    }
  });
}

void Road::OnReply(Result<RoadReply> reply) {
  const auto job = jobs_.find(carried_);
  if (std::exchange(carries_, false) && reply && job != jobs_.end()) {
    job->second.sent = true;
  }
  if (!reply) {  // It may have been heard by a server that is gone: all is told anew.
    edition_ = 0;
    for (auto& [id, other] : jobs_) {
      other.sent = false;
    }
    SpeakAt(loop_.Now() + retry_);
    retry_ = std::min(2 * retry_, kLastRetry);
    return;
  }
  retry_ = kFirstRetry;
  OnList(*reply);
  SpeakAt(loop_.Now());
}

void Road::OnList(const RoadReply& reply) {
  edition_ = reply.edition;
  std::erase_if(jobs_, [&](const auto& job) {
    return std::ranges::find(reply.errands, job.first, &Errand::id) == reply.errands.end();
  });
  for (const Errand& errand : reply.errands) {
    const auto [found, fresh] = jobs_.try_emplace(errand.id);
    Job& job = found->second;
    job.errand = errand;
    if (fresh) {
      job.work = make_(errand.wish);
      job.made = errand.taken;
    }
    if (job.piece && errand.taken >= job.piece->number) {
      job.piece.reset();
    }
    Go(errand.id, job);
  }
  EndIfTold();
}

void Road::Go(std::uint64_t id, Job& job) {
  if (job.piece || std::exchange(job.asked, true)) {
    return;
  }
  job.work->Next(job.errand.piece_bytes,
                 [this, id](JobPiece piece) { OnPiece(id, std::move(piece)); });
}

void Road::OnPiece(std::uint64_t id, JobPiece piece) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) {
    return;
  }
  Job& job = found->second;
  job.asked = piece.last;  // After the last one nothing is asked for.
  job.sent = false;
  job.piece = ErrandPiece{id, ++job.made, std::move(piece.bytes), piece.last,
                          piece.refusal.substr(0, kMaxRefusal)};
  if (!carries_) {
    SpeakAt(loop_.Now());
  }
}

}  // namespace ddprun
