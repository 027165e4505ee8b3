// What one connection and all together may make the server keep, and for how long in silence.
#include "rendezvous/store/store_server.h"

#include <algorithm>

namespace ddprun {

void StoreServer::Charge(Connection& connection) {
  traffic_ -= connection.charged;
  connection.charged =
      connection.parser.held() + connection.output.kept() + connection.unread.size();
  traffic_ += connection.charged;
}

// Before anything of the answer is built, since a short question may have a long one. Until then
// it counts as if it were.
bool StoreServer::HasRoomFor(StoreClientId id, Connection& connection,
                             const StoreRequest& request) {
  const std::size_t reply = table_.ReplyBytes(request);
  if (reply > options_.limits.request_bytes) {
    Drop(id, "it asked for a reply of " + std::to_string(reply) + " bytes where at most " +
                 std::to_string(options_.limits.request_bytes) + " may be");
    return false;
  }
  Charge(connection);
  connection.charged += reply;
  traffic_ += reply;
  KeepBounds(id, connection);
  return connections_.contains(id);
}

void StoreServer::BoundTraffic(StoreClientId id) {
  ChargeNext();
  const auto found = connections_.find(id);
  if (found != connections_.end()) {
    Charge(found->second);
    KeepBounds(id, found->second);
  }
}

// Its share of a value grows when others let go of that, and nobody tells it.
void StoreServer::ChargeNext() {
  auto next = connections_.upper_bound(last_charged_);
  next = next == connections_.end() ? connections_.begin() : next;
  if (next != connections_.end()) {
    last_charged_ = next->first;
    Charge(next->second);
  }
}

void StoreServer::KeepBounds(StoreClientId id, const Connection& connection) {
  if (connection.charged > options_.max_connection_bytes) {
    Drop(id, "unfinished requests and unsent replies of more than " +
                 std::to_string(options_.max_connection_bytes) + " bytes");
  }
  while (traffic_ > options_.max_traffic_bytes) {
    const auto largest = std::max_element(
        connections_.begin(), connections_.end(),
        [](const auto& a, const auto& b) { return a.second.charged < b.second.charged; });
    Drop(largest->first, "unfinished requests and unsent replies of all connections exceed " +
                             std::to_string(options_.max_traffic_bytes) +
                             " bytes, and it holds the most");
  }
}

// Who floods with connections that say nothing pushes out its own; a client says VALIDATE at once.
void StoreServer::BoundSilent() {
  while (silent_until_.size() > options_.max_silent) {
    const StoreClientId id = silent_until_.front().second;
    silent_until_.pop_front();
    const auto found = connections_.find(id);
    if (found != connections_.end() && !found->second.parser.validated()) {
      Drop(id, "it said nothing, and more than " + std::to_string(options_.max_silent) +
                   " others came");
    }
  }
}

void StoreServer::ExpireSilent() {
  const Time now = loop_.Now();
  while (!silent_until_.empty() && silent_until_.front().first <= now) {
    const StoreClientId id = silent_until_.front().second;
    silent_until_.pop_front();
    const auto found = connections_.find(id);
    if (found != connections_.end() && !found->second.parser.validated()) {
      Drop(id, "it did not say what it is within " + FormatDuration(options_.validate_timeout));
    }
  }
  if (!silent_until_.empty()) {
    silence_.ArmAt(silent_until_.front().first, [this] { ExpireSilent(); });
  }
}

}  // namespace ddprun
