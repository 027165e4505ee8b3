#include "rendezvous/journal_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "common/overload.h"

namespace ddprun {
namespace {

constexpr std::string_view kHeader = "ddprun journal 1\n";
constexpr std::array<char, 4> kMark = {'\xdd', 'R', 'u', '\n'};  // Before each record.
constexpr std::size_t kPrefix = kMark.size() + 2 * sizeof(std::uint32_t);
constexpr std::size_t kMaxRecord = 64u << 20;   // A world of 100,000 nodes takes a tenth of it.
constexpr std::size_t kMaxFile = 1u << 30;      // More was never written by us.
constexpr std::uint64_t kLeastBound = 1 << 20;  // Below it the file is never written anew.
constexpr std::uint64_t kBound = 8;             // Times what is current.

// CRC-32 as in IEEE 802.3, bit by bit: records are small and few.
std::uint32_t Checksum(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    }
  }
  return ~crc;
}

// Little-endian, so that a journal may move between machines.
void PutNumber(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>(value >> shift));
  }
}

std::uint32_t TakeNumber(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

std::string Framed(const std::string& payload) {
  std::string out(kMark.data(), kMark.size());
  PutNumber(out, static_cast<std::uint32_t>(payload.size()));
  PutNumber(out, Checksum(payload));
  return out + payload;
}

// The payload of the whole and sound record that begins here.
std::optional<std::string_view> RecordAt(std::string_view bytes) {
  if (bytes.size() < kPrefix ||
      bytes.substr(0, kMark.size()) != std::string_view(kMark.data(), kMark.size())) {
    return std::nullopt;
  }
  const std::uint32_t length = TakeNumber(bytes.substr(kMark.size()));
  if (length > kMaxRecord || length > bytes.size() - kPrefix) {
    return std::nullopt;
  }
  const std::string_view payload = bytes.substr(kPrefix, length);
  const bool sound = Checksum(payload) == TakeNumber(bytes.substr(kMark.size() + 4));
  return sound ? std::optional(payload) : std::nullopt;
}

// Where the next sound record begins; the end if there is none.
std::size_t NextRecord(std::string_view bytes, std::size_t from) {
  const std::string_view mark(kMark.data(), kMark.size());
  for (std::size_t at = bytes.find(mark, from); at != std::string_view::npos;
       at = bytes.find(mark, at + 1)) {
    if (RecordAt(bytes.substr(at))) {
      return at;
    }
  }
  return bytes.size();
}

Result<void> SyncFd(int fd, const std::filesystem::path& path) {
  return ::fdatasync(fd) == 0 ? Result<void>() : SystemError("sync", path.native(), errno);
}

std::filesystem::path DirectoryOf(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

Error InUse(const std::filesystem::path& path) {
  return Error{ErrorKind::kRefused,
               "the journal '" + path.native() +
                   "' is in use by another rendezvous server (its lock is held): stop that one, "
                   "or name another file in --journal"};
}

// Open and locked. A server that rewrites the file renames a new one over it, so the lock counts
// only if the path still leads to the file locked.
Result<UniqueFd> OpenLocked(const std::filesystem::path& path) {
  while (true) {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
    if (!fd) {
      Error error = SystemError("open the journal", path.native(), errno);
      error.kind = ErrorKind::kInvalid;
      return error;
    }
    struct stat opened {};
    struct stat named {};
    if (::fstat(fd.get(), &opened) != 0 || !S_ISREG(opened.st_mode)) {
      return Invalid("the journal must be a regular file", path.native());
    }
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      return errno == EWOULDBLOCK ? InUse(path)
                                  : SystemError("lock the journal", path.native(), errno);
    }
    if (::stat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino &&
        named.st_dev == opened.st_dev) {
      return fd;
    }
  }
}

}  // namespace

JournalFile::JournalFile(std::filesystem::path path, UniqueFd fd)
    : path_(std::move(path)), fd_(std::move(fd)) {}

Result<JournalFile> JournalFile::Open(const std::filesystem::path& path, JournalContents& found) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenLocked(path));
  JournalFile journal(path, std::move(fd));
  RETURN_IF_ERROR(journal.ReadAll(found));
  return journal;
}

