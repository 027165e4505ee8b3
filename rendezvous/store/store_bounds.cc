// What one connection and all together may make the server keep, and for how long in silence.
#include "rendezvous/store/store_server.h"

#include <algorithm>

namespace ddprun {

void StoreServer::KeepBounds(StoreClientId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) {
    return;
  }
  Connection& connection = found->second;
  traffic_ -= connection.held;
  connection.held = connection.parser.held() + connection.output.held() + connection.unread.size();
  traffic_ += connection.held;
  if (connection.held > options_.max_connection_bytes) {
    Drop(id, "its unfinished request and unsent replies exceed " +
                 std::to_string(options_.max_connection_bytes) + " bytes");
  } else if (traffic_ > options_.max_traffic_bytes) {
    DropLargest();
  }
}

// All are looked at, so some more room is made than is needed now.
void StoreServer::DropLargest() {
  std::vector<std::pair<std::size_t, StoreClientId>> holders;
  holders.reserve(connections_.size());
  for (const auto& [id, connection] : connections_) {
    holders.emplace_back(connection.held, id);
  }
  std::sort(holders.rbegin(), holders.rend());
  const std::size_t enough = options_.max_traffic_bytes - options_.max_traffic_bytes / 8;
  for (const auto& [held, id] : holders) {
    if (traffic_ <= enough) {
      return;
    }
    Drop(id, "unfinished requests and unsent replies of all connections exceed " +
                 std::to_string(options_.max_traffic_bytes) + " bytes, and it holds the most");
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
