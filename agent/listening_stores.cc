#include "agent/listening_stores.h"

#include <poll.h>

#include <utility>

#include "common/log.h"
#include "rendezvous/listener/listen_socket.h"

namespace ddprun {

Result<void> ListeningStores::Bind() {
  if (listener_) {
    return {};
  }
  if (place_.literal) {
    offered_ = *place_.literal;
    listener_ = UniqueFd();
    return {};
  }
  offered_ = {place_.address, 0};
  ASSIGN_OR_RETURN(ListenSocket listener, ListenOn(offered_));
  offered_ = listener.endpoint;
  listener_ = std::move(listener.fd);
  return {};
}

Endpoint ListeningStores::Offer() {
  if (const Result<void> bound = Bind(); !bound) {
    Log(LogLevel::kWarning, bound.error().message);
  }
  return offered_;
}

void ListeningStores::Begin(const std::string& peers) {
  if (!listener_) {
    return;
  }
  if (!thread_) {
    thread_.emplace();
  }
  StoreOptions options = place_.options;
  options.allowed.AllowAlso(peers);
  store_ = std::make_unique<HostedStore>(*thread_, std::move(options),
                                         std::move(*std::exchange(listener_, {})));
  AdoptWaiting();
}

// A worker on another node may come before this node has heard of its generation.
void ListeningStores::OnClient(UniqueFd socket) {
  constexpr std::size_t kMaxWaiting = 4096;
  if (store_) {
    store_->Adopt(std::move(socket));
    return;
  }
  waiting_.push_back(std::move(socket));
  if (waiting_.size() > kMaxWaiting) {
    waiting_.pop_front();
  }
}

// Workers of an older generation are dead when a new one starts, so their connections have ended;
// what they still had to say must not reach the new store.
void ListeningStores::AdoptWaiting() {
  for (UniqueFd& client : std::exchange(waiting_, {})) {
    pollfd state{client.get(), POLLRDHUP, 0};
    if (::poll(&state, 1, 0) == 0) {
      store_->Adopt(std::move(client));
    }
  }
}

}  // namespace ddprun
