#include "launcher/command_line/help.h"

#include <sstream>

#include "launcher/command_line/raw_flags.h"

namespace ddprun {
namespace {

constexpr std::size_t kHelpWidth = 100;
constexpr std::size_t kColumn = 36;  // Where the flags' help begins.

constexpr const char* kUsage = R"(usage: ddprun [options] [--] PROGRAM [arguments]
       ddprun rendezvous [--listen=HOST:PORT] [--journal=FILE]    the rendezvous server alone
       ddprun env                                                 what ddprun sees of this machine
       ddprun completion bash|zsh|fish                            a script for the shell
       ddprun status [--watch]                                    look at a run
       ddprun drain NODE | stop [--soon] | save                   a node leaves, all end; save now
       ddprun logs [-f] [--rank=3,7] [--node=n1] [--since=5m]     what its workers print, all nodes
       ddprun stacks [--rank=3,7] [--all] | PID...                where they stand; or processes
       ddprun publish NEW FINAL                                   a worker's result, fenced
       ddprun report [-o FILE] [DIR...]                           what is known of it, in one file
       ddprun check [-o json] [--nnodes=N ...]                    machines, the network between
       ddprun slurm-script [--nodes=N] [--gpus=N] PROGRAM         a batch script for Slurm
       ddprun k8s-manifest [--nodes=MIN:MAX] [--gpus=N] PROGRAM   one for Kubernetes
)";

constexpr const char* kShort = R"(
Starts PROGRAM on every node of a run with RANK, WORLD_SIZE, MASTER_ADDR and the rest of
torchrun's environment, watches it, and restarts all workers when one fails or a node is lost.

  @ --nproc-per-node=2 --max-restarts=3 ddprun-train --dataset=mnist     one machine
  @ --nnodes=2 --node-rank=0 --rdzv-endpoint=n0:29400 train.py           two nodes, here n0
  @ --nnodes=1:4 --rdzv-id=demo --rdzv-endpoint=n0:29400 train.py        elastic

  --nproc-per-node N|auto|gpu|cpu   workers on this node                            [1]
  --nnodes N|MIN:MAX                nodes                                           [1]
  --node-rank N                     this node's rank; 0 carries the server
  --rdzv-endpoint HOST:PORT         where the nodes meet              [127.0.0.1:29400]
  --rdzv-id NAME                    name of the run                              [none]
  --max-restarts N                  worker failures survived, over all nodes        [0]
  --log-dir DIR, -r 3, -t 3         keep the workers' output in files
  --shutdown-timeout SECONDS        from a forwarded signal to SIGKILL             [30]
  --dry-run                         say what would be done, and why; start nothing
  -v                                say every step of ddprun's own

--help lists every flag. Exit codes: 0 all workers finished; the root-cause worker's own code,
128+N if signal N killed it; 2 bad command line; 69 no rendezvous; 70 ddprun itself failed;
124 workers hung.
)";

std::string Named(std::string text, const std::string& name) {
  for (std::size_t at = text.find("  @ "); at != std::string::npos; at = text.find("  @ ", at)) {
    text.replace(at + 2, 1, name);
  }
  return text;
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
  const std::string usage =
      name == "ddprun" ? kUsage : "usage: " + name + " [options] [--] PROGRAM [arguments]\n";
  return usage + Named(kShort, name);
}

std::string LongHelp(const std::string& name) {
  std::string text = ShortHelp(name);
  std::string group;
  for (const FlagRow& row : FlagTable()) {
    if (row.group != group) {
      group = row.group;
      text += "\n" + group + ":\n";
    }
    std::string left = "  " + row.Spelling();
    left += left.size() < kColumn ? std::string(kColumn - left.size(), ' ')
                                  : "\n" + std::string(kColumn, ' ');
    const std::string fallback = row.fallback.empty() ? "" : " [" + row.fallback + "]";
    text += left + Wrapped(row.help + fallback, kColumn, kHelpWidth) + "\n";
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
