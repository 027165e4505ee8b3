// Every flag of a launch, and how its value is read. cli.cc decides what values mean together.
//
// Help, manual page, reference, shell completion and the settings file get their flags only from
// here.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "launcher/command_line/config.h"
#include "launcher/command_line/flag_rows.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {

struct RawFlags {
  RawFlags() = default;
  RawFlags(const RawFlags&) = delete;  // The flags point into it.

  LaunchConfig config;  // Has all values that a row can read alone.

  // Texts whose meaning depends on other flags, or on this machine.
  std::string nnodes = "1:1";
  std::string workers = "1";
  std::string node_rank;
  std::string hosts;
  std::string hostfile;
  std::string pool;
  std::string endpoint;
  std::string backend = "ddprun";
  std::string run_id = kUnnamedRun;
  std::string conf;
  bool standalone = false;
  std::string master_addr;
  std::string master_port;
  std::string gpus;
  std::string attach_rank;
  bool use_env = false;
  Duration no_effect{0};           // Durations of torchrun that are only checked.
  std::uint32_t start_method = 0;  // A flag of torchrun that is only checked.
  std::string config_file;
  std::string print_completion;
  bool version = false;
  bool short_help = false;
  bool help = false;
};

// `raw` must outlive `app`.
void AddFlags(CLI::App& app, RawFlags& raw);

// The rows of AddFlags.
std::vector<FlagRow> FlagTable();

}  // namespace ddprun
