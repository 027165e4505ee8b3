#include "launcher/evidence/tar_gz.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/check.h"
#include "common/files.h"

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

TarGz::TarGz() {
  CHECK(::deflateInit2(&stream_, kFastEnough, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK);
}

TarGz::~TarGz() {
  ::deflateEnd(&stream_);
}

void TarGz::Put(std::string_view bytes, int flush) {
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream_.avail_in = static_cast<uInt>(bytes.size());
  std::string out(std::size_t{1} << 16, '\0');
  do {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    CHECK(::deflate(&stream_, flush) != Z_STREAM_ERROR);
    made_.append(out, 0, out.size() - stream_.avail_out);
  } while (stream_.avail_out == 0);
}

Result<void> TarGz::Add(const std::string& name, std::string_view bytes, std::int64_t mtime) {
  ASSIGN_OR_RETURN(const std::string header, TarHeader(name, bytes.size(), mtime));
  Put(header, Z_NO_FLUSH);
  Put(bytes, Z_NO_FLUSH);
  Put(std::string((kTarBlock - bytes.size() % kTarBlock) % kTarBlock, '\0'), Z_NO_FLUSH);
  return {};
}

std::string TarGz::Finish() {
  Put(std::string(2 * kTarBlock, '\0'), Z_FINISH);
  return std::move(made_);
}

Result<void> MayBeWritten(const fs::path& path, IfThere if_there) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? Result<void>() : SystemError("make", path.native(), errno);
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

Result<void> WriteArchive(const fs::path& path, IfThere if_there, std::string_view archive) {
  RETURN_IF_ERROR(MayBeWritten(path, if_there));
  if (if_there == IfThere::kReplace) {
    return WriteWhole(path, archive, kArchiveMode);
  }
  const fs::path directory = path.has_parent_path() ? path.parent_path() : ".";
  ASSIGN_OR_RETURN(const fs::path temporary, WriteTemporary(directory, archive));
  ASSIGN_OR_RETURN(const bool named, LinkTemporary(temporary, path));
  return named ? Result<void>() : IsThere(path);
}

}  // namespace ddprun
