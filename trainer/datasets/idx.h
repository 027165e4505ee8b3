// Reads one IDX file (the format of MNIST), gzip-compressed or plain, and trusts none of it.
//
// Header: two zero bytes, the element type (0x08: unsigned byte, the only one read here), the
// number of dimensions, then each dimension as a big-endian 32-bit number; then the elements.
// Refused: another magic number, an absurd size, fewer or more bytes than the header says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/result.h"

namespace ddprun {

struct IdxArray {
  std::vector<std::uint32_t> dimensions;
  std::vector<std::uint8_t> bytes;  // As many as the product of the dimensions.
};

inline constexpr std::size_t kMaxIdxBytes = std::size_t{1} << 30;

Result<IdxArray> ReadIdx(const std::filesystem::path& path, std::size_t expected_dimensions);

}  // namespace ddprun
