// ddprun_sim: plays random histories of a run and tells which broke a law.
//
//   ddprun_sim --seeds=500 --base=1f3a      500 fresh seeds that follow from the base
//   ddprun_sim --file=seeds.txt             seeds that broke a law once
//   ddprun_sim --seed=14 --verbose          one history in words
//   ddprun_sim --mutate=floors --seeds=500  succeeds if a seed shows that the rule is needed
//   ddprun_sim --full ...                   machines carry the server, workers save checkpoints
//   ddprun_sim --succession [--list] ...    they only take it over from one another
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/log.h"
#include "tests/sim/broken_driver.h"
#include "tests/sim/plan.h"

namespace ddprun::sim {
namespace {

constexpr std::uint64_t kPlayedTwice = 5'000;  // The first so many seeds.

struct Options {
  std::vector<std::uint64_t> seeds;
  Mutation mutation;
  std::string mutated;
  bool speed = false;  // Compares the rules that only spare restarts.
  bool verbose = false;
  bool full = false;
  bool succession = false;
  bool listed = false;  // Claims are kept by the nodes of a list.
};

using MutationTable = std::map<std::string, Mutation, std::less<>>;

const MutationTable& FullMutations() {
  static const MutationTable mutations = {
      {"standstill", {.no_standstill = true}},  {"silence", {.no_silence = true}},
      {"lenience", {.no_lenience = true}},      {"step-down", {.keep_serving = true}},
      {"exclusion", {.no_exclusion = true}},    {"fence-kill", {.no_fence_kill = true}},
      {"fence-wait", {.no_fence_wait = true}},  {"claim-order", {.claim_always = true}},
      {"commit-mine", {.commit_always = true}}, {"one-writer-a-number", {.overwrite = true}},
      {"lineage", {.resume_largest = true}},    {"sync", {.no_sync = true}},
      {"reread", {.no_reread = true}},
  };
  return mutations;
}

const MutationTable& Mutations() {
  static const MutationTable mutations = {
      {"floors", {.invent_promises = true}},
      {"newest-report", {.believe_old_reports = true}},
      {"newest-reply", {.believe_old_replies = true, .forget_floor = true}},
      {"disconnect-grace", {.no_disconnect_grace = true}},
      {"recovery-lease", {.no_recovery_lease = true}},
      {"outcome-kept-first", {.tell_before_keeping = true}},
      {"recovered-not-charged", {.charge_recovered = true}},
      {"judging-at-the-end", {.judge_early = true}},
      {"successor-grace", {.no_successor_grace = true}},
      {"fence-kill", {.no_fence_kill = true}},
      {"fence-wait", {.no_fence_wait = true}},
  };
  return mutations;
}

[[noreturn]] void Usage(std::string_view argument) {
  std::fprintf(stderr,
               "ddprun_sim: cannot use '%.*s'; usage: ddprun_sim (--seeds=N [--base=HEX] | "
               "--seed=N | --file=PATH) [--full | --succession [--list]] [--mutate=RULE | --speed] "
               "[--verbose]\n",
               static_cast<int>(argument.size()), argument.data());
  std::exit(2);
}

std::vector<std::uint64_t> SeedsIn(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    Usage(path);
  }
  std::vector<std::uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') {
      seeds.push_back(std::strtoull(line.c_str(), nullptr, 10));
    }
  }
  return seeds;
}

Options Parse(int argc, char** argv) {
  Options options;
  std::uint64_t count = 0;
  std::uint64_t base = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string value(argument.substr(std::min(argument.find('=') + 1, argument.size())));
    if (argument.starts_with("--seeds=")) {
      count = std::strtoull(value.c_str(), nullptr, 10);
    } else if (argument.starts_with("--base=")) {
      base = std::strtoull(value.substr(0, 16).c_str(), nullptr, 16);
    } else if (argument.starts_with("--seed=")) {
      options.seeds.push_back(std::strtoull(value.c_str(), nullptr, 10));
    } else if (argument.starts_with("--file=")) {
      options.seeds = SeedsIn(value);
    } else if (argument == "--full") {
      options.full = true;
    } else if (argument == "--succession") {
      options.succession = true;
    } else if (argument == "--list") {
      options.listed = true;
    } else if (const MutationTable& table =
                   options.full || options.succession ? FullMutations() : Mutations();
               argument.starts_with("--mutate=") && table.contains(value)) {
      options.mutated = value;
      options.mutation = table.at(value);
    } else if (argument.starts_with("--mutate=") && RulesOfDriver().contains(value)) {
      options.mutated = value;
      options.mutation.of_driver = value;
    } else if (argument == "--speed") {
      options.speed = true;
    } else if (argument == "--verbose") {
      options.verbose = true;
    } else {
      Usage(argument);
    }
  }
  BreakDriver(options.mutation.of_driver);
  Random random(base);
  for (std::uint64_t i = 0; i < count; ++i) {
    options.seeds.push_back(random.Below(1'000'000'000'000));
  }
  if (options.seeds.empty() && options.mutated.empty() && argc == 1) {
    Usage("");
  }
  return options;
}

struct Totals {
  std::uint64_t failed = 0, succeeded = 0, worlds = 0, lost = 0, restarts = 0, false_hangs = 0;
  std::uint64_t played = 0, reigns = 0, commits = 0, refused = 0;
  std::uint64_t hash = 0;  // Of all histories: tells whether a change has changed any.
};

std::uint64_t playing = 0;
std::string playing_how;

