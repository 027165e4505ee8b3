#include "rendezvous/succession/claim_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <sstream>
#include <vector>

#include "common/files.h"
#include "rendezvous/door/control_token.h"
#include "rendezvous/real_names.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKind = "ddprun claim 1";
constexpr const char* kClaimPrefix = "term-";
constexpr std::size_t kMaxClaim = 4096;
constexpr std::uint64_t kMaxNumber = std::uint64_t{1} << 48;  // Each is one takeover.
constexpr std::uint64_t kMaxCounter = std::uint64_t{1} << 62;

std::string Padded(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%020llu", static_cast<unsigned long long>(value));
  return text;
}

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size() && !text.empty();
  return whole ? std::optional(value) : std::nullopt;
}

// "NAME VALUE" -> VALUE
std::optional<std::string> ValueOf(const std::string& line, const std::string& name) {
  return line.starts_with(name + " ") ? std::optional(line.substr(name.size() + 1)) : std::nullopt;
}

}  // namespace

std::string Encode(const Claim& claim) {
  return std::string(kKind) + "\nterm " + Padded(claim.term.value) + "\nendpoint " +
         ToString(claim.endpoint) + "\ncounter " + Padded(claim.counter) + "\nclosed " +
         (!claim.closed ? "0"
          : claim.over  ? "2"
                        : "1") +
         "\n";
}

Result<Claim> DecodeClaim(const std::string& text, std::uint64_t number) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  const Error bad = Invalid("this is no whole claim of ddprun's", text.substr(0, 80));
  if (lines.size() != 5 || lines[0] != kKind || text.back() != '\n') {
    return bad;
  }
  const auto term = ParseNumber(ValueOf(lines[1], "term").value_or(""));
  const auto counter = ParseNumber(ValueOf(lines[3], "counter").value_or(""));
  const std::string closed = ValueOf(lines[4], "closed").value_or("");
  if (!term || !counter || *counter > kMaxCounter ||
      (closed != "0" && closed != "1" && closed != "2")) {
    return bad;
  }
  if (*term > RealNamesAt(UnixMilliseconds(), kServersAhead).term.value) {
    return Error{ErrorKind::kInvalid, "claim " + std::to_string(number) + " has the term " +
                                          std::to_string(*term) +
                                          ", which cannot be yet: is a clock wrong by days?"};
  }
  Claim claim{number, {*term}, {}, *counter, closed != "0", closed == "2"};
  ASSIGN_OR_RETURN(claim.endpoint, ParseEndpoint(ValueOf(lines[2], "endpoint").value_or(""), {}));
  return claim;
}

fs::path ClaimDirectory::FileOf(std::uint64_t number) const {
  return path_ / (kClaimPrefix + std::to_string(number));
}

Result<fs::path> ClaimDirectory::WriteBeside(const std::string& text) const {
  std::string name = (path_ / ".new-XXXXXX").native();
  const UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!fd) {
    return SystemError("make a file in the run directory", path_.native(), errno);
  }
  Result<void> written = WriteAll(fd.get(), text, name);
  if (written && ::fsync(fd.get()) != 0) {
    written = SystemError("write", name, errno);
  }
  if (!written) {
    ::unlink(name.c_str());
    return written.error();
  }
  return fs::path(name);
}

Result<void> ClaimDirectory::Prepare() const {
  if (const Result<void> made = MakeDirectories(path_, 0700); !made) {
    return Error{ErrorKind::kInvalid, made.error().message + " (--run-dir)"};
  }
  const Result<fs::path> file = WriteBeside("");
  if (!file) {
    return Error{ErrorKind::kInvalid, file.error().message + " (--run-dir)"};
  }
  ::unlink(file->c_str());
  return {};
}

Result<std::optional<Claim>> ClaimDirectory::Newest(Duration) {
  std::uint64_t highest = 0;
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (name.starts_with(kClaimPrefix)) {
      const std::uint64_t number = ParseNumber(name.substr(5)).value_or(0);
      highest = number > kMaxNumber ? highest : std::max(highest, number);
    }
  }
  if (error) {
    return SystemError("read the run directory", path_.native(), error.value());
  }
  // The listing may be older than the files.
  std::optional<Claim> newest;
  for (std::uint64_t number = std::max<std::uint64_t>(highest, 1);; ++number) {
    const Result<std::string> text = ReadFile(FileOf(number), kMaxClaim);
    if (!text && text.error().kind == ErrorKind::kNotFound && number > highest) {
      return newest;
    }
    if (!text) {
      return text.error();
    }
    ASSIGN_OR_RETURN(newest, DecodeClaim(*text, number));
  }
}

Result<void> ClaimDirectory::Make(const Claim& claim, Duration) {
  ASSIGN_OR_RETURN(const fs::path beside, WriteBeside(Encode(claim)));
  const fs::path file = FileOf(claim.number);
  const int failed = ::link(beside.c_str(), file.c_str()) == 0 ? 0 : errno;
  ::unlink(beside.c_str());
  if (failed == EEXIST) {
    return Error{ErrorKind::kRefused, "somebody else has made the claim '" + file.native() + "'"};
  }
  if (failed != 0) {
    return SystemError("make the claim", file.native(), failed);
  }
  return SyncPath(path_);
}

Result<bool> ClaimDirectory::Move(const Claim& claim, Duration) {
  const fs::path file = FileOf(claim.number);
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) {
    return SystemError("open the claim", file.native(), errno);
  }
  RETURN_IF_ERROR(WriteAll(fd.get(), Encode(claim), file));
  if (::fdatasync(fd.get()) != 0) {
    return SystemError("write the claim", file.native(), errno);
  }
  const Result<std::string> next = ReadFile(FileOf(claim.number + 1), kMaxClaim);
  if (!next && next.error().kind != ErrorKind::kNotFound) {
    return next.error();
  }
  return next.has_value();
}

Result<void> ClaimDirectory::Replace(const fs::path& file, const std::string& text) const {
  ASSIGN_OR_RETURN(const fs::path beside, WriteBeside(text));  // Mode 0600.
  if (::rename(beside.c_str(), file.c_str()) != 0) {
    const int failed = errno;
    ::unlink(beside.c_str());
    return SystemError("write", file.native(), failed);
  }
  return {};
}

Result<void> ClaimDirectory::Announce(const Endpoint& endpoint, const std::string& token) {
  RETURN_IF_ERROR(Replace(path_ / "endpoint", ToString(endpoint) + "\n"));
  const Result<std::string> known = ReadTokenFile(path_ / "token");
  return known && *known == token ? Result<void>() : Replace(path_ / "token", token + "\n");
}

}  // namespace ddprun
