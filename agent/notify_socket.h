// The agent's side of proto/notify.h: one unix datagram socket per worker, so that the sender is
// known without trusting it.
//
// Bounded: a few datagrams per socket and loop turn are read; a flood waits in the socket (and is
// lost there), not in the agent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/loop.h"
#include "common/result.h"
#include "proto/notify.h"

namespace ddprun {

class NotifySockets {
 public:
  using OnNotification = std::function<void(std::uint32_t local_rank, const Notification&)>;

  NotifySockets(Loop& loop, OnNotification on_notification);
  ~NotifySockets();
  NotifySockets(const NotifySockets&) = delete;
  NotifySockets& operator=(const NotifySockets&) = delete;

  // Sockets <run_directory>/notify/<local rank>, mode 0600, replacing those of an earlier
  // generation; in a new directory under /tmp where that path is too long for a socket. Returns
  // the paths by local rank, for WorkerEnv::notify_socket.
  Result<std::vector<std::string>> Open(const std::filesystem::path& run_directory,
                                        std::uint32_t workers);

  // Nothing is called back any more; the files are removed.
  void Close();

 private:
  class State;
  std::shared_ptr<State> state_;  // Shared with waits in flight.
};

}  // namespace ddprun
