// What one connection and all together may make the server keep, and for how long in silence.
#include "rendezvous/store/store_server.h"

#include <malloc.h>

#include <algorithm>

namespace ddprun {
namespace {

constexpr std::size_t kWorthGivingBack = 64 << 20;

}  // namespace

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
  const StoreReplySize reply = table_.ReplySize(request);
  if (reply.sent > options_.limits.request_bytes) {
    Drop(id, "it asked for a reply of " + std::to_string(reply.sent) + " bytes where at most " +
                 std::to_string(options_.limits.request_bytes) + " may be");
    return false;
  }
  Charge(connection);
  connection.charged += reply.built;
  traffic_ += reply.built;
  KeepBounds(id, connection, reply.sent);
  return connections_.contains(id);
}

void StoreServer::BoundTraffic(StoreClientId id) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) {
    Charge(found->second);
    KeepBounds(id, found->second, 0);
  }
  GiveMemoryBack();
}

// Else what many answers took stays with this process until something else needs it here.
void StoreServer::GiveMemoryBack() {
  most_traffic_ = std::max(most_traffic_, traffic());
  if (most_traffic_ > kWorthGivingBack && traffic() < most_traffic_ / 8) {
    most_traffic_ = traffic();
    ::malloc_trim(0);
  }
}

// `more`: that it is about to be sent.
void StoreServer::KeepBounds(StoreClientId id, const Connection& connection, std::size_t more) {
  const std::size_t open =
      connection.parser.held() + connection.output.bytes() + connection.unread.size() + more;
  if (open > options_.max_connection_bytes) {
    Drop(id, "unfinished requests and unsent replies of more than " +
                 std::to_string(options_.max_connection_bytes) + " bytes");
  }
  if (traffic() > options_.max_traffic_bytes) {
    DropLargest();
  }
}

// What a value takes is free when its last reader is gone, so each has a share. All are looked at,
// piece by piece: until there is room for a while.
void StoreServer::DropLargest() {
  std::vector<std::pair<std::size_t, StoreClientId>> holders;
  holders.reserve(connections_.size());
  for (const auto& [id, connection] : connections_) {
    holders.emplace_back(connection.charged - connection.output.kept() + connection.output.Share(),
                         id);
  }
  std::sort(holders.rbegin(), holders.rend());
  const std::size_t enough = options_.max_traffic_bytes - options_.max_traffic_bytes / 8;
  for (const auto& [share, id] : holders) {
    if (traffic() <= enough) {
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
