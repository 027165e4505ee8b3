#include "rendezvous/succession/estate_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/check.h"
#include "rendezvous/journal_file.h"

namespace ddprun {
namespace {

struct Header {
  std::uint64_t sequence = 0;  // 0: never written.
  std::uint64_t size = 0;
  std::uint64_t digest = 0;
};
constexpr std::size_t kHalf = sizeof(Header) + kMostEstate;

// FNV-1a.
std::uint64_t DigestOf(std::uint64_t sequence, const std::string& bytes) {
  std::uint64_t digest = 0xcbf29ce484222325 ^ sequence;
  for (const char c : bytes) {
    digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return digest;
}

std::optional<std::string> ReadAt(int fd, off_t at, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t have = 0; have < size;) {
    const ssize_t got =
        ::pread(fd, bytes.data() + have, size - have, at + static_cast<off_t>(have));
    if (got <= 0 && errno != EINTR) {
      return std::nullopt;
    }
    have += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return bytes;
}

}  // namespace

Result<EstateMemory> EstateMemory::Make() {
  UniqueFd fd(::memfd_create("ddprun-estate", MFD_CLOEXEC));
  if (!fd || ::posix_fallocate(fd.get(), 0, 2 * kHalf) != 0) {
    return SystemError("make memory that the guard holds", "ddprun-estate", errno);
  }
  return EstateMemory(std::move(fd));
}

void EstateMemory::Hold(const std::optional<HeldEstate>& held) {
  std::string bytes = held ? Encode(*held) : "";
  if (bytes.size() > kMostEstate) {
    bytes.clear();
  }
  const std::uint64_t sequence = ++sequence_;
  const Header header{sequence, bytes.size(), DigestOf(sequence, bytes)};
  std::string all(sizeof header, '\0');
  std::memcpy(all.data(), &header, sizeof header);
  all += bytes;
  const auto at = static_cast<off_t>(sequence % 2 * kHalf);
  for (std::size_t done = 0; done < all.size();) {
    const ssize_t wrote =
        ::pwrite(fd_.get(), all.data() + done, all.size() - done, at + static_cast<off_t>(done));
    CHECK(wrote > 0 || errno == EINTR);  // All of it is there.
    done += wrote > 0 ? static_cast<std::size_t>(wrote) : 0;
  }
}

std::optional<HeldEstate> EstateMemory::Read(int fd) {
  std::uint64_t newest = 0;
  std::string found;
  for (const std::size_t half : {0u, 1u}) {
    const auto at = static_cast<off_t>(half * kHalf);
    const auto start = ReadAt(fd, at, sizeof(Header));
    Header header;
    if (start) {
      std::memcpy(&header, start->data(), sizeof header);
    }
    if (header.sequence <= newest || header.size > kMostEstate) {
      continue;
    }
    auto bytes = ReadAt(fd, at + static_cast<off_t>(sizeof header), header.size);
    if (bytes && DigestOf(header.sequence, *bytes) == header.digest) {
      newest = header.sequence;
      found = *std::move(bytes);
    }
  }
  Result<HeldEstate> held = DecodeHeldEstate(found);
  return !found.empty() && held ? std::optional(*std::move(held)) : std::nullopt;
}

}  // namespace ddprun
