// `ddprun k8s-manifest ... PROGRAM`: a manifest for Kubernetes, ready for kubectl apply, each line
// with its reason. examples/kubernetes/ is what it prints for one wish each.
//
// Prints only: asks no cluster, reads no variable, looks for no program or image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"

namespace ddprun {

enum class ManifestForm {
  kJob,       // An Indexed Job and the service by which its pods find one another.
  kJobSet,    // The same as the one job of a JobSet, which brings the service.
  kTrainJob,  // Of Kubeflow's Trainer, on a runtime that the cluster has.
};

struct ManifestWish {
  ManifestForm form = ManifestForm::kJob;
  std::string name;           // Of all objects: a DNS label that begins with a letter.
  std::uint32_t least = 1;    // Nodes: so few train,
  std::uint32_t most = 1;     // and so many can; more than `least`: elastic.
  std::uint32_t gpus = 0;     // Per node; 0: no line asks for any.
  std::uint32_t workers = 0;  // Per node; 0: one per GPU, else as ddprun finds.
  std::uint32_t grace = 150;  // Seconds from TERM to KILL.
  std::string cpus;           // Per node, as Kubernetes takes it; "": no line.
  std::string memory;         // The same.
  std::string image;
  std::string claim;                 // The volume claim that all nodes share.
  std::string runtime;               // kTrainJob: the ClusterTrainingRuntime.
  std::vector<std::string> program;  // With its arguments.
};

// The most that `name` may have, so that the pods' host names are whole.
std::size_t LongestName(const ManifestWish& wish);

// The whole file. kInvalid: a word that YAML cannot say.
Result<std::string> Manifest(const ManifestWish& wish);

}  // namespace ddprun
