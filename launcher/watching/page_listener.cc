#include "launcher/watching/page_listener.h"

#include <utility>

namespace ddprun {
namespace {

std::unique_ptr<HttpListener> ListenerOf(Loop& loop, std::function<HttpListener::Answer()> look) {
  return std::make_unique<HttpListener>(
      [&loop, look = std::move(look)](std::function<void(HttpListener::Answer)> done) {
        loop.Post([look, done = std::move(done)] { done(look()); });
      },
      std::make_shared<LatePage>("the control loop is stuck: it has not answered within " +
                                 FormatDuration(HttpListener::kPatienceWithLoop) + "\n"));
}

}  // namespace

std::unique_ptr<HttpListener> MakePageListener(Loop& loop, std::function<PageView()> look,
                                               ControlHandler control) {
  const ControlHandler on_loop = [&loop, control = std::move(control)](
                                     ControlVerb verb, std::string node, auto done) {
    loop.Post([control, verb, node = std::move(node), done = std::move(done)]() mutable {
      control(verb, std::move(node), std::move(done));
    });
  };
  return ListenerOf(loop, [look = std::move(look), on_loop] {
    return std::make_shared<PageAnswers>(look(), on_loop);
  });
}

std::unique_ptr<HttpListener> MakeRunsListener(Loop& loop, std::function<ServerView()> look,
                                               RunsAnswers::RunControl control) {
  const RunsAnswers::RunControl on_loop = [&loop, control = std::move(control)](
                                              const RunId& run, ControlVerb verb,
                                              const std::string& node, auto done) {
    loop.Post(
        [control, run, verb, node, done = std::move(done)] { control(run, verb, node, done); });
  };
  return ListenerOf(loop, [look = std::move(look), on_loop] {
    return std::make_shared<RunsAnswers>(look(), on_loop);
  });
}

Result<ListenSocket> ListenForWatchers(const Endpoint& listen) {
  Result<ListenSocket> socket = ListenOn(listen);
  if (!socket) {
    return Error{socket.error().kind, "--http-listen: " + socket.error().message};
  }
  return socket;
}

}  // namespace ddprun
