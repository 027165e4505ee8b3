#include "rendezvous/service.h"

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "common/check.h"
#include "common/wall_clock.h"
#include "rendezvous/peer_calls.h"
#include "rendezvous/stream_end.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

// One open call. Only its first end counts: an answer and a cancellation may come together.
template <class Reply>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // Lives until gRPC is done with it and no pointer to it is left.
  static std::shared_ptr<UnaryCall> Open(Reply* reply, std::function<void()> on_cancel) {
    std::shared_ptr<UnaryCall> call(new UnaryCall(reply, std::move(on_cancel)));
    call->self_ = call;
    return call;
  }

  template <class Fill>
  void Answer(const Fill& fill) {
    if (!ended_.exchange(true)) {
      fill(reply_);
      Finish(grpc::Status::OK);
    }
  }

  void Refuse(const grpc::Status& status) {
    if (!ended_.exchange(true)) {
      Finish(status);
    }
  }

 private:
  UnaryCall(Reply* reply, std::function<void()> on_cancel)
      : reply_(reply), on_cancel_(std::move(on_cancel)) {}

  void OnCancel() override {
    on_cancel_();
    Refuse({grpc::StatusCode::UNAVAILABLE, "the call was given up"});
  }

  void OnDone() override { self_.reset(); }  // May delete this.

  Reply* reply_;  // Valid until the call ends; only the code that ends it writes to it.
  std::function<void()> on_cancel_;
  std::atomic<bool> ended_{false};
  std::shared_ptr<UnaryCall> self_;
};

using SyncCall = UnaryCall<v1::SyncReply>;

constexpr std::size_t kMostUnsentCommands = 64;
constexpr std::size_t kMostUnsentOfPool = 16;

