// succession_sim: plays random histories of machines that share a run directory.
//
//   succession_sim --seeds=2000 [--base=1f3a]        seeds that follow from the base
//   succession_sim --list --seeds=2000               claims kept by the nodes of a list
//   succession_sim --seed=14 --verbose               one history in words
//   succession_sim --mutate=standstill --seeds=2000  succeeds if a seed shows that it is needed
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "tests/sim/succession_world.h"

namespace ddprun::sim {
namespace {

const std::map<std::string, SuccessionMutation, std::less<>>& Mutations() {
  static const std::map<std::string, SuccessionMutation, std::less<>> mutations = {
      {"standstill", {.no_standstill = true}},
      {"silence", {.no_silence = true}},
      {"slow-reads", {.count_slow_reads = true}},
      {"step-down", {.keep_serving = true}},
      {"exclusion", {.no_exclusion = true}},
      {"later-terms", {.forget_terms = true}},
      {"forgiveness", {.no_forgiveness = true}},
      {"majority", {.no_majority = true}},
      {"memory", {.no_memory = true}},
  };
  return mutations;
}

struct Options {
  std::uint64_t seeds = 0;
  std::uint64_t base = 1;
  std::optional<std::uint64_t> seed;
  std::string mutated;
  bool verbose = false;
  bool listed = false;
};

std::optional<Options> Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::string value(argument.substr(std::min(argument.find('=') + 1, argument.size())));
    if (argument.starts_with("--seeds=")) {
      options.seeds = std::strtoull(value.c_str(), nullptr, 10);
    } else if (argument.starts_with("--seed=")) {
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (argument.starts_with("--base=")) {
      options.base = std::strtoull(value.c_str(), nullptr, 16);
    } else if (argument.starts_with("--mutate=") && Mutations().contains(value)) {
      options.mutated = value;
    } else if (argument == "--list") {
      options.listed = true;
    } else if (argument == "--verbose") {
      options.verbose = true;
    } else {
      return std::nullopt;
    }
  }
  return options.seed || options.seeds > 0 ? std::optional(options) : std::nullopt;
}

int Main(const Options& options) {
  const SuccessionMutation mutation =
      options.mutated.empty() ? SuccessionMutation{} : Mutations().find(options.mutated)->second;
  Random random(options.base);
  std::uint64_t broken = 0;
  std::uint64_t claims = 0;
  const std::uint64_t count = options.seed ? 1 : options.seeds;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t seed = options.seed ? *options.seed : random.Next();
    SuccessionWorld world(seed, mutation, options.listed, options.verbose);
    const auto law = world.Play();
    claims += world.claims();
    if (i < 20) {  // A history that cannot be repeated explains nothing.
      SuccessionWorld again(seed, mutation, options.listed, false);
      (void)again.Play();
      if (again.hash() != world.hash()) {
        std::printf("seed %llu does not repeat\n", static_cast<unsigned long long>(seed));
        return 1;
      }
    }
    if (law) {
      ++broken;
      if (broken <= 5) {
        std::printf("seed %llu: %s        replay: succession_sim%s --seed=%llu --verbose%s\n",
                    static_cast<unsigned long long>(seed), law->c_str(),
                    options.listed ? " --list" : "", static_cast<unsigned long long>(seed),
                    options.mutated.empty() ? "" : (" --mutate=" + options.mutated).c_str());
      }
      if (!options.mutated.empty()) {
        break;
      }
    }
  }
  std::printf("%llu histories, %llu claims, %llu broken\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(claims), static_cast<unsigned long long>(broken));
  return (broken > 0) == options.mutated.empty() ? 1 : 0;
}

}  // namespace
}  // namespace ddprun::sim

int main(int argc, char** argv) {
  const auto options = ddprun::sim::Parse(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: succession_sim (--seeds=N [--base=HEX] | --seed=N) "
                 "[--list] [--mutate=RULE] [--verbose]\n");
    return 2;
  }
  return ddprun::sim::Main(*options);
}
