#include "rendezvous/operators_door.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/files.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using UnixSocket = boost::asio::local::stream_protocol::socket;

constexpr char kAsksStatus = 'D';
constexpr char kAsksControl = 'C';
constexpr char kAsksNodes = 'A';
constexpr std::size_t kMostCallers = 64;
constexpr std::uint32_t kLongestQuestion = 16 * 1024;
constexpr std::uint32_t kLongestAnswer = 64 << 20;
constexpr Duration kCallersPatience{5'000};
constexpr Duration kPauseAfterError{100};
using Head = std::array<char, 1 + sizeof(std::uint32_t)>;

Head HeadOf(std::uint8_t kind, std::uint32_t size) {
  Head head{static_cast<char>(kind)};
  std::memcpy(&head[1], &size, sizeof size);
  return head;
}

std::uint32_t SizeIn(const Head& head) {
  std::uint32_t size = 0;
  std::memcpy(&size, &head[1], sizeof size);
  return size;
}

// Names the socket through a descriptor of its directory, since its path may be too long.
struct DoorAddress {
  UniqueFd directory;
  sockaddr_un address{};

  explicit DoorAddress(const fs::path& run_directory)
      : directory(::open(run_directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    const std::string path =
        "/proc/self/fd/" + std::to_string(directory.get()) + "/" + kOperatorsDoor;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

bool IsOfThisUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

}  // namespace

class OperatorsDoor::State : public std::enable_shared_from_this<State> {
 public:
  State(AsioLoop& loop, RendezvousHandlers handlers, std::string token)
      : loop_(loop),
        handlers_(std::move(handlers)),
        token_(std::move(token)),
        acceptor_(loop.io()),
        pause_(loop) {}

  void Start(UniqueFd listener) {
    acceptor_.assign(boost::asio::local::stream_protocol(), listener.Release());
    Accept();
  }

  void Close() {
    closed_ = true;
    boost::system::error_code ignored;
    acceptor_.close(ignored);
  }

 private:
  struct Caller {
    explicit Caller(State& state, UnixSocket accepted)
        : socket(std::move(accepted)), limit(state.loop_), door(state.weak_from_this()) {
      ++state.callers_;
    }
    ~Caller() {
      if (const auto state = door.lock()) {
        --state->callers_;
      }
    }
    UnixSocket socket;
    LoopTimer limit;
    std::weak_ptr<State> door;
    Head head{};
    std::string text;
  };
  using Ending = boost::system::error_code;

  void Accept() {
    acceptor_.async_accept([self = shared_from_this()](Ending error, UnixSocket socket) {
      if (self->closed_ || error == boost::asio::error::operation_aborted) {
        return;
      }
      if (!error && self->callers_ < kMostCallers && IsOfThisUser(socket.native_handle())) {
        self->Hear(std::make_shared<Caller>(*self, std::move(socket)));
      }
      if (error) {  // No descriptor is free: the caller waits in the backlog.
        self->pause_.ArmAt(self->loop_.Now() + kPauseAfterError, [weak = self->weak_from_this()] {
          if (const auto state = weak.lock(); state && !state->closed_) {
            state->Accept();
          }
        });
        return;
      }
      self->Accept();
    });
  }

  void Hear(const std::shared_ptr<Caller>& caller) {
    caller->limit.ArmAt(loop_.Now() + kCallersPatience, [weak = std::weak_ptr(caller)] {
      if (const auto late = weak.lock()) {
        Ending ignored;
        late->socket.close(ignored);
      }
    });
    boost::asio::async_read(caller->socket, boost::asio::buffer(caller->head),
                            [self = shared_from_this(), caller](Ending error, std::size_t) {
                              const std::uint32_t size = SizeIn(caller->head);
                              if (error || size > kLongestQuestion) {
                                return;
                              }
                              caller->text.resize(size);
                              boost::asio::async_read(caller->socket,
                                                      boost::asio::buffer(caller->text),
                                                      [self, caller](Ending ending, std::size_t) {
                                                        if (!ending && !self->closed_) {
                                                          self->Answer(caller);
                                                        }
                                                      });
                            });
  }

  void Answer(const std::shared_ptr<Caller>& caller) {
    switch (caller->head[0]) {
      case kAsksStatus:
        return Write(caller, Describe(caller->text));
      case kAsksControl:
        return Write(caller, Control(caller->text));
      case kAsksNodes:
        return AskNodes(caller);
      default:
        return Write(caller, Error{ErrorKind::kInvalid, "unknown question"});
    }
  }

  static void Write(const std::shared_ptr<Caller>& caller, const Result<std::string>& answer) {
    const auto kind =
        static_cast<std::uint8_t>(answer ? 0 : 1 + static_cast<std::uint8_t>(answer.error().kind));
    caller->text = answer ? *answer : answer.error().message;
    caller->head = HeadOf(kind, static_cast<std::uint32_t>(caller->text.size()));
    const std::array<boost::asio::const_buffer, 2> parts = {boost::asio::buffer(caller->head),
                                                            boost::asio::buffer(caller->text)};
    boost::asio::async_write(caller->socket, parts, [caller](Ending, std::size_t) {});
  }

  Result<std::string> Describe(const std::string& question) {
    v1::DescribeRequest request;
    if (!request.ParseFromString(question) || request.run_id().size() > kMaxNameBytes) {
      return Error{ErrorKind::kInvalid, "malformed question"};
    }
    ASSIGN_OR_RETURN(const std::vector<RunStatus> runs, handlers_.status(request.run_id()));
    v1::DescribeReply reply;
    ToProto(runs, &reply);
    return reply.SerializeAsString();
  }

  Result<std::string> Control(const std::string& question) {
    v1::ControlRequest request;
    if (!request.ParseFromString(question)) {
      return Error{ErrorKind::kInvalid, "malformed question"};
    }
    ASSIGN_OR_RETURN(ControlRequest asked, ControlFromProto(request));
    asked.token = token_;  // The kernel has told the owner.
    ASSIGN_OR_RETURN(const std::string text, handlers_.control(asked));
    v1::ControlReply reply;
    reply.set_text(text.substr(0, kMaxTextBytes));
    return reply.SerializeAsString();
  }

  // A call that is answered when there is something to tell.
  class Parked final : public PendingAsk {
   public:
    explicit Parked(std::shared_ptr<Caller> caller)
        : PendingAsk(caller), caller_(std::move(caller)) {}
    ~Parked() override {
      if (caller_) {
        Refuse({ErrorKind::kUnavailable, "superseded"});
      }
    }
    void Answer(const AskReply& reply) override {
      v1::AskReply wire;
      ToProto(reply, &wire);
      Write(std::exchange(caller_, nullptr), wire.SerializeAsString());
    }
    void Refuse(const Error& error) override { Write(std::exchange(caller_, nullptr), error); }

   private:
    std::shared_ptr<Caller> caller_;
  };

  void AskNodes(const std::shared_ptr<Caller>& caller) {
    v1::AskRequest request;
    if (!request.ParseFromString(caller->text) || !handlers_.ask) {
      return Write(caller, Error{ErrorKind::kInvalid, "malformed question"});
    }
    Result<Asking> asking = AskingFromProto(request);
    if (!asking) {
      return Write(caller, asking.error());
    }
    asking->token = token_;  // The kernel has told the owner.
    handlers_.ask(*asking, std::make_shared<Parked>(caller));
    WatchEnd(caller);
  }

  // Nothing more is expected from a caller: if its socket becomes readable, it has closed.
  void WatchEnd(const std::shared_ptr<Caller>& caller) {
    caller->socket.async_wait(UnixSocket::wait_read, [self = shared_from_this(),
                                                      weak = std::weak_ptr(caller)](Ending error) {
      const auto gone = weak.lock();
      if (gone && !error && !self->closed_ && self->handlers_.gone) {
        self->handlers_.gone(gone.get());
      }
    });
  }

  AsioLoop& loop_;
  const RendezvousHandlers handlers_;
  const std::string token_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  LoopTimer pause_;
  std::size_t callers_ = 0;
  bool closed_ = false;
};

Result<std::unique_ptr<OperatorsDoor>> OperatorsDoor::Open(AsioLoop& loop,
                                                           const fs::path& run_directory,
                                                           RendezvousHandlers handlers,
                                                           std::string token) {
  const DoorAddress door(run_directory);
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Set before bind, so that the file has this mode from its first moment.
  if (!door.directory || !listener || ::fchmod(listener.get(), 0600) != 0 ||
      ::bind(listener.get(), door.get(), sizeof door.address) != 0 ||
      ::listen(listener.get(), kMostCallers) != 0) {
    return SystemError("listen for ddprun status, drain and stop at",
                       (run_directory / kOperatorsDoor).native(), errno);
  }
  auto state = std::make_shared<State>(loop, std::move(handlers), std::move(token));
  state->Start(std::move(listener));
  return std::unique_ptr<OperatorsDoor>(new OperatorsDoor(std::move(state)));
}

OperatorsDoor::~OperatorsDoor() {
  state_->Close();
}

namespace {

Result<UniqueFd> KnockAt(const fs::path& run_directory, Duration timeout) {
  const DoorAddress door(run_directory);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{timeout.count() / 1000, timeout.count() % 1000 * 1000};
  if (!door.directory || !socket ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      ::connect(socket.get(), door.get(), sizeof door.address) != 0) {
    Error error = SystemError("ask the run at", (run_directory / kOperatorsDoor).native(), errno);
    error.kind = ErrorKind::kUnavailable;
    return error;
  }
  if (!IsOfThisUser(socket.get())) {  // Another user may have created the directory again.
    return Error{ErrorKind::kRefused, "'" + (run_directory / kOperatorsDoor).native() +
                                          "' is another user's: nothing is asked there"};
  }
  return socket;
}

// Until `end` in total, however slowly the bytes come.
bool ReceiveExactly(int fd, char* bytes, std::size_t size,
                    std::chrono::steady_clock::time_point end) {
  while (size > 0) {
    const ssize_t got = ::recv(fd, bytes, size, 0);
    if (got <= 0 || std::chrono::steady_clock::now() > end) {
      return false;
    }
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

Result<std::string> AskAtDoor(const fs::path& run_directory, char kind, const std::string& question,
                              Duration timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  ASSIGN_OR_RETURN(const UniqueFd socket, KnockAt(run_directory, timeout));
  Head head = HeadOf(kind, static_cast<std::uint32_t>(question.size()));
  const std::string whole = std::string(head.data(), head.size()) + question;
  std::string answer;
  if (::send(socket.get(), whole.data(), whole.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(whole.size()) ||
      !ReceiveExactly(socket.get(), head.data(), head.size(), end) ||
      SizeIn(head) > kLongestAnswer) {
    return Error{ErrorKind::kUnavailable, "the run at '" + run_directory.native() +
                                              "' did not answer within " + FormatDuration(timeout)};
  }
  answer.resize(SizeIn(head));
  if (!ReceiveExactly(socket.get(), answer.data(), answer.size(), end)) {
    return Error{ErrorKind::kUnavailable, "the run at '" + run_directory.native() +
                                              "' ended while it answered, or took longer than " +
                                              FormatDuration(timeout)};
  }
  const int refused = static_cast<std::uint8_t>(head[0]);
  if (refused != 0) {
    const bool known = refused > 0 && refused <= 1 + static_cast<int>(ErrorKind::kSystem);
    return Error{known ? static_cast<ErrorKind>(refused - 1) : ErrorKind::kRefused, answer};
  }
  return answer;
}

}  // namespace

bool AnswersAtDoor(const fs::path& run_directory) {
  constexpr Duration kKnock{1'000};
  return KnockAt(run_directory, kKnock).has_value();
}

Result<std::vector<RunStatus>> AskStatusAtDoor(const fs::path& run_directory, const RunId& run_id,
                                               Duration timeout) {
  v1::DescribeRequest request;
  request.set_run_id(run_id);
  ASSIGN_OR_RETURN(const std::string answer,
                   AskAtDoor(run_directory, kAsksStatus, request.SerializeAsString(), timeout));
  v1::DescribeReply reply;
  if (!reply.ParseFromString(answer)) {
    return Error{ErrorKind::kRefused, "the run sent a malformed reply"};
  }
  return StatusFromProto(reply);
}

Result<std::string> AskControlAtDoor(const fs::path& run_directory, const ControlRequest& request,
                                     Duration timeout) {
  v1::ControlRequest wire;
  ToProto(request, &wire);
  ASSIGN_OR_RETURN(const std::string answer,
                   AskAtDoor(run_directory, kAsksControl, wire.SerializeAsString(), timeout));
  v1::ControlReply reply;
  if (!reply.ParseFromString(answer)) {
    return Error{ErrorKind::kRefused, "the run sent a malformed reply"};
  }
  return reply.text();
}

Result<AskReply> AskNodesAtDoor(const fs::path& run_directory, const Asking& asking,
                                Duration timeout) {
  v1::AskRequest wire;
  ToProto(asking, &wire);
  ASSIGN_OR_RETURN(const std::string answer,
                   AskAtDoor(run_directory, kAsksNodes, wire.SerializeAsString(), timeout));
  v1::AskReply reply;
  if (!reply.ParseFromString(answer)) {
    return Error{ErrorKind::kRefused, "the run sent a malformed reply"};
  }
  return AskReplyFromProto(reply);
}

}  // namespace ddprun
