// A node's way to whichever server serves now: hands its call on to the channel of the moment, and
// tells its listener that an answer came.
//
// A call that is open when the server changes is sent again to the new one, with a deadline of its
// own; one that finds no server waits for one until its deadline. Decides nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/lifetime.h"
#include "common/loop.h"
#include "rendezvous/transport.h"

namespace ddprun {

class FollowingChannel final : public SyncChannel {
 public:
  explicit FollowingChannel(Loop& loop) : limit_(loop), loop_(loop) {}

  // With every answer, before the receiver gets it. It may change the channel.
  void OnAnswer(std::function<void(const SyncReply&)> heard) { heard_ = std::move(heard); }

  // With every call that failed, and with every report before it is sent.
  void OnFailure(std::function<void()> failed) { failed_ = std::move(failed); }
  void OnSend(std::function<void(const NodeReport&)> sends) { sends_ = std::move(sends); }

  // None: there is no server.
  void SpeakThrough(std::unique_ptr<SyncChannel> channel);

  void Send(const NodeReport& report, Duration deadline, Done done) override;
  void Cancel() override;
  void OnAnotherServer(std::function<void()> changed) override { changed_ = std::move(changed); }
  // It ends when the server changes.
  std::unique_ptr<CommandStream> OpenCommands(const Membership& self) override;

 private:
  struct Open {
    NodeReport report;
    Duration deadline{0};
    Done done;
  };
  void Forward();
  void OnDone(std::uint64_t sequence, Result<SyncReply> reply);

  std::unique_ptr<SyncChannel> channel_;
  std::optional<Open> open_;
  LoopTimer limit_;  // Of a call that waits for a server.
  std::function<void(const SyncReply&)> heard_;
  std::function<void()> failed_;
  std::function<void(const NodeReport&)> sends_;
  std::function<void()> changed_;
  const Lifetime life_;
  Loop& loop_;
};

}  // namespace ddprun
