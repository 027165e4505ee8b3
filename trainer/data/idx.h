// One IDX file (the format of MNIST) in memory, and trusts none of it: a plain one is mapped, so
// that only what is used is read, once for all ranks of a node; a gzip-compressed one is unpacked.
//
// Header: two zero bytes, the element type (0x08: unsigned byte, the only one read here), the
// number of dimensions, then each dimension as a big-endian 32-bit number; then the elements.
// Refused: another magic number, an absurd size, fewer or more bytes than the header says. The note
// of mapped_file.h on files that shrink holds here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "common/result.h"

namespace ddprun {

struct IdxArray {
  std::vector<std::uint32_t> dimensions;
  std::span<const std::uint8_t> bytes;  // As many as the product of the dimensions.
  std::shared_ptr<const void> owner;    // Keeps `bytes` valid.
};

inline constexpr std::size_t kMaxIdxBytes = std::size_t{1} << 30;

Result<IdxArray> ReadIdx(const std::filesystem::path& path, std::size_t expected_dimensions);

}  // namespace ddprun
