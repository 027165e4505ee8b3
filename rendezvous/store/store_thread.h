// A thread of its own for the workers' stores, so that a busy client, authenticated or not,
// does not keep the agent's loop from its work.
//
// Decides nothing. Orders for a store are posted there and carried out in that order; nothing comes
// back, and only the destructor waits. A store and its connections live on that thread alone; its
// owner holds a handle.
#pragma once

#include <memory>
#include <thread>

#include "common/asio_loop.h"
#include "common/files.h"
#include "rendezvous/store/store_server.h"

namespace ddprun {

class StoreThread {
 public:
  StoreThread();
  ~StoreThread();  // After every HostedStore. Waits for the loop iteration that the thread is in.
  StoreThread(const StoreThread&) = delete;
  StoreThread& operator=(const StoreThread&) = delete;

  AsioLoop& loop() { return loop_; }

 private:
  AsioLoop loop_;
  std::thread thread_;
};

// A store from its generation's beginning to its end.
class HostedStore {
 public:
  // `listener`: where its clients come; none: they are handed over.
  HostedStore(StoreThread& thread, StoreOptions options, UniqueFd listener);
  ~HostedStore();  // Its connections end soon after.
  HostedStore(const HostedStore&) = delete;
  HostedStore& operator=(const HostedStore&) = delete;

  void Adopt(UniqueFd client);

 private:
  struct Place;
  AsioLoop& loop_;
  std::shared_ptr<Place> place_;  // Shared with what is posted; used on the thread alone.
};

}  // namespace ddprun
