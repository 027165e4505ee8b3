#include "launcher/watching/watch_door.h"

#include <chrono>
#include <utility>

#include "launcher/watching/metrics.h"

namespace ddprun {
namespace {

constexpr unsigned kUnavailable = 503;

HttpAnswer AnswerOf(const NodeView& view, std::string_view path) {
  if (path == "/livez") {
    return {200, "the control loop turns\n"};
  }
  if (path == "/readyz") {
    const Readiness readiness = ReadinessOf(view);
    return {readiness.ready ? 200 : kUnavailable, readiness.words + "\n"};
  }
  if (path == "/metrics") {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return {200, MetricsText(view, std::chrono::duration<double>(now).count()),
            "text/plain; version=0.0.4; charset=utf-8"};
  }
  return {404, "there are /livez, /readyz and /metrics\n"};
}

}  // namespace

Result<std::unique_ptr<HttpListener>> OpenWatchDoor(Loop& loop, const Endpoint& listen,
                                                    std::function<NodeView()> look) {
  Result<ListenSocket> socket = ListenOn(listen);
  if (!socket) {
    return Error{socket.error().kind, "--http-listen: " + socket.error().message};
  }
  const auto ask = [&loop, look = std::move(look)](std::function<void(HttpListener::Answer)> done) {
    loop.Post([look, done = std::move(done)] {
      done([view = std::make_shared<const NodeView>(look())](std::string_view path) {
        return AnswerOf(*view, path);
      });
    });
  };
  return HttpListener::Open(std::move(*socket), ask, [](std::string_view) {
    return HttpAnswer{kUnavailable, "the control loop stands still: it did not answer within " +
                                        FormatDuration(HttpListener::kPatienceWithLoop) + "\n"};
  });
}

}  // namespace ddprun
