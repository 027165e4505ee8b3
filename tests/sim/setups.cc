#include "tests/sim/setups.h"

#include <algorithm>
#include <array>

namespace ddprun::sim {
namespace {

constexpr double kHostile = 0.03;
constexpr Duration kForEver{3'600'000};
constexpr int kMostDrift = 1'000;  // Twice what a clock is ever slewed by.

std::uint32_t Draw(Random& random, std::uint64_t first, std::uint64_t last) {
  return static_cast<std::uint32_t>(random.Between(first, last));
}

// Nodes from `first` to all may form a world.
void DrawRun(Random& random, std::uint32_t nodes, Setup& setup) {
  RunSpec& spec = setup.spec;
  spec.max_nodes = Draw(random, 1, nodes);
  spec.min_nodes = random.Chance(0.3) ? 1 : Draw(random, 1, spec.max_nodes);
  spec.max_restarts = Draw(random, 0, 4);
  spec.last_call = random.Between(0ms, 5s);
  spec.join_timeout = random.Between(15s, 60s);
  spec.scale_up = random.Chance(0.7);
  for (std::uint32_t i = 0; i < setup.machines; ++i) {
    setup.workers.push_back(Draw(random, 1, setup.standing ? 3 : 2));
  }
  setup.program = std::array{Program::kTrainer, Program::kPlain, Program::kHanging,
                             Program::kIndependent}[random.Below(4)];
}

// One server, which may stand on a slow disk; half of the runs have more of what changes a world:
// spares, windows and crash loops, two machines that claim to be the same node.
void DrawStanding(Random& random, Setup& setup) {
  setup.standing = true;
  const bool members = random.Chance(0.5);
  const std::uint32_t nodes = Draw(random, 1, members ? 8 : 5);
  setup.bare = nodes;
  setup.machines = nodes + 1;
  DrawRun(random, nodes, setup);
  setup.work = random.Between(500ms, 15s);
  setup.state_dir = random.Chance(0.6);
  setup.slow_disk = random.Chance(0.5) ? 5ms : random.Between(5ms, 3s);
  setup.clock_jumps = random.Chance(0.2);
  if (random.Chance(0.25)) {
    setup.hang_timeout = Duration{1'000 * random.Between(1, 7)};
    setup.conduct.hangs = 0.1;
  }
  if (!members) {
    return;
  }
  setup.tells_steps = random.Chance(0.5);
  setup.spec.crash_loop_limit = Draw(random, 0, 3);
  if (random.Chance(0.4)) {
    setup.spec.restart_window = random.Between(500ms, 30s);
  }
  if (nodes > 1 && random.Chance(0.2)) {
    setup.twin = nodes - 1;
  }
}

// The server's part moves, and workers save checkpoints.
void DrawFull(Random& random, bool calm, Setup& setup) {
  (void)random.Chance(0.4);  // Decides nothing; without it all known seeds were other histories.
  setup.machines = Draw(random, 2, 5);
  if (calm || random.Chance(0.2)) {
    setup.bare = 0;
  }
  DrawRun(random, setup.machines - (setup.bare ? 1 : 0), setup);
  setup.step_time = random.Between(30ms, 300ms);
  setup.steps = static_cast<std::uint64_t>(random.Between(5s, 40s) / setup.step_time);
  setup.save_every = std::max(random.Between(1, 8), setup.steps / 16);
  setup.keep_last = random.Between(1, 3);
  setup.shared_disk = random.Chance(0.8);
  if (calm) {
    return;
  }
  setup.heedless = setup.program == Program::kIndependent;
  setup.stale_claims = random.Chance(0.25) ? 0.3 : 0;
  setup.stale_listings = random.Chance(0.4) ? 0.5 : 0;
  setup.long_pauses = random.Chance(0.5) ? 0.01 : 0;
  if (random.Chance(0.25)) {  // Hostile to the fence of checkpoints: stragglers at every step.
    setup.long_pauses = kHostile;
    setup.shared_disk = true;
    setup.spec.min_nodes = 1;
  }
}

void DrawConduct(Random& random, double share, Conduct& conduct) {
  conduct.fails = random.Chance(share) ? share / 5 : 0;
  conduct.ignores_term = random.Chance(0.5) ? 0.3 : 0;
  conduct.spawn_fails = random.Chance(0.25) ? 0.1 : 0;
  conduct.slow_files = random.Chance(0.3) ? 0.2 : 0;
  conduct.slow_exit = random.Between(1ms, 3s);
}

void DrawStorm(Random& random, Setup& setup) {
  setup.conduct.slow_start = random.Chance(0.25) ? 0.1 : 0;
  setup.conduct.stuck = random.Chance(0.3) ? 0.1 : 0;
  Weather& weather = setup.weather;
  const double storm = random.Chance(0.4) ? 0 : 0.002 * static_cast<double>(random.Below(100));
  for (double* const what : {&weather.lose, &weather.duplicate, &weather.cut, &weather.slow}) {
    *what = random.Chance(0.6) ? storm : 0;
  }
  weather.notice_lost = random.Chance(0.5) ? 0.3 : 0;
  weather.max_delay = random.Between(1ms, 200ms);
  // Beyond every timeout: lease, graces, shutdown, start.
  weather.slow_max = random.Between(200ms, 20s);
  if (random.Chance(0.2)) {
    setup.spec.fence_after = random.Between(6s, Duration{random.Chance(0.5) ? 14'000 : 120'000});
  }
  if (random.Chance(0.15)) {
    setup.lease_per_node = random.Between(600ms, 3s);
  }
  if (setup.spec.fence_after > 0ms) {  // As the command line has it.
    setup.spec.fence_after =
        std::max<Duration>(setup.spec.fence_after, 2 * setup.lease_per_node * setup.spec.max_nodes);
  }
  if (setup.standing && random.Chance(0.15)) {  // Hardly more than the nodes that there are.
    setup.run_bytes = 4'096 + std::size_t{3'000} * setup.machines;
  }
}

// One server, all nodes from the start, and nothing goes wrong but one rank, in half of them.
Setup SetupOfSlow(Random& random) {
  Setup setup;
  const std::uint32_t nodes = Draw(random, 1, 4);
  setup.standing = true;
  setup.bare = nodes;
  setup.machines = nodes + 1;
  setup.spec.min_nodes = setup.spec.max_nodes = nodes;
  setup.spec.join_timeout = kForEver;
  std::uint32_t ranks = 0;
  for (std::uint32_t i = 0; i < setup.machines; ++i) {
    setup.workers.push_back(Draw(random, nodes == 1 ? 2 : 1, 3));
    ranks += i < nodes ? setup.workers.back() : 0;
  }
  setup.program = Program::kHanging;  // A process that waits for one that hangs is killed with it.
  setup.weather.max_delay = random.Between(3ms, 100ms);
  setup.hang_timeout = Duration{1'000 * random.Between(3, 8)};
  SlowWork slow;
  slow.kind = static_cast<SlowWork::Kind>(random.Below(SlowWork::kKinds));
  slow.heard = std::array{Heard::kTold, Heard::kPrinted, Heard::kCollectives,
                          Heard::kCollectives}[random.Below(4)];
  slow.steps = random.Between(10, 40);
  slow.slow_rank = Draw(random, 0, ranks - 1);
  slow.longest = setup.hang_timeout - 1'500ms;
  if (random.Chance(0.5)) {
    slow.hangs = Draw(random, 0, ranks - 1);
    slow.hangs_after = random.Between(0ms, 20s);
  }
  setup.slow = slow;
  return setup;
}

Setup SetupOfFailover(Random& random) {
  Setup setup;
  setup.machines = Draw(random, 2, 5);
  setup.weather.max_delay = 20ms;
  setup.spec.min_nodes = setup.spec.max_nodes = setup.machines + 1;
  setup.spec.join_timeout = kForEver;
  setup.workers.assign(setup.machines, 1);
  return setup;
}

}  // namespace

void DrawMore(Random& random, Mode mode, Setup& setup) {
  if (random.Chance(0.5)) {
    for (std::uint32_t i = 0; i < setup.machines; ++i) {
      setup.drifts.push_back(static_cast<int>(random.Below(2 * kMostDrift)) - kMostDrift);
    }
  }
  if (mode == Mode::kFailover) {
    return;
  }
  if (random.Chance(0.1)) {  // The first one's word counts.
    setup.shutdown_timeouts.assign(setup.machines, 4s);
    setup.shutdown_timeouts[random.Below(setup.machines)] = 20s;
  }
  if (!setup.standing && setup.machines > 2 && random.Chance(0.1)) {
    setup.twin = setup.machines - 1;
  }
  const bool spends = setup.spec.restart_window == 0ms;  // Else it may ask for ever.
  setup.asks_again =
      setup.standing && spends && setup.program == Program::kTrainer && random.Chance(0.3);
  setup.unproven = random.Chance(0.5);
  if (random.Chance(0.5)) {
    setup.spec.restart_backoff = random.Between(500ms, 16s);
  }
  setup.conduct.slow_death = random.Chance(0.4) ? 0.5 : 0;
}

Setup RandomSetup(Random& random, Mode mode, bool calm) {
  if (mode == Mode::kFailover) {
    return SetupOfFailover(random);
  }
  if (mode == Mode::kSlow) {
    return SetupOfSlow(random);
  }
  Setup setup;
  if (mode == Mode::kStanding) {
    DrawStanding(random, setup);
  } else {
    DrawFull(random, calm, setup);
  }
  if (setup.standing || !calm) {
    DrawConduct(random, setup.standing ? 0.5 : 0.3, setup.conduct);
  }
  if (!calm) {
    DrawStorm(random, setup);
  }
  return setup;
}

}  // namespace ddprun::sim
