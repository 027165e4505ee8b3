// ddprun-train's command line. The models here are names and arguments alone: the real ones would
// bring libtorch.
#include <array>

#include "tests/fuzz/fuzz_input.h"
#include "trainer/models/entries.h"
#include "trainer/options/config.h"

namespace ddprun {
namespace {

constexpr ArgumentEntry kArguments[] = {{"hidden", 128, 1, 65536}, {"dropout", 0, 0, 0.9, false}};

std::string NoMisfit(const Task&, const Arguments& arguments) {
  return arguments.Whole("hidden") == 13 ? "13 brings no luck" : "";
}

constexpr ModelEntry kFirst = {.name = "mlp",
                               .recipe = {"mnist", "sgd", 0.1, 64},
                               .most_threads = 2,
                               .evaluation_batch = 1000,
                               .arguments = kArguments,
                               .misfit = NoMisfit,
                               .make = nullptr};
constexpr ModelEntry kSecond = {.name = "transformer",
                                .recipe = {"seq2seq", "adamw", 0.001, 8},
                                .most_threads = 2,
                                .evaluation_batch = 10,
                                .arguments = kArguments,
                                .misfit = NoMisfit,
                                .make = nullptr};
constexpr const ModelEntry* kModels[] = {&kFirst, &kSecond};

}  // namespace

std::span<const ModelEntry* const> KnownModels() {
  return kModels;
}

const ModelEntry* FindModel(std::string_view name) {
  for (const ModelEntry* const entry : kModels) {
    if (entry->name == name) {
      return entry;
    }
  }
  return nullptr;
}

}  // namespace ddprun

// One argument a line.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const std::vector<std::string> lines = FuzzInput(data, size).Pieces("\n");
  std::vector<const char*> arguments = {"ddprun-train"};
  for (const std::string& line : lines) {
    arguments.push_back(line.c_str());
  }
  const auto parsed = Parse(static_cast<int>(arguments.size()), arguments.data());
  if (const auto* const config = std::get_if<TrainConfig>(&parsed)) {
    CHECK(Problems(*config).empty());
  } else {
    CHECK(!std::get<EarlyExit>(parsed).text.empty());
  }
  return 0;
}
