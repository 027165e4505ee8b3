#include "trainer/group/shared_join.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/ids.h"

namespace ddprun {
namespace {

constexpr const char* kOffer = "shm/offer";
constexpr const char* kVerdict = "shm/verdict";
constexpr const char* kYes = "yes";
constexpr std::string_view kNo = "no: ";
constexpr timeval kPatience{10, 0};  // For a message that is on its way on this machine.

std::string AnswerOf(std::size_t rank) {
  return "shm/answer/" + std::to_string(rank);
}

std::optional<std::uint64_t> ParseHex(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value, 16);
  return error == std::errc{} && parsed == end ? std::optional(value) : std::nullopt;
}

struct Hello {
  std::uint64_t secret = 0;
  std::uint64_t rank = 0;
};

// In the abstract namespace: it ends with the socket.
std::pair<sockaddr_un, socklen_t> AddressOf(std::uint64_t name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = "ddprun-shm-" + Hex(name);
  std::copy(text.begin(), text.end(), address.sun_path + 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size())};
}

Error LastError(std::string_view tried) {
  return SystemError(tried, "shared memory", errno);
}

Result<void> SetPatience(int socket) {
  if (setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience) != 0) {
    return LastError("set the patience of a socket for");
  }
  return {};
}

Result<void> CheckSameUser(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return LastError("ask who wants");
  }
  if (peer.uid != geteuid()) {
    return Error{ErrorKind::kRefused, "a process of user " + std::to_string(peer.uid) +
                                          " is at the other end of the socket"};
  }
  return {};
}

// Descriptors travel beside one byte.
Result<void> SendFds(int socket, const std::vector<int>& fds) {
  return SendWithDescriptors(socket, "m", fds, 0) ? Result<void>() : LastError("hand over");
}

Result<std::vector<UniqueFd>> ReceiveFds(int socket, std::size_t count) {
  char byte = 0;
  Received received = ReceiveWithDescriptors(socket, {&byte, 1}, count, 0);
  if (received.size != 1 || received.descriptors.size() != count) {
    return Error{ErrorKind::kUnavailable, "rank 0 did not hand over the shared memory"};
  }
  return std::move(received.descriptors);
}

// Rank 0's side until all have the memory.
struct Host {
  std::uint64_t secret = 0;  // Proves that a rank is of this world, and that it sees this memory.
  UniqueFd listener;
  UniqueFd memory;
  std::vector<UniqueFd> read_ends;
  std::vector<UniqueFd> write_ends;

  static Result<Host> Open(std::size_t size, std::uint64_t name);
  Result<void> HandOver(std::size_t size);
};

Result<Host> Host::Open(std::size_t size, std::uint64_t name) {
  Host host;
  if (getrandom(&host.secret, sizeof host.secret, 0) != sizeof host.secret) {
    return LastError("draw a secret for");
  }
  host.memory = UniqueFd(memfd_create("ddprun-shm", MFD_CLOEXEC));
  if (!host.memory ||
      ftruncate(host.memory.get(),
                static_cast<off_t>(SharedMapping::BytesFor(size) + sizeof host.secret)) != 0 ||
      pwrite(host.memory.get(), &host.secret, sizeof host.secret,
             static_cast<off_t>(SharedMapping::BytesFor(size))) != sizeof host.secret) {
    return LastError("create");
  }
  for (std::size_t rank = 0; rank < size; ++rank) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return LastError("open a pipe per rank for");
    }
    host.read_ends.emplace_back(ends[0]);
    host.write_ends.emplace_back(ends[1]);
  }
  host.listener = UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto [address, length] = AddressOf(name);
  if (!host.listener ||
      bind(host.listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(host.listener.get(), static_cast<int>(size)) != 0) {
    return LastError("listen for ranks that want");
  }
  return host;
}

// Every other rank has said that it is connected and has sent its hello: nothing to wait for, also
// where a stranger came too.
Result<void> Host::HandOver(std::size_t size) {
  std::vector<UniqueFd> sockets;
  for (std::size_t done = 1; done < size;) {
    UniqueFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
      return LastError("accept a rank that wants");
    }
    Hello hello;
    if (!SetPatience(socket.get()) || !CheckSameUser(socket.get()) ||
        recv(socket.get(), &hello, sizeof hello, MSG_DONTWAIT) != sizeof hello ||
        hello.secret != secret || hello.rank == 0 || hello.rank >= size ||
        !write_ends[hello.rank]) {
      continue;  // Not one of us.
    }
    std::vector<int> fds = {memory.get(), write_ends[hello.rank].get()};
    for (const UniqueFd& end : read_ends) {
      fds.push_back(end.get());
    }
    RETURN_IF_ERROR(SendFds(socket.get(), fds));
    write_ends[hello.rank].Reset();  // Now that rank alone holds its lifeline.
    sockets.push_back(std::move(socket));
    ++done;
  }
  for (const UniqueFd& socket : sockets) {
    char mapped = 0;
    if (recv(socket.get(), &mapped, 1, 0) != 1 || mapped != 'y') {
      return Error{ErrorKind::kUnavailable, "a rank could not map it"};
    }
  }
  return {};
}

