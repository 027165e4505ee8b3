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

std::string Names() {
  std::string text = "NAME:\n";
  for (const Example& example : kExamples) {
    std::string name(example.name);
    name.resize(12, ' ');
    text += "  " + name + std::string(example.what) + "\n";
  }
  return text + "\nThen: ddprun --nproc-per-node=2 train.py\n";
}

}  // namespace

std::string ParseExample(VerbLine& line) {
  line.app.footer(Names());
  if (!line.ParseUpToProgram()) {
    return "";
  }
  if (line.rest.empty()) {
    line.help = true;
    return "";
  }
  const auto found = std::ranges::find(kExamples, line.rest.front(), &Example::name);
  if (found == kExamples.end() || line.rest.size() > 1) {
    line.problems.Add("ddprun example takes one name: ddp, elastic, fsdp or lightning; got '" +
                      line.rest.back() + "'");
    return "";
  }
  return std::string(found->text);
}

}  // namespace ddprun
