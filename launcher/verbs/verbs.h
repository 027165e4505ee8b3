// All verbs except those that launch and serve: parses their command lines and executes them.
//
// A verb is the first word of the command line; a program of such a name is started by
// `ddprun -- status`. Verbs read their flags like the launcher: flag > DDPRUN_<FLAG> > default.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "common/result.h"
#include "launcher/kept_preload_launch.h"
#include "launcher/verbs/logs.h"
#include "launcher/verbs/new_project.h"
#include "launcher/verbs/orders.h"
#include "launcher/verbs/publish.h"
#include "launcher/verbs/report.h"
#include "launcher/verbs/run_stacks.h"
#include "launcher/verbs/stacks.h"
#include "launcher/verbs/status.h"
#include "proto/worker_env.h"

namespace ddprun {

struct ShowEnvironment {};  // `ddprun env`
struct HelpRequest {        // A text to print.
  std::string text;
};

using VerbRequest = std::variant<StacksRequest, RunStacksRequest, LogsRequest, OrderRequest,
                                 StatusRequest, ControlCommand, PublishCommand, NewProjectRequest,
                                 ReportRequest, KeptQuery, ShowEnvironment, HelpRequest>;

bool IsVerb(const std::string& word);

// All verbs of ddprun, also those that launch and serve.
std::vector<std::string> VerbNames();

// If no program has the name of the first word: a message with the verb that may be meant, else "".
std::string PerhapsAVerb(const std::vector<std::string>& command, const Error& error);

// `args` begins with the verb. Errors are kInvalid: exit 2.
Result<VerbRequest> ParseVerb(const std::vector<std::string>& args, const GetEnv& get_env);

// The exit code.
int CarryOut(const VerbRequest& request);

}  // namespace ddprun
