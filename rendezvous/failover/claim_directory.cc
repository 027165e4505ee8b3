#include "rendezvous/failover/claim_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/algorithm/hex.hpp>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "common/files.h"
#include "common/text.h"
#include "rendezvous/failover/held_claim.h"
#include "rendezvous/listener/control_token.h"
#include "rendezvous/term_bounds.h"
#include "rendezvous/wire/ended_run.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "ddprun claim 2";
constexpr const char* kKindBefore = "ddprun claim 1";
constexpr const char* kClaimPrefix = "term-";
constexpr std::size_t kMaxClaim = 1 << 20;  // As many ended runs as may be have 640 KiB.
constexpr std::size_t kFixedLines = 6;
constexpr std::uint64_t kMaxNumber = std::uint64_t{1} << 48;  // Each is one takeover.
constexpr std::uint64_t kMaxCounter = std::uint64_t{1} << 62;
constexpr std::uint64_t kMaxLease = 86'400'000;  // A day, in milliseconds.

std::string Padded(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%020llu", static_cast<unsigned long long>(value));
  return text;
}

// "NAME VALUE" -> VALUE
std::optional<std::string> ValueOf(const std::string& line, const std::string& name) {
  return line.starts_with(name + " ") ? std::optional(line.substr(name.size() + 1)) : std::nullopt;
}

std::string LinesOf(const Claim& claim) {
  std::string lines = claim.died ? "died " + Encode(*claim.died) + "\n" : "";
  for (const EndedRun& run : claim.ended) {
    lines += "ended " + boost::algorithm::hex_lower(Encode(run)) + "\n";
  }
  return lines;
}

std::optional<std::string> FromHex(const std::string& text) {
  try {
    return boost::algorithm::unhex(text);
  } catch (const boost::algorithm::hex_decode_error&) {
    return std::nullopt;
  }
}

std::optional<std::vector<EndedRun>> EndedIn(const std::vector<std::string>& lines) {
  std::vector<EndedRun> ended;
  for (const std::string& line : lines) {
    const auto bytes = FromHex(ValueOf(line, "ended").value_or("?"));
    const auto run = bytes ? DecodeEndedRun(*bytes) : Result<EndedRun>(Error{});
    if (!run || ended.size() == kMostEndedRuns) {
      return std::nullopt;
    }
    ended.push_back(*run);
  }
  return ended;
}

}  // namespace

std::string Encode(const Claim& claim) {
  return std::string(kKind) + "\nterm " + Padded(claim.term.value) + "\nendpoint " +
         ToString(claim.endpoint) + "\ncounter " + Padded(claim.counter) + "\nclosed " +
         (!claim.closed ? "0"
          : claim.over  ? "2"
                        : "1") +
         "\nlease " + Padded(static_cast<std::uint64_t>(claim.lease.count())) + "\n" +
         LinesOf(claim);
}

