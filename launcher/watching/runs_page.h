// The status page of a server alone, which may have several runs: one page for each, and one to
// choose from, for browsers with the key of the whole server.
//
// A run's key leads to that run. If there is one run, it need not be chosen.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/watching/page.h"

namespace ddprun {

struct ServerView {
  std::vector<RunStatus> runs;  // By name; those beyond kMostWhole without their nodes.
  std::string stands_by;        // Why it serves none now; empty: it serves.
  std::string token;            // Empty: all may look.
  std::vector<std::string> names, places;
  std::string server_page;  // Where the server of its runs is; empty: not known.
};
// Each costs the loop as much as the page of an agent that has the server.
inline constexpr std::size_t kMostWhole = 16;

class RunsAnswers final : public HttpAnswers {
 public:
  RunsAnswers(ServerView view, ControlHandler control)
      : view_(std::move(view)), control_(std::move(control)) {}
  HttpAnswer Reply(const HttpRequest& request) override;
  std::string News(StreamPlace& place) override;

 private:
  const RunStatus* Find(const RunId& run) const;
  RunId Meant(const HttpRequest& request) const;
  PageAccess AccessTo(const RunId& run) const;
  // Of the only one, where there is none of that name; else of none.
  PageAnswers& PageOf(const RunId& run);
  PageAnswers& Page(const RunStatus* run);

  const ServerView view_;
  const ControlHandler control_;
  std::map<RunId, std::unique_ptr<PageAnswers>> pages_;
};

}  // namespace ddprun
