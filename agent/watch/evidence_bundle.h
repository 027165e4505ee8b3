// The directory in which lies what led to a verdict or a failure of one generation:
//
//   evidence-<generation>/
//     verdict.txt  state.json  events.jsonl   by whoever serves the run (launcher/evidence/)
//     node-<node>.txt                         the machine and its workers, as the kernel knows them
//     rank-<rank>.stacks.txt                  where its threads stood (of a hang)
//     rank-<rank>.collectives.json            what torch recorded of its last ones (of a hang)
//     rank-<rank>.lines.txt                   what it printed last
//     rank_<rank>                             what torch's recorder of NCCL's dumped, a pickle
//
// Nodes that share a directory write into one, each its own files. Bounded: kMostBundles of a
// directory; of a run that fails more often the first ones are kept, since they tell why. Blocks:
// for threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/result.h"

namespace ddprun {

// Of a rank, or, where no bundle is kept, in the worker's own directory.
inline constexpr const char* kStacksFile = "stacks.txt";
inline constexpr const char* kBundlePrefix = "evidence-";
inline constexpr const char* kDumpPrefix = "rank_";  // As torchfrtrace wants it.
inline constexpr std::size_t kMostBundles = 20;

std::filesystem::path BundleOf(const std::filesystem::path& place, Generation generation);

// kRefused: there are enough already. Nothing where it is there.
Result<void> MakeBundle(const std::filesystem::path& bundle);

// Of one rank: "stacks.txt", "collectives.json", "lines.txt".
std::filesystem::path RankFile(const std::filesystem::path& bundle, std::uint32_t rank,
                               const std::string& what);

std::filesystem::path DumpFile(const std::filesystem::path& bundle, std::uint32_t rank);

struct ProcessOfRank {
  std::uint32_t rank = 0;
  pid_t pid = 0;
};

struct NodePart {
  std::string node;
  std::vector<ProcessOfRank> workers;
  std::vector<std::pair<std::uint32_t, std::string>>
      last_lines;              // By rank; empty ones are left out.
  std::filesystem::path logs;  // The generation's, on this node; empty: none are kept.
};

// Makes the bundle, if need be, and writes the machine's file and the ranks' lines: of the machine
// and the processes what the kernel knows (load, memory, pressure, room on the disk). Facts that
// cannot be read are left out.
Result<void> WriteNodePart(const std::filesystem::path& bundle, const NodePart& part);

}  // namespace ddprun
