#include "trainer/checkpoint/snapshot.h"

#include <nlohmann/json.hpp>

#include "common/json.h"
#include "trainer/checkpoint/json_fields.h"

namespace ddprun {
namespace {

using nlohmann::json;

// JSON knows no NaN or infinity: it is written with null for both.
double NumberFromJson(const json& value, const char* key, JsonFields& fields) {
  if (value.is_null()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (!value.is_number()) {
    fields.Fail(key, "a number");
    return 0;
  }
  return value.get<double>();
}

std::map<std::string, std::string> TextMap(JsonFields& fields, const char* key) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : fields.Object(key).items()) {
    if (!value.is_string()) {
      fields.Fail(key, "an object of strings");
      break;
    }
    out[name] = value.get<std::string>();
  }
  return out;
}

Buckets BucketsFrom(JsonFields& fields) {
  Buckets out;
  for (const json& bucket : fields.Array("buckets")) {
    std::vector<std::size_t>& indexes = out.emplace_back();
    for (const json& index : bucket) {
      if (!index.is_number_unsigned()) {
        fields.Fail("buckets", "an array of arrays of indexes");
        return {};
      }
      indexes.push_back(index.get<std::size_t>());
    }
  }
  return out;
}

std::vector<FileDigest> Files(JsonFields& fields) {
  std::vector<FileDigest> out;
  for (const json& entry : fields.Array("files")) {
    JsonFields file(entry, "files");
    out.push_back({file.Text("name"), file.Unsigned("bytes"), file.HexText("xxh64")});
    if (file.problem()) {
      fields.Fail("files", "a list of {name, bytes, xxh64}");
    }
  }
  return out;
}

}  // namespace

std::uint64_t ByteCount(const Snapshot& snapshot) {
  std::uint64_t bytes = 0;
  for (const std::vector<Tensor>* tensors : {&snapshot.model, &snapshot.optimizer}) {
    for (const Tensor& tensor : *tensors) {
      bytes += tensor.bytes.size();
    }
  }
  return bytes;
}

std::string ToJson(const StateFile& file) {
  const TrainState& state = file.state;
  json files = json::array();
  for (const FileDigest& entry : file.files) {
    files.push_back({{"name", entry.name}, {"bytes", entry.bytes}, {"xxh64", Hex(entry.xxh64)}});
  }
  const json out = {{"schema", TrainState::kSchema},
                    {"model", state.model},
                    {"model_description", state.model_description},
                    {"dataset", state.dataset},
                    {"step", state.step},
                    {"epoch", state.epoch},
                    {"samples_in_epoch", state.samples_in_epoch},
                    {"seed", state.seed},
                    {"world_size", state.world_size},
                    {"rank_batch", state.rank_batch},
                    {"global_batch", state.global_batch},
                    {"buckets", state.buckets},
                    {"hyperparameters", state.hyperparameters},
                    {"finished", state.finished},
                    {"loss", state.loss},
                    {"metrics", state.metrics},
                    {"versions", state.versions},
                    {"run_id", state.run_id},
                    {"term", state.term.value},
                    {"generation", state.generation.value},
                    {"world_id", Hex(state.world_id.value)},
                    {"parent", state.parent},
                    {"total_bytes", state.total_bytes},
                    {"files", files}};
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<StateFile> StateFileFromJson(std::string_view text, std::string_view name) {
  const json in = ParseJson(text);
  if (!in.is_object()) {
    return Invalid("not a JSON object", name);
  }
  JsonFields fields(in, name);
  const std::uint64_t schema = fields.Unsigned("schema");
  if (!fields.problem() && schema != TrainState::kSchema) {
    return Invalid("schema " + std::to_string(schema) + " is not the schema " +
                       std::to_string(TrainState::kSchema) + " that this program reads",
                   name);
  }
  StateFile file;
  TrainState& state = file.state;
  state.model = fields.Text("model");
  state.model_description = fields.Text("model_description");
  state.dataset = fields.Text("dataset");
  state.step = fields.Unsigned("step");
  state.epoch = fields.Unsigned("epoch");
  state.samples_in_epoch = fields.Unsigned("samples_in_epoch");
  state.seed = fields.Unsigned("seed");
  state.world_size = fields.Unsigned32("world_size");
  state.rank_batch = fields.Unsigned("rank_batch");
  state.global_batch = fields.Unsigned("global_batch");
  state.buckets = BucketsFrom(fields);
  state.hyperparameters = TextMap(fields, "hyperparameters");
  state.finished = fields.Flag("finished");
  state.loss = NumberFromJson(in.value("loss", json()), "loss", fields);
  for (const auto& [metric, value] : fields.Object("metrics").items()) {
    state.metrics[metric] = NumberFromJson(value, "metrics", fields);
  }
  state.versions = TextMap(fields, "versions");
  state.run_id = fields.Text("run_id");
  state.term = Term{fields.Unsigned("term")};
  state.generation = Generation{fields.Unsigned("generation")};
  state.world_id = WorldId{fields.HexText("world_id")};
  state.parent = fields.Text("parent");
  state.total_bytes = fields.Unsigned("total_bytes");
  file.files = Files(fields);
  if (fields.problem()) {
    return *fields.problem();
  }
  return file;
}

}  // namespace ddprun
