// The calls that each connection carried, so that a connection that closes between two calls is
// known as the loss of a caller and not only as silence.
//
// gRPC tells of a closed connection through the calls that are open on it, and of nothing else. An
// agent is between two calls for the time its next report takes, so one that is killed just then
// would be missed until its lease ends. Decides nothing about nodes; holds no socket.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/transport.h"

namespace ddprun {

// "1.2.3.4:5", "[::1]:5" of gRPC's "ipv4:1.2.3.4:5", "ipv6:%5B::1%5D:5", "ipv6:[::1]:5".
std::string PlainPeer(std::string_view grpc_peer);
// Of that: without the port.
std::string AddressOfPeer(std::string_view plain_peer);

class PeerCalls {
 public:
  void Opened(const std::string& peer);
  // A call arrived. False: its connection has closed already, and no caller waits for the answer.
  // Calls of connections whose opening was not seen here are not followed.
  bool Called(const std::string& peer, const CallName& name);
  // The newest call of each caller, whose loss is to be reported now.
  std::vector<CallName> Closed(const std::string& peer);
  // Whether Closed, or a Called that was false, named this call: gRPC may tell of it as well.
  bool IsTold(const std::string& peer, const CallName& name) const;

 private:
  using Calls = std::vector<CallName>;  // One of each caller, few: a proxy may carry several.
  std::map<std::string, Calls> open_;
  std::map<std::string, Calls> closed_;  // The latest, with the calls that were reported with them.
  std::deque<std::string> latest_;       // Closed ones, in order; each is in closed_ or forgotten.
};

}  // namespace ddprun
