#include "rendezvous/store/store_thread.h"

#include <atomic>
#include <optional>
#include <utility>

namespace ddprun {

struct HostedStore::Place {
  std::shared_ptr<std::atomic<bool>> over = std::make_shared<std::atomic<bool>>(false);
  std::optional<StoreServer> server;
};

StoreThread::StoreThread() : thread_([this] { loop_.Run(); }) {}

StoreThread::~StoreThread() {
  loop_.Post([this] { loop_.Stop(); });  // Behind the ends of its stores.
  thread_.join();
}

HostedStore::HostedStore(StoreThread& thread, StoreOptions options, UniqueFd listener)
    : loop_(thread.loop()), place_(std::make_shared<Place>()) {
  const auto shared = std::make_shared<UniqueFd>(std::move(listener));
  options.over = place_->over;
  loop_.Post([place = place_, &loop = loop_, options = std::move(options), shared] {
    place->server.emplace(loop, options);
    if (*shared) {
      place->server->Serve(std::move(*shared));
    }
  });
}

HostedStore::~HostedStore() {
  *place_->over = true;
  loop_.Post([place = place_] { place->server.reset(); });
}

void HostedStore::Adopt(UniqueFd client) {
  const auto shared = std::make_shared<UniqueFd>(std::move(client));
  loop_.Post([place = place_, shared] { place->server->Adopt(shared->Release()); });
}

}  // namespace ddprun
