// The calls between agents and servers of a release, as bytes in a file: noted between a real agent
// and a real server, and played to those of now.
//
//   recorded_calls record SERVER FILE                     in between: listens (its address on
//                                                         stdout), passes on, notes
//   recorded_calls call SERVER FILE [PROTOCOL]            plays the agent
//   recorded_calls serve FILE [REFUSAL]                   plays the server
//
// The player of the agent puts the names that this server gave (term, world, beat) where the
// recorded ones stood, and its own numbers of calls; all else is as it was, also fields that are
// unknown today.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/rendezvous.pb.h"
#include "tests/compatibility/generic_calls.h"
#include "tests/compatibility/recording.h"

namespace ddprun {
namespace {

constexpr const char* kSync = "/ddprun.v1.Rendezvous/Sync";
constexpr const char* kObserve = "/ddprun.v1.Rendezvous/Observe";
constexpr int kMostCalls = 200;

int Record(const std::string& server, const std::string& path) {
  Channel channel(server);
  std::mutex mutex;
  std::ofstream file(path, std::ios::app);
  std::string last;  // Noted; a caller that asks again and again is noted once.
  return Listen([&](const std::string& method, const std::string& request,
                    std::chrono::system_clock::time_point deadline, Incoming* call) {
    const auto answered = [&, method, request, call](const grpc::Status& status,
                                                     const std::string& reply) {
      const std::lock_guard lock(mutex);
      const std::string line = LineOf({method, status.error_code(), request, reply});
      if (line != std::exchange(last, line)) {
        file << line << std::endl;
      }
      call->Reply(status, reply);
    };
    const std::shared_ptr<Cancellation> cancellation =
        call->cancellation();  // The call may be gone when Begin returns.
    cancellation->Forwarded(channel.Begin(method, request, deadline, answered));
  });
}

// An agent's life in calls of another time, with the names of this one.
class Replay {
 public:
  Replay(const std::string& server, std::vector<Call> calls, std::uint32_t protocol)
      : channel_(server), calls_(std::move(calls)), protocol_(protocol) {}

  int Run() {
    const bool over = Comes(v1::HOSTING_NOTHING, v1::OUTCOME_NONE, v1::Directive::kRun) &&
                      Comes(v1::HOSTING_WORKERS, v1::OUTCOME_NONE, v1::Directive::kRun) &&
                      Comes(v1::HOSTING_NOTHING, v1::OUTCOME_SUCCEEDED, v1::Directive::kFinish);
    return over ? 0 : 1;
  }

  // All other calls, as they were.
  void Others() {
    for (const Call& call : calls_) {
      if (call.method == kSync) {
        continue;
      }
      const auto [status, reply] = channel_.Ask(call.method, call.request, kParked);
      std::cout << call.method << ' ' << status.error_code() << ' ' << status.error_message()
                << std::endl;
    }
  }

 private:
  // Sends what the agent said in this state until the server says this.
  bool Comes(v1::Hosting hosting, v1::Outcome outcome, v1::Directive::KindCase wanted) {
    const std::string* recorded = nullptr;
    v1::SyncRequest request;
    for (const Call& call : calls_) {
      if (call.method == kSync && request.ParseFromString(call.request) &&
          request.hosting() == hosting && request.outcome() == outcome) {
        recorded = &call.request;
      }
    }
    for (int i = 0; recorded != nullptr && i < kMostCalls; ++i) {
      request.ParseFromString(*recorded);
      Rename(request);
      const auto [status, bytes] =
          channel_.Ask(kSync, request.SerializeAsString(), std::chrono::seconds(5));
      if (!status.ok()) {
        std::cout << "refused " << status.error_code() << ' ' << status.error_message()
                  << std::endl;
        return false;
      }
      if (!reply_.ParseFromString(bytes)) {
        std::cout << "an answer that is none" << std::endl;
        return false;
      }
      if (reply_.directive().has_run()) {
        placement_ = reply_.directive().run().placement();
      }
      if (reply_.directive().kind_case() == wanted) {
        std::cout << "hosting " << hosting << " outcome " << outcome << ": directive " << wanted
                  << std::endl;
        return true;
      }
    }
    std::cout << "no directive " << wanted << std::endl;
    return false;
  }

