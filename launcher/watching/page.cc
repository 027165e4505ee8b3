#include "launcher/watching/page.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common/wall_clock.h"
#include "launcher/status_json.h"
#include "launcher/watching/metrics.h"
#include "launcher/watching/page_html.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

constexpr std::string_view kPageData = "<script type=\"application/json\">";
constexpr std::string_view kPageDataEnd = "</script>";

constexpr unsigned kBadRequest = 400;
constexpr unsigned kUnauthorized = 401;
constexpr unsigned kForbidden = 403;
constexpr unsigned kNotFound = 404;
constexpr unsigned kWrongMethod = 405;
constexpr unsigned kMisdirected = 421;
constexpr const char* kJson = "application/json";
constexpr std::chrono::seconds kStatePeriod{1};

std::string Sha256InBase64(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> encoded;
  const int length = EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(size));
  return {reinterpret_cast<const char*>(encoded.data()), static_cast<std::size_t>(length)};
}

std::string_view Between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

std::string PagePolicy(const std::string& more) {
  return "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; script-src "
         "'sha256-" +
         Sha256InBase64(Between(kPageHtml, "<script>", "</script>")) + "'; style-src 'sha256-" +
         Sha256InBase64(Between(kPageHtml, "<style>", "</style>")) + "'" + more;
}

bool IsNodeName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::ranges::all_of(name, [](char c) { return c >= 0x20 && c < 0x7f; });
}

OrderedJson EventsInJson(const std::vector<RunEvent>& events) {
  OrderedJson all = OrderedJson::array();
  for (const RunEvent& event : events) {
    all.push_back(EventInJson(event));
  }
  return all;
}

OrderedJson RunsInJson(const std::vector<RunLine>& runs) {
  OrderedJson all = OrderedJson::array();
  for (const RunLine& run : runs) {
    all.push_back({{"run_id", run.run_id}, {"phase", run.phase}, {"headline", run.headline}});
  }
  return all;
}

void Append(std::string& news, const char* event, const OrderedJson& json) {
  news += std::string("event: ") + event + "\ndata: " + JsonText(json) + "\n\n";
}

// A change of these is sent at once: states, not ages.
std::string MarkOf(const PageView& view) {
  if (!view.node.run) {
    std::string mark = view.server_at + " " + view.server_page;
    for (const RunLine& run : view.runs) {
      mark += " " + run.run_id + " " + run.phase;
    }
    return mark;
  }
  const RunStatus& run = *view.node.run;
  std::string mark =
      run.phase + " " + std::to_string(run.generation.value) + " " + run.waits_for + run.outcome;
  for (const NodeStatus& node : run.nodes) {
    mark += node.node + node.state + std::to_string(node.late) + node.reason;
  }
  return mark;
}

}  // namespace

const std::string& PageAnswers::State() {
  if (!state_.empty()) {
    return state_;
  }
  OrderedJson json{{"version", DDPRUN_VERSION},    {"unix_time", UnixSeconds()},
                   {"run_id", view_.node.run_id},  {"node", view_.node.node},
                   {"server_at", view_.server_at}, {"server_page", view_.server_page},
                   {"other_pages", view_.others}};
  if (view_.node.run) {
    const RunStatus& run = *view_.node.run;
    json["run"] = RunInJson(run, static_cast<std::int64_t>(UnixSeconds()));
    json["run"].erase("events");
    json["run"].erase("training");
  } else if (!view_.runs.empty() || view_.node.node.empty()) {
    json["headline"] =
        "this server has " + CountOf(static_cast<std::uint32_t>(view_.runs.size()), "run");
    json["run"] = nullptr;
    json["runs"] = RunsInJson(view_.runs);
  } else {
    json["headline"] =
        ReadinessOf(view_.node).words + "; the server of the run is at " +
        (view_.server_at.empty() ? "an address that is not known yet" : view_.server_at);
    json["run"] = nullptr;
  }
  state_ = JsonText(json);
  return state_;
}

std::string PageAnswers::News(StreamPlace& place) {
  std::string news;
  const auto now = std::chrono::steady_clock::now();
  const std::string mark = MarkOf(view_);
  if (mark != place.state || now - place.told >= kStatePeriod || place.told == decltype(now)()) {
    place.state = mark;
    place.told = now;
    news += "event: state\ndata: " + State() + "\n\n";
  }
  if (!view_.node.run) {
    return news;
  }
  const RunStatus& run = *view_.node.run;
  const EventMark newest = run.events.empty() ? EventMark{} : run.events.back().mark();
  const std::string events =
      std::to_string(newest.term.value) + "." + std::to_string(newest.number);
  if (events != place.events) {
    place.events = events;
    Append(news, "events", EventsInJson(run.events));
  }
  const std::string training = run.training.empty() ? ""
                                                    : std::to_string(run.training.size()) + "." +
                                                          std::to_string(run.training.back().step);
  if (training != place.training) {
    place.training = training;
    Append(news, "training", TrainingInJson(run.training));
  }
  return news;
}

HttpAnswer ProbesNeedKey() {
  return {kUnauthorized,
          "this port needs the run's key, because the run has a token (ddprun status --url). The "
          "port of --http-listen needs no key\n"};
}

HttpAnswer PageAnswers::Probe(const std::string& path) const {
  if (path == "/livez") {
    return {200, "the control loop is running\n"};
  }
  if (path == "/readyz") {
    const Readiness readiness = ReadinessOf(view_.node);
    return {readiness.ready ? 200 : kHttpUnavailable, readiness.words + "\n"};
  }
  return {200, MetricsText(view_.node, UnixSeconds()), kMetricsType};
}

