#include "agent/process_agent.h"

#include <functional>
#include <utility>

#include "agent/commands/logs_job.h"
#include "agent/commands/stacks_job.h"

namespace ddprun {
namespace {

// A job that is done at once, with its result as records.
std::unique_ptr<RequestJob> MakeOrder(Loop& loop, const RequestSpec& spec,
                                      std::function<std::vector<AnswerRecord>()> carry_out) {
  return MakeStacksJob(
      loop,
      [&loop, carry_out = std::move(carry_out)](const RequestSpec&, LiveStacks::Done done) {
        loop.Post([carry_out, done = std::move(done)] { done(carry_out()); });
        return std::function<void()>();
      },
      spec);
}

// Every node gets the request, so that all of them end with "start me again" where their workers
// have saved.
std::vector<AnswerRecord> BeginStopSoon(Loop& loop, AgentDriver& driver, LoopTimer& timer) {
  constexpr Duration kTellFirst{200};
  timer.ArmAt(loop.Now() + kTellFirst, [&loop, &driver] {
    const Time now = loop.Now();
    JobEndKnown known;
    known.ends = now + driver.config().spec.shutdown_timeout;
    known.stop = now;
    known.asked = true;
    driver.OnJobEnd(known);
  });
  return {{0, 0, 0, AnswerKind::kDone, "its workers are saving"}};
}

std::unique_ptr<RequestJob> MakeJob(Loop& loop, ProcessWorkers& workers, AgentDriver& driver,
                                    LoopTimer& stop_soon, const RequestSpec& spec) {
  switch (spec.kind) {
    case RequestKind::kSave:
      return MakeOrder(loop, spec, [&workers, spec] { return workers.TellToSave(spec); });
    case RequestKind::kStopSoon:
      return MakeOrder(loop, spec, [&loop, &driver, &stop_soon] {
        return BeginStopSoon(loop, driver, stop_soon);
      });
    case RequestKind::kStacks:
      return MakeStacksJob(loop, std::bind_front(&ProcessWorkers::TakeLiveStacks, &workers), spec);
    case RequestKind::kEvidence:
      return MakeStacksJob(
          loop,
          [&workers](const RequestSpec& wanted, LiveStacks::Done done) {
            workers.KeepLiveEvidence(wanted, std::move(done));
            return std::function<void()>();  // Once begun it is finished.
          },
          spec);
    case RequestKind::kLogs:
      break;
  }
  return MakeLogsJob(loop, workers.kept(), spec);
}

std::string WordOf(CheckCause cause) {
  switch (cause) {
    case CheckCause::kStart:
      return "start";
    case CheckCause::kFailure:
      return "failure";
    case CheckCause::kUnfit:
      return "unfit";
  }
  return "";
}

constexpr Duration kLastWords{2'000};
constexpr Duration kFollowerComes{60'000};  // And reads it all.

}  // namespace

Incarnation DrawIncarnation() {
  return {RandomBits() | 1};
}

ProcessAgent::ProcessAgent(AsioLoop& loop, const std::shared_ptr<const AgentOptions>& its_options,
                           std::unique_ptr<SyncChannel> its_channel,
                           std::function<std::string()> own_addresses,
                           std::function<void(const Exit&)> on_exit)
    : options(its_options),
      workers(loop, options),
      stores(options->store),
      check(loop, options->node_check, options->node_check_timeout),
      host(loop, options->host, [this](const HostView&) { TellFacts(); }),
      channel(*its_channel),
      driver(loop, options->core,
             AgentParts{std::move(its_channel), workers, stores, DrawIncarnation,
                        std::move(own_addresses),
                        [this, on_exit = std::move(on_exit)](const Exit& exit) {
                          check.Stop();
                          host.Stop();
                          on_exit(exit);
                        },
                        [this](CheckCause cause, std::function<void(std::string)> verdict) {
                          CheckNode(cause, std::move(verdict));
                        },
                        [this](const ClockOffset& offset) { host.NoteClock(offset); }}),
      stop_soon(loop),
      commands(
          loop, channel,
          [this] {
            const AgentConfig& config = driver.config();
            return Membership{config.run_id, config.node, driver.state().incarnation};
          },
          [this, &loop](const RequestSpec& spec) {
            return MakeJob(loop, workers, driver, stop_soon, spec);
          }) {}

void ProcessAgent::TellFacts() {
  HostFacts facts = host.view().facts;
  if (const std::string preloaded = workers.Preloaded(); !preloaded.empty()) {
    facts.push_back(Clipped({"preload", preloaded, false}));
  }
  driver.OnHostLooked(
      {std::move(facts), options->host_check == HostCheck::kOn ? host.view().refuses : ""});
}

Result<void> ProcessAgent::Start() {
  workers.OnPreloaded([this] { TellFacts(); });
  RETURN_IF_ERROR(workers.Open());
  RETURN_IF_ERROR(driver.Start());
  commands.Start();
  if (options->host_check != HostCheck::kOff) {
    host.Start();
  }
  return {};
}

void ProcessAgent::CheckNode(CheckCause cause, std::function<void(std::string)> verdict) {
  const auto ask_user = [this, cause, verdict](const std::string& refusal) {
    if (refusal.empty() && !options->node_check.empty()) {
      check.Run(WordOf(cause), verdict);
    } else {
      verdict(refusal);
    }
  };
  if (options->host_check == HostCheck::kOn) {
    host.AskGpus(ask_user);
  } else {
    ask_user("");
  }
}

void ProcessAgent::FinishRequests(std::function<void()> done) {
  workers.kept()->Close();
  commands.Finish(options->followed ? kFollowerComes : kLastWords, options->followed,
                  std::move(done));
}

}  // namespace ddprun
