// Directives of an untrusted server to one node, in any order, well formed and never true, while
// its workers end, hang, speak and cannot be killed, and its check says anything: the node keeps
// every promise that it made, has one generation at a time, says no more than it may, never stands
// still, and kills the workers that it stops.
//
// The input is a list of events; the machine here does what the agent tells it, late or never.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "agent/core/node_agent.h"
#include "common/overload.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/describe_directive.h"

namespace {

using namespace ddprun;

constexpr int kMostEvents = 400;
constexpr std::uint64_t kEnd = UINT64_MAX;
constexpr Duration kLongest = std::chrono::hours(24 * 366 * 10);  // As the border takes it.

Duration SomeTime(FuzzInput& input) {
  return OneOf(input, std::array{Duration{0}, Duration{1}, Duration{50}, Duration{1'000},
                                 Duration{30'000}, Duration{3'600'000}, kLongest});
}

class Machine {
 public:
  explicit Machine(FuzzInput& input) {
    const std::uint8_t kind = input.Byte();
    config_.run_id = "run";
    config_.node = config_.host = "n0";
    config_.spec = {
        .min_nodes = 1, .max_nodes = 1u + kind % 3, .fence_after = Duration{kind & 4 ? 6'000 : 0}};
    config_.workers = 1u + input.Byte() % 4;
    config_.server = "s:1";
    config_.hang_timeout = Duration{kind & 8 ? 2'000 : 0};
    config_.preemptible = (kind & 16) != 0;
    config_.leaves_alone = (kind & 32) != 0;
    config_.checks_node = (kind & 64) != 0;
    fit_ = !config_.checks_node;
    Feed(Started{{11}, {"n0", 1}});
  }

  bool over() const { return over_; }
  bool called() const { return state_.call_open; }

  void Replies(FuzzInput& input) {
    const std::uint64_t late = input.Byte() % 8 == 0 ? 1 : 0;
    const SyncReply reply{
        SomeDirective(input),
        input.Byte(),
        SomeTime(input),
        SomeTime(input),
        {OneOf<std::uint64_t>(input, std::array<std::uint64_t, 5>{0, 1, 2, kEnd - 1, kEnd})}};
    CHECK(!Describe(reply.directive).empty());
    Feed(Replied{state_.sequence - late, reply, {100u + input.Byte()}});
  }

  void CallFails(bool hopeless, bool found) {
    Feed(CallFailed{state_.sequence, "no", hopeless});
    if (found && !over_) {
      Feed(ServerChanged{});
    }
  }

  void WorkerEnds(FuzzInput& input) {
    if (alive_ == 0) {
      return;
    }
    const std::uint8_t how = input.Byte();
    const int code = OneOf(input, std::array{0, 1, 75, 76, 255});
    WorkerEnded ended{running_->generation, --alive_, 100, Exited{code}};
    if (how % 4 == 0) {
      ended.status = Killed{9};
    }
    ended.said_hello = (how & 8) != 0;
    ended.last_lines = SomeText(input);
    ended.details.traceback = SomeText(input);
    if ((how & 16) != 0) {
      ended.recorded = now_ - SomeTime(input);
    }
    Feed(ended);
  }

  // A start that was given up is gone without any end.
  void AllEnd() {
    if (running_ && (alive_ == 0 || (killed_ && alive_ == config_.workers))) {
      const Generation generation = running_->generation;
      running_.reset();
      alive_ = 0;
      Feed(AllGone{generation, {"n0", 2}});
    }
  }

  void SpawnFails(FuzzInput& input) {
    if (running_ && alive_ == config_.workers) {
      const Generation generation = running_->generation;
      running_.reset();
      alive_ = 0;
      Feed(SpawnFailed{generation, SomeText(input), {"n0", 3}});
    }
  }

  void WorkerSpeaks(FuzzInput& input) {
    if (alive_ == 0) {
      return;
    }
    WorkerSpoke spoke{input.Byte() % alive_, (input.Byte() & 1) != 0};
    spoke.step = OneOf<std::uint64_t>(input, std::array<std::uint64_t, 4>{0, 1, 77, kEnd});
    if (input.Byte() % 2 == 0) {
      spoke.resume = spoke.step;
    }
    spoke.phase = SomeText(input).substr(0, 255);
    spoke.extend = SomeTime(input);
    Feed(spoke);
  }

  // Perhaps when it is over for the node: a verdict is not called back.
  void IsChecked(FuzzInput& input) {
    if (std::exchange(checking_, false)) {
      const std::string unfit = SomeText(input);
      fit_ = unfit.empty();
      Feed(NodeChecked{unfit});
    }
  }

  void HostIsLookedAt(FuzzInput& input) {
    HostLooked looked{HostFacts(input.Byte() % 20, HostFact{"gpu3", SomeText(input), true}), ""};
    looked.refuses = input.Byte() % 2 == 0 ? SomeText(input) : "";
    Feed(looked);
  }

  void WorkersAreThere() {
    if (running_) {
      Feed(WorkersStarted{running_->generation});
      Feed(StillActive{running_->generation});
    }
  }

  void StacksAreTaken() {
    if (running_) {
      Feed(StacksTaken{running_->generation});
    }
  }
  void Signal(FuzzInput& input) {
    Feed(SignalArrived{OneOf(input, std::array{1, 2, 3, 10, 12, 15})});
  }
  void JobEnds(FuzzInput& input) {
    JobEndKnown known{now_ + SomeTime(input), 1'000};
    if (input.Byte() % 2 == 0) {
      known.stop = now_ + SomeTime(input);
    }
    Feed(known);
  }

  void Wait(Duration time) {
    now_ += time;
    Feed(AgentTick{});
  }
  // When it wants to; false: it waits for others alone.
  bool WakesUp() {
    const std::optional<Time> wake = NextWake(state_, config_);
    if (wake && !over_) {
      now_ = std::max(now_, *wake);
      Feed(AgentTick{});
    }
    return wake.has_value();
  }

  // No server answers any more, and no worker ends by itself.
  void IsLeftAlone() {
    for (int i = 0; i < 5'000 && !over_ && state_.phase == AgentPhase::kStopping && !killed_; ++i) {
      if (called()) {
        CallFails(false, false);
      }
      CHECK(WakesUp());
    }
    CHECK(over_ || state_.phase != AgentPhase::kStopping || killed_);
  }

 private:
  Generation SomeGeneration(FuzzInput& input) const {
    const std::uint64_t own = state_.placement ? state_.placement->generation.value : 0;
    return {OneOf<std::uint64_t>(
        input, std::array<std::uint64_t, 8>{0, 1, state_.floor.value, state_.floor.value + 1, own,
                                            own + 1, kEnd - 1, kEnd})};
  }

  static StopCause SomeCause(FuzzInput& input) {
    const std::uint8_t number = input.Byte() % 8;
    return number == 0 ? StopCause::kHang : static_cast<StopCause>(number);
  }

  Directive SomeDirective(FuzzInput& input) const {
    const std::uint8_t kind = input.Byte();
    const WorldId world{state_.placement && kind % 2 == 0 ? state_.placement->world_id.value
                                                          : input.Byte()};
    switch (kind / 2 % 8) {
      case 0:
        return ddprun::Wait{{.what = static_cast<WaitFor>(1 + input.Byte() % 17),
                             .have = input.Byte(),
                             .need = input.Byte(),
                             .remaining = SomeTime(input)}};
      case 1:
      case 2:
      case 3: {
        Placement placement;
        placement.term = {OneOf<std::uint64_t>(input, std::array<std::uint64_t, 3>{0, 1, kEnd})};
        placement.generation = SomeGeneration(input);
        placement.world_id = world;
        placement.group_size = OneOf(input, std::array{1u, 3u, 1u << 20});
        placement.group_rank = input.Byte() % placement.group_size;
        placement.first_rank = OneOf(input, std::array{0u, 4u, (1u << 20) - 1, UINT32_MAX});
        placement.world_size = OneOf(input, std::array{1u, 8u, 1u << 20, UINT32_MAX});
        placement.store = {SomeText(input).substr(0, 255), 1};
        placement.restarts_used = OneOf(input, std::array{0u, 1u, UINT32_MAX});
        return Run{placement};
      }
      case 4:
        return Stop{SomeGeneration(input), world, SomeCause(input)};
      default:
        return Finish{static_cast<Ending>(1 + input.Byte() % 5), input.Byte(), SomeText(input),
                      std::nullopt, input.Byte() % 2 == 0};
    }
  }

  void Feed(const AgentEvent& event) {
    CHECK(!over_);
    for (const AgentEffect& effect : Step(state_, config_, event, now_)) {
      CHECK(!over_);  // Nothing after its end.
      std::visit(Overload{
                     [&](const SendReport& send) { Hear(send.report, send.deadline); },
                     [&](const Spawn& spawn) { Start(spawn.placement); },
                     [&](const SignalWorkers&) {},
                     [&](const KillWorkers&) { killed_ = true; },
                     [&](const CheckNode&) {
                       CHECK(!running_ && !checking_);
                       checking_ = true;
                       fit_ = false;
                     },
                     [&](const TakeStacks& take) {
                       CHECK(running_ && take.generation == running_->generation);
                       CHECK(take.local_ranks.size() <= config_.workers);
                     },
                     [&](const Exit&) {
                       CHECK(!running_);
                       over_ = true;
                     },
                     [&](const Say& say) { CHECK(!say.text.empty()); },
                 },
                 effect);
    }
    CHECK(state_.failures.size() <= kMaxFailures);
    CHECK(state_.heartbeats.size() <= config_.workers);
    // Another process has to do something next, and it is not this node again and again.
    CHECK(over_ || state_.call_open || running_ || NextWake(state_, config_));
  }

  void Hear(const NodeReport& report, Duration deadline) {
    CHECK(report.floor >= promised_);
    promised_ = report.floor;
    CHECK(!running_ || report.hosting != Hosting::kNothing);
    CHECK(report.failures.size() <= kMaxFailures);
    CHECK(report.unfit.size() <= kMaxUnfit);
    CHECK(report.facts.size() <= kMaxFacts);
    CHECK(report.progress_groups.size() <= kMaxProgressGroups);
    CHECK(deadline >= Duration{0});
  }

  void Start(const Placement& placement) {
    CHECK(!running_ && fit_);
    CHECK(placement.generation > promised_);
    CHECK(!ever_ || placement.generation > *ever_);
    running_ = placement;
    ever_ = placement.generation;
    alive_ = config_.workers;
    killed_ = false;
  }

  AgentConfig config_;
  AgentState state_;
  Time now_{std::chrono::hours(1'000)};
  std::optional<Placement> running_;  // Until every process is gone.
  std::uint32_t alive_ = 0;
  std::optional<Generation> ever_;  // The last that was started.
  Generation promised_;             // Promised to the server: never again one up to here.
  bool killed_ = false;
  bool checking_ = false;
  bool fit_ = true;
  bool over_ = false;
};

void Happens(FuzzInput& input, Machine& machine) {
  switch (input.Byte() % 16) {
    case 0:
      return machine.WorkerEnds(input);
    case 1:
      return machine.AllEnd();
    case 2:
      return machine.SpawnFails(input);
    case 3:
      return machine.WorkerSpeaks(input);
    case 4:
      return machine.StacksAreTaken();
    case 5:
      return machine.Signal(input);
    case 6:
      return machine.JobEnds(input);
    case 7: {
      const std::uint8_t how = input.Byte();
      return machine.CallFails(how % 16 == 0, how % 3 == 0);
    }
    case 8:
      return machine.Wait(SomeTime(input));
    case 9:
      return machine.WorkersAreThere();
    case 10:
      machine.WakesUp();
      return;
    case 11:
      return machine.IsChecked(input);
    case 12:
      return machine.HostIsLookedAt(input);
    default:
      return machine.Replies(input);
  }
}

void Play(FuzzInput input) {
  Machine machine(input);
  for (int i = 0; i < kMostEvents && !input.Rest().empty() && !machine.over(); ++i) {
    Happens(input, machine);
  }
  if (!machine.over()) {
    machine.IsLeftAlone();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::size_t before = AllocatedBytes();
  Play(FuzzInput(data, size));
  CHECK(AllocatedBytes() <= before + (1 << 20));  // Nothing stays.
  return 0;
}
