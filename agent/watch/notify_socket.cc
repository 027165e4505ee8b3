#include "agent/watch/notify_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/files.h"
#include "proto/memory_block.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// One each turn: a loop that waits again hears at once of what is left, and finding out that
// nothing is would cost as much as what came. So a flood never holds up the loop, either.
constexpr int kMaxPerTurn = 1;
constexpr int kMaxWaiting = 64;
// At the end nothing comes after it; what is left of a worker may go on sending.
constexpr int kMaxAtEnd = 4096;

// Room for "/", ten digits, and a process's number after a point.
bool Fits(const fs::path& directory) {
  return directory.native().size() + 20 < sizeof(sockaddr_un::sun_path);
}

Result<fs::path> MakeSocketDirectory(const fs::path& wanted) {
  if (Fits(wanted)) {
    RETURN_IF_ERROR(MakeDirectories(wanted, 0700));
    return wanted;
  }
  char short_one[] = "/tmp/ddprun-notify-XXXXXX";
  if (::mkdtemp(short_one) == nullptr) {
    return SystemError("make directory", short_one, errno);
  }
  return fs::path(short_one);
}

Result<UniqueFd> Bind(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Invalid("this path is too long for a socket", path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return SystemError("make the notify socket", path, errno);
  }
  // On the socket before bind, the mode is that of the file from its first moment.
  if (::fchmod(fd.get(), 0600) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0) {
    return SystemError("bind the notify socket", path, errno);
  }
  return fd;
}

// Removes the sockets (AskSocketBeside), pipes and dumps of torch (recorder_dump.h) that workers
// made beside theirs.
void RemoveWhatWorkersMade(const fs::path& directory) {
  constexpr int kMost = 10'000;
  std::error_code error;
  int looked = 0;
  for (fs::directory_iterator entry(directory, error), end;
       !error && entry != end && looked < kMost; entry.increment(error), ++looked) {
    ::unlink(entry->path().c_str());
  }
}

}  // namespace

Result<NotifyFiles> NotifyFiles::Make(const fs::path& directory, std::uint32_t workers) {
  NotifyFiles files;
  ASSIGN_OR_RETURN(files.directory_, MakeSocketDirectory(directory));
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    std::string path = (files.directory_ / std::to_string(rank)).native();
    ASSIGN_OR_RETURN(UniqueFd socket, Bind(path));
    files.paths_.push_back(std::move(path));
    files.sockets_.push_back(std::move(socket));
  }
  return files;
}

NotifyFiles::NotifyFiles(NotifyFiles&& other) noexcept {
  *this = std::move(other);
}

NotifyFiles& NotifyFiles::operator=(NotifyFiles&& other) noexcept {
  std::swap(directory_, other.directory_);
  std::swap(paths_, other.paths_);
  std::swap(sockets_, other.sockets_);
  return *this;
}

NotifyFiles::~NotifyFiles() {
  for (const std::string& path : paths_) {
    ::unlink(path.c_str());
  }
  if (!directory_.empty()) {
    RemoveWhatWorkersMade(directory_);
    ::rmdir(directory_.c_str());
  }
}

// Shared with waits in flight.
class NotifySockets::State : public std::enable_shared_from_this<State> {
 public:
  struct Socket {
    Socket(AsioLoop& loop, std::uint32_t rank, int fd)
        : local_rank(rank), descriptor(loop.io(), fd) {}
    std::uint32_t local_rank;
    boost::asio::posix::stream_descriptor descriptor;
  };

  State(AsioLoop& loop_in, OnNotification call) : loop(loop_in), on_notification(std::move(call)) {}

  void Wait(const std::shared_ptr<Socket>& socket);
  bool ReceiveFrom(std::uint32_t local_rank, int most);
  bool Receive(Socket& socket);
  SentDescriptor DescriptorOf(Received& message);
  bool ReceiveAll(Socket& socket, int most);
  void Close();

