#include "tests/compatibility/generic_calls.h"

#include <grpcpp/create_channel.h>

#include <future>
#include <iostream>
#include <vector>

namespace ddprun {
namespace {

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

}  // namespace

// ---- AskStart ----
Channel::Channel(const std::string& server)
    : stub_(grpc::CreateChannel(server, grpc::InsecureChannelCredentials())) {}

std::shared_ptr<grpc::ClientContext> Channel::Begin(const std::string& method,
                                                    const std::string& request,
                                                    std::chrono::system_clock::time_point deadline,
                                                    Done done) {
  struct Open {
    grpc::ByteBuffer request, reply;
  };
  const auto open = std::make_shared<Open>(Open{BufferOf(request), {}});
  const auto context = std::make_shared<grpc::ClientContext>();
  context->set_deadline(deadline);
  stub_.UnaryCall(context.get(), method, {}, &open->request, &open->reply,
                  [open, context, done = std::move(done)](const grpc::Status& status) {
                    done(status, TextOf(open->reply));
                  });
  return context;
}

std::pair<grpc::Status, std::string> Channel::Ask(const std::string& method,
                                                  const std::string& request,
                                                  std::chrono::milliseconds limit) {
  std::promise<std::pair<grpc::Status, std::string>> answer;
  Begin(method, request, std::chrono::system_clock::now() + limit,
        [&](const grpc::Status& status, const std::string& reply) {
          answer.set_value({status, reply});
        });
  return answer.get_future().get();
}

// ---- Answering ----
void Cancellation::Forwarded(std::shared_ptr<grpc::ClientContext> context) {
  const std::lock_guard lock(mutex_);
  forwarded_ = std::move(context);
  if (cancelled_) {
    forwarded_->TryCancel();
  }
}

void Cancellation::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (forwarded_) {
    forwarded_->TryCancel();
  }
}

Incoming::Incoming(grpc::GenericCallbackServerContext* context, const Answer& answer)
    : method_(context->method()), deadline_(context->deadline()), answer_(answer) {
  StartRead(&request_);
}

void Incoming::OnReadDone(bool ok) {
  if (ok) {
    answer_(method_, TextOf(request_), deadline_, this);
  } else {
    Finish({grpc::StatusCode::CANCELLED, ""});
  }
}

void Incoming::Reply(const grpc::Status& status, const std::string& bytes) {
  if (!status.ok()) {
    Finish(status);
    return;
  }
  reply_ = BufferOf(bytes);
  StartWriteAndFinish(&reply_, {}, status);
}

void Incoming::ReplyLater(const std::string& bytes) {
  alarm_.Set(std::chrono::system_clock::now() + kParked,
             [this, bytes](bool) { Reply(grpc::Status::OK, bytes); });
}

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

}  // namespace ddprun
