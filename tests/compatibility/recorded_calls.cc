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
// unknown today. A file has one call a line: method, status code, request and reply in hexadecimal
// ("-": empty); lines that begin with # are left out.
#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <boost/algorithm/hex.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "proto/rendezvous.pb.h"

namespace ddprun {
namespace {

constexpr const char* kSync = "/ddprun.v1.Rendezvous/Sync";
constexpr const char* kObserve = "/ddprun.v1.Rendezvous/Observe";
constexpr int kMostCalls = 200;
constexpr std::chrono::milliseconds kParked{300};  // Calls that change nothing.

// ---- The file ----
struct Call {
  std::string method;
  int status = 0;
  std::string request, reply;
};

std::string Hex(const std::string& bytes) {
  return bytes.empty() ? "-" : boost::algorithm::hex_lower(bytes);
}

std::string Bytes(const std::string& hex) {
  return hex == "-" ? "" : boost::algorithm::unhex(hex);
}

std::vector<Call> LoadCalls(const std::string& path) {
  std::ifstream file(path);
  std::vector<Call> calls;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') {
      continue;
    }
    std::stringstream words(line);
    Call call;
    std::string request, reply;
    words >> call.method >> call.status >> request >> reply;
    call.request = Bytes(request);
    call.reply = Bytes(reply);
    calls.push_back(call);
  }
  return calls;
}

// ---- Calls as bytes, whatever their methods ----
std::string TextOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
  }
  return bytes;
}

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

class Channel {
 public:
  explicit Channel(const std::string& server)
      : stub_(grpc::CreateChannel(server, grpc::InsecureChannelCredentials())) {}

  using Done = std::function<void(const grpc::Status&, const std::string& reply)>;
  void Begin(const std::string& method, const std::string& request,
             std::chrono::system_clock::time_point deadline, Done done) {
    struct Open {
      grpc::ClientContext context;
      grpc::ByteBuffer request, reply;
    };
    const auto open = std::make_shared<Open>();
    open->request = BufferOf(request);
    open->context.set_deadline(deadline);
    stub_.UnaryCall(&open->context, method, {}, &open->request, &open->reply,
                    [open, done = std::move(done)](const grpc::Status& status) {
                      done(status, TextOf(open->reply));
                    });
  }
  std::pair<grpc::Status, std::string> Ask(const std::string& method, const std::string& request,
                                           std::chrono::milliseconds limit) {
    std::promise<std::pair<grpc::Status, std::string>> answer;
    Begin(method, request, std::chrono::system_clock::now() + limit,
          [&](const grpc::Status& status, const std::string& reply) {
            answer.set_value({status, reply});
          });
    return answer.get_future().get();
  }

 private:
  grpc::GenericStub stub_;
};

// One call that came: read, answered once.
class Incoming : public grpc::ServerGenericBidiReactor {
 public:
  using Answer =
      std::function<void(const std::string& method, const std::string& request,
                         std::chrono::system_clock::time_point deadline, Incoming* call)>;
  Incoming(grpc::GenericCallbackServerContext* context, const Answer& answer)
      : method_(context->method()), deadline_(context->deadline()), answer_(answer) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      answer_(method_, TextOf(request_), deadline_, this);
    } else {
      Finish({grpc::StatusCode::CANCELLED, ""});
    }
  }
  void Reply(const grpc::Status& status, const std::string& bytes) {
    if (!status.ok()) {
      Finish(status);
      return;
    }
    reply_ = BufferOf(bytes);
    StartWriteAndFinish(&reply_, {}, status);
  }
  void ReplyLater(const std::string& bytes) {
    alarm_.Set(std::chrono::system_clock::now() + kParked,
               [this, bytes](bool) { Reply(grpc::Status::OK, bytes); });
  }
  void OnDone() override { delete this; }

 private:
  const std::string method_;
  const std::chrono::system_clock::time_point deadline_;
  const Answer answer_;
  grpc::ByteBuffer request_, reply_;
  grpc::Alarm alarm_;
};

class Service : public grpc::CallbackGenericService {
 public:
  explicit Service(Incoming::Answer answer) : answer_(std::move(answer)) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Incoming(context, answer_);
  }

 private:
  const Incoming::Answer answer_;
};

// Says on stdout where, and never returns.
int Listen(Incoming::Answer answer) {
  Service service(std::move(answer));
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::cout << "127.0.0.1:" << port << std::endl;
  server->Wait();
  return 0;
}

// ---- Recording and playing ----
int Record(const std::string& server, const std::string& path) {
  Channel channel(server);
  std::mutex mutex;
  std::ofstream file(path, std::ios::app);
  std::string last;  // Noted; a caller that asks again and again is noted once.
  return Listen([&](const std::string& method, const std::string& request,
                    std::chrono::system_clock::time_point deadline, Incoming* call) {
    channel.Begin(method, request, deadline,
                  [&, method, request, call](const grpc::Status& status, const std::string& reply) {
                    const std::lock_guard lock(mutex);
                    const std::string line = method + ' ' + std::to_string(status.error_code()) +
                                             ' ' + Hex(request) + ' ' + Hex(reply);
                    if (line != std::exchange(last, line)) {
                      file << line << std::endl;
                    }
                    call->Reply(status, reply);
                  });
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