Result<Claim> DecodeClaim(const std::string& text, std::uint64_t number) {
  std::vector<std::string> lines = Split(text, '\n');
  const Error bad = Invalid("the claim is incomplete or damaged", text.substr(0, 80));
  if (!lines.empty() && lines[0] == kKindBefore && lines.size() == kFixedLines - 1) {
    lines[0] = kKind;  // It named no lease, and no ends of runs.
    lines.emplace_back("lease 0");
  } else if (text.find('\n') != std::string::npos && lines[0] != kKind) {
    return Error{ErrorKind::kUnavailable,
                 "claim " + std::to_string(number) +
                     " is a file of another version or another program: '" +
                     lines[0].substr(0, 80) +
                     "' (use the ddprun that wrote it, or another "
                     "directory)"};
  }
  if (lines.size() < kFixedLines || lines[0] != kKind || text.back() != '\n') {
    return bad;
  }
  const auto term = ParseNumber<std::uint64_t>(ValueOf(lines[1], "term").value_or(""));
  const auto counter = ParseNumber<std::uint64_t>(ValueOf(lines[3], "counter").value_or(""));
  const std::string closed = ValueOf(lines[4], "closed").value_or("");
  const auto lease = ParseNumber<std::uint64_t>(ValueOf(lines[5], "lease").value_or(""));
  std::optional<Died> died;
  if (lines.size() > kFixedLines && lines[kFixedLines].starts_with("died ")) {
    died = DecodeDied(*ValueOf(lines[kFixedLines], "died"));
    if (!died) {
      return bad;
    }
    lines.erase(lines.begin() + kFixedLines);
  }
  const auto ended = EndedIn({lines.begin() + kFixedLines, lines.end()});
  if (!term || !counter || *counter > kMaxCounter || !lease || *lease > kMaxLease || !ended ||
      (closed != "0" && closed != "1" && closed != "2")) {
    return bad;
  }
  ASSIGN_OR_RETURN(const Endpoint endpoint,
                   ParseEndpoint(ValueOf(lines[2], "endpoint").value_or(""), {}));
  if (*term > TermBoundsAt(LatestUnixMilliseconds(), kServersAhead).term.value) {
    return Error{ErrorKind::kUnavailable, "claim " + std::to_string(number) +
                                              ", made by the server at " + ToString(endpoint) +
                                              ", has the term " + std::to_string(*term) + ", " +
                                              WhyNotYet({*term}, LatestUnixMilliseconds())};
  }
  return Claim{number,
               {*term},
               endpoint,
               *counter,
               closed != "0",
               closed == "2",
               Duration{static_cast<Duration::rep>(*lease)},
               *ended,
               died};
}

fs::path ClaimDirectory::FileOf(std::uint64_t number) const {
  return path_ / (kClaimPrefix + std::to_string(number));
}

Result<void> ClaimDirectory::Prepare() const {
  if (const Result<void> made = MakeDirectories(path_, 0700); !made) {
    return Error{ErrorKind::kInvalid, made.error().message + " (" + place_.flag + ")"};
  }
  const Result<fs::path> file = WriteTemporary(path_, "");
  if (!file) {
    return Error{ErrorKind::kInvalid, file.error().message + " (" + place_.flag + ")"};
  }
  ::unlink(file->c_str());
  return {};
}

Result<UniqueFd> ClaimDirectory::Lock() const {
  const fs::path file = path_ / "lock";
  std::error_code none;
  if (fs::exists(FileOf(1), none) && !fs::exists(file, none)) {
    return Invalid("this is the run directory of a run's nodes. Set --state-dir to another one",
                   path_.native());
  }
  ASSIGN_OR_RETURN(UniqueFd fd, OpenOrdinary(file, O_RDWR | O_CREAT, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
    return fd;
  }
  return errno == EWOULDBLOCK
             ? Error{ErrorKind::kInvalid,
                     Where() +
                         " is in use by another rendezvous server. Stop that one, or set "
                         "--state-dir to another directory [state-dir-in-use]"}
             : SystemError("lock", file.native(), errno);
}

void ClaimDirectory::RemoveBefore(std::uint64_t number) const {
  while (number > 1 && ::unlink(FileOf(--number).c_str()) == 0) {
  }
}

Result<std::set<std::uint64_t>> ClaimDirectory::Listed() const {
  std::set<std::uint64_t> numbers;
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (const auto number = NumberOfRecord(name, kClaimPrefix, kMaxNumber)) {
      numbers.insert(*number);
    }
  }
  if (error) {
    return SystemError(std::string("read the ") + place_.name, path_.native(), error.value());
  }
  return numbers;
}

Result<std::optional<Claim>> ClaimDirectory::Newest() {
  ASSIGN_OR_RETURN(std::set<std::uint64_t> known, Listed());
  const std::uint64_t highest = known.empty() ? 0 : *known.rbegin();
  // The listing may be older than the files.
  std::optional<Claim> newest;
  for (std::uint64_t number = std::max<std::uint64_t>(highest, 1);; ++number) {
    const Result<Claim> found = Read(number);
    if (!found && found.error().kind == ErrorKind::kNotFound && number > highest) {
      return newest;
    }
    if (!found && found.error().kind != ErrorKind::kInvalid) {
      return found.error();
    }
    newest = found ? *found : Unknown(number, known);
    known.insert(number);
  }
}

