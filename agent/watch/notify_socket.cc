#include "agent/watch/notify_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "common/files.h"
#include "proto/memory_block.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// At the end nothing comes after it; processes that a worker left may continue to send.
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
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return SystemError("make the notify socket", path, errno);
  }
  // On the socket before bind, the mode is that of the file from its first moment.
  if (::fchmod(fd.get(), 0600) != 0 || !AtUnixPath(::bind, fd.get(), path) ||
      ::chmod(path.c_str(), 0600) != 0) {
    return SystemError("bind the notify socket", path, errno);
  }
  return fd;
}

// Removes the sockets (AskSocketBeside), pipes and dumps of torch (recorder_dump.h) that workers
// made beside theirs.
void RemoveWhatWorkersMade(const fs::path& directory) {
  for (const fs::path& path : EntriesOf(directory, 10'000)) {
    ::unlink(path.c_str());
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

NotifySockets::NotifySockets(AsioLoop& loop, OnNotification on_notification)
    : loop_(loop), on_notification_(std::move(on_notification)) {}

NotifySockets::~NotifySockets() {
  Close();
}

void NotifySockets::Listen(NotifyFiles& files) {
  Close();
  std::uint32_t rank = 0;
  for (UniqueFd& fd : files.sockets_) {
    auto socket = std::make_shared<Socket>(loop_, rank++, fd.Release());
    sockets_.push_back(socket);
    Wait(socket);
  }
}

// One that is open has its owner.
void NotifySockets::Wait(const std::shared_ptr<Socket>& socket) {
  socket->descriptor.async_wait(boost::asio::posix::descriptor_base::wait_read,
                                [this, socket](boost::system::error_code error) {
                                  if (error || !socket->descriptor.is_open()) {
                                    return;
                                  }
                                  // One: a loop that waits again hears at once of what is
                                  // left, and finding out that nothing is would cost as much
                                  // as what came. So a flood never holds up the loop, either.
                                  Receive(*socket);
                                  if (socket->descriptor.is_open()) {
                                    Wait(socket);
                                  }
                                });
}

// False: nothing waits.
bool NotifySockets::Receive(Socket& socket) {
  char bytes[kMaxNotifyBytes];
  Received message = ReceiveWithDescriptors(socket.descriptor.native_handle(), bytes,
                                            descriptors_.full() ? 0 : 1, MSG_DONTWAIT | MSG_TRUNC);
  if (message.size < 0) {
    return false;
  }
  const SentDescriptor sent = DescriptorOf(message);
  const std::size_t size = static_cast<std::size_t>(message.size);
  if (size <= sizeof bytes) {  // A longer one is dropped whole.
    on_notification_(socket.local_rank, ParseNotification({bytes, size}), sent);
  }
  return true;
}

SentDescriptor NotifySockets::DescriptorOf(Received& message) {
  SentDescriptor sent{.cut = message.cut};
  if (!message.descriptors.empty()) {
    const ForeignFd low = descriptors_.Take(std::move(message.descriptors.front()));
    UniqueFd lifted(::fcntl(low->get(), F_DUPFD_CLOEXEC, kAboveBlocks));
    if (lifted) {
      sent.file = descriptors_.Take(std::move(lifted));
    } else {
      sent.cut = true;
    }
  }
  return sent;
}

void NotifySockets::Close() {
  for (const auto& socket : sockets_) {
    boost::system::error_code ignored;
    socket->descriptor.close(ignored);
  }
  sockets_.clear();
}

void NotifySockets::ReceiveFrom(std::uint32_t local_rank) {
  if (local_rank >= sockets_.size()) {
    return;
  }
  const std::shared_ptr<Socket> socket = sockets_[local_rank];
  for (int i = 0; i < kMaxAtEnd && socket->descriptor.is_open() && Receive(*socket); ++i) {
  }
}

void NotifySockets::ReceiveFromAll() {
  for (std::uint32_t rank = 0; rank < sockets_.size(); ++rank) {
    ReceiveFrom(rank);
  }
}

}  // namespace ddprun
