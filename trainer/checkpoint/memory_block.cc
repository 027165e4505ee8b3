#include "trainer/checkpoint/memory_block.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/json.h"
#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/json_fields.h"
#include "trainer/checkpoint/safetensors.h"

namespace ddprun {
namespace {

constexpr char kMagic[8] = {'d', 'd', 'p', 'r', 'u', 'n', 'm', '3'};
constexpr std::size_t kSpare = 64 << 10;

struct Head {
  char magic[8];
  std::uint64_t heading_bytes;
  std::uint64_t model_bytes;
  std::uint64_t optimizer_bytes;
  std::uint64_t digest;  // Of all after the head.
  std::uint64_t starts;
};

// Its parts in order.
struct Payload {
  Payload(const Snapshot& snapshot, const BlockFacts& facts)
      : heading(ToText({facts, snapshot.state})),
        model_header(SafetensorsHeader(snapshot.model, {})),
        optimizer_header(SafetensorsHeader(snapshot.optimizer, {})),
        parts{heading} {
    model_bytes = Add(model_header, snapshot.model);
    optimizer_bytes = Add(optimizer_header, snapshot.optimizer);
  }
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;

  std::size_t Add(const std::string& header, const std::vector<Tensor>& tensors) {
    std::size_t bytes = 0;
    for (const std::string_view part : SafetensorsParts(header, tensors)) {
      parts.push_back(part);
      bytes += part.size();
    }
    return bytes;
  }
  std::size_t size() const { return heading.size() + model_bytes + optimizer_bytes; }

  const std::string heading;
  const std::string model_header;
  const std::string optimizer_header;
  std::vector<std::string_view> parts;
  std::size_t model_bytes = 0;
  std::size_t optimizer_bytes = 0;
};

}  // namespace

std::string ToText(const BlockHeading& heading) {
  const BlockFacts& facts = heading.facts;
  nlohmann::json json = {{"unsaved_ms", facts.unsaved_ms},
                         {"starts", facts.starts},
                         {"state", ToJson(StateFile{heading.state, {}})}};
  const auto set = [&](const char* name, const std::optional<std::uint64_t>& value) {
    if (value) {
      json[name] = *value;
    }
  };
  set("base", facts.base);
  set("handed_over", facts.handed_over);
  set("best", facts.best);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<BlockHeading> BlockHeadingFromText(std::string_view text) {
  const nlohmann::json json = ParseJson(text);
  if (!json.is_object()) {
    return Error{ErrorKind::kInvalid, "a block's heading is no JSON object"};
  }
  JsonFields fields(json, "a block's heading");
  const auto some = [&](const char* name) {
    return json.contains(name) ? std::optional(fields.Unsigned(name)) : std::nullopt;
  };
  BlockHeading heading;
  heading.facts = {.base = some("base"),
                   .handed_over = some("handed_over"),
                   .unsaved_ms = fields.Unsigned("unsaved_ms"),
                   .best = some("best"),
                   .starts = fields.Unsigned("starts")};
  const std::string state = fields.Text("state");
  if (fields.problem()) {
    return *fields.problem();
  }
  ASSIGN_OR_RETURN(StateFile file, StateFileFromJson(state, "a block's state"));
  heading.state = std::move(file.state);
  return heading;
}

std::size_t BlockBytes(const Snapshot& snapshot, const BlockFacts& facts) {
  return sizeof(Head) + Payload(snapshot, facts).size() + kSpare;
}

bool WriteBlock(std::span<char> block, const Snapshot& snapshot, const BlockFacts& facts) {
  const Payload payload(snapshot, facts);
  if (block.size() < sizeof(Head) || block.size() - sizeof(Head) < payload.size()) {
    return false;
  }
  Head head{.heading_bytes = payload.heading.size(),
            .model_bytes = payload.model_bytes,
            .optimizer_bytes = payload.optimizer_bytes,
            .digest = Digest(payload.parts),
            .starts = facts.starts};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  std::memcpy(block.data(), &head, sizeof head);
  char* to = block.data() + sizeof head;
  for (const std::string_view part : payload.parts) {
    if (!part.empty()) {
      std::memcpy(to, part.data(), part.size());
    }
    to += part.size();
  }
  return true;
}

void CountStart(std::span<char> block) {
  ++reinterpret_cast<Head*>(block.data())->starts;
}

Result<MemorySnapshot> ReadBlock(std::span<const char> block) {
  const auto refused = [](const char* why) { return Error{ErrorKind::kInvalid, why}; };
  Head head{};
  if (block.size() >= sizeof head) {
    std::memcpy(&head, block.data(), sizeof head);
  }
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) {
    return refused("it holds no snapshot of this release");
  }
  std::size_t left = block.size() - sizeof head;
  for (const std::uint64_t bytes : {head.heading_bytes, head.model_bytes, head.optimizer_bytes}) {
    if (bytes > left) {
      return refused("its sizes are none");
    }
    left -= bytes;
  }
  const std::size_t content = head.model_bytes + head.optimizer_bytes;
  const std::string heading_text(block.data() + sizeof head, head.heading_bytes);
  Bytes copy = Bytes::Uninitialized(content);
  std::memcpy(copy.mutable_data(), block.data() + sizeof head + head.heading_bytes, content);
  if (Digest({heading_text, copy}) != head.digest) {
    return refused("its digest is another one");
  }
  ASSIGN_OR_RETURN(BlockHeading heading, BlockHeadingFromText(heading_text));
  ASSIGN_OR_RETURN(SafetensorsFile model,
                   ParseSafetensors(copy.Slice(0, head.model_bytes), "a block's model"));
  ASSIGN_OR_RETURN(
      SafetensorsFile optimizer,
      ParseSafetensors(copy.Slice(head.model_bytes, head.optimizer_bytes), "a block's optimizer"));
  MemorySnapshot found{.facts = heading.facts};
  found.facts.starts = head.starts;
  found.snapshot.state = std::move(heading.state);
  found.snapshot.model = std::move(model.tensors);
  found.snapshot.optimizer = std::move(optimizer.tensors);
  return found;
}

}  // namespace ddprun