grpc::ServerUnaryReactor* EndAtOnce(grpc::CallbackServerContext* context,
                                    const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// The loop's part of a call that is open. RefuseEarly ends it when the server closes; later
// calls of its owner have no effect.
class OpenCall {
 public:
  using All = std::set<OpenCall*>;
  virtual ~OpenCall() = default;
  virtual void RefuseEarly(const Error& error) = 0;
};

// The loop's side of a parked Sync.
class GrpcPendingSync final : public PendingSync, public OpenCall {
 public:
  GrpcPendingSync(std::shared_ptr<SyncCall> call, std::shared_ptr<All> open)
      : call_(std::move(call)), open_(std::move(open)) {
    open_->insert(this);
  }
  ~GrpcPendingSync() override {
    if (call_) {
      Refuse({ErrorKind::kUnavailable, "superseded"});
    }
  }

  void Answer(const SyncReply& reply) override {
    TakeCall()->Answer([&](v1::SyncReply* wire) {
      ToProto(reply, wire);
      wire->set_received_unix_us(received_);
      wire->set_sent_unix_us(UnixMicroseconds());
    });
  }
  void Refuse(const Error& error) override { TakeCall()->Refuse(StatusOf(error)); }
  void RefuseEarly(const Error& error) override { call_->Refuse(StatusOf(error)); }

 private:
  std::shared_ptr<SyncCall> TakeCall() {
    CHECK(call_ != nullptr);
    open_->erase(this);
    return std::exchange(call_, nullptr);
  }

  const std::int64_t received_ = UnixMicroseconds();
  std::shared_ptr<SyncCall> call_;
  std::shared_ptr<All> open_;
};

// The loop's side of a stream.
template <class In, class Out, class Call>
class ServedStream final : public StreamEnd<In, Out, Call>, public OpenCall {
 public:
  ServedStream(std::shared_ptr<Call> call, std::shared_ptr<StreamHandlers<In>> handlers,
               std::shared_ptr<All> open)
      : StreamEnd<In, Out, Call>(std::move(call), std::move(handlers)), open_(std::move(open)) {
    open_->insert(this);
  }
  ~ServedStream() override { open_->erase(this); }

  void RefuseEarly(const Error& why) override { this->GiveUp(why); }

 private:
  const std::shared_ptr<All> open_;
};

// A stream that is refused before anything of it is read.
template <class In, class Out>
class RefusedStream final : public grpc::ServerBidiReactor<In, Out> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace

struct RendezvousService::Inbox {
  Loop& loop;
  RendezvousHandlers handlers;
  std::shared_ptr<OpenCall::All> open = std::make_shared<OpenCall::All>();
  PeerCalls peers;
  std::function<void(const std::string&)> authenticated;  // May be unset.
  bool closed = false;                                    // All except `loop` is used on the loop.

  // Accepts a call. False: after Close.
  bool Accept(const std::string& peer) {
    if (closed) {
      return false;
    }
    if (authenticated) {
      authenticated(peer);
    }
    return true;
  }
  void OnSync(NodeReport report, std::shared_ptr<PendingSync> call, const std::string& peer);
  void OnCancel(const std::string& peer, const CallName& name);
};

void RendezvousService::Inbox::OnSync(NodeReport report, std::shared_ptr<PendingSync> call,
                                      const std::string& peer) {
  const CallName name = NameOf(report);
  const bool connected = peers.Called(peer, name);
  report.seen_at = AddressOfPeer(peer);
  handlers.sync(std::move(report), std::move(call));
  if (!connected && !closed) {
    handlers.cancel(name);
  }
}

void RendezvousService::Inbox::OnCancel(const std::string& peer, const CallName& name) {
  if (!closed && !peers.IsTold(peer, name)) {
    handlers.cancel(name);
  }
}

namespace {

// Answers a call in one iteration of the loop: `ask` gives the answer there, `tell` writes it to
// the reply.
template <class Inbox, class Reply, class Ask, class Tell>
grpc::ServerUnaryReactor* AnswerOnLoop(const std::shared_ptr<Inbox>& inbox,
                                       grpc::CallbackServerContext* context, Reply* reply, Ask ask,
                                       Tell tell) {
  const auto call = UnaryCall<Reply>::Open(reply, [] {});
  const std::string peer = PlainPeer(context->peer());
  inbox->loop.Post([inbox, call, peer, ask = std::move(ask), tell = std::move(tell)] {
    if (!inbox->Accept(peer)) {
      return;
    }
    const auto answer = ask(inbox->handlers);
    if (answer) {
      call->Answer([&](Reply* wire) { tell(*answer, wire); });
    } else {
      call->Refuse(StatusOf(answer.error()));
    }
  });
  return call.get();
}

// Serves a stream whose first message opens it: `open` gets that and the stream, on the loop.
// `first` and `later` read a message, on gRPC's threads.
template <class In, class Out, class WireOut, class Inbox, class WireIn, class First, class Open>
grpc::ServerBidiReactor<WireIn, WireOut>* ServeStream(const std::shared_ptr<Inbox>& inbox,
                                                      grpc::CallbackServerContext* context,
                                                      const grpc::Status& allowed,
                                                      std::size_t most_unsent, First first,
                                                      Result<In> (*later)(const WireIn&),
                                                      Open open) {
  if (!allowed.ok() || !open) {
    return new RefusedStream<WireIn, WireOut>(
        allowed.ok() ? grpc::Status{grpc::StatusCode::UNIMPLEMENTED, ""} : allowed);
  }
  using Call = ServerStream<WireIn, WireOut>;
  const auto call = std::make_shared<Call>(*context, most_unsent);
  const std::string peer = PlainPeer(context->peer());
  const auto handlers = std::make_shared<StreamHandlers<In>>();
  const auto opened = std::make_shared<bool>(false);  // Messages come one at a time.
  const auto hear = [=](const WireIn& wire) -> Result<void> {
    if (*opened) {
      ASSIGN_OR_RETURN(In message, later(wire));
      Deliver(inbox->loop, call, handlers, std::move(message));
      return {};
    }
    *opened = true;
    ASSIGN_OR_RETURN(const auto question, first(wire));
    inbox->loop.Post([=] {
      if (inbox->Accept(peer)) {
        open(question, std::make_unique<ServedStream<In, Out, Call>>(call, handlers, inbox->open));
      }
    });
    return {};
  };
  call->Begin({[=](const WireIn& wire) {
                 if (const Result<void> heard = hear(wire); !heard) {
                   call->Cancel(StatusOf(heard.error()));
                 }
               },
               [inbox, handlers] {
                 inbox->loop.Post([inbox, handlers] {
                   if (const auto ended = handlers->ended; ended && !inbox->closed) {
                     ended();
                   }
                 });
               }});
  // Its first message may be larger than what a connection may send before this, and slow.
  inbox->loop.Post([inbox, call, peer] {
    if (inbox->authenticated) {
      inbox->authenticated(peer);
    }
    call->ReadOn();
  });
  return call.get();
}

}  // namespace

RendezvousService::RendezvousService(Loop& loop, RendezvousHandlers handlers, std::string token,
                                     bool tls)
    : admission_(loop, std::move(token), tls),
      inbox_(std::make_shared<Inbox>(Inbox{loop, std::move(handlers)})) {
  CHECK(inbox_->handlers.sync && inbox_->handlers.cancel && inbox_->handlers.status);
}

grpc::ServerUnaryReactor* RendezvousService::Sync(grpc::CallbackServerContext* context,
                                                  const v1::SyncRequest* request,
                                                  v1::SyncReply* reply) {
  if (const grpc::Status allowed = admission_.Check(*context); !allowed.ok()) {
    return EndAtOnce(context, allowed);
  }
  Result<NodeReport> report = FromProto<NodeReport>(*request);
  if (!report) {
    return EndAtOnce(context, StatusOf(report.error()));
  }
  v1::SyncRequest().Swap(
      const_cast<v1::SyncRequest*>(request));  // Frees it while the call is parked.
  const std::string peer = PlainPeer(context->peer());
  const auto call = SyncCall::Open(reply, [inbox = inbox_, peer, name = NameOf(*report)] {
    inbox->loop.Post([inbox, peer, name] { inbox->OnCancel(peer, name); });
  });
  inbox_->loop.Post([inbox = inbox_, call, peer, report = *std::move(report)]() mutable {
    if (inbox->Accept(peer)) {
      inbox->OnSync(std::move(report), std::make_shared<GrpcPendingSync>(call, inbox->open), peer);
    }
  });
  return call.get();  // It owns itself until gRPC is done with it.
}

grpc::ServerUnaryReactor* RendezvousService::Describe(grpc::CallbackServerContext* context,
                                                      const v1::DescribeRequest* request,
                                                      v1::DescribeReply* reply) {
  if (const grpc::Status allowed = admission_.Check(*context); !allowed.ok()) {
    return EndAtOnce(context, allowed);
  }
  if (request->run_id().size() > kMaxNameBytes) {
    return EndAtOnce(context, {grpc::StatusCode::INVALID_ARGUMENT, "run_id is too long"});
  }
  return AnswerOnLoop(
      inbox_, context, reply,
      [run_id = request->run_id()](const RendezvousHandlers& handlers) {
        return handlers.status(run_id);
      },
      [](const std::vector<RunStatus>& runs, v1::DescribeReply* wire) { ToProto(runs, wire); });
}

grpc::ServerUnaryReactor* RendezvousService::Control(grpc::CallbackServerContext* context,
                                                     const v1::ControlRequest* request,
                                                     v1::ControlReply* reply) {
  if (const grpc::Status allowed = admission_.Check(*context); !allowed.ok()) {
    return EndAtOnce(context, allowed);
  }
  const Result<ControlRequest> asked = FromProto<ControlRequest>(*request);
  if (!asked) {
    return EndAtOnce(context, StatusOf(asked.error()));
  }
  if (!inbox_->handlers.control) {
    return EndAtOnce(context, {grpc::StatusCode::UNIMPLEMENTED, ""});
  }
  return AnswerOnLoop(
      inbox_, context, reply,
      [asked = *asked](const RendezvousHandlers& handlers) { return handlers.control(asked); },
      [](const std::string& text, v1::ControlReply* wire) {
        wire->set_text(text.substr(0, kMaxTextBytes));
      });
}

grpc::ServerBidiReactor<v1::NodeMessage, v1::Command>* RendezvousService::Observe(
    grpc::CallbackServerContext* context) {
  return ServeStream<AnswerPiece, NodeCommand, v1::Command>(
      inbox_, context, admission_.Check(*context), kMostUnsentCommands, MembershipFromProto,
      PieceFromProto, inbox_->handlers.observe);
}

grpc::ServerBidiReactor<v1::AskMessage, v1::AskReply>* RendezvousService::AskNodes(
    grpc::CallbackServerContext* context) {
  return ServeStream<NodeId, AskReply, v1::AskReply>(inbox_, context, admission_.Check(*context),
                                                     kMaxNodes + 1, AskStartFromProto,
                                                     NextFromProto, inbox_->handlers.ask);
}

grpc::ServerBidiReactor<v1::PoolReport, v1::PoolReply>* RendezvousService::Pool(
    grpc::CallbackServerContext* context) {
  return ServeStream<PoolReport, PoolReply, v1::PoolReply>(
      inbox_, context, admission_.Check(*context), kMostUnsentOfPool,
      FromProto<PoolReport, v1::PoolReport>, FromProto<PoolReport, v1::PoolReport>,
      inbox_->handlers.pool);
}

void RendezvousService::OnAuthenticated(std::function<void(const std::string&)> callback) {
  inbox_->authenticated = std::move(callback);
}

void RendezvousService::OnOpened(const std::string& peer) {
  inbox_->peers.Opened(peer);
}

void RendezvousService::OnClosed(const std::string& peer) {
  for (const CallName& name : inbox_->peers.Closed(peer)) {
    if (!inbox_->closed) {
      inbox_->handlers.cancel(name);
    }
  }
}

void RendezvousService::Close() {
  inbox_->closed = true;
  inbox_->authenticated = nullptr;
  for (OpenCall* const pending : *inbox_->open) {
    pending->RefuseEarly({ErrorKind::kUnavailable, "the rendezvous is shutting down"});
  }
}

}  // namespace ddprun