HttpAnswer PageAnswers::Session(const HttpRequest& request) const {
  const bool by_key = !request.body.empty();
  const May may = by_key ? view_.access.WithKey(request.body) : view_.access.Of(request);
  HttpAnswer answer{
      200,
      JsonText({{"may", WordOf(may)},
                {"key", view_.access.KeyOf(may)},
                {"run", view_.one_of_many && may != May::kNothing ? view_.node.run_id : ""}}),
      kJson};
  if (by_key && may != May::kNothing && view_.access.HasKeys()) {
    answer.headers.emplace_back("Set-Cookie", view_.access.Cookie(request.body));
  }
  return answer;
}

// Any page may ask: one without the key learns nothing by the answer.
HttpAnswer PageAnswers::Proof(const HttpRequest& request) const {
  const std::optional<PageKeys> proofs = view_.access.Proofs(request);
  if (!proofs) {
    return {kForbidden, "no such page, or the nonce is not valid\n"};
  }
  return {200,
          OrderedJson{{"look", proofs->look}, {"operate", proofs->operate}}.dump(),
          kJson,
          {{"Access-Control-Allow-Origin", "*"}}};
}

HttpAnswer PageAnswers::Control(const HttpRequest& request) const {
  if (view_.access.Of(request) != May::kOperate) {
    return {kForbidden,
            "this needs the key for operating the run: ddprun status --url prints it\n"};
  }
  const bool drains = request.path == "/api/drain";
  if (drains && !IsNodeName(request.body)) {
    return {kBadRequest, "not the name of a node\n"};
  }
  return {.act = [control = control_, run = view_.node.run_id, drains,
                  node = drains ? request.body : ""](auto done) {
    control(run, drains ? ControlVerb::kDrain : ControlVerb::kStop, node, std::move(done));
  }};
}

HttpAnswer PageAnswers::Reply(const HttpRequest& request) {
  const std::string& path = request.path;
  if (path == "/livez" || path == "/readyz" || path == "/metrics") {
    if (request.post) {
      return {kWrongMethod, "only GET\n"};
    }
    return path != "/livez" && !view_.access.MayProbe(request) ? ProbesNeedKey() : Probe(path);
  }
  if (!view_.access.IsOurName(request.host)) {
    return {kMisdirected,
            "this machine does not have that name. Use its address, its name, or localhost "
            "[page-name]\n"};
  }
  const bool proof = path == "/api/proof";
  const bool posts = proof || path == "/api/session" || path == "/api/drain" || path == "/api/stop";
  if (posts != request.post) {
    return {kWrongMethod, posts ? "only POST\n" : "only GET\n"};
  }
  if (proof) {
    return Proof(request);
  }
  if (posts) {
    if (!PageAccess::FromPage(request)) {
      return {kForbidden,
              "only the page's own script may call this (it sends the header X-Ddprun)\n"};
    }
    return path == "/api/session" ? Session(request) : Control(request);
  }
  if (path == "/") {
    return ThePage();
  }
  if (path != "/api/state.json" && path != "/api/events") {
    return {kNotFound, "not found. Available: /, /livez, /readyz and /metrics\n"};
  }
  if (view_.access.Of(request) == May::kNothing) {
    return {kUnauthorized,
            "this page needs a key: ddprun status --url prints a link with it [page-key]\n"};
  }
  if (path == "/api/events") {
    return request.head ? HttpAnswer{200, "", "text/event-stream"}
                        : HttpAnswer{.stream = true,
                                     .stream_of = view_.one_of_many ? view_.node.run_id : ""};
  }
  return {200, State(), kJson};
}

std::vector<std::string> OtherPages(const RunStatus& run, const std::vector<std::string>& own) {
  std::vector<std::string> pages;
  const auto add = [&](const std::string& page) {
    const bool is_new =
        std::ranges::find(own, page) == own.end() && std::ranges::find(pages, page) == pages.end();
    if (!page.empty() && is_new && pages.size() < kMostOthers) {
      pages.push_back(page);
    }
  };
  for (const NodeStatus& node : run.nodes) {
    add(node.state == "lost" ? "" : node.page);
  }
  return pages;
}

HttpAnswer ThePage() {
  // Other nodes' pages come and go while this one is open, so it may ask any. (The last one works
  // as a header alone.)
  static const std::string policy =
      PagePolicy("; connect-src 'self' http:; frame-ancestors 'none'");
  return {200,
          std::string(kPageHtml),
          "text/html; charset=utf-8",
          {{"Content-Security-Policy", policy}, {"Referrer-Policy", "no-referrer"}}};
}

std::string PageWith(const std::string& json) {
  constexpr std::string_view kHead = "<head>\n";
  constexpr std::string_view kScript = "<script>";
  std::string page(kPageHtml);
  std::string data(kPageData);
  for (const char c : json) {  // Only strings of JSON have it, and mean the same by its number.
    c == '<' ? data.append("\\u003c") : data.append(1, c);
  }
  page.insert(page.find(kScript), data.append(kPageDataEnd) + "\n");
  page.insert(page.find(kHead) + kHead.size(),
              "<meta http-equiv=\"Content-Security-Policy\" content=\"" + PagePolicy("") + "\">\n");
  return page;
}

std::string_view DataOfPage(std::string_view page) {
  const std::size_t begin = page.find(kPageData);
  const std::size_t end = begin == page.npos ? begin : page.find(kPageDataEnd, begin);
  return end == page.npos ? std::string_view()
                          : page.substr(begin + kPageData.size(), end - begin - kPageData.size());
}

}  // namespace ddprun
