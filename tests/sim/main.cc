// ddprun_sim: plays random histories of a run and tells which broke a law.
//
//   ddprun_sim --seeds=500 --base=1f3a      500 fresh seeds that follow from the base
//   ddprun_sim --seed=14 --verbose          one history in words
//   ddprun_sim_broken --mutate=floors --seeds=500
//                                           succeeds if a seed shows that the rule is needed
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "common/log.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/plan.h"
#include "tests/sim/rules.h"

namespace ddprun::sim {
namespace {

using Count = unsigned long long;  // As printf has it.

constexpr Count kPlayedTwice = 5'000;  // The first so many seeds.

struct Options {
  std::vector<Count> seeds;
  Mode mode = Mode::kStanding;
  std::string without;  // A rule.
  bool speed = false;   // Compares the rules that only spare restarts.
  bool verbose = false;

  std::string InWords() const {
    const char* const mode_in_words[] = {"", " --full", " --failover", " --slow"};
    return mode_in_words[static_cast<int>(mode)] + (without.empty() ? "" : " --mutate=" + without);
  }
};

void AddSeedsIn(const std::string& path, std::vector<Count>& seeds) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') {
      seeds.push_back(std::strtoull(line.c_str(), nullptr, 10));
    }
  }
}

Options Parse(int argc, char** argv) {
  Options options;
  Count count = 0;
  std::string base = "1";
  std::string file;
  const auto mode = [&options](Mode chosen) {
    return [&options, chosen] { options.mode = chosen; };
  };
  CLI::App app("Plays random histories of a run and tells which broke a law.");
  app.add_option("--seeds", count, "so many fresh ones, which follow from the base");
  app.add_option("--base", base, "hexadecimal, of which the first 16 digits count");
  app.add_option("--seed", options.seeds, "this one");
  app.add_option("--file", file, "those in it, one a line")->check(CLI::ExistingFile);
  app.add_flag_callback("--full", mode(Mode::kFull), "machines host the server, workers save");
  app.add_flag_callback("--slow", mode(Mode::kSlow), "workers only work, for long");
  app.add_flag_callback("--failover", mode(Mode::kFailover), "machines only take the server over");
  app.add_option("--mutate", options.without, "without this rule of tests/sim/rules.txt")
      ->check(CLI::IsMember(Rules()));
  app.add_flag("--speed", options.speed, "compares the rules that only spare restarts");
  app.add_flag("--verbose", options.verbose, "in words");
  app.require_option(1, 0);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  if (!file.empty()) {
    AddSeedsIn(file, options.seeds);
  }
  Random random(std::strtoull(base.substr(0, 16).c_str(), nullptr, 16));
  for (Count i = 0; i < count; ++i) {
    options.seeds.push_back(random.Below(2 * kMoreFaults));
  }
  return options;
}

// Rules can be switched off in one of the two alone.
std::string Replay(Count seed, const Options& options) {
  return std::string("    replay: ") + program_invocation_short_name + options.InWords() +
         " --seed=" + std::to_string(seed) + " --verbose\n";
}

// A core that ends the process must not take its seed with it.
std::string playing;
[[noreturn]] void TellSeed() {
  std::fprintf(stderr, "this seed ends the process\n%s", playing.c_str());
  std::abort();
}

struct Totals {
  Count played = 0, failed = 0;
  Count hash = 0;  // Of all histories: tells whether a change has changed any.
};

bool PlayOne(Count seed, const Options& options, Totals& totals) {
  playing = Replay(seed, options);
  const History history = Play(seed, options.mode, options.verbose);
  for (const std::string& line : history.lines) {
    std::printf("%s\n", line.c_str());
  }
  totals.hash = totals.hash * 0x100000001b3ULL ^ history.hash;
  std::string problem = history.broken.value_or("");
  const bool again = totals.played++ < kPlayedTwice && options.without.empty();
  if (problem.empty() && again && Play(seed, options.mode, false).hash != history.hash) {
    problem = "the same seed gave two different histories";
  }
  if (!problem.empty()) {
    ++totals.failed;
    std::printf("seed %llu: %s\n%s", seed, problem.c_str(), playing.c_str());
  }
  return problem.empty();
}

// Rules without which nothing wrong happens, but more nodes are taken for lost: 0 if each helps.
int CompareSpeed(const Options& options) {
  Count with = 0;
  bool all_help = true;
  for (const std::string rule : {"", "late-ticks", "poll-from-beat", "several-at-once"}) {
    SwitchedOff() = rule;
    Count lost = 0;
    for (const Count seed : options.seeds) {
      lost += Play(seed, options.mode, false).lost;
    }
    std::printf("memberships lost in %zu histories, without '%s': %llu\n", options.seeds.size(),
                rule.c_str(), lost);
    with = rule.empty() ? lost : with;
    all_help &= rule.empty() || lost > with;
  }
  return all_help ? 0 : 1;
}

int Main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  std::set_terminate(TellSeed);
  StartLog("ddprun_sim", LogLevel::kError);  // The servers' lines are in the transcript.
  if (options.speed) {
    return CompareSpeed(options);
  }
  SwitchedOff() = options.without;
  Totals totals;
  for (const Count seed : options.seeds) {
    if (!PlayOne(seed, options, totals) && !options.without.empty()) {
      SwitchedOff().clear();
      const bool breaks_anyway = Play(seed, options.mode, false).broken.has_value();
      SwitchedOff() = options.without;
      if (breaks_anyway) {
        std::printf(
            "seed %llu: with the rule '%s' a law breaks too: it shows nothing of the rule\n", seed,
            options.without.c_str());
        continue;
      }
      std::printf("seed %llu: without the rule '%s' a law breaks: it is needed\n", seed,
                  options.without.c_str());
      return 0;
    }
  }
  std::printf("%llu seeds, %llu broke a law; hash %016llx\n", totals.played, totals.failed,
              totals.hash);
  return totals.failed > 0 || !options.without.empty() ? 1 : 0;
}

}  // namespace
}  // namespace ddprun::sim

int main(int argc, char** argv) {
  return ddprun::sim::Main(argc, argv);
}