// A core that ends the process must not take its seed with it.
[[noreturn]] void TellSeed() {
  std::fprintf(stderr,
               "seed %llu ends the process\n    replay: ddprun_sim%s --seed=%llu --verbose\n",
               static_cast<unsigned long long>(playing), playing_how.c_str(),
               static_cast<unsigned long long>(playing));
  std::abort();
}

std::string ModeOf(const Options& options) {
  return options.full         ? " --full"
         : options.listed     ? " --succession --list"
         : options.succession ? " --succession"
                              : "";
}

History PlayAsAsked(std::uint64_t seed, const Options& options, TranscriptLevel level) {
  if (options.succession) {
    return PlaySuccession(seed, options.mutation, options.listed, level);
  }
  return options.full ? PlayFull(seed, options.mutation, level)
                      : Play(seed, options.mutation, level);
}

bool PlayOne(std::uint64_t seed, const Options& options, Totals& totals) {
  playing = seed;
  playing_how = ModeOf(options);
  const TranscriptLevel level = options.verbose ? TranscriptLevel::kWords : TranscriptLevel::kHash;
  const History history = PlayAsAsked(seed, options, level);
  for (const std::string& line : history.lines) {
    std::printf("%s\n", line.c_str());
  }
  totals.worlds += history.worlds;
  totals.reigns += history.reigns;
  totals.commits += history.commits;
  totals.refused += history.refused;
  totals.lost += history.lost;
  totals.restarts += history.restarts;
  totals.false_hangs += history.false_hangs;
  totals.succeeded += history.succeeded ? 1 : 0;
  totals.hash = totals.hash * 0x100000001b3ULL ^ history.hash;
  std::string problem = history.broken.value_or("");
  const bool again = totals.played++ < kPlayedTwice && options.mutated.empty();
  if (problem.empty() && again &&
      PlayAsAsked(seed, options, TranscriptLevel::kHash).hash != history.hash) {
    problem = "the same seed gave two different histories";
  }
  if (problem.empty()) {
    return true;
  }
  ++totals.failed;
  const std::string mutate =
      ModeOf(options) + (options.mutated.empty() ? "" : " --mutate=" + options.mutated);
  std::printf("seed %llu: %s\n    replay: ddprun_sim%s --seed=%llu --verbose\n",
              static_cast<unsigned long long>(seed), problem.c_str(), mutate.c_str(),
              static_cast<unsigned long long>(seed));
  return false;
}

std::uint64_t MembershipsLost(const std::vector<std::uint64_t>& seeds, const Mutation& mutation) {
  std::uint64_t lost = 0;
  BreakDriver(mutation.of_driver);
  for (const std::uint64_t seed : seeds) {
    lost += Play(seed, mutation, TranscriptLevel::kHash).lost;
  }
  return lost;
}

// Rules without which nothing wrong happens, but more nodes are taken for lost: 0 if each helps.
int CompareSpeed(const std::vector<std::uint64_t>& seeds) {
  const std::uint64_t with = MembershipsLost(seeds, {});
  std::printf("memberships lost in %zu histories, with all rules: %llu\n", seeds.size(),
              static_cast<unsigned long long>(with));
  bool all_help = true;
  for (const auto& [rule, mutation] : {std::pair{"late-ticks", Mutation{.no_forgiveness = true}},
                                       {"poll-from-beat", Mutation{.of_driver = "poll-from-beat"}},
                                       {"several-at-once", Mutation{.no_several_at_once = true}}}) {
    const std::uint64_t without = MembershipsLost(seeds, mutation);
    std::printf("without %s: %llu\n", rule, static_cast<unsigned long long>(without));
    all_help &= without > with;
  }
  return all_help ? 0 : 1;
}

int Main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  std::set_terminate(TellSeed);
  StartLog("ddprun_sim", LogLevel::kError);  // What servers say is in the transcript.
  if (options.speed) {
    return CompareSpeed(options.seeds);
  }
  Totals totals;
  for (const std::uint64_t seed : options.seeds) {
    const bool held = PlayOne(seed, options, totals);
    if (!held && !options.mutated.empty()) {
      std::printf("seed %llu: without the rule '%s' a law breaks: it is needed\n",
                  static_cast<unsigned long long>(seed), options.mutated.c_str());
      return 0;
    }
  }
  std::printf(
      "%zu seeds, %llu broke a law; %llu runs succeeded, %llu worlds formed, "
      "%llu memberships lost, %llu restarts charged, %llu false hangs; hash %016llx\n",
      options.seeds.size(), static_cast<unsigned long long>(totals.failed),
      static_cast<unsigned long long>(totals.succeeded),
      static_cast<unsigned long long>(totals.worlds), static_cast<unsigned long long>(totals.lost),
      static_cast<unsigned long long>(totals.restarts),
      static_cast<unsigned long long>(totals.false_hangs),
      static_cast<unsigned long long>(totals.hash));
  if (options.full || options.succession) {
    std::printf("%llu reigns, %llu checkpoints, %llu worlds kept out of them\n",
                static_cast<unsigned long long>(totals.reigns),
                static_cast<unsigned long long>(totals.commits),
                static_cast<unsigned long long>(totals.refused));
  }
  return totals.failed > 0 || !options.mutated.empty() ? 1 : 0;
}

}  // namespace
}  // namespace ddprun::sim

int main(int argc, char** argv) {
  return ddprun::sim::Main(argc, argv);
}
