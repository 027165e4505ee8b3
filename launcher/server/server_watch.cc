#include "launcher/server/server_watch.h"

#include <utility>

namespace ddprun {
namespace {

// All of them by name, the first ones whole.
std::vector<RunStatus> RunsOf(const CoordinatorDriver& server) {
  auto runs = server.StatusOfRuns("");
  std::vector<RunStatus> all = runs ? *std::move(runs) : std::vector<RunStatus>();
  for (std::size_t i = 0; i < std::min(all.size(), kMostWhole); ++i) {
    all[i] = server.StatusOfRun(all[i].run_id).value_or(all[i]);
  }
  return all;
}

}  // namespace

Result<void> ServerWatch::Bind() {
  if (config_.http_listen) {
    ASSIGN_OR_RETURN(socket_, ListenForWatchers(*config_.http_listen));
    page_ = socket_->endpoint;
  }
  return {};
}

Result<void> ServerWatch::Open(Here here, Where served_at, Where server) {
  here_ = std::move(here);
  served_at_ = std::move(served_at);
  server_ = std::move(server);
  watch_ = MakeRunsListener(
      loop_, [this] { return Look(); },
      [this](const RunId& run, ControlVerb verb, const NodeId& node) -> Result<std::string> {
        if (CoordinatorDriver* const serving = here_()) {
          return serving->OnControl({run, verb, node, token_});
        }
        return Error{ErrorKind::kUnavailable, "another server hosts the run now"};
      });
  return socket_ ? AnswerWatchers(*watch_, std::move(*socket_)) : Result<void>();
}

std::function<void(UniqueFd, std::string)> ServerWatch::OfPort() {
  return [this](UniqueFd socket, std::string begun) {
    if (watch_) {
      watch_->Adopt(std::move(socket), std::move(begun));
    }
  };
}

ServerView ServerWatch::Look() const {
  ServerView view{.token = token_, .names = {HostName()}};
  const bool in_the_clear = !config_.tls.any();
  const Endpoint served_at = in_the_clear ? served_at_() : Endpoint{};
  for (const Endpoint& at : {page_, served_at}) {
    if (at.port != 0) {
      view.names.push_back(at.host);
    }
  }
  view.places = PlacesOf({page_, served_at}, {HostName()});
  if (in_the_clear) {
    const Endpoint server = server_();
    view.server_page = server.port == 0 ? "" : ToString(server);
  }
  if (CoordinatorDriver* const serving = here_()) {
    view.runs = RunsOf(*serving);
  } else {
    view.stands_by = "standing by: another server hosts the runs" +
                     (view.server_page.empty() ? "" : ", at " + view.server_page);
  }
  return view;
}

}  // namespace ddprun
