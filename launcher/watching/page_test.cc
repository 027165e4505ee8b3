#include "launcher/watching/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launcher/watching/page_html.h"
#include "rendezvous/listener/token_proof.h"

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kToken = "0123456789abcdef0123456789abcdef";

RunStatus Running() {
  RunStatus run{.run_id = "demo", .phase = "running", .generation = {3}};
  run.nodes = {{.node = "n0",
                .state = "running",
                .last_seen = Duration{100},
                .workers = 2,
                .in_world = true,
                .step = 7,
                .rank_details = {.ranks = {{RankState::kRunning, 8, Duration{200}, {}, 1},
                                           {RankState::kLate, 7, Duration{900}, {}, 0}},
                                 .phases = {"train"}}}};
  return run;
}

struct PageTest : ::testing::Test {
  HttpAnswer Ask(HttpRequest request) {
    if (request.host.empty()) {
      request.host = "n0:29400";
    }
    PageView view{{.run_id = "demo", .node = "n0"},
                  {token, "demo", {"n0"}, {"N0:29400", "n0:80"}},
                  "n0:29400",
                  "n0:29400",
                  {"n1:8081"}};
    view.node.run = run;
    return PageAnswers(
               std::move(view),
               [this](const RunId&, ControlVerb verb, const NodeId& node, const auto& done) {
                 asked = (verb == ControlVerb::kDrain ? "drain " : "stop ") + node;
                 done({200, "it is done\n"});
               })
        .Reply(request);
  }
  HttpAnswer Post(const std::string& path, const std::string& body,
                  const std::string& cookie = "") {
    return Ask({.post = true,
                .path = path,
                .origin = "http://n0:29400",
                .cookie = cookie,
                .body = body,
                .by_script = true});
  }
  // The browser's answer.
  std::string CookieFor(const std::string& key) {
    const HttpAnswer answer = Post("/api/session", key);
    if (answer.headers.empty()) {
      return "";
    }
    const std::string& cookie = answer.headers.front().second;
    EXPECT_THAT(cookie, AllOf(HasSubstr("; HttpOnly"), HasSubstr("; SameSite=Strict")));
    return cookie.substr(0, cookie.find(';'));
  }

  std::string token = kToken;
  std::optional<RunStatus> run = Running();
  std::string asked;
  const PageKeys keys = PageKeysOf(kToken, "demo");
};

TEST_F(PageTest, NothingIsShownWithoutAKey) {
  for (const char* const path : {"/api/state.json", "/api/events"}) {
    EXPECT_EQ(Ask({.path = path}).status, 401u) << path;
    EXPECT_EQ(Ask({.path = path, .cookie = "ddprun=x; ddprun-12345678=" + keys.look}).status, 401u);
    EXPECT_EQ(Ask({.path = path, .cookie = CookieFor(keys.look)}).status, 200u);
    EXPECT_EQ(Ask({.path = path, .cookie = "a=b; " + CookieFor(keys.operate) + "; c=d"}).status,
              200u);
  }
  EXPECT_EQ(CookieFor("something else"), "");
  EXPECT_EQ(CookieFor(kToken), "");  // The token itself is no key.
  EXPECT_THAT(Ask({.path = "/"}).body, Not(HasSubstr("demo")));
}

// Unauthenticated clients reach the server's own port.
TEST_F(PageTest, ProbesAtTheServersPortNeedAKey) {
  for (const char* const path : {"/readyz", "/metrics"}) {
    EXPECT_NE(Ask({.path = path}).status, 401u) << path;
    EXPECT_EQ(Ask({.path = path, .at_port = true}).status, 401u) << path;
    EXPECT_NE(Ask({.path = path, .cookie = CookieFor(keys.look), .at_port = true}).status, 401u);
  }
  EXPECT_EQ(Ask({.path = "/livez", .at_port = true}).status, 200u);
  token = "";
  EXPECT_EQ(Ask({.path = "/metrics", .at_port = true}).status, 200u);
}

TEST_F(PageTest, AHeadIsNoStream) {
  EXPECT_TRUE(Ask({.path = "/api/events", .cookie = CookieFor(keys.look)}).stream);
  EXPECT_FALSE(Ask({.head = true, .path = "/api/events", .cookie = CookieFor(keys.look)}).stream);
}

TEST_F(PageTest, AHolderOfAnotherRunsKeyHasNone) {
  const PageKeys other = PageKeysOf(kToken, "other");
  EXPECT_EQ(CookieFor(other.look), "");
  EXPECT_EQ(CookieFor(PageKeysOf("another token, as long", "demo").operate), "");
}

TEST_F(PageTest, OperatingTakesItsOwnKey) {
  EXPECT_EQ(Post("/api/stop", "").status, 403u);
  EXPECT_EQ(Post("/api/stop", "", CookieFor(keys.look)).status, 403u);
  EXPECT_EQ(asked, "");
  const HttpAnswer answer = Post("/api/drain", "n0", CookieFor(keys.operate));
  ASSERT_TRUE(answer.act);
  std::string said;
  answer.act([&](const HttpAnswer& done) { said = done.body; });
  EXPECT_EQ(asked, "drain n0");
  EXPECT_EQ(said, "it is done\n");
  for (const std::string& name : {std::string(), std::string("a\nb"), std::string(256, 'n')}) {
    EXPECT_EQ(Post("/api/drain", name, CookieFor(keys.operate)).status, 400u);
  }
}

