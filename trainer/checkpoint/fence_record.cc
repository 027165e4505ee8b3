#include "trainer/checkpoint/fence_record.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "common/text.h"
#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/json_fields.h"

namespace ddprun {
namespace {

using nlohmann::json;

constexpr std::uint32_t kSchema = 1;
constexpr std::size_t kMaxRunId = 200;
constexpr std::string_view kStep = "step-";
constexpr std::size_t kStepDigits = 8;  // So that names sort by their steps.
constexpr std::string_view kKinds[] = {"claim", "commit", "close"};  // By RecordKind.

bool IsNumber(std::string_view text) {
  return text.size() <= 20 && IsDigits(text);
}

// A run id comes from the environment, as any bytes; a record holds short printable text. Distinct
// ids stay distinct.
RunId PrintableRunId(const RunId& run_id) {
  RunId out = run_id.substr(0, kMaxRunId);
  for (char& c : out) {
    c = c >= ' ' && c <= '~' ? c : '?';
  }
  return out == run_id ? out : out + "#" + Hex(Digest(run_id));
}

json ToJson(const CheckpointRef& ref) {
  return {{"directory", ref.directory}, {"state_xxh64", Hex(ref.digest)}};
}

std::optional<CheckpointRef> RefFrom(const json& entry) {
  JsonFields fields(entry, "");
  CheckpointRef ref{fields.Text("directory"), fields.HexText("state_xxh64")};
  return fields.problem() || !IsCheckpointName(ref.directory) ? std::nullopt
                                                              : std::optional(std::move(ref));
}

}  // namespace

Writer MakeWriter(const RunId& run_id, Term term, Generation generation, WorldId world_id) {
  Writer writer{PrintableRunId(run_id), term, generation, world_id, world_id.value != 0};
  while (writer.world_id.value == 0) {
    writer.world_id.value = RandomBits();
  }
  return writer;
}

std::string Describe(const Writer& writer) {
  return "run '" + writer.run_id + "' (term " + std::to_string(writer.term.value) +
         ", generation " + std::to_string(writer.generation.value) + ", world " +
         Hex(writer.world_id.value) + ")";
}

std::string CheckpointName(const MadeBy& made) {
  const std::string step = std::to_string(made.step);
  const std::string zeros(kStepDigits - std::min(kStepDigits, step.size()), '0');
  return std::string(kStep) + zeros + step + "-" + Hex(made.world.value);
}

// step-<digits>-<16 hex>, and .<digits> where a world writes the same step again.
std::optional<MadeBy> WhoMade(std::string_view name) {
  const std::size_t dash = name.find('-', kStep.size());
  if (!name.starts_with(kStep) || dash == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(kStep.size(), dash - kStep.size());
  const std::string_view rest = name.substr(dash + 1);
  const std::optional<std::uint64_t> world = ParseHex(rest.substr(0, 16));
  const bool again = rest.size() > 16 && rest[16] == '.' && IsNumber(rest.substr(17));
  if (!IsNumber(digits) || !world || (rest.size() > 16 && !again)) {
    return std::nullopt;
  }
  MadeBy made{.world = WorldId{*world}};
  std::from_chars(digits.data(), digits.data() + digits.size(), made.step);
  return made;
}

std::string ToText(const FenceRecord& record) {
  json lineage = json::array();
  for (const CheckpointRef& ref : record.lineage) {
    lineage.push_back(ToJson(ref));
  }
  json out = {{"schema", kSchema},
              {"kind", kKinds[static_cast<std::size_t>(record.kind)]},
              {"run_id", record.writer.run_id},
              {"term", record.writer.term.value},
              {"generation", record.writer.generation.value},
              {"world_id", Hex(record.writer.world_id.value)},
              {"ordered", record.writer.ordered},
              {"lineage", lineage}};
  if (record.best) {
    out["best"] = ToJson(*record.best);
  }
  const std::string line = out.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  return line + Hex(Digest(line)) + "\n";
}

Result<FenceRecord> FenceRecordFromText(std::string_view text, std::uint64_t number,
                                        std::string_view name) {
  const std::size_t line_end = text.find('\n');
  const std::string_view line = text.substr(0, line_end == text.npos ? 0 : line_end + 1);
  if (line.empty() || text.substr(line.size()) != Hex(Digest(line)) + "\n") {
    return Invalid("the fence record is damaged (its digest does not match)", name);
  }
  const json in = ParseJson(line);
  JsonFields fields(in, name);
  FenceRecord record;
  record.number = number;
  if (fields.Unsigned("schema") != kSchema) {
    fields.Fail("schema", "the one that this program reads");
  }
  const auto* const kind = std::ranges::find(kKinds, fields.Text("kind"));
  if (kind == std::end(kKinds)) {
    fields.Fail("kind", "claim, commit or close");
  }
  record.kind = static_cast<RecordKind>(kind - kKinds);
  record.writer = {fields.Text("run_id"), Term{fields.Unsigned("term")},
                   Generation{fields.Unsigned("generation")}, WorldId{fields.HexText("world_id")},
                   fields.Flag("ordered")};
  for (const json& entry : fields.Array("lineage")) {
    const std::optional<CheckpointRef> ref = RefFrom(entry);
    if (!ref || record.lineage.size() == kMaxLineage) {
      fields.Fail("lineage", "a short list of checkpoints");
      break;
    }
    record.lineage.push_back(*ref);
  }
  if (in.is_object() && in.contains("best")) {
    record.best = RefFrom(in["best"]);
    if (!record.best) {
      fields.Fail("best", "a checkpoint");
    }
  }
  if (fields.problem()) {
    return *fields.problem();
  }
  return record;
}

}  // namespace ddprun
