// `ddprun slurm-script ... PROGRAM`: a batch script for Slurm, ready for sbatch, each line with its
// reason. examples/slurm/ is what it prints for one wish each.
//
// Prints only: submits nothing, asks no Slurm, looks for no program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

enum class SlurmForm {
  kWholeJob,  // Slurm starts the job again where a node is lost.
  kElastic,   // In place, with spare nodes.
  kArray,     // A chain of jobs of one node.
};

struct SlurmScriptWish {
  SlurmForm form = SlurmForm::kWholeJob;
  std::string name;                  // Of the job.
  std::uint32_t nodes = 1;           // That train.
  std::uint32_t spares = 0;          // kElastic: beside them,
  std::uint32_t least = 0;           // and how few go on.
  std::uint32_t jobs = 0;            // kArray: of the chain.
  std::uint32_t gpus = 0;            // Per node; 0: no line asks for any.
  std::uint32_t cpus = 0;            // Per node; 0: the same.
  std::uint32_t workers = 0;         // Per node; 0: as ddprun finds (one per GPU).
  std::string time;                  // As --time of sbatch.
  std::uint32_t warning = 0;         // Seconds before the end.
  std::vector<std::string> sbatch;   // More of sbatch's own flags: "--partition=gpu".
  std::vector<std::string> program;  // With its arguments.
};

// The whole script.
std::string SlurmScript(const SlurmScriptWish& wish);

}  // namespace ddprun
