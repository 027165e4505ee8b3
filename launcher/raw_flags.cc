#include "launcher/raw_flags.h"

namespace ddprun {
namespace {

void AddSize(CLI::App& app, RawFlags& raw) {
  app.add_option("--nnodes", raw.nnodes, "Nodes: N, or MIN:MAX for an elastic run")->group("Size");
  app.add_option("--scale-up", raw.scale_up,
                 "When a node comes while fewer than MAX run: restart (take it in: all workers get "
                 "--shutdown-timeout to save, then start again together) or never (it waits as a "
                 "spare). The first node's word counts")
      ->group("Size");
  app.add_option("--nproc-per-node", raw.workers,
                 "Workers on this node: a number, auto, gpu or cpu")
      ->group("Size");
  app.add_option("--node-rank", raw.node_rank,
                 "This node's rank, where ranks are fixed by hand; rank 0 carries the server")
      ->group("Size");
}

void AddRendezvous(CLI::App& app, RawFlags& raw) {
  const auto option = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)->group("Rendezvous");
  };
  option("--rdzv-endpoint", raw.endpoint,
         "Where the nodes meet, HOST:PORT (default 127.0.0.1:29400); whoever has that address and "
         "comes first carries the server");
  option("--rdzv-id", raw.run_id, "Name of the run; a server keeps runs apart by it");
  option("--rdzv-backend", raw.backend,
         "ddprun, c10d or static: all are served by ddprun's own server");
  option("--rdzv-conf", raw.conf,
         "join_timeout=SECONDS (600), last_call_timeout=SECONDS (5); torchrun's other keys are "
         "accepted and mean nothing here");
  app.add_flag("--standalone", raw.standalone, "One node, no sockets for others (the default)")
      ->group("Rendezvous");
  option("--local-addr", raw.local_address, "Address under which other nodes reach this one");
  option("--master-addr", raw.master_addr,
         "Static rendezvous: the host of node rank 0 (default 127.0.0.1); MASTER_ADDR of every "
         "worker is this very word. Not used beside --rdzv-endpoint");
  option("--master-port", raw.master_port,
         "Static rendezvous: its port (default 29500 with --master-addr); MASTER_PORT of every "
         "worker is this very number, shared by the rendezvous and the workers' store");
}

void AddProgram(CLI::App& app, RawFlags& raw) {
  const auto flag = [&](const char* name, bool& value, const char* help) {
    app.add_flag(name, value, help)->group("Program");
  };
  flag("-m,--module", raw.module, "PROGRAM is a Python module");
  flag("--no-python", raw.no_python, "Execute PROGRAM itself, even a .py file");
  flag("--run-path", raw.run_path,
       "Run PROGRAM through Python's runpy.run_path, whatever it is called; wins over --no-python");
  flag("--use-env", raw.use_env,
       "Accepted for torch.distributed.launch's sake: the local rank is always LOCAL_RANK");
  flag("--virtual-local-rank", raw.virtual_local_rank,
       "LOCAL_RANK=0 for every worker, and CUDA_VISIBLE_DEVICES its one GPU");
  flag("--scrub-env", raw.scrub_env,
       "Take MPI's variables (OMPI_*, PMI_*, PMIX_*, MPI_*, HYDRA_*) out of the workers' "
       "environment");
  app.add_option("--role", raw.role, "Name of the workers' role")->group("Program");
  app.add_option("--start-method", raw.start_method,
                 "Accepted for torchrun's sake: workers are always executed anew")
      ->group("Program");
}

void AddEnding(CLI::App& app, RawFlags& raw) {
  const auto option = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)->group("Restarts and signals");
  };
  option("--max-restarts", raw.max_restarts,
         "Worker failures after which the run still goes on, counted over all nodes");
  option("--restart-window", raw.restart_window,
         "Only failures within this time count against --max-restarts: SECONDS, or as 10m, 1h "
         "(default 0: all of the run's)");
  option("--crash-loop-limit", raw.crash_loop_limit,
         "Failures in a row without a step beyond the highest one, after which the run ends with 76 "
         "although restarts are left (default 3; 0: never). Steps are what workers tell as STEP=N "
         "on the notify socket, as ddprun-train does; where none does, nothing is concluded");
  option("--shutdown-timeout", raw.shutdown_timeout,
         "Seconds from a forwarded signal to SIGKILL (default 30, or "
         "TORCH_ELASTIC_SHUTDOWN_TIMEOUT)");
  option("--signals-to-handle", raw.signals,
         "Signals that are passed on to the workers. SIGUSR1 and SIGUSR2 do not stop the run, and "
         "are passed on too unless this flag leaves them out; of another one that is left out the "
         "run dies at once");
  option("--monitor-interval", raw.monitor_interval,
         "Accepted for torchrun's sake: a worker's end is noticed at once");
}

void AddOutput(CLI::App& app, RawFlags& raw) {
  const auto option = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)->group("Output");
  };
  option(
      "--log-dir", raw.log_dir,
      "Keep the workers' output below DIR/<run id>_<unique>/attempt_<n>/<local rank>; /dev/null: "
      "write no file at all");
  option("-r,--redirects", raw.redirects,
         "Streams to files only: 1 stdout, 2 stderr, 3 both, or 0:3,1:0 by local rank");
  option("-t,--tee", raw.tee, "Streams to files and console, same form");
  option("--prefix", raw.prefix, "rank: [<role><local rank>]: before every line");
  option("--log-line-prefix-template", raw.prefix_template,
         "Before teed lines; knows ${role_name}, ${local_rank}, ${rank}, ${hostname}");
  option("--local-ranks-filter", raw.shown_ranks,
         "Only these local ranks, as 0,2, are shown on the console; files have all");
  option("--duplicate-stdout-filters", raw.stdout_filters,
         "Teed lines with any of these texts, as a,b, also go to filtered_stdout.log in the "
         "attempt's directory; ,, is a comma");
  option("--duplicate-stderr-filters", raw.stderr_filters,
         "The same for stderr: filtered_stderr.log");
  option("--event-log-handler", raw.event_log_handler,
         "null, or console: every step on stderr, as -v does; a Python plug-in is refused");
  option("--logs-specs", raw.logs_specs,
         "Only 'default': Python plug-ins that choose the log files are refused");
}

void AddHelp(CLI::App& app, RawFlags& raw) {
  app.add_flag("-v,--verbose", raw.verbose, "Say every step of ddprun's own")->group("Output");
  app.add_option("--config", raw.config,
                 "File of `name = value` lines, names as the flags' (default ddprun.toml where "
                 "there is one); flags and environment count more")
      ->group("Help");
  app.add_flag("--version", raw.version, "Print the version")->group("Help");
  app.add_flag("-h", raw.short_help, "The short help")->group("Help");
  app.add_flag("--help", raw.help, "Every flag")->group("Help");
}

}  // namespace

void AddFlags(CLI::App& app, RawFlags& raw) {
  AddSize(app, raw);
  AddRendezvous(app, raw);
  AddProgram(app, raw);
  AddEnding(app, raw);
  AddOutput(app, raw);
  AddHelp(app, raw);
}

}  // namespace ddprun
