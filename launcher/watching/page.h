// The status page: one file without anything from elsewhere, and what it asks for.
//
//   GET  /                  the page; it knows nothing of the run
//   POST /api/session       its key for a cookie; without one: what the cookie has
//   POST /api/proof         that the key is known here, for a page elsewhere that leads here
//   GET  /api/state.json    the run, once
//   GET  /api/events        the same as a stream of server-sent events: state, events, training
//   POST /api/drain, /stop  an operator's request, as of the verbs
//
// Every answer is made of one look, on the listener's thread. /livez, /readyz and /metrics ask for
// no key; all else does where the run has a token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/watching/http_message.h"
#include "launcher/watching/node_view.h"
#include "launcher/watching/page_access.h"
#include "rendezvous/transport.h"

namespace ddprun {

inline constexpr std::size_t kMostOthers = 8;

// One of several to choose from.
struct RunLine {
  RunId run_id;
  std::string phase;
  std::string headline;
};

struct PageView {
  NodeView node;
  PageAccess access;
  std::string server_at;    // The server's address, for people.
  std::string server_page;  // The address of the server's page: "n0:29400"; empty: unknown.
  std::vector<std::string> others = {};  // Where other nodes answer it, kMostOthers at most.
  std::vector<RunLine> runs = {};  // Of a server of several: this one is one of them, or none.
  bool one_of_many = false;        // The server may have other runs, now or later.
};

// Where a reader goes whose server is gone: where nodes say that they answer. Without `own`.
std::vector<std::string> OtherPages(const RunStatus& run, const std::vector<std::string>& own);

// Carries an operator's request out; `done` gets what the server says.
using ControlHandler = std::function<void(const RunId& run, ControlVerb verb, const NodeId& node,
                                          std::function<void(HttpAnswer)> done)>;

// To browsers that show none at the server's own port.
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

// The page with what it shows in it, as JSON: {"state", "events", "training", "unix_time"}. It
// opens from a file, asks for nothing, and has its policy in itself.
std::string PageWith(const std::string& json);
// The data of such a page; empty: it is none.
std::string_view DataOfPage(std::string_view page);

// Where the loop did not answer.
class LatePage final : public HttpAnswers {
 public:
  explicit LatePage(std::string words) : words_(std::move(words)) {}
  HttpAnswer Reply(const HttpRequest&) override { return {kHttpUnavailable, words_}; }
  std::string News(StreamPlace&) override { return ""; }

 private:
  const std::string words_;
};

}  // namespace ddprun