// To its reader an address may be another machine, which passes the question on.
TEST(PageAccess, AProofIsForWhereTheQuestionCameTo) {
  const PageAccess access("token", "run", {}, {"127.0.0.1:80", "10.0.0.3:80", "[::1]:80", "n0:80"});
  const auto proves = [&](const std::string& host, const std::string& end) {
    return access.Proofs({.end = end, .host = host, .body = std::string(32, 'a')}).has_value();
  };
  EXPECT_TRUE(proves("127.0.0.1:80", "127.0.0.1:80"));
  EXPECT_TRUE(proves("127.0.0.1", "127.0.0.1:80"));
  EXPECT_TRUE(proves("[::1]:80", "[::1]:80"));
  EXPECT_TRUE(proves("10.0.0.3:80", "10.0.0.3:80"));
  EXPECT_TRUE(proves("n0:80", "10.0.0.3:80"));
  EXPECT_FALSE(proves("127.0.0.1:80", "10.0.0.3:80"));
  EXPECT_FALSE(proves("[::1]:80", "10.0.0.3:80"));
  EXPECT_FALSE(proves("10.0.0.3:80", "127.0.0.1:80"));
  EXPECT_FALSE(proves("n0:80", "10.0.0.3:8080"));
  EXPECT_FALSE(proves("n0", "10.0.0.3:8080"));
  EXPECT_FALSE(proves("n0:80", ""));
  const PageAccess everywhere("token", "run", {}, {"0.0.0.0:80"});
  const auto proof = [&](const std::string& host, const std::string& end) {
    return everywhere.Proofs({.end = end, .host = host, .body = std::string(32, 'a')});
  };
  EXPECT_TRUE(proof("10.0.0.3:80", "10.0.0.3:80"));
  EXPECT_FALSE(proof("10.0.0.4:80", "10.0.0.3:80"));
  EXPECT_FALSE(proof("127.0.0.1:80", "127.0.0.1:80"));
  EXPECT_FALSE(proof("n0:80", "10.0.0.3:80"));
}

// Where the server was, another's page may be by now: it must not be shown the key to find out.
TEST_F(PageTest, AProofIsOfThisPlaceAlone) {
  const std::string nonce(32, 'a');
  const auto ask = [&](const std::string& host, const std::string& body) {
    return Ask({.post = true,
                .path = "/api/proof",
                .end = host == "n0" ? "10.0.0.3:80" : "10.0.0.3:29400",
                .host = host,
                .origin = "http://n1",
                .body = body});
  };
  const HttpAnswer answer = ask("n0:29400", nonce);
  ASSERT_EQ(answer.status, 200u) << answer.body;
  EXPECT_EQ(answer.headers.at(0),
            std::pair(std::string("Access-Control-Allow-Origin"), std::string("*")));
  const auto json = nlohmann::json::parse(answer.body);
  EXPECT_EQ(json["look"], PageProof(keys.look, "n0:29400", nonce));
  EXPECT_EQ(json["operate"], PageProof(keys.operate, "n0:29400", nonce));
  EXPECT_EQ(nlohmann::json::parse(ask("n0", nonce).body)["look"],
            PageProof(keys.look, "n0", nonce));
  for (const char* const elsewhere : {"n0:8081", "127.0.0.1:29400", "n1:29400"}) {
    EXPECT_NE(ask(elsewhere, nonce).status, 200u) << elsewhere;
  }
  for (const std::string& bad :
       {std::string(), std::string(31, 'a'), std::string(65, 'a'), nonce + "\n"}) {
    EXPECT_EQ(ask("n0:29400", bad).status, 403u) << bad;
  }
  token = "";
  EXPECT_EQ(ask("n0:29400", nonce).status, 403u);  // There is no key to know.
}

TEST_F(PageTest, TheKeyComesBackToThePageItself) {
  const auto session = [&](const std::string& cookie) {
    return nlohmann::json::parse(Post("/api/session", "", cookie).body);
  };
  EXPECT_EQ(session(CookieFor(keys.look))["key"], keys.look);
  EXPECT_EQ(session(CookieFor(keys.operate))["key"], keys.operate);
  EXPECT_EQ(session("")["key"], "");
}

// Another site's form or script has the cookie sent at most by a mistake of the browser's.
TEST_F(PageTest, OnlyThePageItselfOperates) {
  const std::string cookie = CookieFor(keys.operate);
  EXPECT_EQ(Ask({.path = "/api/stop", .cookie = cookie}).status, 405u);
  EXPECT_EQ(Ask({.post = true, .path = "/api/stop", .cookie = cookie}).status, 403u);
  EXPECT_EQ(Ask({.post = true,
                 .path = "/api/stop",
                 .origin = "http://elsewhere",
                 .cookie = cookie,
                 .by_script = true})
                .status,
            403u);
  EXPECT_EQ(asked, "");
}

