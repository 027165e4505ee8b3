// For tests: a rendezvous server on loopback whose handler parks every call and notes what it
// hears.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/client.h"
#include "rendezvous/server.h"
#include "rendezvous/testing/pump.h"
#include "rendezvous/transport.h"

namespace ddprun {

inline NodeReport Report(std::uint64_t sequence) {
  NodeReport report;
  report.run_id = "run";
  report.node = "n0";
  report.host = "h0";
  report.incarnation = {7};
  report.sequence = sequence;
  return report;
}

inline SyncReply Reply(std::uint64_t generation) {
  return {Stop{{generation}, {1}, StopCause::kLeave}, 5, Duration(3'000), Duration(1'000), {2}};
}

// The replies that a channel's receiver heard.
struct Heard {
  std::uint64_t sequence = 0;
  Result<SyncReply> reply;
};

// Both ends have one clock here.
inline SyncReply WithoutClock(SyncReply reply) {
  if (const auto offset = std::exchange(reply.clock, std::nullopt)) {
    EXPECT_LE(std::abs(offset->microseconds), offset->within);
  }
  return reply;
}

class WireTest : public testing::Test {
 protected:
  RendezvousHandlers Handlers() {
    return {
        [this](NodeReport report, std::shared_ptr<PendingSync> call) {
          loop_.CheckOnLoop();
          reports_.push_back(std::move(report));
          parked_.push_back(std::move(call));
        },
        [this](const CallName& name) { cancelled_.push_back(name); },
        [this](const RunId& run) -> Result<std::vector<RunStatus>> {
          if (shut_down_in_status_) {
            shut_down_in_status_();
          }
          if (run == "unknown") {
            return Error{ErrorKind::kNotFound, "no run 'unknown' here"};
          }
          RunStatus status;
          status.run_id = run;
          status.phase = "running";
          status.outcome = "\xff";
          status.nodes = {{"n0", "h0", {7}, "running", Duration(300), 2, true, 4, 118, "data", 1}};
          status.events = {{NoticeLevel::kWarning, "\xff", "", kEventLost}};
          status.events[0].number = 1;
          return std::vector<RunStatus>{status};
        },
        [this](const ControlRequest& request) -> Result<std::string> {
          asked_.push_back(request);
          if (request.token != "secret") {
            return Error{ErrorKind::kRefused, "no"};
          }
          return std::string("done");
        },
        [this](const Membership& self, std::unique_ptr<NodeStream> stream) {
          node_self_ = self;
          node_stream_ = std::move(stream);
        },
        [this](const AskStart& start, std::unique_ptr<OperatorStream> stream) {
          start_ = start;
          operator_stream_ = std::move(stream);
        }};
  }

  void Serve(Endpoint endpoint, const Access& access = {}) {
    server_.emplace(loop_, Handlers(), AcceptorOptions{});
    server_->Require(access);
    const Result<Endpoint> bound = server_->Listen(endpoint);
    ASSERT_TRUE(bound) << bound.error().message;
    endpoint_ = *bound;
  }

  SyncChannel::Done Note() {
    return [this](std::uint64_t sequence, Result<SyncReply> reply) {
      heard_.push_back({sequence, std::move(reply)});
    };
  }

  bool Until(const std::function<bool()>& condition) { return PumpUntil(loop_, condition); }
  bool UntilParked(std::size_t count) {
    return Until([&] { return parked_.size() >= count; });
  }
  bool UntilHeard(std::size_t count) {
    return Until([&] { return heard_.size() >= count; });
  }

  // The answer to a node from `endpoint`: an empty text where its call is parked.
  std::string TryToJoin(const Endpoint& endpoint, const Access& access) {
    heard_.clear();
    const std::size_t parked = parked_.size();
    const auto channel = GrpcChannelTo(loop_, endpoint, access);
    channel->Send(Report(1), std::chrono::seconds(5), Note());
    EXPECT_TRUE(Until([&] { return parked_.size() > parked || !heard_.empty(); }));
    if (heard_.empty()) {
      return "";
    }
    EXPECT_FALSE(heard_[0].reply);
    last_kind_ = heard_[0].reply.error().kind;
    return heard_[0].reply.error().message;
  }

  // Beside the loop, since it blocks.
  template <class T>
  Result<T> Beside(std::function<Result<T>()> ask) {
    std::optional<Result<T>> result;
    bool done = false;
    loop_.RunBlocking([&] { result = ask(); }, [&] { done = true; });
    EXPECT_TRUE(Until([&] { return done; }));
    return *std::move(result);
  }

  AsioLoop loop_;
  std::vector<NodeReport> reports_;
  std::vector<std::shared_ptr<PendingSync>> parked_;
  std::vector<CallName> cancelled_;
  std::vector<ControlRequest> asked_;
  std::optional<Membership> node_self_;  // The first words of a node's last stream.
  std::optional<AskStart> start_;        // The first words of an operator's last stream.
  std::unique_ptr<NodeStream> node_stream_;
  std::unique_ptr<OperatorStream> operator_stream_;
  std::vector<Heard> heard_;
  ErrorKind last_kind_ = ErrorKind::kSystem;  // Of the last refusal.
  std::function<void()> shut_down_in_status_;
  std::optional<RendezvousServer> server_;
  Endpoint endpoint_;
};

}  // namespace ddprun
