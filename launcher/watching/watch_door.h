// /livez, /readyz and /metrics of one agent (--http-listen), asked of its loop.
#pragma once

#include <functional>
#include <memory>

#include "common/loop.h"
#include "launcher/watching/http_listener.h"
#include "launcher/watching/node_view.h"

namespace ddprun {

// `look` runs on the loop. The listener ends before the loop does.
Result<std::unique_ptr<HttpListener>> OpenWatchDoor(Loop& loop, const Endpoint& listen,
                                                    std::function<NodeView()> look);

}  // namespace ddprun
