// The status page, which is one file that loads nothing from elsewhere, and the answers to it.
//
//   GET  /                  the page; it knows nothing of the run
//   POST /api/session       a cookie for the key; without a key: the rights of the cookie
//   POST /api/proof         a proof that this server knows the key, for a page of another node
//   GET  /api/state.json    the run, once
//   GET  /api/events        the same as a stream of server-sent events: state, events, training
//   POST /api/drain, /stop  an operator's request, as of the verbs
//
// Each answer is made of one look at the run, on the listener's thread. /livez, /readyz and
// /metrics need no key. If the run has a token, all other requests need one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/watching/http_message.h"
#include "launcher/watching/node_view.h"
#include "launcher/watching/page_access.h"
#include "rendezvous/transport.h"

namespace ddprun {

inline constexpr std::size_t kMostOthers = 8;

// One of a server's runs, to choose from.
struct RunLine {
  RunId run_id;
  std::string phase;
  std::string headline;
};

struct PageView {
  NodeView node;
  PageAccess access;
  std::string server_at;    // The server's address, as it is shown.
  std::string server_page;  // The address of the server's page: "n0:29400"; empty: unknown.
  std::vector<std::string> others = {};  // Pages of other nodes, kMostOthers at most.
  std::vector<RunLine> runs = {};        // The server's runs, if it has several.
  bool one_of_many = false;              // The server may have other runs, now or later.
};

// The pages of other nodes, for a reader who finds this one gone. Without `own`.
std::vector<std::string> OtherPages(const RunStatus& run, const std::vector<std::string>& own);

// Carries an operator's request out; `done` gets what the server says.
using ControlHandler = std::function<void(const RunId& run, ControlVerb verb, const NodeId& node,
                                          std::function<void(HttpAnswer)> done)>;

// The answer to a probe without a key, at the server's own port.
HttpAnswer ProbesNeedKey();

class PageAnswers final : public HttpAnswers {
 public:
  PageAnswers(PageView view, ControlHandler control)
      : view_(std::move(view)), control_(std::move(control)) {}
  HttpAnswer Reply(const HttpRequest& request) override;
  std::string News(StreamPlace& place) override;

 private:
  HttpAnswer Probe(const std::string& path) const;
  HttpAnswer Session(const HttpRequest& request) const;
  HttpAnswer Proof(const HttpRequest& request) const;
  HttpAnswer Control(const HttpRequest& request) const;
  const std::string& State();

  const PageView view_;
  const ControlHandler control_;
  std::string state_;  // As JSON, after the first request for it.
};

// The page with its Content-Security-Policy: its own script and style alone.
HttpAnswer ThePage();

// The page with its data inside, as JSON: {"state", "events", "training", "unix_time"}. It can be
// opened as a file, loads nothing, and contains its policy.
std::string PageWith(const std::string& json);
// The data of such a page; empty: `page` is another one.
std::string_view DataOfPage(std::string_view page);

// The answer to every request while the loop is stuck.
class LatePage final : public HttpAnswers {
 public:
  explicit LatePage(std::string words) : words_(std::move(words)) {}
  HttpAnswer Reply(const HttpRequest&) override { return {kHttpUnavailable, words_}; }
  std::string News(StreamPlace&) override { return ""; }

 private:
  const std::string words_;
};

}  // namespace ddprun
