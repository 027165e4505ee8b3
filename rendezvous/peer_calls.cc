#include "rendezvous/peer_calls.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr std::size_t kCallersOfOne = 16;      // As many as streams may be open on one.
constexpr std::size_t kClosedRemembered = 64;  // Calls that were on their way come within moments.

bool OfSameCaller(const CallName& a, const CallName& b) {
  return a.run_id == b.run_id && a.node == b.node && a.incarnation == b.incarnation;
}

}  // namespace

std::string PlainPeer(std::string_view grpc_peer) {
  const auto scheme = grpc_peer.find(':');
  std::string_view rest =
      scheme == std::string_view::npos ? grpc_peer : grpc_peer.substr(scheme + 1);
  std::string plain;
  while (!rest.empty()) {
    const bool opens = rest.starts_with("%5B");
    const bool closes = rest.starts_with("%5D");
    plain += opens ? '[' : closes ? ']' : rest.front();
    rest.remove_prefix(opens || closes ? 3 : 1);
  }
  return plain;
}

std::string AddressOfPeer(std::string_view plain_peer) {
  plain_peer = plain_peer.substr(0, plain_peer.rfind(':'));
  if (plain_peer.starts_with('[') && plain_peer.ends_with(']')) {
    plain_peer = plain_peer.substr(1, plain_peer.size() - 2);
  }
  return std::string(plain_peer.substr(0, plain_peer.find('%')));
}

void PeerCalls::Opened(const std::string& peer) {
  open_[peer] = {};
  closed_.erase(peer);
}

bool PeerCalls::Called(const std::string& peer, const CallName& name) {
  if (const auto closed = closed_.find(peer); closed != closed_.end()) {
    if (closed->second.size() < kCallersOfOne) {
      closed->second.push_back(name);
    }
    return false;
  }
  const auto open = open_.find(peer);
  if (open == open_.end()) {
    return true;
  }
  Calls& calls = open->second;
  const auto known = std::find_if(calls.begin(), calls.end(),
                                  [&](const CallName& call) { return OfSameCaller(call, name); });
  if (known != calls.end()) {
    *known = name;
  } else if (calls.size() < kCallersOfOne) {
    calls.push_back(name);
  }
  return true;
}

std::vector<CallName> PeerCalls::Closed(const std::string& peer) {
  const auto open = open_.find(peer);
  if (open == open_.end()) {
    return {};
  }
  Calls calls = std::move(open->second);
  open_.erase(open);
  closed_[peer] = calls;
  latest_.push_back(peer);
  if (latest_.size() > kClosedRemembered) {
    closed_.erase(latest_.front());
    latest_.pop_front();
  }
  return calls;
}

bool PeerCalls::IsTold(const std::string& peer, const CallName& name) const {
  const auto closed = closed_.find(peer);
  return closed != closed_.end() &&
         std::find(closed->second.begin(), closed->second.end(), name) != closed->second.end();
}

}  // namespace ddprun