Result<Claim> ClaimDirectory::Read(std::uint64_t number) const {
  ASSIGN_OR_RETURN(const std::string text, TextOf(number));
  Result<Claim> claim = DecodeClaim(text, number);
  if (!claim && claim.error().kind == ErrorKind::kUnavailable) {
    return Error{ErrorKind::kUnavailable, Where() + ": " + claim.error().message};
  }
  return claim;
}

Result<std::string> ClaimDirectory::TextOf(std::uint64_t number) const {
  Result<std::string> text = ReadOrdinary(FileOf(number), kMaxClaim);
  if (!text && text.error().kind == ErrorKind::kRefused) {
    return Error{ErrorKind::kInvalid, text.error().message};  // As good as a torn one.
  }
  return text;
}

Claim ClaimDirectory::Unknown(std::uint64_t number, const std::set<std::uint64_t>& known) const {
  for (auto before = known.lower_bound(number); before != known.begin();) {
    if (Result<Claim> last = Read(*--before)) {  // Later terms than its own are not known.
      last->number = number;
      last->counter = 0;
      last->closed = last->over = false;
      last->damaged = true;
      return *std::move(last);
    }
  }
  return {.number = number, .damaged = true};
}

Result<Claim> ClaimDirectory::Make(const Claim& claim) {
  ASSIGN_OR_RETURN(const fs::path made_beside, WriteTemporary(path_, Encode(claim)));
  const fs::path file = FileOf(claim.number);
  ASSIGN_OR_RETURN(const bool is_ours, LinkTemporary(made_beside, file));
  if (!is_ours) {
    return Error{ErrorKind::kRefused, "another process has made the claim '" + file.native() + "'"};
  }
  RETURN_IF_ERROR(SyncPath(path_));
  // Keeps what its holder wrote since it was read. From now on the holder finds this one and
  // announces nothing.
  Claim made = claim;
  AddEndedBefore(made, [this](std::uint64_t number) { return Read(number); });
  return made;
}

Result<bool> ClaimDirectory::Move(const Claim& claim) {
  const fs::path file = FileOf(claim.number);
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenOrdinary(file, O_WRONLY, 0));
  const std::string text = Encode(claim);
  struct stat before {};
  if (::fstat(fd.get(), &before) != 0) {
    return SystemError("read the size of the claim", file.native(), errno);
  }
  if (static_cast<std::size_t>(before.st_size) != text.size()) {
    RETURN_IF_ERROR(Replace(file, text));
    RETURN_IF_ERROR(SyncPath(path_));
  } else {
    RETURN_IF_ERROR(WriteAll(fd.get(), text, file));
    if (::fdatasync(fd.get()) != 0) {
      return SystemError("write the claim", file.native(), errno);
    }
  }
  const Result<std::string> next = TextOf(claim.number + 1);
  if (!next && next.error().kind != ErrorKind::kNotFound) {
    return next.error();
  }
  return next.has_value();
}

Result<void> ClaimDirectory::Replace(const fs::path& file, const std::string& text) const {
  ASSIGN_OR_RETURN(const fs::path beside, WriteTemporary(path_, text));
  if (::rename(beside.c_str(), file.c_str()) != 0) {
    const int failed = errno;
    ::unlink(beside.c_str());
    return SystemError("write", file.native(), failed);
  }
  return {};
}

Result<void> ClaimDirectory::Announce(const Endpoint& endpoint, const std::string& token) {
  RETURN_IF_ERROR(Replace(path_ / "endpoint", ToString(endpoint) + "\n"));
  const Result<std::string> known = ReadOrdinaryTokenFile(path_ / "token");
  return known && *known == token ? Result<void>() : Replace(path_ / "token", token + "\n");
}

}  // namespace ddprun
