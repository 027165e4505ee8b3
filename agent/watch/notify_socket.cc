#include "agent/watch/notify_socket.h"

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

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// The rest waits for the next turn, so that a flood never holds up the loop.
constexpr int kMaxPerTurn = 16;

// Room for "/", ten digits and the end.
bool Fits(const fs::path& directory) {
  return directory.native().size() + 12 < sizeof(sockaddr_un::sun_path);
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
  void Receive(Socket& socket);
  void Close();

  AsioLoop& loop;
  OnNotification on_notification;
  std::vector<std::shared_ptr<Socket>> sockets;
};

void NotifySockets::State::Wait(const std::shared_ptr<Socket>& socket) {
  socket->descriptor.async_wait(boost::asio::posix::descriptor_base::wait_read,
                                [weak = weak_from_this(), socket](boost::system::error_code error) {
                                  const auto self = weak.lock();
                                  if (error || !self || !socket->descriptor.is_open()) {
                                    return;
                                  }
                                  self->Receive(*socket);
                                  if (socket->descriptor.is_open()) {
                                    self->Wait(socket);
                                  }
                                });
}

void NotifySockets::State::Receive(Socket& socket) {
  for (int i = 0; i < kMaxPerTurn && socket.descriptor.is_open(); ++i) {
    char bytes[kMaxNotifyBytes];
    const ssize_t got =
        ::recv(socket.descriptor.native_handle(), bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0) {
      return;
    }
    if (static_cast<std::size_t>(got) <= sizeof bytes) {  // A longer one is dropped whole.
      on_notification(socket.local_rank, ParseNotification({bytes, static_cast<std::size_t>(got)}));
    }
  }
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

void NotifySockets::ReceiveFrom(std::uint32_t local_rank) {
  if (local_rank < state_->sockets.size()) {
    const std::shared_ptr<State::Socket> socket = state_->sockets[local_rank];
    state_->Receive(*socket);
  }
}

void NotifySockets::Close() {
  state_->Close();
}

}  // namespace ddprun
