#include "launcher/command_line/help.h"

#include <algorithm>
#include <sstream>

#include "common/text.h"
#include "launcher/command_line/exit_codes.h"
#include "launcher/command_line/raw_flags.h"

namespace ddprun {
namespace {

constexpr std::size_t kHelpWidth = 100;
constexpr std::size_t kColumn = 36;  // Where the flags' help begins.

constexpr const char* kCommands = R"(       @ COMMAND [OPTIONS]

Commands (@ help COMMAND describes one):
  look at a run   status  logs  stacks  report
  act on a run    save  drain  stop
  prepare one     example  new  check  env  slurm-script  k8s-manifest
  other           rendezvous  daemon  publish  preload  completion  version  help

Topics (@ help TOPIC shows a page):
  hosts  node-checks  pool  slurm  watching  writing-a-worker
)";

constexpr const char* kOptions = R"(
Options that most runs need (@ --help lists all):
  --nproc-per-node N|auto|gpu|cpu   workers on this node                            [1]
  --nnodes N|MIN:MAX                nodes; with MIN:MAX they may come and go        [1]
  --node-rank N                     this node's rank; node 0 hosts the server
  --rdzv-endpoint HOST:PORT         address of the rendezvous         [127.0.0.1:29400]
  --rdzv-id NAME                    name of the run                              [none]
  --max-restarts N                  restarts after failures, over all nodes         [0]
  --preload imports                 load all the script's imports ahead of a restart [auto]
  --run-dir DIR                     shared directory: the run also survives its first host
  --log-dir DIR                     keep the workers' output in files too
  --dry-run                         print what would be done, and why; start nothing

Examples:
  @ --nproc-per-node=4 --max-restarts=3 train.py --lr 0.1                one machine
  @ --nnodes=2 --node-rank=0 --rdzv-endpoint=n0:29400 train.py           two nodes, here n0
  @ --nnodes=1:4 --rdzv-id=demo --rdzv-endpoint=n0:29400 train.py        elastic
  srun --ntasks-per-node=1 @ ./train.py                                  in a Slurm job
)";

std::string ExitCodes(const std::string& name) {
  std::string codes = "Exit codes:";
  for (const ExitCodeRow& row : ExitCodeTable()) {
    if (!row.brief.empty()) {
      codes += (codes.back() == ':' ? " " : "; ") + row.code + " " + row.brief;
    }
  }
  // torchrun has no commands.
  codes += name == "ddprun"
               ? ". `ddprun help exit-codes` says more. `ddprun help NAME` explains a message that "
                 "ends in [NAME]."
               : ".";
  return Wrapped(codes, 0, kHelpWidth) + "\n";
}

// The codes of one column, each with its meaning.
std::string CodesOf(const std::string& title, std::string ExitCodeRow::*column) {
  constexpr std::size_t kMeaning = 16;  // Where it begins.
  std::string text = title + ":\n";
  for (const ExitCodeRow& row : ExitCodeTable()) {
    if (!(row.*column).empty()) {
      const std::string left = "  " + row.code;
      text += left + std::string(kMeaning - left.size(), ' ') +
              Wrapped(row.*column, kMeaning, kHelpWidth) + "\n";
    }
  }
  return text;
}

std::string InHelp(const FlagRow& row) {
  std::string left = "  " + row.Spelling();
  left += left.size() < kColumn ? std::string(kColumn - left.size(), ' ')
                                : "\n" + std::string(kColumn, ' ');
  const std::string fallback = row.fallback.empty() ? "" : " [" + row.fallback + "]";
  return left + Wrapped(row.help + fallback, kColumn, kHelpWidth) + "\n";
}

}  // namespace

std::string Wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  std::stringstream words(text);
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string VersionText() {
  return "ddprun " DDPRUN_VERSION "\n";
}

std::string ShortHelp(const std::string& name) {
  std::string text =
      "Launch and supervise distributed PyTorch training (takes torchrun's flags)\n\n"
      "Usage: @ [OPTIONS] PROGRAM [ARGUMENTS]\n"
      "       @ [OPTIONS] -m MODULE [ARGUMENTS]\n";
  text = text + (name == "ddprun" ? kCommands : "") + kOptions + "\n";
  ReplaceAll(text, "@", name);  // As this program was called.
  return text + ExitCodes(name);
}

std::optional<std::string> FlagHelp(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  std::ranges::replace(name, '_', '-');
  for (const FlagRow& row : FlagTable()) {
    if (!name.empty() && (row.name == name || std::ranges::count(row.aliases, name) > 0)) {
      return InHelp(row);
    }
  }
  return std::nullopt;
}

std::string ExitCodesHelp() {
  return CodesOf("Exit codes of ddprun PROGRAM", &ExitCodeRow::launch) + "\n" +
         CodesOf("Exit codes of another command of ddprun", &ExitCodeRow::command) + "\n" +
         CodesOf("Exit codes of ddprun-train and ddprun-bench-comm", &ExitCodeRow::trainer);
}

std::string LongHelp(const std::string& name) {
  std::string text = ShortHelp(name);
  std::string group;
  for (const FlagRow& row : FlagTable()) {
    if (row.group != group) {
      group = row.group;
      text += "\n" + group + ":\n";
    }
    text += InHelp(row);
  }
  text += "\n" +
          Wrapped(
              "Flags may be written with - or _ and by any unambiguous beginning. Each one that "
              "is not given is looked for in DDPRUN_<FLAG>, then PET_<FLAG> (torchrun's), then "
              "the --config file, as in DDPRUN_MAX_RESTARTS=3. ${local_rank} in an argument of "
              "PROGRAM is each worker's own.",
              0, kHelpWidth) +
          "\n";
  return text;
}

}  // namespace ddprun
