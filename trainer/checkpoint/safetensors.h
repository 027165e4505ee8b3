// The safetensors format: eight bytes of header length (little-endian), a JSON header with dtype,
// shape and data_offsets of each tensor and text under __metadata__, the raw bytes.
//
// The reader trusts nothing: the header's size, every offset, shape and type are checked; the
// tensors must cover the data exactly, without overlap or hole. Errors name the file.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/snapshot.h"

namespace ddprun {

inline constexpr std::size_t kMaxSafetensorsHeader = 100'000'000;

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  std::vector<Tensor> tensors;  // In the order of their bytes in the file.
  SafetensorsMetadata metadata;
};

// The length and header, padded so that the tensors begin 8-byte aligned. The file is this and
// each tensor's bytes in the order given (put wider types first to keep them aligned too). Aborts
// on a tensor whose bytes do not fit its shape, or two of one name.
std::string SafetensorsHeader(const std::vector<Tensor>& tensors,
                              const SafetensorsMetadata& metadata);

// The whole file as the pieces to write: `header` and the tensors must outlive them.
std::vector<std::string_view> SafetensorsParts(std::string_view header,
                                               const std::vector<Tensor>& tensors);

// The tensors are slices of the file. `name` stands in the messages.
Result<SafetensorsFile> ParseSafetensors(const Bytes& file, std::string_view name);

}  // namespace ddprun
