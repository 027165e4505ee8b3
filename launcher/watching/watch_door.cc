#include "launcher/watching/watch_door.h"

#include <utility>

namespace ddprun {

std::unique_ptr<HttpListener> MakeWatchDoor(Loop& loop, std::function<PageView()> look,
                                            PageWish wish) {
  const PageWish on_loop = [&loop, wish = std::move(wish)](ControlVerb verb, std::string node,
                                                           auto done) {
    loop.Post([wish, verb, node = std::move(node), done = std::move(done)]() mutable {
      wish(verb, std::move(node), std::move(done));
    });
  };
  const auto ask = [&loop, look = std::move(look),
                    on_loop](std::function<void(HttpListener::Answer)> done) {
    loop.Post([look, on_loop, done = std::move(done)] {
      done(std::make_shared<PageAnswers>(look(), on_loop));
    });
  };
  return std::make_unique<HttpListener>(
      ask, std::make_shared<LatePage>("the control loop stands still: it did not answer within " +
                                      FormatDuration(HttpListener::kPatienceWithLoop) + "\n"));
}

Result<ListenSocket> ListenForWatchers(const Endpoint& listen) {
  Result<ListenSocket> socket = ListenOn(listen);
  if (!socket) {
    return Error{socket.error().kind, "--http-listen: " + socket.error().message};
  }
  return socket;
}

}  // namespace ddprun
