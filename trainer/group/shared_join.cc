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

Result<SharedOutcome> Offer(Board& board, std::size_t size, std::chrono::milliseconds timeout) {
  // Random, so that no other process has a memory of this name.
  const std::string name = "ddprun-shm-" + Hex(RandomBits());
  UniqueFd memory(memfd_create(name.c_str(), MFD_CLOEXEC));
  const bool made = memory && ftruncate(memory.get(), static_cast<off_t>(SharedBytes(size))) == 0;
  Result<SharedPages> pages = made ? MapShared(memory.get(), 0, size) : LastError("create");
  if (!pages) {
    RETURN_IF_ERROR(board.Set(kOffer, std::string(kNo) + pages.error().message));
    return SharedOutcome{nullptr, pages.error().message};
  }
  RETURN_IF_ERROR(board.Set(
      kOffer, std::to_string(getpid()) + " " + name + " " + std::to_string(memory.get())));
  std::string why_not;
  for (std::size_t rank = 1; rank < size; ++rank) {
    ASSIGN_OR_RETURN(const std::string answer, board.Get(AnswerOf(rank)));
    if (answer != kYes && why_not.empty()) {
      why_not = "rank " + std::to_string(rank) + " " + answer;
    }
  }
  std::unique_ptr<SharedWorld> world;
  if (why_not.empty()) {
    world = std::make_unique<SharedWorld>(*std::move(pages), std::move(memory), 0, size, timeout);
  }
  RETURN_IF_ERROR(board.Set(kVerdict, world ? kYes : why_not));
  return SharedOutcome{std::move(world), why_not};
}

// Rank 0's memory as another rank sees it.
struct Offered {
  fs::path descriptor;  // The kernel opens it to processes of its machine, PID namespace, user.
  std::string name;
};

// "PID NAME DESCRIPTOR"
Result<Offered> ReadOffer(const std::string& text) {
  std::istringstream in(text);
  std::string process;
  std::string name;
  std::string descriptor;
  in >> process >> name >> descriptor;
  return in ? Result<Offered>(Offered{fs::path("/proc") / process / "fd" / descriptor, name})
            : Invalid("rank 0 sent an invalid offer of shared memory", text);
}

Result<std::unique_ptr<SharedWorld>> Take(const Offered& offered, std::size_t rank,
                                          std::size_t size, std::chrono::milliseconds timeout) {
  std::error_code code;
  // Before it is opened, where it is of another process.
  const std::string link = fs::read_symlink(offered.descriptor, code);
  if (code || !link.starts_with("/memfd:" + offered.name)) {
    return Error{ErrorKind::kUnavailable,
                 "does not see rank 0's memory (" +
                     (code ? code.message() : std::string("another process is there")) +
                     "): another machine, user or PID namespace"};
  }
  UniqueFd memory(open(offered.descriptor.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!memory) {
    return LastError("open rank 0's");
  }
  ASSIGN_OR_RETURN(SharedPages pages, MapShared(memory.get(), rank, size));
  return std::make_unique<SharedWorld>(std::move(pages), std::move(memory), rank, size, timeout);
}

Result<SharedOutcome> Answer(Board& board, std::size_t rank, std::size_t size,
                             std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const std::string text, board.Get(kOffer));
  if (text.starts_with(kNo)) {
    return SharedOutcome{nullptr, text.substr(kNo.size())};
  }
  ASSIGN_OR_RETURN(const Offered offered, ReadOffer(text));
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