  AsioLoop& loop;
  OnNotification on_notification;
  std::vector<std::shared_ptr<Socket>> sockets;
  ForeignDescriptors descriptors;
};

void NotifySockets::State::Wait(const std::shared_ptr<Socket>& socket) {
  socket->descriptor.async_wait(boost::asio::posix::descriptor_base::wait_read,
                                [weak = weak_from_this(), socket](boost::system::error_code error) {
                                  const auto self = weak.lock();
                                  if (error || !self || !socket->descriptor.is_open()) {
                                    return;
                                  }
                                  self->ReceiveAll(*socket, kMaxPerTurn);
                                  if (socket->descriptor.is_open()) {
                                    self->Wait(socket);
                                  }
                                });
}

// True: nothing waits any more.
bool NotifySockets::State::ReceiveAll(Socket& socket, int most) {
  for (int i = 0; i < most; ++i) {
    if (!socket.descriptor.is_open() || !Receive(socket)) {
      return true;
    }
  }
  return false;
}

bool NotifySockets::State::ReceiveFrom(std::uint32_t local_rank, int most) {
  if (local_rank >= sockets.size()) {
    return true;
  }
  const std::shared_ptr<Socket> socket = sockets[local_rank];
  return ReceiveAll(*socket, most);
}

// False: nothing waits.
bool NotifySockets::State::Receive(Socket& socket) {
  char bytes[kMaxNotifyBytes];
  Received message = ReceiveWithDescriptors(socket.descriptor.native_handle(), bytes,
                                            descriptors.full() ? 0 : 1, MSG_DONTWAIT | MSG_TRUNC);
  if (message.size < 0) {
    return false;
  }
  const SentDescriptor sent = DescriptorOf(message);
  const std::size_t size = static_cast<std::size_t>(message.size);
  if (size <= sizeof bytes) {  // A longer one is dropped whole.
    on_notification(socket.local_rank, ParseNotification({bytes, size}), sent);
  }
  return true;
}

SentDescriptor NotifySockets::State::DescriptorOf(Received& message) {
  SentDescriptor sent{.cut = message.cut};
  if (!message.descriptors.empty()) {
    const ForeignFd low = descriptors.Take(std::move(message.descriptors.front()));
    UniqueFd lifted(::fcntl(low->get(), F_DUPFD_CLOEXEC, kAboveBlocks));
    if (lifted) {
      sent.file = descriptors.Take(std::move(lifted));
    } else {
      sent.cut = true;
    }
  }
  return sent;
}

void NotifySockets::State::Close() {
  for (const auto& socket : sockets) {
    boost::system::error_code ignored;
    socket->descriptor.close(ignored);
  }
  sockets.clear();
}

NotifySockets::NotifySockets(AsioLoop& loop, OnNotification on_notification)
    : state_(std::make_shared<State>(loop, std::move(on_notification))) {}

NotifySockets::~NotifySockets() {
  state_->Close();
}

void NotifySockets::Listen(NotifyFiles& files) {
  state_->Close();
  std::uint32_t rank = 0;
  for (UniqueFd& fd : files.sockets_) {
    auto socket = std::make_shared<State::Socket>(state_->loop, rank++, fd.Release());
    state_->sockets.push_back(socket);
    state_->Wait(socket);
  }
}

bool NotifySockets::ReceiveWaiting(std::uint32_t local_rank) {
  return state_->ReceiveFrom(local_rank, kMaxWaiting);
}

void NotifySockets::ReceiveFrom(std::uint32_t local_rank) {
  state_->ReceiveFrom(local_rank, kMaxAtEnd);
}

void NotifySockets::ReceiveFromAll() {
  for (std::uint32_t rank = 0; rank < state_->sockets.size(); ++rank) {
    ReceiveFrom(rank);
  }
}

void NotifySockets::Close() {
  state_->Close();
}

}  // namespace ddprun