// DNS rebinding: an attacker's name leads here.
TEST_F(PageTest, AnotherNameIsNotServed) {
  for (const char* const host :
       {"evil.example", "evil.example:29400", "n0.evil.example", "", "["}) {
    HttpRequest request{.path = "/", .host = host};
    request.host = host[0] == '\0' ? " " : host;
    EXPECT_EQ(Ask(request).status, 421u) << host;
    request.path = "/livez";
    EXPECT_EQ(Ask(request).status, 200u) << host;
  }
  for (const char* const host : {"127.0.0.1:80", "[::1]:80", "localhost", "N0", "10.1.2.3"}) {
    EXPECT_EQ(Ask({.path = "/", .host = host}).status, 200u) << host;
  }
}

TEST_F(PageTest, ThePageRunsItsOwnScriptAlone) {
  const HttpAnswer page = Ask({.path = "/"});
  EXPECT_EQ(page.body, kPageHtml);
  EXPECT_LE(page.body.size(), 60'000u);
  EXPECT_EQ(page.headers.at(0).first, "Content-Security-Policy");
  EXPECT_THAT(page.headers.at(0).second,
              AllOf(HasSubstr("default-src 'none'"), HasSubstr("script-src 'sha256-"),
                    Not(HasSubstr("unsafe"))));
  for (const char* const outside : {"//cdn", "https:", "src=", "@import", "url("}) {
    EXPECT_THAT(page.body, Not(HasSubstr(outside)));
  }
}

TEST_F(PageTest, TellsTheRun) {
  const auto json =
      nlohmann::json::parse(Ask({.path = "/api/state.json", .cookie = CookieFor(keys.look)}).body);
  EXPECT_EQ(json["run"]["run_id"], "demo");
  EXPECT_EQ(json["run"]["step"], 7);
  EXPECT_EQ(json["run"]["headline"], "training: step 7");
  EXPECT_EQ(json["run"]["nodes"][0]["ranks"]["state"],
            (std::vector<std::string>{"running", "late"}));
  EXPECT_EQ(json["run"]["nodes"][0]["ranks"]["phase"], (std::vector<std::string>{"train", ""}));
}

TEST_F(PageTest, ANodeWithoutTheServerSaysWhereItIs) {
  run.reset();
  const auto json =
      nlohmann::json::parse(Ask({.path = "/api/state.json", .cookie = CookieFor(keys.look)}).body);
  EXPECT_EQ(json["run"], nullptr);
  EXPECT_EQ(json["server_page"], "n0:29400");
  EXPECT_EQ(json["other_pages"], std::vector<std::string>{"n1:8081"});
  EXPECT_THAT(json["headline"], HasSubstr("n0:29400"));
}

TEST(OtherPages, AreWhereNodesAnswer) {
  RunStatus all = Running();
  all.nodes = {{.node = "n0", .state = "running", .page = "10.0.0.1:80"},
               {.node = "n1", .state = "running", .page = "10.0.0.2:80"},
               {.node = "n2", .state = "lost", .page = "10.0.0.3:80"},
               {.node = "n3", .state = "running"}};
  EXPECT_EQ(OtherPages(all, {"10.0.0.1:80", "n0:29400"}), std::vector<std::string>{"10.0.0.2:80"});
  for (int i = 0; i < 20; ++i) {
    all.nodes.push_back({.state = "running", .page = "10.0.1." + std::to_string(i) + ":80"});
  }
  EXPECT_EQ(OtherPages(all, {}).size(), kMostOthers);
}

TEST_F(PageTest, AStreamTellsWhatIsNew) {
  PageView view{{.run_id = "demo"}, {}, "", ""};
  run->events = {{.text = "formed", .kind = kEventFormed, .term = {1}, .number = 1}};
  view.node.run = run;
  StreamPlace place;
  PageAnswers first(view, nullptr);
  EXPECT_THAT(first.News(place),
              AllOf(HasSubstr("event: state\ndata: {"), HasSubstr("event: events\ndata: [{")));
  EXPECT_EQ(PageAnswers(view, nullptr).News(place), "");
  view.node.run->phase = "draining";
  EXPECT_THAT(PageAnswers(view, nullptr).News(place),
              AllOf(HasSubstr("event: state"), Not(HasSubstr("event: events"))));
  view.node.run->training = {{.step = 1, .loss = 0.5}};
  EXPECT_THAT(PageAnswers(view, nullptr).News(place),
              HasSubstr("event: training\ndata: [{\"step\":1,\"loss\":0.5,"));
}

// A line of its own would be another event.
TEST_F(PageTest, AWorkersTextStaysOneLine) {
  run->events = {{.text = "a\n\nevent: state\ndata: {}\n\n", .term = {1}, .number = 1}};
  PageView view{{.run_id = "demo"}, {}, "", ""};
  view.node.run = run;
  StreamPlace place;
  const std::string news = PageAnswers(view, nullptr).News(place);
  EXPECT_EQ(std::count(news.begin(), news.end(), '\n'), 6);
}

}  // namespace
}  // namespace ddprun
