#include "trainer/checkpoint/safetensors.h"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/json.h"

namespace ddprun {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kMaxDimensions = 64;
constexpr const char* kMetadata = "__metadata__";

struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::optional<DType> DTypeOf(const json& name) {
  const std::string text = name.is_string() ? name.get<std::string>() : "";
  const auto* const found = std::ranges::find(kDTypes, text, &DTypeEntry::name);
  return found == std::end(kDTypes) ? std::nullopt
                                    : std::optional(static_cast<DType>(found - kDTypes));
}

// nullopt where the product does not fit: no file is that large.
std::optional<std::uint64_t> BytesOf(DType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = EntryOf(dtype).size;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

bool IsUnsignedArray(const json& value, std::size_t max_size) {
  return value.is_array() && value.size() <= max_size &&
         std::all_of(value.begin(), value.end(), [](const json& item) {
           return item.is_number_unsigned() && item.get<std::uint64_t>() <= INT64_MAX;
         });
}

Result<SafetensorsMetadata> ParseMetadata(const json& value, std::string_view name) {
  SafetensorsMetadata metadata;
  if (!value.is_object()) {
    return Invalid("__metadata__ is not an object in", name);
  }
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      return Invalid("__metadata__ '" + key + "' is not a string in", name);
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

Result<std::pair<Tensor, Span>> ParseTensor(const std::string& tensor_name, const json& value,
                                            std::uint64_t data_bytes, std::string_view name) {
  const auto bad = [&](const std::string& what) {
    return Invalid("tensor '" + tensor_name + "' " + what, name);
  };
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets")) {
    return bad("lacks dtype, shape or data_offsets");
  }
  const std::optional<DType> dtype = DTypeOf(value["dtype"]);
  if (!dtype) {
    return bad("has a dtype that is not supported, " + value["dtype"].dump().substr(0, 40));
  }
  if (!IsUnsignedArray(value["shape"], kMaxDimensions)) {
    return bad("has a bad shape");
  }
  const json& offsets = value["data_offsets"];
  if (!IsUnsignedArray(offsets, 2) || offsets.size() != 2) {
    return bad("has bad data_offsets");
  }
  Tensor tensor{tensor_name, *dtype, value["shape"].get<std::vector<std::int64_t>>(), {}};
  const Span span{offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>()};
  if (span.begin > span.end || span.end > data_bytes) {
    return bad("lies outside of the " + std::to_string(data_bytes) + " bytes of data");
  }
  if (BytesOf(*dtype, tensor.shape) != span.end - span.begin) {
    return bad("has data_offsets that do not fit its shape");
  }
  return std::pair(std::move(tensor), span);
}

}  // namespace

std::string SafetensorsHeader(const std::vector<Tensor>& tensors,
                              const SafetensorsMetadata& metadata) {
  // Entry by entry, in the order of the bytes: an ordered object compares each name with all
  // before.
  std::string text;
  const auto add = [&text](std::string_view name, const nlohmann::ordered_json& value) {
    const auto replace = json::error_handler_t::replace;
    text += (text.empty() ? '{' : ',') + json(name).dump(-1, ' ', false, replace) + ':' +
            value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  if (!metadata.empty()) {
    add(kMetadata, metadata);
  }
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors) {
    CHECK(tensor.name != kMetadata && names.insert(tensor.name).second);
    CHECK(BytesOf(tensor.dtype, tensor.shape) == tensor.bytes.size());
    const std::uint64_t end = offset + tensor.bytes.size();
    add(tensor.name, {{"dtype", EntryOf(tensor.dtype).name},
                      {"shape", tensor.shape},
                      {"data_offsets", std::vector<std::uint64_t>{offset, end}}});
    offset = end;
  }
  text += text.empty() ? "{}" : "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  CHECK(text.size() <= kMaxSafetensorsHeader);
  const auto size = boost::endian::native_to_little(std::uint64_t{text.size()});
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

std::vector<std::string_view> SafetensorsParts(std::string_view header,
                                               const std::vector<Tensor>& tensors) {
  std::vector<std::string_view> parts{header};
  for (const Tensor& tensor : tensors) {
    parts.push_back(tensor.bytes);
  }
  return parts;
}

Result<SafetensorsFile> ParseSafetensors(const Bytes& file, std::string_view name) {
  if (file.size() < kLengthBytes) {
    return Invalid("too short for a safetensors file", name);
  }
  const std::uint64_t header_bytes =
      boost::endian::load_little_u64(reinterpret_cast<const unsigned char*>(file.data()));
  if (header_bytes > kMaxSafetensorsHeader || header_bytes > file.size() - kLengthBytes) {
    return Invalid("the safetensors header claims " + std::to_string(header_bytes) + " bytes",
                   name);
  }
  // Of a name that stands twice JSON's readers keep the last: the other's bytes are then a hole.
  const json header = ParseJson(file.Slice(kLengthBytes, header_bytes));
  if (!header.is_object()) {
    return Invalid("the safetensors header is not a JSON object (nested " +
                       std::to_string(kMaxJsonDepth) + " deep at most)",
                   name);
  }
  const std::size_t begin = kLengthBytes + static_cast<std::size_t>(header_bytes);
  const Bytes data = file.Slice(begin, file.size() - begin);

  SafetensorsFile out;
  std::vector<std::pair<Tensor, Span>> found;
  for (const auto& [key, value] : header.items()) {
    if (key == kMetadata) {
      ASSIGN_OR_RETURN(out.metadata, ParseMetadata(value, name));
      continue;
    }
    ASSIGN_OR_RETURN(auto tensor, ParseTensor(key, value, data.size(), name));
    found.push_back(std::move(tensor));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
  });
  std::uint64_t covered = 0;
  for (auto& [tensor, span] : found) {
    if (span.begin != covered) {
      return Invalid("tensor '" + tensor.name + "' " +
                         (span.begin < covered ? "overlaps another" : "follows a hole"),
                     name);
    }
    covered = span.end;
    tensor.bytes = data.Slice(span.begin, span.end - span.begin);
    out.tensors.push_back(std::move(tensor));
  }
  if (covered != data.size()) {
    return Invalid(std::to_string(data.size() - covered) + " bytes belong to no tensor in", name);
  }
  return out;
}

}  // namespace ddprun