Result<void> JournalFile::ReadAll(JournalContents& found) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path_, kMaxFile));
  const std::string_view all = bytes;
  if (all.size() < kHeader.size() && kHeader.starts_with(all)) {
    damaged_ = true;  // New, or its first line was never written whole.
    return {};
  }
  if (!all.starts_with(kHeader)) {
    return Invalid("the file is there, but it is no journal of ddprun's; it was left as it is",
                   path_.native());
  }
  std::map<RunId, RunRecord> runs;
  std::map<RunId, EndedRun> ended;
  std::size_t at = kHeader.size();
  while (at < all.size()) {
    const auto payload = RecordAt(all.substr(at));
    const Result<JournalEntry> entry = payload ? DecodeEntry(std::string(*payload))
                                               : Error{ErrorKind::kInvalid, "fails its checksum"};
    if (!entry) {
      const std::size_t next = NextRecord(all, at + (payload ? kPrefix + payload->size() : 1));
      const bool torn = next == all.size() && !payload;
      found.remarks.push_back("'" + path_.native() + "': " +
                              (torn ? "its last " + std::to_string(next - at) +
                                          " bytes were never written whole and are dropped"
                                    : "a record at byte " + std::to_string(at) + " " +
                                          entry.error().message + "; " + std::to_string(next - at) +
                                          " bytes are skipped"));
      damaged_ = true;
      at = next;
      continue;
    }
    Remember(*entry, std::string(*payload));
    std::visit(Overload{[&](const Reign& reign) { found.term = std::max(found.term, reign.term); },
                        [&](const RunRecord& record) {
                          runs[record.run_id] = record;
                          ended.erase(record.run_id);
                        },
                        [&](const EndedRun& run) {
                          runs.erase(run.run_id);
                          ended[run.run_id] = run;
                        },
                        [&](const Forgotten& gone) {
                          runs.erase(gone.run_id);
                          ended.erase(gone.run_id);
                        }},
               *entry);
    at += kPrefix + payload->size();
  }
  for (auto& [run_id, record] : runs) {
    found.runs.push_back(std::move(record));
  }
  for (auto& [run_id, run] : ended) {
    found.ended.push_back(std::move(run));
  }
  size_ = all.size();
  if (::lseek(fd_.get(), 0, SEEK_END) < 0) {
    return SystemError("seek in the journal", path_.native(), errno);
  }
  return {};
}

void JournalFile::Remember(const JournalEntry& entry, std::string bytes) {
  std::visit(Overload{[&](const Reign&) { reign_ = std::move(bytes); },
                      [&](const RunRecord& record) { runs_[record.run_id] = std::move(bytes); },
                      [&](const EndedRun& run) { runs_[run.run_id] = std::move(bytes); },
                      [&](const Forgotten& gone) { runs_.erase(gone.run_id); }},
             entry);
}

std::uint64_t JournalFile::CurrentBytes() const {
  std::uint64_t bytes = kHeader.size() + kPrefix + reign_.size();
  for (const auto& [run_id, record] : runs_) {
    bytes += kPrefix + record.size();
  }
  return bytes;
}

Result<void> JournalFile::Append(const JournalEntry& entry) {
  std::string payload = Encode(entry);
  const std::string framed = Framed(payload);
  Remember(entry, std::move(payload));
  if (damaged_ || size_ + framed.size() > std::max(kLeastBound, kBound * CurrentBytes())) {
    return WriteAnew();
  }
  Result<void> written = WriteAll(fd_.get(), framed, path_);
  if (written) {
    written = SyncFd(fd_.get(), path_);
  }
  if (!written) {
    damaged_ = true;  // What is there now is unknown.
    return written;
  }
  size_ += framed.size();
  return {};
}

Result<void> JournalFile::WriteAnew() {
  std::string all(kHeader);
  all += reign_.empty() ? "" : Framed(reign_);
  for (const auto& [run_id, record] : runs_) {
    all += Framed(record);
  }
  const std::filesystem::path beside = path_.native() + ".new";
  UniqueFd fd(::open(beside.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) {
    return SystemError("open", beside.native(), errno);
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return SystemError("lock", beside.native(), errno);
  }
  RETURN_IF_ERROR(WriteAll(fd.get(), all, beside));
  RETURN_IF_ERROR(SyncFd(fd.get(), beside));
  if (::rename(beside.c_str(), path_.c_str()) != 0) {
    return SystemError("rename over the journal", beside.native(), errno);
  }
  RETURN_IF_ERROR(SyncPath(DirectoryOf(path_)));
  fd_ = std::move(fd);
  size_ = all.size();
  damaged_ = false;
  return {};
}

}  // namespace ddprun
