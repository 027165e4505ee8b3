#include "launcher/help.h"

namespace ddprun {

std::string VersionText() {
  return "ddprun " DDPRUN_VERSION "\n";
}

std::string ShortHelp() {
  return R"(usage: ddprun [options] [--] PROGRAM [arguments]
       ddprun rendezvous [--listen=HOST:PORT] [--journal=FILE]

Starts PROGRAM on every node of a run with RANK, WORLD_SIZE, MASTER_ADDR and the rest of
torchrun's environment, watches it, and restarts all workers when one fails or a node is lost.

  ddprun --nproc-per-node=2 --max-restarts=3 ddprun-train --dataset=mnist     one machine
  ddprun --nnodes=2 --node-rank=0 --rdzv-endpoint=n0:29400 train.py           two nodes, here n0
  ddprun --nnodes=1:4 --rdzv-id=demo --rdzv-endpoint=n0:29400 train.py        elastic

  --nproc-per-node N|auto|gpu|cpu   workers on this node                            [1]
  --nnodes N|MIN:MAX                nodes                                           [1]
  --node-rank N                     this node's rank; 0 carries the server
  --rdzv-endpoint HOST:PORT         where the nodes meet              [127.0.0.1:29400]
  --rdzv-id NAME                    name of the run                              [none]
  --max-restarts N                  worker failures survived, over all nodes        [0]
  --log-dir DIR, -r 3, -t 3         keep the workers' output in files
  --shutdown-timeout SECONDS        from a forwarded signal to SIGKILL             [30]
  -v                                say every step of ddprun's own

--help lists every flag. Exit codes: 0 all workers finished; the root-cause worker's own code,
128+N if signal N killed it; 2 bad command line; 69 no rendezvous.
)";
}

std::string LongHelp(const CLI::App& app) {
  return ShortHelp() + "\n" + app.help();
}

}  // namespace ddprun
