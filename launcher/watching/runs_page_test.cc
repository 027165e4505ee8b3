#include "launcher/watching/runs_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kToken = "0123456789abcdef0123456789abcdef";

struct RunsPageTest : ::testing::Test {
  HttpAnswer Ask(HttpRequest request) {
    request.host = "n0";
    return RunsAnswers({.runs = runs, .token = kToken, .names = {"n0"}},
                       [this](const RunId& run, ControlVerb, const NodeId&, const auto& done) {
                         stopped = run;
                         done({200, "it is done\n"});
                       })
        .Reply(request);
  }
  // The browser's answer, and the run that it was asked to show.
  std::pair<std::string, std::string> Show(const std::string& key, const RunId& run = "") {
    const HttpAnswer answer =
        Ask({.post = true, .path = "/api/session", .run = run, .body = key, .by_script = true});
    const std::string cookie = answer.headers.empty() ? "" : answer.headers.front().second;
    return {cookie.substr(0, cookie.find(';')), nlohmann::json::parse(answer.body).at("run")};
  }
  unsigned Looks(const RunId& run, const std::string& cookie) {
    return Ask({.path = "/api/state.json", .run = run, .cookie = cookie}).status;
  }

  std::vector<RunStatus> runs{{.run_id = "one", .phase = "running"},
                              {.run_id = "two", .phase = "gathering"}};
  std::string stopped;
  const PageKeys all = PageKeysOf(kToken, "");
  const PageKeys one = PageKeysOf(kToken, "one");
  const PageKeys two = PageKeysOf(kToken, "two");
};

TEST_F(RunsPageTest, AKeyOpensItsRunAlone) {
  const auto [cookie, run] = Show(two.look);
  EXPECT_EQ(run, "two");
  EXPECT_EQ(Looks("two", cookie), 200u);
  EXPECT_EQ(Looks("one", cookie), 401u);
  EXPECT_EQ(Looks("", cookie), 401u);
  EXPECT_EQ(Looks("three", cookie), 401u);
  EXPECT_EQ(Show(two.look, "one").first, "");
  EXPECT_EQ(Show("something else").first, "");
}

// A reader that began when there was one run does not see the next one.
TEST_F(RunsPageTest, AStreamIsOfTheRunThatItWasAllowedFor) {
  const std::vector<RunStatus> both = runs;
  runs.resize(1);
  const auto [cookie, run] = Show(one.look);
  EXPECT_EQ(run, "one");  // So the page asks for it by name from then on.
  EXPECT_EQ(Show("something else").second, "");
  for (const char* const asked : {"", "two"}) {
    const HttpAnswer stream = Ask({.path = "/api/events", .run = asked, .cookie = cookie});
    ASSERT_TRUE(stream.stream);
    StreamPlace place{.run = stream.stream_of};
    const auto news = [&](const std::vector<RunStatus>& now) {
      place.told = {};
      return RunsAnswers({.runs = now, .token = kToken}, nullptr).News(place);
    };
    EXPECT_THAT(news(runs), HasSubstr("one"));
    EXPECT_THAT(news(both), AllOf(HasSubstr("one"), Not(HasSubstr("two"))));
    EXPECT_EQ(news({both[1]}), "");
  }
}

// A run whose server is gone, and this one has the run now.
TEST_F(RunsPageTest, AProofIsOfTheRunThatIsNamed) {
  const std::string nonce(32, 'a');
  const auto prove = [&](const RunId& run) {
    RunsAnswers answers({.runs = runs, .token = kToken, .names = {"n0"}, .places = {"n0:80"}},
                        nullptr);
    const HttpRequest request{.post = true,
                              .path = "/api/proof",
                              .run = run,
                              .end = "10.0.0.3:80",
                              .host = "n0",
                              .body = nonce};
    return nlohmann::json::parse(answers.Reply(request).body).at("look").get<std::string>();
  };
  EXPECT_EQ(prove("two"), PageProof(two.look, "n0", nonce));
  EXPECT_EQ(prove("three"), PageProof(all.look, "n0", nonce));  // It does not have that one.
}

TEST_F(RunsPageTest, TheServersKeyOpensAll) {
  const auto [cookie, run] = Show(all.operate);
  EXPECT_EQ(run, "");
  for (const char* const name : {"", "one", "two"}) {
    EXPECT_EQ(Looks(name, cookie), 200u) << name;
  }
  const auto json = nlohmann::json::parse(Ask({.path = "/api/state.json", .cookie = cookie}).body);
  EXPECT_EQ(json["run"], nullptr);
  EXPECT_EQ(json["runs"][1]["run_id"], "two");
  EXPECT_THAT(json["headline"], HasSubstr("2 runs"));
  const HttpRequest stop{
      .post = true, .path = "/api/stop", .run = "two", .cookie = cookie, .by_script = true};
  const HttpAnswer answer = Ask(stop);
  ASSERT_TRUE(answer.act);
  answer.act([](const HttpAnswer&) {});
  EXPECT_EQ(stopped, "two");
  EXPECT_EQ(Ask({.post = true,
                 .path = "/api/stop",
                 .run = "two",
                 .cookie = Show(all.look).first,
                 .by_script = true})
                .status,
            403u);
}

TEST_F(RunsPageTest, OfOneRunThereIsNoChoice) {
  runs.pop_back();
  const auto [cookie, run] = Show(one.operate);
  EXPECT_EQ(run, "one");  // Another may come.
  EXPECT_EQ(Looks("", cookie), 200u);
  EXPECT_THAT(Ask({.path = "/metrics"}).body, HasSubstr("ddprun_run_state{state=\"running\"} 1"));
  for (const char* const path : {"/readyz", "/metrics"}) {
    EXPECT_EQ(Ask({.path = path, .at_port = true}).status, 401u) << path;
    EXPECT_EQ(Ask({.path = path, .cookie = cookie, .at_port = true}).status, 200u) << path;
  }
  runs.push_back({.run_id = "two"});
  EXPECT_THAT(Ask({.path = "/metrics"}).body, Not(HasSubstr("ddprun_run_state")));
}

TEST_F(RunsPageTest, WithoutATokenAllMayLookAndNoneOperate) {
  RunsAnswers open({.runs = runs, .names = {"n0"}}, nullptr);
  EXPECT_EQ(open.Reply({.path = "/api/state.json", .run = "two", .host = "n0"}).status, 200u);
  EXPECT_EQ(
      open.Reply({.post = true, .path = "/api/stop", .run = "two", .host = "n0", .by_script = true})
          .status,
      403u);
}

}  // namespace
}  // namespace ddprun