Result<SharedOutcome> Offer(Board& board, std::size_t size, std::chrono::milliseconds timeout) {
  std::uint64_t name = 0;
  const bool drawn = getrandom(&name, sizeof name, 0) == sizeof name;
  Result<Host> host = drawn ? Host::Open(size, name) : LastError("draw a name for");
  if (!host) {
    RETURN_IF_ERROR(board.Set(kOffer, std::string(kNo) + host.error().message));
    return SharedOutcome{nullptr, host.error().message};
  }
  RETURN_IF_ERROR(board.Set(kOffer, Hex(name) + Hex(host->secret)));
  std::string why_not;
  for (std::size_t rank = 1; rank < size; ++rank) {
    ASSIGN_OR_RETURN(const std::string answer, board.Get(AnswerOf(rank)));
    if (answer != kYes && why_not.empty()) {
      why_not = "rank " + std::to_string(rank) + " " + answer;
    }
  }
  std::unique_ptr<SharedWorld> world;
  if (why_not.empty()) {
    const Result<void> handed = host->HandOver(size);
    Result<SharedMapping> mapping =
        SharedMapping::Map(host->memory.get(), SharedMapping::BytesFor(size));
    if (handed && mapping) {
      host->read_ends[0].Reset();
      world = std::make_unique<SharedWorld>(
          *std::move(mapping),
          Lifelines{std::move(host->write_ends[0]), std::move(host->read_ends)}, 0, size, timeout);
    } else {
      why_not = handed ? mapping.error().message : handed.error().message;
    }
  }
  RETURN_IF_ERROR(board.Set(kVerdict, world ? kYes : why_not));
  return SharedOutcome{std::move(world), why_not};
}

// A rank other than 0: connected to rank 0, and known to it.
Result<UniqueFd> Connect(std::uint64_t name, const Hello& hello) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto [address, length] = AddressOf(name);
  if (!socket || connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return Error{ErrorKind::kUnavailable, std::string("does not reach rank 0's socket (") +
                                              std::strerror(errno) +
                                              "): another machine or network namespace"};
  }
  RETURN_IF_ERROR(SetPatience(socket.get()));
  RETURN_IF_ERROR(CheckSameUser(socket.get()));
  if (send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) {
    return LastError("ask rank 0 for");
  }
  return socket;
}

Result<std::unique_ptr<SharedWorld>> Receive(int socket, const Hello& hello, std::size_t size,
                                             std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(std::vector<UniqueFd> fds, ReceiveFds(socket, size + 2));
  const std::size_t bytes = SharedMapping::BytesFor(size);
  std::uint64_t seen = 0;
  if (pread(fds[0].get(), &seen, sizeof seen, static_cast<off_t>(bytes)) != sizeof seen ||
      seen != hello.secret) {
    return Error{ErrorKind::kInvalid, "the memory that was handed over is not rank 0's"};
  }
  ASSIGN_OR_RETURN(SharedMapping mapping, SharedMapping::Map(fds[0].get(), bytes));
  Lifelines lifelines;
  lifelines.own = std::move(fds[1]);
  for (std::size_t rank = 0; rank < size; ++rank) {
    lifelines.peers.push_back(rank == hello.rank ? UniqueFd() : std::move(fds[rank + 2]));
  }
  if (send(socket, "y", 1, MSG_NOSIGNAL) != 1) {
    return LastError("confirm");
  }
  return std::make_unique<SharedWorld>(std::move(mapping), std::move(lifelines), hello.rank, size,
                                       timeout);
}

Result<SharedOutcome> Answer(Board& board, std::size_t rank, std::size_t size,
                             std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const std::string offer, board.Get(kOffer));
  if (offer.starts_with(kNo)) {
    return SharedOutcome{nullptr, offer.substr(kNo.size())};
  }
  const std::optional<std::uint64_t> name = ParseHex(std::string_view(offer).substr(0, 16));
  const std::optional<std::uint64_t> secret =
      ParseHex(offer.size() > 16 ? std::string_view(offer).substr(16) : std::string_view());
  if (!name || !secret) {
    return Invalid("rank 0's offer of shared memory is not one", offer);
  }
  const Hello hello{*secret, rank};
  const Result<UniqueFd> socket = Connect(*name, hello);
  RETURN_IF_ERROR(board.Set(AnswerOf(rank), socket ? kYes : socket.error().message));
  std::unique_ptr<SharedWorld> world;
  if (socket) {
    if (auto received = Receive(socket->get(), hello, size, timeout)) {
      world = *std::move(received);
    } else {
      shutdown(socket->get(), SHUT_RDWR);  // Rank 0 waits no longer.
    }
  }
  ASSIGN_OR_RETURN(const std::string verdict, board.Get(kVerdict));
  if (verdict != kYes || !world) {
    return SharedOutcome{nullptr, verdict};
  }
  return SharedOutcome{std::move(world), ""};
}

}  // namespace

Result<SharedOutcome> JoinShared(Board& board, std::size_t rank, std::size_t size,
                                 std::chrono::milliseconds timeout) {
  if (size > kMostSharedRanks) {
    return SharedOutcome{nullptr, "it is made for " + std::to_string(kMostSharedRanks) +
                                      " ranks at most, these are " + std::to_string(size)};
  }
  return rank == 0 ? Offer(board, size, timeout) : Answer(board, rank, size, timeout);
}

}  // namespace ddprun
