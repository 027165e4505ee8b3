#include "trainer/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <cerrno>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "common/format.h"
#include "trainer/data/mapped_file.h"

namespace ddprun {
namespace {

// The most bytes that deflate can make of one (zlib's "Technical Details": 1032 to 1).
constexpr std::size_t kMostUnpacked = 1032;

struct CloseGz {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using GzFile = std::unique_ptr<gzFile_s, CloseGz>;

// Up to `size` bytes; fewer only where the data ends. A gzip stream that stops in the middle or
// fails its checksum is an error.
Result<std::size_t> Read(gzFile file, const std::filesystem::path& path, std::uint8_t* to,
                         std::size_t size) {
  const int got = gzread(file, to, static_cast<unsigned>(size));
  int code = Z_OK;
  const char* const text = gzerror(file, &code);
  if (code == Z_BUF_ERROR) {
    return BadFile(path, "truncated: the compressed data ends after " +
                             std::to_string(std::max(got, 0)) + " bytes");
  }
  if (got < 0) {
    return code == Z_ERRNO ? SystemError("read", path.string(), errno)
                           : BadFile(path, std::string("damaged: ") + text);
  }
  return static_cast<std::size_t>(got);
}

// The sizes that the header claims; `header` may be shorter than it should.
Result<std::vector<std::uint32_t>> Dimensions(const std::filesystem::path& path,
                                              std::span<const std::uint8_t> header,
                                              std::size_t expected) {
  const std::size_t header_size = 4 + 4 * expected;
  const auto expected_magic = static_cast<std::uint32_t>(0x0800 + expected);
  if (header.size() >= 4 && boost::endian::load_big_u32(header.data()) != expected_magic) {
    return BadFile(path, "not the expected IDX file: magic number " +
                             Format("0x%08x instead of 0x%08x",
                                    boost::endian::load_big_u32(header.data()), expected_magic));
  }
  if (header.size() < header_size) {
    return BadFile(path, "truncated: the header has " + std::to_string(header_size) +
                             " bytes, the file only " + std::to_string(header.size()));
  }
  std::vector<std::uint32_t> dimensions;
  std::size_t size = 1;
  for (std::size_t i = 0; i < expected; ++i) {
    const std::uint32_t dimension = boost::endian::load_big_u32(header.data() + 4 + 4 * i);
    if (dimension == 0 || dimension > kMaxIdxBytes / size) {
      return BadFile(path, "its header claims no data, or more than " +
                               std::to_string(kMaxIdxBytes) + " bytes (dimension " +
                               std::to_string(i) + " is " + std::to_string(dimension) + ")");
    }
    size *= dimension;
    dimensions.push_back(dimension);
  }
  return dimensions;
}

std::size_t Product(const std::vector<std::uint32_t>& dimensions) {
  return std::accumulate(dimensions.begin(), dimensions.end(), std::size_t{1}, std::multiplies<>());
}

// `bytes`: of the whole file, unpacked.
Result<IdxArray> FromBytes(const std::filesystem::path& path, std::span<const std::uint8_t> bytes,
                           std::size_t dimensions, std::shared_ptr<const void> owner) {
  const std::size_t header_size = std::min(bytes.size(), 4 + 4 * dimensions);
  IdxArray array;
  ASSIGN_OR_RETURN(array.dimensions, Dimensions(path, bytes.first(header_size), dimensions));
  array.bytes = bytes.subspan(header_size);
  array.owner = std::move(owner);
  const std::size_t size = Product(array.dimensions);
  if (array.bytes.size() < size) {
    return BadFile(path, "truncated: its header promises " + std::to_string(size) +
                             " bytes of data, there are " + std::to_string(array.bytes.size()));
  }
  if (array.bytes.size() > size) {
    return BadFile(path, "longer than the " + std::to_string(size) +
                             " bytes of data that its header promises");
  }
  return array;
}

Result<IdxArray> Unpack(const std::filesystem::path& path, std::size_t dimensions,
                        std::size_t packed_size) {
  errno = 0;
  const GzFile file(gzopen(path.c_str(), "rbe"));
  if (!file) {
    return SystemError("open", path.string(), errno == 0 ? ENOMEM : errno);
  }
  gzbuffer(file.get(), 1u << 18);
  const auto bytes = std::make_shared<std::vector<std::uint8_t>>(4 + 4 * dimensions);
  ASSIGN_OR_RETURN(const std::size_t header, Read(file.get(), path, bytes->data(), bytes->size()));
  bytes->resize(header);
  ASSIGN_OR_RETURN(const std::vector<std::uint32_t> claimed, Dimensions(path, *bytes, dimensions));
  const std::size_t size = Product(claimed);
  if (size / kMostUnpacked > packed_size) {  // Before memory is taken for what cannot come.
    return BadFile(path, "truncated: its header promises " + std::to_string(size) +
                             " bytes of data, and its " + std::to_string(packed_size) +
                             " compressed bytes cannot hold as many");
  }
  bytes->resize(header + size + 1);  // One more, to see whether there is more.
  ASSIGN_OR_RETURN(const std::size_t got, Read(file.get(), path, bytes->data() + header, size + 1));
  bytes->resize(header + got);
  return FromBytes(path, *bytes, dimensions, bytes);
}

}  // namespace

Result<IdxArray> ReadIdx(const std::filesystem::path& path, std::size_t expected_dimensions) {
  ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
  const std::span<const std::uint8_t> bytes = file.bytes;
  const bool packed = bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
  if (packed) {
    return Unpack(path, expected_dimensions, bytes.size());
  }
  return FromBytes(path, bytes, expected_dimensions, std::move(file.owner));
}

}  // namespace ddprun
