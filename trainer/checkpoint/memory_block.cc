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

constexpr char kMagic[8] = {'d', 'd', 'p', 'r', 'u', 'n', 'm', '2'};
constexpr std::size_t kSpare = 64 << 10;

struct Head {
  char magic[8];
  std::uint64_t before;
  std::uint64_t facts_bytes;
  std::uint64_t model_bytes;
  std::uint64_t optimizer_bytes;
  std::uint64_t facts_digest;
  std::uint64_t content_digest;
  std::uint64_t after;
  std::uint64_t starts;
};

Result<std::vector<PathWorld>> ReadPath(const nlohmann::json& json) {
  std::vector<PathWorld> path;
  if (json.size() > kMostPath) {
    return Error{ErrorKind::kInvalid, "a block's path is too long"};
  }
  for (const nlohmann::json& world : json) {
    JsonFields fields(world, "a block's path");
    PathWorld on;
    on.term.value = fields.Unsigned("term");
    on.generation.value = fields.Unsigned("generation");
    on.world.value = fields.HexText("world");
    on.last_step = fields.Unsigned("last_step");
    if (fields.problem()) {
      return *fields.problem();
    }
    path.push_back(on);
  }
  return path;
}

// With room up to the next multiple of eight.
std::string InEights(std::string text) {
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// Its parts in order.
struct Payload {
  Payload(const Snapshot& snapshot, const BlockFacts& facts)
      : text(InEights(ToText(facts, snapshot.state))),
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
  std::vector<std::string_view> parts;  // The text is the first.
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

std::string ToText(const BlockFacts& facts) {
  nlohmann::json json = {{"directory", facts.directory},
                         {"base", facts.base ? facts.base->directory : ""},
                         {"base_digest", Hex(facts.base ? facts.base->digest : 0)},
                         {"path", nlohmann::json::array()},
                         {"steps", nlohmann::json::object()},
                         {"unsaved_ms", facts.unsaved_ms}};
  for (const PathWorld& on : facts.path) {
    json["path"].push_back({{"term", on.term.value},
                            {"generation", on.generation.value},
                            {"world", Hex(on.world.value)},
                            {"last_step", on.last_step}});
  }
  const auto set = [&](const char* name, const std::optional<std::uint64_t>& step) {
    if (step) {
      json["steps"][name] = *step;
    }
  };
  set("handed_over", facts.handed_over);
  set("best", facts.best);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<BlockFacts> BlockFactsFromText(std::string_view text) {
  try {
    const nlohmann::json json = ParseJson(text);
    JsonFields fields(json, "a block's facts");
    BlockFacts facts;
    facts.directory = fields.Text("directory");
    const std::string base = fields.Text("base");
    const std::uint64_t digest = fields.HexText("base_digest");
    if (!base.empty()) {
      facts.base = CheckpointRef{base, digest};
    }
    ASSIGN_OR_RETURN(facts.path, ReadPath(fields.Array("path")));
    const nlohmann::json& steps = fields.Object("steps");
    JsonFields named(steps, "a block's steps");
    const auto step = [&](const char* name) {
      return steps.contains(name) ? std::optional(named.Unsigned(name)) : std::nullopt;
    };
    facts.handed_over = step("handed_over");
    facts.best = step("best");
    facts.unsaved_ms = fields.Unsigned("unsaved_ms");
    for (const JsonFields* all : {&fields, &named}) {
      if (all->problem()) {
        return *all->problem();
      }
    }
    return facts;
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorKind::kInvalid, std::string("a block's facts are no JSON: ") + error.what()};
  }
}

std::string ToText(const BlockFacts& facts, const TrainState& state) {
  const nlohmann::json json = {{"facts", ToText(facts)}, {"state", ToJson(StateFile{state, {}})}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<BlockHeading> BlockHeadingFromText(std::string_view text) {
  try {
    const nlohmann::json json = ParseJson(text);
    JsonFields fields(json, "a block's heading");
    const std::string facts = fields.Text("facts");
    const std::string state = fields.Text("state");
    if (fields.problem()) {
      return *fields.problem();
    }
    BlockHeading heading;
    ASSIGN_OR_RETURN(heading.facts, BlockFactsFromText(facts));
    ASSIGN_OR_RETURN(StateFile file, StateFileFromJson(state, "a block's state"));
    heading.state = std::move(file.state);
    return heading;
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorKind::kInvalid, std::string("a block's heading is no JSON: ") + error.what()};
  }
}

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
  head.facts_digest = Digest(payload.text);
  head.content_digest =
      Digest(std::vector<std::string_view>(payload.parts.begin() + 1, payload.parts.end()));
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
  const std::string_view bytes(copy);
  const std::string_view facts = bytes.substr(0, head.facts_bytes);
  if (Digest(facts) != head.facts_digest ||
      Digest(bytes.substr(head.facts_bytes)) != head.content_digest) {
    return refused("its digest is another one");
  }
  MemorySnapshot found{
      .sequence = head.before, .starts = head.starts, .content = head.content_digest};
  ASSIGN_OR_RETURN(BlockHeading heading, BlockHeadingFromText(facts));
  found.facts = std::move(heading.facts);
  found.snapshot.state = std::move(heading.state);
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
