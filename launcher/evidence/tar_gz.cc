#include "launcher/evidence/tar_gz.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/check.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kTarName = 100;
constexpr std::size_t kTarPrefix = 155;
constexpr unsigned kArchiveMode = 0600;  // It has what workers printed.
constexpr int kFastEnough = 3;           // Of zlib's levels.
constexpr int kGzip = 15 + 16;           // zlib's word for its header.

// Zeros before it, and one behind.
void PutOctal(std::string& header, std::size_t at, std::size_t width, std::uint64_t number) {
  for (std::size_t i = width - 1; i-- > 0; number /= 8) {
    header[at + i] = static_cast<char>('0' + number % 8);
  }
}

Error IsThere(const fs::path& path) {
  return Error{ErrorKind::kRefused,
               "'" + path.native() + "' exists already, and is replaced only if --file names it"};
}

Result<void> MayHaveName(const fs::path& path, IfThere if_there) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    return {};
  }
  if (if_there == IfThere::kKeep) {
    return IsThere(path);
  }
  if (!S_ISREG(found.st_mode)) {
    return Error{ErrorKind::kRefused,
                 "'" + path.native() + "' is not an ordinary file, and is not replaced"};
  }
  return {};
}

}  // namespace

Result<std::string> TarHeader(const std::string& name, std::uint64_t size, std::int64_t mtime) {
  std::size_t cut = 0;  // Where the prefix ends.
  if (name.size() > kTarName) {
    cut = name.find('/', name.size() - kTarName - 1);
    if (cut > kTarPrefix) {  // Or there is none.
      return Invalid("the name is too long for an archive", name);
    }
  }
  std::string header(kTarBlock, '\0');
  const std::string last = cut == 0 ? name : name.substr(cut + 1);
  header.replace(0, last.size(), last);
  PutOctal(header, 100, 8, 0644);
  PutOctal(header, 108, 8, 0);  // No user's.
  PutOctal(header, 116, 8, 0);
  PutOctal(header, 124, 12, size);
  PutOctal(header, 136, 12, static_cast<std::uint64_t>(std::max<std::int64_t>(0, mtime)));
  header[156] = '0';
  header.replace(257, 8, std::string_view("ustar\00000", 8));
  header.replace(345, cut, name, 0, cut);
  header.replace(148, 8, 8, ' ');
  std::uint64_t sum = 0;
  for (const char c : header) {
    sum += static_cast<unsigned char>(c);
  }
  PutOctal(header, 148, 7, sum);
  header[154] = '\0';
  return header;
}

struct TarGz::Stream {
  Stream() {
    CHECK(::deflateInit2(&z, kFastEnough, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  }
  ~Stream() { ::deflateEnd(&z); }
  z_stream z{};
};

TarGz::TarGz(fs::path path, IfThere if_there)
    : path_(std::move(path)), if_there_(if_there), stream_(std::make_unique<Stream>()) {}

TarGz::TarGz(TarGz&& other) noexcept
    : path_(std::move(other.path_)),
      if_there_(other.if_there_),
      fd_(std::move(other.fd_)),
      part_(std::exchange(other.part_, {})),
      stream_(std::move(other.stream_)) {}

TarGz::~TarGz() {
  if (!part_.empty()) {
    ::unlink(part_.c_str());
  }
}

Result<TarGz> TarGz::Make(const fs::path& path, IfThere if_there) {
  RETURN_IF_ERROR(MayHaveName(path, if_there));
  TarGz made(path, if_there);
  RETURN_IF_ERROR(made.Open());
  return made;
}

// Without a name if the file system can: then a process that is killed leaves nothing either.
Result<void> TarGz::Open() {
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  fd_ = UniqueFd(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kArchiveMode));
  if (!fd_) {
    part_ = path_.native() + "." + std::to_string(::getpid()) + ".part";
    fd_ = UniqueFd(::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kArchiveMode));
  }
  if (!fd_) {
    const Error refused = SystemError("make", std::exchange(part_, {}).native(), errno);
    return refused;
  }
  return {};
}

Result<void> TarGz::Put(std::string_view bytes, bool last) {
  z_stream& z = stream_->z;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  std::string out(std::size_t{1} << 16, '\0');
  do {
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    CHECK(::deflate(&z, last ? Z_FINISH : Z_NO_FLUSH) != Z_STREAM_ERROR);
    RETURN_IF_ERROR(
        WriteAll(fd_.get(), std::string_view(out).substr(0, out.size() - z.avail_out), path_));
  } while (z.avail_out == 0);
  return {};
}

Result<void> TarGz::Add(const std::string& name, std::string_view bytes, std::int64_t mtime) {
  ASSIGN_OR_RETURN(const std::string header, TarHeader(name, bytes.size(), mtime));
  RETURN_IF_ERROR(Put(header, false));
  RETURN_IF_ERROR(Put(bytes, false));
  return Put(std::string((kTarBlock - bytes.size() % kTarBlock) % kTarBlock, '\0'), false);
}

Result<void> TarGz::Finish() {
  RETURN_IF_ERROR(Put(std::string(2 * kTarBlock, '\0'), true));
  if (::fsync(fd_.get()) != 0) {
    return SystemError("write", path_.native(), errno);
  }
  return GiveName();
}

Result<void> TarGz::GiveName() {
  RETURN_IF_ERROR(MayHaveName(path_, if_there_));
  if (part_.empty()) {
    const std::string open = "/proc/self/fd/" + std::to_string(fd_.get());
    part_ = if_there_ == IfThere::kKeep
                ? path_
                : fs::path(path_.native() + "." + std::to_string(::getpid()) + ".part");
    if (::linkat(AT_FDCWD, open.c_str(), AT_FDCWD, part_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      const int why = errno;
      part_.clear();
      return why == EEXIST ? IsThere(path_)
                           : SystemError("put the new archive in place of", path_.native(), why);
    }
    if (if_there_ == IfThere::kKeep) {
      part_.clear();
      return {};
    }
  }
  const unsigned flags = if_there_ == IfThere::kKeep ? RENAME_NOREPLACE : 0;
  int done = ::renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), flags);
  if (done != 0 && errno == EINVAL) {  // The file system does not know how to keep it.
    done = ::rename(part_.c_str(), path_.c_str());
  }
  if (done != 0) {
    return errno == EEXIST ? IsThere(path_)
                           : SystemError("put the new archive in place of", path_.native(), errno);
  }
  part_.clear();
  return {};
}

}  // namespace ddprun
