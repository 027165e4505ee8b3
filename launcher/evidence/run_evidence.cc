#include "launcher/evidence/run_evidence.h"

namespace ddprun {

RunEvidence::RunEvidence(Loop& loop, const std::filesystem::path& directory, const RunId& run_id,
                         const std::string& node)
    : events_(loop, directory),
      files_(loop, directory, run_id, node),
      bundle_(loop, directory, node) {}

void RunEvidence::ServerCame(CoordinatorDriver& server) {
  server.TellEvents([this](const RunId& run_id, const RunEvent& event) {
    events_.Keep(run_id, event);
    files_.Note(run_id, event);
    bundle_.Note(run_id, event);
  });
  const auto look = [&server](const RunId& run_id) { return server.StatusOfRun(run_id); };
  files_.Begin(look, server.config().term);
  bundle_.Begin(look, server.config().term);
}

void RunEvidence::Finish(Duration limit) {
  events_.Finish(limit);
  files_.Finish(limit);
  bundle_.Finish(limit);
}

}  // namespace ddprun
