#include "launcher/watching/page_listener.h"

#include <utility>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr unsigned kConflict = 409;

template <typename Answers, typename Look>
std::unique_ptr<HttpListener> ListenerOf(Loop& loop, Look look, Operate operate) {
  const ControlHandler control = [&loop, operate = std::move(operate)](
                                     const RunId& run, ControlVerb verb, const NodeId& node,
                                     std::function<void(HttpAnswer)> done) {
    loop.Post([operate, run, verb, node, done = std::move(done)] {
      const Result<std::string> said = operate(run, verb, node);
      done(said ? HttpAnswer{200, *said + "\n"}
                : HttpAnswer{kConflict, said.error().message + "\n"});
    });
  };
  return std::make_unique<HttpListener>(
      [&loop, look = std::move(look), control](std::function<void(HttpListener::Answer)> done) {
        loop.Post([look, control, done = std::move(done)] {
          done(std::make_shared<Answers>(look(), control));
        });
      },
      std::make_shared<LatePage>("the control loop is stuck: it has not answered within " +
                                 FormatDuration(HttpListener::kPatienceWithLoop) + "\n"));
}

}  // namespace

std::unique_ptr<HttpListener> MakePageListener(Loop& loop, std::function<PageView()> look,
                                               Operate operate) {
  return ListenerOf<PageAnswers>(loop, std::move(look), std::move(operate));
}

std::unique_ptr<HttpListener> MakeRunsListener(Loop& loop, std::function<ServerView()> look,
                                               Operate operate) {
  return ListenerOf<RunsAnswers>(loop, std::move(look), std::move(operate));
}

Result<ListenSocket> ListenForWatchers(const Endpoint& listen) {
  Result<ListenSocket> socket = ListenOn(listen);
  if (!socket) {
    return Error{socket.error().kind, "--http-listen: " + socket.error().message};
  }
  return socket;
}

Result<void> AnswerWatchers(HttpListener& listener, ListenSocket socket) {
  RETURN_IF_ERROR(listener.Listen(std::move(socket)));
  Log(LogLevel::kInfo, "probes and metrics: http://" + ToString(listener.endpoint()) +
                           "/livez, /readyz and /metrics; `ddprun status --url` prints the link "
                           "of the status page");
  return {};
}

}  // namespace ddprun
