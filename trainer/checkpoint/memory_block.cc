#include "trainer/checkpoint/memory_block.h"

#include <atomic>
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

constexpr char kMagic[8] = {'d', 'd', 'p', 'r', 'u', 'n', 'm', '1'};
constexpr std::size_t kSpare = 64 << 10;

struct Head {
  char magic[8];
  std::uint64_t before;
  std::uint64_t facts_bytes;
  std::uint64_t model_bytes;
  std::uint64_t optimizer_bytes;
  std::uint64_t digest;  // Of the payload.
  std::uint64_t after;
  std::uint64_t starts;
};

std::string FactsText(const Snapshot& snapshot, const BlockFacts& facts) {
  nlohmann::json json = {
      {"directory", facts.directory},   {"base", ""},
      {"base_digest", Hex(0)},          {"steps", nlohmann::json::object()},
      {"unsaved_ms", facts.unsaved_ms}, {"state", ToJson(StateFile{snapshot.state, {}})}};
  if (facts.base) {
    json["base"] = facts.base->directory;
    json["base_digest"] = Hex(facts.base->digest);
  }
  const auto set = [&](const char* name, const std::optional<std::uint64_t>& step) {
    if (step) {
      json["steps"][name] = *step;
    }
  };
  set("handed_over", facts.handed_over);
  set("best", facts.best);
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

Result<void> ReadFacts(std::string_view text, MemorySnapshot& found) {
  try {
    const nlohmann::json json = ParseJson(text);
    JsonFields fields(json, "a block's facts");
    found.facts.directory = fields.Text("directory");
    const std::string base = fields.Text("base");
    const std::uint64_t digest = fields.HexText("base_digest");
    if (!base.empty()) {
      found.facts.base = CheckpointRef{base, digest};
    }
    const nlohmann::json& steps = fields.Object("steps");
    JsonFields named(steps, "a block's steps");
    const auto step = [&](const char* name) {
      return steps.contains(name) ? std::optional(named.Unsigned(name)) : std::nullopt;
    };
    found.facts.handed_over = step("handed_over");
    found.facts.best = step("best");
    found.facts.unsaved_ms = fields.Unsigned("unsaved_ms");
    const std::string state = fields.Text("state");
    for (const JsonFields* all : {&fields, &named}) {
      if (all->problem()) {
        return *all->problem();
      }
    }
    ASSIGN_OR_RETURN(StateFile file, StateFileFromJson(state, "a block's state"));
    found.snapshot.state = std::move(file.state);
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorKind::kInvalid, std::string("a block's facts are no JSON: ") + error.what()};
  }
  return {};
}

// Its parts in order.
struct Payload {
  Payload(const Snapshot& snapshot, const BlockFacts& facts)
      : text(FactsText(snapshot, facts)),
        model_header(SafetensorsHeader(snapshot.model, {})),
        optimizer_header(SafetensorsHeader(snapshot.optimizer, {})) {
    parts.push_back(text);
    const auto add = [this](const std::string& header, const std::vector<Tensor>& tensors) {
      std::size_t bytes = 0;
      for (const std::string_view part : SafetensorsParts(header, tensors)) {
        parts.push_back(part);
        bytes += part.size();
      }
      return bytes;
    };
    model_bytes = add(model_header, snapshot.model);
    optimizer_bytes = add(optimizer_header, snapshot.optimizer);
  }
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;

  std::size_t size() const { return text.size() + model_bytes + optimizer_bytes; }

  const std::string text;
  const std::string model_header;
  const std::string optimizer_header;
  std::size_t model_bytes = 0;
  std::size_t optimizer_bytes = 0;
  std::vector<std::string_view> parts;
};

Head HeadOf(std::span<const char> block) {
  Head head{};
  if (block.size() >= sizeof head) {
    std::memcpy(&head, block.data(), sizeof head);
  }
  return head;
}

void Store(std::uint64_t& number, std::uint64_t value) {
  std::atomic_ref(number).store(value, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace

std::size_t BlockBytes(const Snapshot& snapshot, const BlockFacts& facts) {
  return sizeof(Head) + Payload(snapshot, facts).size() + kSpare;
}

bool WriteBlock(std::span<char> block, std::uint64_t sequence, const Snapshot& snapshot,
                const BlockFacts& facts) {
  const Payload payload(snapshot, facts);
  if (block.size() < sizeof(Head) || block.size() - sizeof(Head) < payload.size()) {
    return false;
  }
  Head& head = *reinterpret_cast<Head*>(block.data());
  Store(head.before, sequence);
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.facts_bytes = payload.text.size();
  head.model_bytes = payload.model_bytes;
  head.optimizer_bytes = payload.optimizer_bytes;
  head.digest = Digest(payload.parts);
  head.starts = 0;
  char* to = block.data() + sizeof head;
  for (const std::string_view part : payload.parts) {
    if (!part.empty()) {
      std::memcpy(to, part.data(), part.size());
    }
    to += part.size();
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Store(head.after, sequence);
  return true;
}

void CountStart(std::span<char> block) {
  ++reinterpret_cast<Head*>(block.data())->starts;
}

std::uint64_t SequenceOf(std::span<const char> block) {
  const Head head = HeadOf(block);
  return head.before == head.after ? head.before : 0;
}

Result<MemorySnapshot> ReadBlock(std::span<const char> block) {
  const auto refused = [](const char* why) { return Error{ErrorKind::kInvalid, why}; };
  const Head head = HeadOf(block);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) {
    return refused("it holds no snapshot of this release");
  }
  if (head.before != head.after || head.before == 0) {
    return refused("it was being written when its process ended");
  }
  std::size_t left = block.size() - sizeof head;
  for (const std::uint64_t bytes : {head.facts_bytes, head.model_bytes, head.optimizer_bytes}) {
    if (bytes > left) {
      return refused("its sizes are none");
    }
    left -= bytes;
  }
  const std::size_t size = block.size() - sizeof head - left;
  Bytes copy = Bytes::Uninitialized(size);
  std::memcpy(copy.mutable_data(), block.data() + sizeof head, size);
  if (Digest(std::string_view(copy)) != head.digest) {
    return refused("its digest is another one");
  }
  MemorySnapshot found{.sequence = head.before, .starts = head.starts};
  RETURN_IF_ERROR(ReadFacts(std::string_view(copy).substr(0, head.facts_bytes), found));
  ASSIGN_OR_RETURN(
      SafetensorsFile model,
      ParseSafetensors(copy.Slice(head.facts_bytes, head.model_bytes), "a block's model"));
  ASSIGN_OR_RETURN(
      SafetensorsFile optimizer,
      ParseSafetensors(copy.Slice(head.facts_bytes + head.model_bytes, head.optimizer_bytes),
                       "a block's optimizer"));
  found.snapshot.model = std::move(model.tensors);
  found.snapshot.optimizer = std::move(optimizer.tensors);
  return found;
}

}  // namespace ddprun
