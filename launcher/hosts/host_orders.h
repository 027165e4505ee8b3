// For each host of --hosts: the process that connects to it, and the order for the ddprun there
// (control_stream.h). Values; starts nothing.
//
// Every setting of the launch travels as a flag, wherever it was made; the token in the order
// alone. A host has its own environment, and the launcher's directory and program under the same
// paths; with --copy it may lack them (host_copies.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "agent/workers/worker_spec.h"
#include "launcher/command_line/config.h"
#include "launcher/hosts/control_stream.h"
#include "launcher/hosts/host_copies.h"

namespace ddprun {

// The settings of a launch that a node of it on another machine needs, as flags: all that were made
// but those of one machine.
std::vector<Setting> SettingsThatTravel(const LaunchConfig& config);
// --nnodes.
Setting NodesFlag(std::uint32_t min_nodes, std::uint32_t max_nodes);
// As given, or drawn.
RunId NameOfRun(const LaunchConfig& config);
// Where a launch is, and so its nodes elsewhere. kInvalid: it is gone.
Result<std::string> WorkingDirectory();
// `flags`, then the program and its arguments.
std::vector<std::string> ArgumentsWith(const std::vector<Setting>& flags,
                                       const LaunchConfig& config);

class HostOrders {
 public:
  // Draws a token unless there is one, or none is wanted. kInvalid: this machine lacks something,
  // which the error names.
  static Result<HostOrders> Make(const LaunchConfig& config);

  // By --launch-agent; on this machine (its name without a user, or localhost) ddprun itself.
  WorkerSpec Connection(std::size_t host) const;
  // `first`: the host where the nodes meet; none: --rdzv-endpoint says where.
  NodeOrder Order(std::size_t host, std::optional<std::size_t> first) const;
  bool finds_first() const { return finds_first_; }
  const std::string& word() const { return word_; }
  // Files that are sent to a host that lacks them; none without --copy.
  const std::vector<HostCopy>& copies() const { return copies_; }

  // For --dry-run: each host's commands.
  std::string Describe() const;

 private:
  explicit HostOrders(const LaunchConfig& config) : config_(config) {}

  std::vector<Setting> Flags(std::size_t host, std::optional<std::size_t> first) const;
  bool IsHere(std::size_t host) const;

  const LaunchConfig& config_;
  bool finds_first_ = false;
  std::filesystem::path agent_;  // The file of the launch agent's first word.
  std::string program_;          // ddprun, here and there.
  std::vector<HostCopy> copies_;
  std::string directory_;
  std::string run_id_;
  std::string word_;
  std::string token_;
  std::map<std::string, std::string> environment_;  // Of what connects.
};

}  // namespace ddprun
