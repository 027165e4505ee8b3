#include "trainer/group/shared_join.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/ids.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr const char* kOffer = "shm/offer";
constexpr const char* kVerdict = "shm/verdict";
constexpr const char* kYes = "yes";
constexpr std::string_view kNo = "no: ";

std::string AnswerOf(std::size_t rank) {
  return "shm/answer/" + std::to_string(rank);
}

Error LastError(std::string_view tried) {
  return SystemError(tried, "shared memory", errno);
}

// Rank 0's side until all have the memory.
struct Host {
  std::string name;  // Random, so that no other process has a memory of this name.
  UniqueFd memory;
  std::vector<UniqueFd> read_ends;
  std::vector<UniqueFd> write_ends;

  static Result<Host> Open(std::size_t size);
  std::string Offer() const;
};

Result<Host> Host::Open(std::size_t size) {
  Host host;
  host.name = "ddprun-shm-" + Hex(RandomBits());
  host.memory = UniqueFd(memfd_create(host.name.c_str(), MFD_CLOEXEC));
  if (!host.memory || ftruncate(host.memory.get(), static_cast<off_t>(SharedBytes(size))) != 0) {
    return LastError("create");
  }
  for (std::size_t rank = 0; rank < size; ++rank) {
    ASSIGN_OR_RETURN(Pipe lifeline, MakePipe());
    host.read_ends.push_back(std::move(lifeline.reader));
    host.write_ends.push_back(std::move(lifeline.writer));
  }
  return host;
}

// Its descriptors by their numbers: "PID NAME MEMORY READ WRITE ...", with both ends of each rank's
// lifeline.
std::string Host::Offer() const {
  std::ostringstream text;
  text << getpid() << ' ' << name << ' ' << memory.get();
  for (std::size_t rank = 0; rank < read_ends.size(); ++rank) {
    text << ' ' << read_ends[rank].get() << ' ' << write_ends[rank].get();
  }
  return text.str();
}

Result<SharedOutcome> Offer(Board& board, std::size_t size, std::chrono::milliseconds timeout) {
  Result<Host> host = Host::Open(size);
  if (!host) {
    RETURN_IF_ERROR(board.Set(kOffer, std::string(kNo) + host.error().message));
    return SharedOutcome{nullptr, host.error().message};
  }
  RETURN_IF_ERROR(board.Set(kOffer, host->Offer()));
  std::string why_not;
  for (std::size_t rank = 1; rank < size; ++rank) {
    ASSIGN_OR_RETURN(const std::string answer, board.Get(AnswerOf(rank)));
    if (answer != kYes && why_not.empty()) {
      why_not = "rank " + std::to_string(rank) + " " + answer;
    }
  }
  Result<SharedPages> pages = MapShared(host->memory.get(), size);
  if (why_not.empty() && !pages) {
    why_not = pages.error().message;
  }
  std::unique_ptr<SharedWorld> world;
  if (why_not.empty()) {
    Lifelines lifelines{std::move(host->write_ends[0]), std::move(host->read_ends)};
    lifelines.peers[0].Reset();
    host->write_ends.clear();  // Now each rank alone holds its own.
    world =
        std::make_unique<SharedWorld>(*std::move(pages), std::move(lifelines), 0, size, timeout);
  }
  RETURN_IF_ERROR(board.Set(kVerdict, world ? kYes : why_not));
  return SharedOutcome{std::move(world), why_not};
}

// The same as another rank reads it.
struct Offered {
  fs::path descriptors;  // The kernel opens them to processes of its machine, PID namespace, user.
  std::string name;
  std::string memory;
  std::vector<std::string> read_ends;
  std::vector<std::string> write_ends;

  static Result<Offered> Read(const std::string& text, std::size_t size);
  // Where they are those of another process, this must come before any of them is opened.
  Result<void> CheckMemory() const;
  Result<UniqueFd> Open(const std::string& descriptor, int how) const;
};

Result<Offered> Offered::Read(const std::string& text, std::size_t size) {
  std::istringstream in(text);
  std::string process;
  Offered offered;
  in >> process >> offered.name >> offered.memory;
  for (std::size_t rank = 0; rank < size; ++rank) {
    in >> offered.read_ends.emplace_back() >> offered.write_ends.emplace_back();
  }
  offered.descriptors = fs::path("/proc") / process / "fd";
  return in ? Result<Offered>(std::move(offered))
            : Invalid("rank 0 sent an invalid offer of shared memory", text);
}

Result<void> Offered::CheckMemory() const {
  std::error_code code;
  const std::string link = fs::read_symlink(descriptors / memory, code);
  if (!code && link.starts_with("/memfd:" + name)) {
    return {};
  }
  return Error{ErrorKind::kUnavailable,
               "does not see rank 0's memory (" +
                   (code ? code.message() : std::string("another process is there")) +
                   "): another machine, user or PID namespace"};
}

Result<UniqueFd> Offered::Open(const std::string& descriptor, int how) const {
  UniqueFd fd(open((descriptors / descriptor).c_str(), how | O_CLOEXEC | O_NONBLOCK));
  return fd ? Result<UniqueFd>(std::move(fd)) : LastError("open rank 0's");
}

Result<std::unique_ptr<SharedWorld>> Take(const Offered& offered, std::size_t rank,
                                          std::size_t size, std::chrono::milliseconds timeout) {
  RETURN_IF_ERROR(offered.CheckMemory());
  ASSIGN_OR_RETURN(const UniqueFd memory, offered.Open(offered.memory, O_RDWR));
  ASSIGN_OR_RETURN(SharedPages pages, MapShared(memory.get(), size));
  Lifelines lifelines;
  ASSIGN_OR_RETURN(lifelines.own, offered.Open(offered.write_ends[rank], O_WRONLY));
  for (std::size_t peer = 0; peer < size; ++peer) {
    UniqueFd& line = lifelines.peers.emplace_back();
    if (peer != rank) {
      ASSIGN_OR_RETURN(line, offered.Open(offered.read_ends[peer], O_RDONLY));
    }
  }
  return std::make_unique<SharedWorld>(std::move(pages), std::move(lifelines), rank, size, timeout);
}

Result<SharedOutcome> Answer(Board& board, std::size_t rank, std::size_t size,
                             std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const std::string text, board.Get(kOffer));
  if (text.starts_with(kNo)) {
    return SharedOutcome{nullptr, text.substr(kNo.size())};
  }
  ASSIGN_OR_RETURN(const Offered offered, Offered::Read(text, size));
  Result<std::unique_ptr<SharedWorld>> world = Take(offered, rank, size, timeout);
  RETURN_IF_ERROR(board.Set(AnswerOf(rank), world ? kYes : world.error().message));
  ASSIGN_OR_RETURN(const std::string verdict, board.Get(kVerdict));
  if (verdict != kYes || !world) {
    return SharedOutcome{nullptr, verdict};
  }
  return SharedOutcome{*std::move(world), ""};
}

}  // namespace

Result<SharedOutcome> JoinShared(Board& board, std::size_t rank, std::size_t size,
                                 std::chrono::milliseconds timeout) {
  if (size > kMostSharedRanks) {
    return SharedOutcome{nullptr, "it supports at most " + std::to_string(kMostSharedRanks) +
                                      " ranks, and there are " + std::to_string(size)};
  }
  return rank == 0 ? Offer(board, size, timeout) : Answer(board, rank, size, timeout);
}

}  // namespace ddprun
