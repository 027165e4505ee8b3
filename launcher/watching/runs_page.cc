#include "launcher/watching/runs_page.h"

#include <algorithm>
#include <utility>

#include "common/wall_clock.h"
#include "launcher/headline.h"
#include "launcher/watching/metrics.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {

const RunStatus* RunsAnswers::Find(const RunId& run) const {
  const auto found = std::ranges::find(view_.runs, run, &RunStatus::run_id);
  return found == view_.runs.end() ? nullptr : &*found;
}

PageAccess RunsAnswers::AccessTo(const RunId& run) const {
  PageAccess access(view_.token, run, view_.names, view_.places);
  access.AlsoOfAllRuns(view_.token);
  return access;
}

// A browser that shows a run's key means that run.
RunId RunsAnswers::Meant(const HttpRequest& request) const {
  if (Find(request.run) == nullptr && request.path == "/api/session" && !request.body.empty()) {
    for (const RunStatus& run : view_.runs) {
      const PageAccess its(view_.token, run.run_id, {}, {});
      if (its.HasKeys() && its.WithKey(request.body) != May::kNothing) {
        return run.run_id;
      }
    }
  }
  return request.run;
}

PageAnswers& RunsAnswers::PageOf(const RunId& named) {
  return Page(view_.runs.size() == 1 ? &view_.runs.front() : Find(named));
}

// A browser that reads of one run may not see which others have come, or have gone, since.
std::string RunsAnswers::News(StreamPlace& place) {
  const RunStatus* const run = Find(place.run);
  return run == nullptr && !place.run.empty() ? "" : Page(run).News(place);
}

PageAnswers& RunsAnswers::Page(const RunStatus* run) {
  const RunId id = run == nullptr ? "" : run->run_id;
  std::unique_ptr<PageAnswers>& page = pages_[id];
  if (!page) {
    PageView view{.node = {.run_id = id},
                  .access = AccessTo(id),
                  .server_at = view_.server_page,
                  .server_page = view_.server_page,
                  .one_of_many = true};
    if (run != nullptr) {
      view.node.run = *run;
      view.others = OtherPages(*run, view_.places);
    }
    for (const RunStatus& one : view_.runs.size() == 1 ? std::vector<RunStatus>() : view_.runs) {
      view.runs.push_back({one.run_id, one.phase, HeadlineOf(one).text});
    }
    page = std::make_unique<PageAnswers>(std::move(view), control_);
  }
  return *page;
}

HttpAnswer RunsAnswers::Reply(const HttpRequest& request) {
  const bool asks_state = request.path == "/readyz" || request.path == "/metrics";
  if (!request.post && asks_state &&
      !AccessTo(view_.runs.size() == 1 ? view_.runs.front().run_id : "").MayProbe(request)) {
    return ProbesNeedKey();
  }
  if (!request.post && request.path == "/readyz") {
    return view_.stands_by.empty()
               ? HttpAnswer{200, "serving " +
                                     CountOf(static_cast<std::uint32_t>(view_.runs.size()), "run") +
                                     "\n"}
               : HttpAnswer{kHttpUnavailable, view_.stands_by + "\n"};
  }
  if (!request.post && request.path == "/metrics") {
    const bool one = view_.runs.size() == 1;
    return {200,
            MetricsOfServer(one ? std::optional(view_.runs.front()) : std::nullopt, UnixSeconds()),
            kMetricsType};
  }
  return PageOf(Meant(request)).Reply(request);
}

}  // namespace ddprun
