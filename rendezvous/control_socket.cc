#include "rendezvous/control_socket.h"

#include <fcntl.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "common/lifetime.h"
#include "common/log.h"
#include "rendezvous/grpc_limits.h"
#include "rendezvous/service.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using UnixSocket = boost::asio::local::stream_protocol::socket;

constexpr std::size_t kMostConnections = 64;
constexpr int kIdleMs = 5'000;  // After it a connection without a call is closed.
constexpr int kLongestQuestion = 16 * 1024;
constexpr Duration kPauseAfterError{100};

// Names the socket through a descriptor of its directory, since its path may be too long.
bool AtSocketOf(int (*call)(int, const sockaddr*, socklen_t), int socket,
                const fs::path& run_directory) {
  const UniqueFd directory(::open(run_directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return directory &&
         AtUnixPath(call, socket,
                    "/proc/self/fd/" + std::to_string(directory.get()) + "/" + kControlSocket);
}

bool IsOfThisUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

// The calls of operators, without those of nodes. The kernel has confirmed the socket's owner, so
// each request is given the token.
RendezvousHandlers ForOperators(const RendezvousHandlers& handlers, const std::string& token) {
  RendezvousHandlers served;
  served.sync = [](const NodeReport&, const std::shared_ptr<PendingSync>& call) {
    call->Refuse({ErrorKind::kRefused, "no node can join a run here"});
  };
  served.cancel = [](const CallName&) {};
  served.status = handlers.status;
  served.control = [control = handlers.control, token](ControlRequest request) {
    request.token = token;
    return control(request);
  };
  served.ask = [ask = handlers.ask, token](AskStart start, std::unique_ptr<OperatorStream> stream) {
    start.token = token;
    ask(start, std::move(stream));
  };
  return served;
}

class ServedControlSocket final : public ControlSocket {
 public:
  ServedControlSocket(AsioLoop& loop, RendezvousHandlers handlers, UniqueFd listener)
      : loop_(loop),
        service_(loop, std::move(handlers)),
        acceptor_(loop.io(), boost::asio::local::stream_protocol(), listener.Release()),
        pause_(loop) {
    Accept();
  }
  ~ServedControlSocket() override {
    service_.Close();
    if (server_) {
      server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    }
  }

 private:
  void Accept() {
    acceptor_.async_accept(life_.Guard([this](boost::system::error_code error, UnixSocket socket) {
      if (error) {  // No descriptor is free: the caller waits in the backlog.
        pause_.ArmAt(loop_.Now() + kPauseAfterError, [this] { Accept(); });
        return;
      }
      if (connections_ < kMostConnections && IsOfThisUser(socket.native_handle())) {
        Serve(std::move(socket));
      }
      Accept();
    }));
  }

  // gRPC gets a duplicate. This one is woken once either end has closed the connection.
  void Serve(UnixSocket socket) {
    (void)::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);  // Asio's accept does not set it.
    const int fd = ::fcntl(socket.native_handle(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || !BeginServer()) {
      ::close(fd);
      return;
    }
    socket.native_non_blocking(true);
    ++connections_;
    const auto kept = std::make_shared<UnixSocket>(std::move(socket));
    kept->async_wait(UnixSocket::wait_error,
                     life_.Guard([this, kept](boost::system::error_code) { --connections_; }));
    grpc::AddInsecureChannelFromFd(server_.get(), fd);
  }

  bool BeginServer() {
    if (server_) {
      return true;
    }
    PrepareGrpc();
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kLongestQuestion);
    builder.SetMaxSendMessageSize(kMaxMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               kLeastPingIntervalMs);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (!server_) {
      Log(LogLevel::kWarning,
          "cannot answer `ddprun status` and other commands: the gRPC library did not start");
    }
    return server_ != nullptr;
  }

  AsioLoop& loop_;
  RendezvousService service_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  LoopTimer pause_;
  std::size_t connections_ = 0;
  std::unique_ptr<grpc::Server> server_;  // None: no operator has connected yet.
  const Lifetime life_;
};

}  // namespace

Result<std::unique_ptr<ControlSocket>> ControlSocket::Open(AsioLoop& loop,
                                                           const fs::path& run_directory,
                                                           const RendezvousHandlers& handlers,
                                                           const std::string& token) {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Set before bind, so that the file has this mode from its first moment.
  if (!listener || ::fchmod(listener.get(), 0600) != 0 ||
      !AtSocketOf(::bind, listener.get(), run_directory) ||
      ::listen(listener.get(), kMostConnections) != 0) {
    return SystemError("listen for ddprun status, drain and stop at",
                       (run_directory / kControlSocket).native(), errno);
  }
  return std::make_unique<ServedControlSocket>(loop, ForOperators(handlers, token),
                                               std::move(listener));
}

Result<UniqueFd> ConnectToControlSocket(const fs::path& run_directory, Duration timeout) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{timeout.count() / 1000, timeout.count() % 1000 * 1000};
  if (!socket || ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      !AtSocketOf(::connect, socket.get(), run_directory)) {
    Error error = SystemError("ask the run at", (run_directory / kControlSocket).native(), errno);
    error.kind = ErrorKind::kUnavailable;
    return error;
  }
  if (!IsOfThisUser(socket.get())) {  // Another user may have created the directory again.
    return Error{ErrorKind::kRefused, "'" + (run_directory / kControlSocket).native() +
                                          "' belongs to another user, so nothing is sent to it"};
  }
  return socket;
}

}  // namespace ddprun
