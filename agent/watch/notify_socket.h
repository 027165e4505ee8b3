// The agent's side of proto/notify.h: one unix datagram socket per worker, so that the sender is
// known without trusting it.
//
// Bounded: one datagram per socket and loop iteration is read; a flood waits in the socket (and is
// lost there), not in the agent. So are their descriptors: one for each datagram.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/watch/memory_store.h"
#include "common/asio_loop.h"
#include "common/files.h"
#include "common/result.h"
#include "proto/notify.h"

namespace ddprun {

// The sockets of one generation, and their files: these go with the object. Waits for the disk that
// they are on: nothing for the loop.
class NotifyFiles {
 public:
  // <directory>/<local rank>, mode 0600, in a directory of their own; in one under /tmp where that
  // path is too long for a socket.
  static Result<NotifyFiles> Make(const std::filesystem::path& directory, std::uint32_t workers);
  NotifyFiles() = default;
  NotifyFiles(NotifyFiles&& other) noexcept;
  NotifyFiles& operator=(NotifyFiles&& other) noexcept;
  ~NotifyFiles();

  // By local rank, for WorkerEnv::notify_socket.
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  friend class NotifySockets;
  std::filesystem::path directory_;
  std::vector<std::string> paths_;
  std::vector<UniqueFd> sockets_;
};

class NotifySockets {
 public:
  using OnNotification =
      std::function<void(std::uint32_t local_rank, const Notification&, const SentDescriptor&)>;

  NotifySockets(AsioLoop& loop, OnNotification on_notification);
  ~NotifySockets();
  NotifySockets(const NotifySockets&) = delete;
  NotifySockets& operator=(const NotifySockets&) = delete;

  // Replaces those of an earlier generation.
  void Listen(NotifyFiles& files);

  // Receives all that a worker sent before its end, so that this comes before the news of the end.
  void ReceiveFrom(std::uint32_t local_rank);

  // And what its children said after that.
  void ReceiveFromAll();

  // Nothing is called back any more.
  void Close();

 private:
  struct Socket {
    Socket(AsioLoop& loop, std::uint32_t rank, int fd)
        : local_rank(rank), descriptor(loop.io(), fd) {}

    std::uint32_t local_rank;
    boost::asio::posix::stream_descriptor descriptor;
  };

  void Wait(const std::shared_ptr<Socket>& socket);
  bool Receive(Socket& socket);
  SentDescriptor DescriptorOf(Received& message);

  AsioLoop& loop_;
  const OnNotification on_notification_;
  std::vector<std::shared_ptr<Socket>> sockets_;
  ForeignDescriptors descriptors_;
};

}  // namespace ddprun
