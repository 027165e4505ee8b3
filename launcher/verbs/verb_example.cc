#include "launcher/verbs/verb_example.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "launcher/verbs/example_files.h"

namespace ddprun {
namespace {

struct Example {
  std::string_view name;
  std::string_view what;
  std::string_view text;
};

constexpr std::array kExamples{
    Example{"ddp", "data-parallel training, in seconds on CPUs", kDdpExample},
    Example{"elastic", "continues from its own checkpoint after a lost worker or node",
            kElasticExample},
    Example{"fsdp", "fully sharded data parallelism (FSDP2)", kFsdpExample},
    Example{"lightning", "Lightning's Trainer", kLightningExample},
};

std::string Help() {
  std::string text =
      "Prints a program to begin with: ddprun example NAME > train.py\n\n"
      "usage: ddprun example NAME\n\n";
  for (const Example& example : kExamples) {
    std::string name(example.name);
    name.resize(12, ' ');
    text += "  " + name + std::string(example.what) + "\n";
  }
  return text + "\nThen: ddprun --nproc-per-node=2 train.py\n";
}

}  // namespace

Result<std::string> ParseExample(const std::vector<std::string>& args) {
  if (args.size() == 1 || args[1] == "-h" || args[1] == "--help") {
    return Help();
  }
  const auto found = std::ranges::find(kExamples, args[1], &Example::name);
  if (found == kExamples.end() || args.size() > 2) {
    return Error{ErrorKind::kInvalid,
                 "ddprun example takes one name: ddp, elastic, fsdp or lightning; got '" +
                     args.back() + "'"};
  }
  return std::string(found->text);
}

}  // namespace ddprun
