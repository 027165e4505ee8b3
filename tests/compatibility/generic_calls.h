// Calls as bytes, whatever their methods: how recordings are made and played.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace ddprun {

inline constexpr std::chrono::milliseconds kParked{300};  // Calls that change nothing.

class Channel {
 public:
  explicit Channel(const std::string& server);

  using Done = std::function<void(const grpc::Status&, const std::string& reply)>;
  std::shared_ptr<grpc::ClientContext> Begin(const std::string& method, const std::string& request,
                                             std::chrono::system_clock::time_point deadline,
                                             Done done);
  std::pair<grpc::Status, std::string> Ask(const std::string& method, const std::string& request,
                                           std::chrono::milliseconds limit);

 private:
  grpc::GenericStub stub_;
};

// Cancels the forwarded call once the caller has given its own up.
class Cancellation {
 public:
  void Forwarded(std::shared_ptr<grpc::ClientContext> context);
  void Cancel();

 private:
  std::mutex mutex_;
  bool cancelled_ = false;
  std::shared_ptr<grpc::ClientContext> forwarded_;
};

// One call that came: read, answered once.
class Incoming : public grpc::ServerGenericBidiReactor {
 public:
  using Answer =
      std::function<void(const std::string& method, const std::string& request,
                         std::chrono::system_clock::time_point deadline, Incoming* call)>;
  Incoming(grpc::GenericCallbackServerContext* context, const Answer& answer);

  void OnReadDone(bool ok) override;
  void Reply(const grpc::Status& status, const std::string& bytes);
  void ReplyLater(const std::string& bytes);
  std::shared_ptr<Cancellation> cancellation() const { return cancellation_; }
  void OnCancel() override { cancellation_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();
  const std::string method_;
  const std::chrono::system_clock::time_point deadline_;
  const Answer answer_;
  grpc::ByteBuffer request_, reply_;
  grpc::Alarm alarm_;
};

// Says on stdout where, and never returns.
int Listen(Incoming::Answer answer);

}  // namespace ddprun
