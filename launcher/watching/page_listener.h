// The listener of an agent or a server for people who watch: probes, metrics (--http-listen) and
// the status page, asked of its loop. No thread is started before the first connection may come.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/loop.h"
#include "launcher/watching/http_listener.h"
#include "launcher/watching/page.h"
#include "launcher/watching/runs_page.h"

namespace ddprun {

// Returns what the server says to an operator's request.
using Operate =
    std::function<Result<std::string>(const RunId& run, ControlVerb verb, const NodeId& node)>;

// Makes an agent's listener. `look` and `operate` run on the loop, which must outlive it.
std::unique_ptr<HttpListener> MakePageListener(Loop& loop, std::function<PageView()> look,
                                               Operate operate);
// Makes the listener of a server without an agent.
std::unique_ptr<HttpListener> MakeRunsListener(Loop& loop, std::function<ServerView()> look,
                                               Operate operate);

// Binds the address at which such a listener answers.
Result<ListenSocket> ListenForWatchers(const Endpoint& listen);
// Begins to answer, and logs the address.
Result<void> AnswerWatchers(HttpListener& listener, ListenSocket socket);

}  // namespace ddprun
