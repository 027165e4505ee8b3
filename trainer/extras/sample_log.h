// Which samples each step used, for people who check: one file per generation and rank, one JSON
// object per step.
//
//   {"epoch":0,"step":1,"samples":[5,1022,...]}
//
// A line is handed over when its step is finished on this rank, and holds up nobody, whatever the
// disk does (line_file.h): of a rank that is killed the lines that wait are missing. Steps that a
// later generation repeats are in its file again: those of the generation whose checkpoint was
// resumed count up to that checkpoint's step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "common/result.h"
#include "proto/worker_env.h"
#include "trainer/disk/line_file.h"

namespace ddprun {

class SampleLog {
 public:
  // generation-<g>.rank-<r>.jsonl in `directory`, which is made. An empty path: Append does
  // nothing.
  static Result<SampleLog> Open(const std::filesystem::path& directory, const WorkerEnv& env);

  // `step` counts from 1, `epoch` from 0. A disk that refuses is said once.
  void Append(std::uint64_t epoch, std::uint64_t step, std::span<const std::uint32_t> samples);
  // Until all is written, but not for long: what still is not is said.
  void Finish();

 private:
  std::optional<LineFile> lines_;
};

}  // namespace ddprun
