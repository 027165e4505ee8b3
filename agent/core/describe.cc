#include "agent/core/describe.h"

#include "common/overload.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {

std::string Describe(AgentPhase phase) {
  switch (phase) {
    case AgentPhase::kIdle:
      return "idle";
    case AgentPhase::kRunning:
      return "running";
    case AgentPhase::kStopping:
      return "stopping";
    case AgentPhase::kDone:
      return "done";
  }
  return "";
}

std::string Describe(const AgentState& state) {
  std::string text = Describe(state.phase);
  if (state.placement) {
    text += " generation " + std::to_string(state.placement->generation.value);
  }
  text += ", floor " + std::to_string(state.floor.value);
  if (state.alive > 0) {
    text += ", " + std::to_string(state.alive) + " workers alive";
  }
  if (state.echo) {
    text += ", ordered to " + Describe(*state.echo);
  }
  return text;
}

std::string TimeLeft(const AgentState& state, Time now) {
  return state.job_end && state.job_end->ends > now
             ? "; the job ends in " + FormatDuration(state.job_end->ends - now)
             : "";
}

std::string Describe(const AgentEffect& effect) {
  return std::visit(
      Overload{
          [](const SendReport& send) {
            const NodeReport& r = send.report;
            const char* hosting = r.hosting == Hosting::kNothing   ? "hosts nothing"
                                  : r.hosting == Hosting::kWorkers ? "hosts workers"
                                                                   : "is stopping";
            return "send report " + std::to_string(r.sequence) + " (" + hosting + ", floor " +
                   std::to_string(r.floor.value) + ", " + std::to_string(r.failures.size()) +
                   " failures" + (r.unfit.empty() ? r.checking ? ", checking" : "" : ", unfit") +
                   ")";
          },
          [](const Spawn& spawn) {
            return "spawn generation " + std::to_string(spawn.placement.generation.value) +
                   " from rank " + std::to_string(spawn.placement.first_rank) + " of " +
                   std::to_string(spawn.placement.world_size);
          },
          [](const SignalWorkers& s) { return "signal workers: " + SignalName(s.signal); },
          [](const KillWorkers&) { return std::string("kill workers"); },
          [](const CheckNode&) { return std::string("check the node"); },
          [](const TakeStacks&) { return std::string("take the workers' stacks"); },
          [](const Exit& exit) {
            return "exit " + std::to_string(exit.code) +
                   (exit.finish         ? ": " + exit.finish->text
                    : exit.text.empty() ? ""
                                        : ": " + exit.text);
          },
          [](const Say& say) { return "say: " + say.text; },
      },
      effect);
}

}  // namespace ddprun
