// The server's part of a generation's bundle (agent/watch/evidence_bundle.h), while that generation
// stops: the state of the run when it hung or failed, before any worker was killed, its events of
// the last ten minutes, and then the findings.
//
//   hung, or stopping for a failure   state.json, events.jsonl; of a hang verdict.txt too
//   restarting, or the run's end      verdict.txt: who was to blame, and what followed
//
// Of a change of membership nothing is kept. On the loop, but for Finish; disks hold nothing up
// (background_writer.h).
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "launcher/evidence/background_writer.h"
#include "launcher/evidence/run_overview.h"

namespace ddprun {

inline constexpr const char* kStateFile = "state.json";  // Of a bundle.

class RunBundle {
 public:
  static constexpr std::int64_t kBeforeMs = 600'000;  // Events this much older belong to it.
  static constexpr std::size_t kMostEvents = 1'000;

  using Look = std::function<std::optional<RunStatus>(const RunId&)>;

  // `place`: where bundles are. `node`: the one that hosts the server.
  RunBundle(Loop& loop, std::filesystem::path place, std::string node);
  RunBundle(const RunBundle&) = delete;
  RunBundle& operator=(const RunBundle&) = delete;

  void Begin(Look look, Term term);
  void Stop() { look_ = nullptr; }
  // Of whatever run; bundles are of the first one that needs one.
  void Note(const RunId& run_id, const RunEvent& event);

  // The loop has ended.
  void Finish(Duration limit) { writer_.Finish(limit); }

 private:
  void TakeState(const RunEvent& event);
  // A file of the open bundle; its writer makes the text.
  void Put(const char* name, std::function<std::string()> text);

  const std::filesystem::path place_;
  const std::string node_;
  RunId run_id_;
  Look look_;
  Term term_;
  std::deque<RunEvent> events_;
  Generation open_;      // Of the bundle whose verdict is still to come; 0: none.
  std::string verdict_;  // So far.
  BackgroundWriter writer_;
};

}  // namespace ddprun
