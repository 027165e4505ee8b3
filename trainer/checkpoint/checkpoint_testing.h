// The training in the tests of checkpoints: a model of two tensors whose values tell the step.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_store.h"

namespace ddprun {

inline Tensor Floats(const std::string& name, const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {name, DType::kF32, {static_cast<std::int64_t>(values.size())}, bytes};
}

inline Snapshot SnapshotAt(std::uint64_t step) {
  const float value = static_cast<float>(step);
  Snapshot snapshot;
  snapshot.model = {Floats("fc.weight", {value, value + 1, value + 2}), Floats("fc.bias", {value})};
  snapshot.optimizer = {Floats("fc.weight.momentum", {value, 0, 0})};
  snapshot.state.model = "mlp";
  snapshot.state.model_description = "3-1";
  snapshot.state.dataset = "mnist";
  snapshot.state.step = step;
  snapshot.state.epoch = 2;
  snapshot.state.samples_in_epoch = 64 * step;
  snapshot.state.seed = 18'446'744'073'709'551'557u;
  snapshot.state.world_size = 2;
  snapshot.state.rank_batch = 32;
  snapshot.state.global_batch = 64;
  snapshot.state.buckets = {{1, 0}};
  snapshot.state.hyperparameters = {{"lr", "0.1"}};
  snapshot.state.loss = 0.1;
  snapshot.state.metrics = {{"accuracy", 0.97}};
  snapshot.state.versions = {{"ddprun", "0.1"}};
  return snapshot;
}

inline Writer World(const std::string& run, std::uint64_t generation) {
  return MakeWriter(run, Term{7}, Generation{generation}, WorldId{0xabc000 + generation});
}

inline CheckpointConfig ConfigFor(const std::filesystem::path& directory) {
  CheckpointConfig config;
  config.directory = directory;
  config.model = "mlp";
  config.model_description = "3-1";
  return config;
}

}  // namespace ddprun
