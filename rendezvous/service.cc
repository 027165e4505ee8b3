#include "rendezvous/service.h"

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "common/check.h"
#include "rendezvous/convert.h"

namespace ddprun {
namespace {

// One open call. The first end counts: an answer of the loop and a cancellation may meet.
template <class Reply>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // Lives until gRPC is done with it and nobody holds it any more.
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

  Reply* reply_;  // Valid until the end, and touched only by who ends the call.
  std::function<void()> on_cancel_;
  std::atomic<bool> ended_{false};
  std::shared_ptr<UnaryCall> self_;
};

using SyncCall = UnaryCall<v1::SyncReply>;
using DescribeCall = UnaryCall<v1::DescribeReply>;
using ControlCall = UnaryCall<v1::ControlReply>;

grpc::Status StatusOf(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kInvalid:
      return {grpc::StatusCode::INVALID_ARGUMENT, error.message};
    case ErrorKind::kUnavailable:
      return {grpc::StatusCode::UNAVAILABLE, error.message};
    case ErrorKind::kNotFound:
      return {grpc::StatusCode::NOT_FOUND, error.message};
    case ErrorKind::kRefused:
    case ErrorKind::kSystem:
      break;
  }
  return {grpc::StatusCode::FAILED_PRECONDITION, error.message};
}

grpc::ServerUnaryReactor* EndAtOnce(grpc::CallbackServerContext* context,
                                    const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// The loop's side of a Sync call.
class GrpcPendingSync final : public PendingSync {
 public:
  using Open = std::set<GrpcPendingSync*>;

  GrpcPendingSync(std::shared_ptr<SyncCall> call, std::shared_ptr<Open> open)
      : call_(std::move(call)), open_(std::move(open)) {
    open_->insert(this);
  }
  ~GrpcPendingSync() override {
    if (call_) {
      Refuse({ErrorKind::kUnavailable, "superseded"});
    }
  }

  void Answer(const SyncReply& reply) override {
    TakeCall()->Answer([&](v1::SyncReply* wire) { ToProto(reply, wire); });
  }
  void Refuse(const Error& error) override { TakeCall()->Refuse(StatusOf(error)); }

  // The server closes: the owner may still answer, to nobody.
  void RefuseEarly(const Error& error) { call_->Refuse(StatusOf(error)); }

 private:
  std::shared_ptr<SyncCall> TakeCall() {
    CHECK(call_ != nullptr);
    open_->erase(this);
    return std::exchange(call_, nullptr);
  }

  std::shared_ptr<SyncCall> call_;
  std::shared_ptr<Open> open_;
};

}  // namespace

struct RendezvousService::Inbox {
  Loop& loop;
  RendezvousHandlers handlers;
  std::shared_ptr<GrpcPendingSync::Open> open = std::make_shared<GrpcPendingSync::Open>();
  bool closed = false;  // All but `loop` is the loop's.
};

RendezvousService::RendezvousService(Loop& loop, RendezvousHandlers handlers, std::string token)
    : gate_(loop, std::move(token)),
      inbox_(std::make_shared<Inbox>(Inbox{loop, std::move(handlers)})) {
  CHECK(inbox_->handlers.sync && inbox_->handlers.cancel && inbox_->handlers.describe);
}

grpc::ServerUnaryReactor* RendezvousService::Sync(grpc::CallbackServerContext* context,
                                                  const v1::SyncRequest* request,
                                                  v1::SyncReply* reply) {
  if (const grpc::Status allowed = gate_.Check(*context); !allowed.ok()) {
    return EndAtOnce(context, allowed);
  }
  Result<NodeReport> report = ReportFromProto(*request);
  if (!report) {
    return EndAtOnce(context, StatusOf(report.error()));
  }
  const auto call = SyncCall::Open(reply, [inbox = inbox_, name = NameOf(*report)] {
    inbox->loop.Post([inbox, name] {
      if (!inbox->closed) {
        inbox->handlers.cancel(name);
      }
    });
  });
  inbox_->loop.Post([inbox = inbox_, call, report = *std::move(report)]() mutable {
    if (!inbox->closed) {
      inbox->handlers.sync(std::move(report), std::make_shared<GrpcPendingSync>(call, inbox->open));
    }
  });
  return call.get();  // It keeps itself until gRPC is done.
}

grpc::ServerUnaryReactor* RendezvousService::Describe(grpc::CallbackServerContext* context,
                                                      const v1::DescribeRequest* request,
                                                      v1::DescribeReply* reply) {
  if (const grpc::Status allowed = gate_.Check(*context); !allowed.ok()) {
    return EndAtOnce(context, allowed);
  }
  if (request->run_id().size() > kMaxNameBytes) {
    return EndAtOnce(context, {grpc::StatusCode::INVALID_ARGUMENT, "run_id is too long"});
  }
  const auto call = DescribeCall::Open(reply, [] {});
  inbox_->loop.Post([inbox = inbox_, call, run_id = request->run_id()] {
    if (inbox->closed) {
      return;
    }
    const Result<std::vector<std::string>> lines = inbox->handlers.describe(run_id);
    if (!lines) {
      call->Refuse(StatusOf(lines.error()));
      return;
    }
    const auto runs = inbox->handlers.status ? inbox->handlers.status(run_id)
                                             : Result<std::vector<RunStatus>>({});
    call->Answer([&](v1::DescribeReply* wire) {
      for (const std::string& line : *lines) {
        wire->add_lines(line);
      }
      if (runs) {
        ToProto(*runs, wire);
      }
    });
  });
  return call.get();
}

grpc::ServerUnaryReactor* RendezvousService::Control(grpc::CallbackServerContext* context,
                                                     const v1::ControlRequest* request,
                                                     v1::ControlReply* reply) {
  if (const grpc::Status allowed = gate_.Check(*context); !allowed.ok()) {
    return EndAtOnce(context, allowed);
  }
  const Result<ControlRequest> asked = ControlFromProto(*request);
  if (!asked) {
    return EndAtOnce(context, StatusOf(asked.error()));
  }
  if (!inbox_->handlers.control) {
    return EndAtOnce(context, {grpc::StatusCode::UNIMPLEMENTED, ""});
  }
  const auto call = ControlCall::Open(reply, [] {});
  inbox_->loop.Post([inbox = inbox_, call, asked = *asked] {
    if (inbox->closed) {
      return;
    }
    const Result<std::string> text = inbox->handlers.control(asked);
    if (!text) {
      call->Refuse(StatusOf(text.error()));
      return;
    }
    call->Answer([&](v1::ControlReply* wire) { wire->set_text(text->substr(0, kMaxTextBytes)); });
  });
  return call.get();
}

void RendezvousService::Close() {
  inbox_->closed = true;
  for (GrpcPendingSync* pending : *inbox_->open) {
    pending->RefuseEarly({ErrorKind::kUnavailable, "the rendezvous is shutting down"});
  }
}

}  // namespace ddprun