  void Rename(v1::SyncRequest& request) {
    request.set_sequence(++sequence_);
    request.set_term(reply_.term());
    request.set_beat(reply_.beat());
    request.clear_events_seen();
    request.clear_echo();
    if (reply_.has_directive()) {
      *request.mutable_echo() = reply_.directive();
    }
    if (request.has_placement()) {
      *request.mutable_placement() = placement_;
    }
    if (request.floor() > 0) {
      request.set_floor(placement_.generation());
    }
    if (protocol_ != 0) {
      request.set_protocol(protocol_);
    }
  }

  Channel channel_;
  const std::vector<Call> calls_;
  const std::uint32_t protocol_;
  v1::SyncReply reply_;
  v1::Placement placement_;
  std::uint64_t sequence_ = 0;
};

// The first answer of this kind that was no refusal; empty: there is none.
std::string ReplyOf(const std::vector<Call>& calls, const std::string& method) {
  const auto found = std::find_if(calls.begin(), calls.end(), [&](const Call& call) {
    return call.method == method && call.status == 0;
  });
  return found == calls.end() ? "" : found->reply;
}

// The last reply with this directive.
std::string ReplyWith(const std::vector<Call>& calls, v1::Directive::KindCase kind) {
  std::string found;
  for (const Call& call : calls) {
    v1::SyncReply reply;
    if (call.method == kSync && call.status == 0 && reply.ParseFromString(call.reply) &&
        reply.directive().kind_case() == kind) {
      found = call.reply;
    }
  }
  return found;
}

int Serve(const std::vector<Call>& calls, const std::string& refusal) {
  const std::string wait = ReplyWith(calls, v1::Directive::kWait);
  const std::string run = ReplyWith(calls, v1::Directive::kRun);
  const std::string finish = ReplyWith(calls, v1::Directive::kFinish);
  return Listen([&](const std::string& method, const std::string& bytes, auto, Incoming* call) {
    v1::SyncRequest request;
    if (!refusal.empty()) {
      call->Reply({grpc::StatusCode::INVALID_ARGUMENT, refusal}, "");
    } else if (method == kObserve) {
      call->ReplyLater(ReplyOf(calls, method));
    } else if (method != kSync) {
      call->Reply(grpc::Status::OK, ReplyOf(calls, method));
    } else if (!request.ParseFromString(bytes)) {
      call->Reply({grpc::StatusCode::INVALID_ARGUMENT, "no report"}, "");
    } else if (request.outcome() == v1::OUTCOME_SUCCEEDED) {
      call->Reply(grpc::Status::OK, finish);
    } else if (request.hosting() == v1::HOSTING_WORKERS) {
      call->ReplyLater(run);
    } else {
      call->Reply(grpc::Status::OK, request.has_echo() || wait.empty() ? run : wait);
    }
  });
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto word = [&](std::size_t i) { return i < words.size() ? words[i] : std::string(); };
  if (word(0) == "record" && words.size() == 3) {
    return ddprun::Record(word(1), word(2));
  }
  if (word(0) == "call" && words.size() >= 3) {
    const auto protocol = static_cast<std::uint32_t>(std::stoul("0" + word(3)));
    ddprun::Replay replay(word(1), ddprun::LoadCalls(word(2)), protocol);
    replay.Others();
    return replay.Run();
  }
  if (word(0) == "serve" && words.size() >= 2) {
    return ddprun::Serve(ddprun::LoadCalls(word(1)), word(2));
  }
  std::cerr << "usage: recorded_calls record SERVER FILE | call SERVER FILE [PROTOCOL] | serve "
               "FILE [REFUSAL]\n";
  return 2;
}
