#include "launcher/slurm/job_rescue.h"

#include <algorithm>
#include <utility>

#include "common/exit_code.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kQuestionPatience{30'000};  // Each of three questions.
constexpr std::uint32_t kWhoAsk = 16;

std::string Field(const std::map<std::string, std::string>& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

// Slurm marks a host that does not answer: "DOWN*+CLOUD", "ALLOCATED*".
bool IsAway(const std::string& state) {
  return state.find('*') != std::string::npos || state.find("DOWN") != std::string::npos ||
         state.find("NOT_RESPONDING") != std::string::npos;
}

}  // namespace

std::map<std::string, std::string> ReadFields(std::string_view line) {
  std::map<std::string, std::string> fields;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find_first_of(" \n"));
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
      fields.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  return fields;
}

std::string WhyLeaveAlone(const Surroundings& around, const std::map<std::string, std::string>& job,
                          const std::map<std::string, std::string>& node) {
  const std::string state = Field(job, "JobState");
  const std::string restarts = Field(job, "Restarts");
  const std::string host = Field(job, "BatchHost");
  if (state != "RUNNING") {
    return "it is " + (state.empty() ? "unknown to Slurm" : state);
  }
  if (restarts != std::to_string(around.requeues)) {
    return "it was started again meanwhile (Restarts=" + restarts + ")";
  }
  if (host.empty() || Field(job, "BatchFlag") == "0") {
    return "it has no batch script";
  }
  if (host == around.node) {
    return "its batch script is on this host";
  }
  const std::string host_state = Field(node, "State");
  return node.empty() || IsAway(host_state)
             ? ""
             : "the host of its batch script, " + host + ", is " + host_state;
}

JobRescue::JobRescue(AsioLoop& loop, const Surroundings& around,
                     std::function<void(const std::string&)> say)
    : around_(around), say_(std::move(say)), command_(loop) {}

void JobRescue::Begin(int exit_code, bool serving, std::function<void()> done) {
  done_ = std::move(done);
  exit_code_ = exit_code;
  const bool asks = exit_code == kExitUnavailable && around_.index.value_or(kWhoAsk) < kWhoAsk;
  if (around_.job.empty() || around_.speaks_for_job || !(serving || asks)) {
    std::exchange(done_, nullptr)();
    return;
  }
  command_.Run({"scontrol", "--oneliner", "show", "job", around_.job}, kQuestionPatience,
               [this](const Result<std::string>& printed) { OnJob(printed); });
}

void JobRescue::OnJob(const Result<std::string>& printed) {
  if (!printed) {
    Leave(printed.error().message);
    return;
  }
  job_ = ReadFields(*printed);
  if (const std::string why = WhyLeaveAlone(around_, job_, {}); !why.empty()) {
    Leave(why);
    return;
  }
  command_.Run({"scontrol", "--oneliner", "show", "node", Field(job_, "BatchHost")},
               kQuestionPatience, [this](const Result<std::string>& answer) { OnNode(answer); });
}

void JobRescue::OnNode(const Result<std::string>& printed) {
  if (!printed) {
    Leave(printed.error().message);
    return;
  }
  const std::map<std::string, std::string> node = ReadFields(*printed);
  const std::string why =
      node.empty() ? "Slurm says nothing of its host" : WhyLeaveAlone(around_, job_, node);
  if (!why.empty()) {
    Leave(why);
    return;
  }
  const bool again = exit_code_ == kExitRestart || exit_code_ == kExitUnavailable;
  const std::string what = again ? "scontrol requeue " + around_.job : "scancel " + around_.job;
  say_("the host of the batch script, " + Field(job_, "BatchHost") +
       ", is lost: nobody waits for this step. It ended with " + std::to_string(exit_code_) + ": " +
       what);
  const std::vector<std::string> words =
      again ? std::vector<std::string>{"scontrol", "requeue", around_.job}
            : std::vector<std::string>{"scancel", around_.job};
  command_.Run(words, kQuestionPatience, [this, what](const Result<std::string>& answer) {
    if (!answer) {
      say_(what + " failed: " + answer.error().message);
    }
    std::exchange(done_, nullptr)();
  });
}

void JobRescue::Leave(const std::string& why) {
  Log(LogLevel::kInfo, "job " + around_.job + " is left alone: " + why);
  std::exchange(done_, nullptr)();
}

}  // namespace ddprun
