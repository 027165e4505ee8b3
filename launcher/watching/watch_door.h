// The agent's door for who watches: probes, metrics (--http-listen) and the status page, asked of
// its loop. No thread before the first who asks may come.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/loop.h"
#include "launcher/watching/http_listener.h"
#include "launcher/watching/page.h"
#include "launcher/watching/runs_page.h"

namespace ddprun {

// `look` and `wish` run on the loop. The door ends before the loop does.
std::unique_ptr<HttpListener> MakeWatchDoor(Loop& loop, std::function<PageView()> look,
                                            PageWish wish);
// Of a server alone.
std::unique_ptr<HttpListener> MakeRunsDoor(Loop& loop, std::function<ServerView()> look,
                                           RunsAnswers::Wish wish);

// Where a door is to answer.
Result<ListenSocket> ListenForWatchers(const Endpoint& listen);

}  // namespace ddprun
