// Accepts the connections of the one port and passes each to the handler of its protocol, which its
// first bytes tell.
//
// Peeks at the bytes without taking them, so the handler gets its protocol whole. Answers HTTP
// itself. A connection of an unknown protocol, or a silent one, is closed. Bytes and times are
// bounded. At most max_undecided connections are undecided, of one address at most
// max_undecided_of_one, so that a flood closes only connections of its own address; if descriptors
// are few, an eighth of them. Closed connections are counted and logged, a few lines in ten seconds
// at most.
//
//   accepted --HTTP/2--------> handlers.grpc; unset: the call is refused (options.refusal), closed
//            --TLS-----------> handlers.tls; unset: refused by a TLS alert, closed
//            --VALIDATE------> handlers.store
//            --request line--> /healthz: a short reply, closed; else handlers.http, with what was
//                              read; unset: a short reply, closed
//            --anything else, silence, too many--> closed
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/asio_loop.h"
#include "common/files.h"
#include "common/lifetime.h"
#include "common/time.h"
#include "rendezvous/listener/http.h"
#include "rendezvous/listener/rejected.h"

namespace ddprun {

struct AcceptorOptions {
  // For the first bytes, or a whole HTTP request: too short closes slow clients, too long keeps
  // silent connections.
  Duration patience{10'000};
  // Connections whose protocol is not known yet: beyond it the oldest is closed, so too few lose
  // nodes of a large run that connect at one moment.
  std::size_t max_undecided = 1024;
  // The same of one address: too few close connections of many nodes behind one address.
  std::size_t max_undecided_of_one = 512;
  // For the first call of a gRPC connection: too short closes nodes of a busy machine, too long
  // keeps connections without a caller.
  Duration call_patience{30'000};
  // The answer to GET /healthz, which names the run: by a wrong one nodes take this server for
  // another run's.
  Health health;
  // Why calls without TLS are refused; empty: they are closed without a reason.
  std::string refusal;
};

// Each gets a socket that is connected, non-blocking and close-on-exec. An unset one closes it.
struct AcceptorHandlers {
  std::function<void(UniqueFd)> grpc;
  std::function<void(const std::string& address)> refused;  // Called if grpc is unset.
  std::function<void(UniqueFd)> tls;
  std::function<void(UniqueFd)> store;
  std::function<void(UniqueFd, std::string begun)> http;
};

class Acceptor {
 public:
  Acceptor(AsioLoop& loop, AcceptorOptions options, AcceptorHandlers handlers);
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `listener` listens and is non-blocking.
  void Start(UniqueFd listener);

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  enum class Speaks { kUnknown, kHttp, kHttp2 };
  struct PendingConnection {
    Descriptor socket;
    Time deadline;
    std::size_t seen = 0;  // First bytes looked at.
    std::string request;   // Of an HTTP client: bytes that were read, not only peeked at.
    Speaks speaks = Speaks::kUnknown;
    bool told = false;  // The refusal of its call was sent.
    std::string address;
  };
  // In order of arrival, so of deadlines.
  using PendingConnections = std::map<std::uint64_t, PendingConnection>;

  void WaitForConnections();
  void AcceptSome();
  void Admit(int fd, const std::string& address);
  void MakeRoomFor(const std::string& address);
  void WaitForBytes(std::uint64_t id, PendingConnection& pending);
  void OnReadable(PendingConnections::iterator pending);
  void Decide(PendingConnections::iterator pending);
  void ReadRequest(PendingConnections::iterator pending);
  void ReadCall(PendingConnections::iterator pending);
  void HandOver(PendingConnections::iterator pending, const std::function<void(UniqueFd)>& to);
  void Remove(PendingConnections::iterator pending);
  void Reject(PendingConnections::iterator pending, std::string_view reason);
  void ArmExpiry();

  AsioLoop& loop_;
  const AcceptorOptions options_;
  AcceptorHandlers handlers_;
  Descriptor listener_;
  RejectedConnections rejected_;
  RateLimitedLog lines_;
  LoopTimer expiry_;
  LoopTimer pause_;
  PendingConnections pending_;
  // The pending connections of each address, oldest first.
  std::map<std::string, std::set<std::uint64_t>> of_address_;
  std::uint64_t next_id_ = 0;
  const Lifetime life_;
};

}  // namespace ddprun
