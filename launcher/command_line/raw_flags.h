// Every flag as text, with its name, the form of its value, default, group and help. What the texts
// mean together is decided in cli.cc; nothing is checked here.
//
// Help, manual page, reference, shell completion and the settings file know flags from here alone.
// In a form, small letters are words to choose from and capitals stand for a value: "N|auto|cpu".
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/messages/shape.h"

namespace ddprun {

// One that sets a field of the run's shape, whose type and default are its own.
struct ShapeFlag {
  std::string flag;  // "--fence-after"
  std::string form;
  std::string text;
  std::variant<bool RunShape::*, std::uint32_t RunShape::*, Duration RunShape::*> member;
};

struct RawFlags {
  std::deque<ShapeFlag> shape;  // Filled by AddFlags; all others have their member here.
  std::string nnodes = "1:1";
  std::string workers = "1";
  std::string node_rank;
  std::string endpoint;
  std::string backend = "ddprun";
  std::string run_id = "none";
  std::string conf;
  bool standalone = false;
  std::string local_address;
  std::string interface;
  std::string token_file;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  std::string store_allow;
  bool insecure = false;
  std::string run_dir;
  std::string master_addr;
  std::string master_port;
  std::string give_up_code;
  std::string shutdown_timeout = "30";
  std::string hang_timeout = "0";
  std::string stop_before = "0";
  std::string time_limit;
  std::string signals = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  std::string monitor_interval = "0.1";
  std::string start_method = "spawn";
  std::string role = "default";
  bool module = false;
  bool no_python = false;
  bool run_path = false;
  bool use_env = false;
  bool pass_local_rank = false;
  bool virtual_local_rank = false;
  bool scrub_env = false;
  std::string numa_binding = "none";
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string prefix = "none";
  std::string prefix_template = "[${role_name}${local_rank}]:";
  std::string shown_ranks;
  std::string stdout_filters;
  std::string stderr_filters;
  std::string event_log_handler = "null";
  std::string logs_specs;
  std::string config;
  std::string print_completion;
  bool no_auto_srun = false;
  bool verbose = false;
  bool dry_run = false;
  bool version = false;
  bool short_help = false;
  bool help = false;
};

// `raw` must outlive `app`.
void AddFlags(CLI::App& app, RawFlags& raw);

// One flag, for whoever describes them.
struct FlagRow {
  std::string name;                  // Without dashes; empty: it has a short name alone.
  std::string short_name;            // Mostly empty.
  std::string form;                  // Of its value; empty: it takes none.
  std::vector<std::string> choices;  // The words in `form`.
  std::string fallback;              // Its default; empty: none, or told in `help`.
  std::string group;
  std::string help;

  std::string Spelling() const;  // "-r, --redirects BITS"
};

// In the order of the help.
std::vector<FlagRow> FlagTable();

// The words of a form.
std::vector<std::string> WordsOf(const std::string& form);

}  // namespace ddprun
