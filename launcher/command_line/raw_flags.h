// Every flag with its name, the form of its value, what it sets, its default, group and help.
// Nothing is checked here; cli.cc decides what a text means.
//
// Help, manual page, reference, shell completion and the settings file get their flags only from
// here. In a form, small letters are words to choose from and capitals stand for a value:
// "N|auto|cpu".
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "launcher/command_line/config.h"

namespace ddprun {

// A flag whose text alone decides the value of a field of LaunchConfig.
struct FieldFlag {
  std::string flag;  // "--fence-after"
  std::string form;  // N, SECONDS, DURATION, or two words, the default first.
  std::string text;
  std::variant<bool*, std::uint32_t*, Duration*> field;
};

struct RawFlags {
  RawFlags() = default;
  RawFlags(const RawFlags&) = delete;  // The flags point into it.

  LaunchConfig config;           // Has the words and switches that need no interpretation.
  std::deque<FieldFlag> fields;  // Filled by AddFlags.

  // Texts that must be interpreted, or whose meaning depends on other flags.
  std::string nnodes = "1:1";
  std::string workers = "1";
  std::string node_rank;
  std::string hosts;
  std::string hostfile;
  std::string launch_agent =
      "ssh -x -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o "
      "ServerAliveCountMax=2";
  std::string endpoint;
  std::string backend = "ddprun";
  std::string run_id = "none";
  std::string conf;
  bool standalone = false;
  std::string store_allow;
  std::string master_addr;
  std::string master_port;
  std::string give_up_code;
  std::string gpus;
  std::string attach_rank;
  std::string time_limit;
  std::string progress_from;
  std::string on_hang = "restart";
  std::string host_check = "on";
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  std::string monitor_interval = "0.1";
  std::string exit_barrier_timeout = "300";
  std::string start_method = "spawn";
  bool use_env = false;
  std::string numa_binding = "none";
  std::string redirects = "0";
  std::string tee = "0";
  std::string shown_ranks;
  std::string stdout_filters;
  std::string stderr_filters;
  std::string event_log_handler = "null";
  std::string log_format = "text";
  std::string http_listen;
  std::string logs_specs;
  std::string config_file;
  std::string print_completion;
  bool no_auto_srun = false;
  bool version = false;
  bool short_help = false;
  bool help = false;
};

// `raw` must outlive `app`.
void AddFlags(CLI::App& app, RawFlags& raw);

// One flag as a text, for help and documentation.
struct FlagRow {
  std::string name;                  // Without dashes; empty: it has only a short name.
  std::string short_name;            // Mostly empty.
  std::string form;                  // Of its value; empty: it takes no value.
  std::vector<std::string> choices;  // The words in `form`.
  std::string fallback;              // Its default; empty: none, or `help` has it.
  std::string group;
  std::string help;

  std::string Spelling() const;  // "-r, --redirects BITS"
};

// In the order of the help.
std::vector<FlagRow> FlagTable();

// The words of a form.
std::vector<std::string> WordsOf(const std::string& form);

}  // namespace ddprun
