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

// `look` and `control` run on the loop. The listener ends before the loop does.
std::unique_ptr<HttpListener> MakePageListener(Loop& loop, std::function<PageView()> look,
                                               ControlHandler control);
// Of a server alone.
std::unique_ptr<HttpListener> MakeRunsListener(Loop& loop, std::function<ServerView()> look,
                                               RunsAnswers::RunControl control);

// Binds the address at which such a listener answers.
Result<ListenSocket> ListenForWatchers(const Endpoint& listen);

}  // namespace ddprun
