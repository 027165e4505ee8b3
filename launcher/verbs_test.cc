#include "launcher/verbs.h"

#include <gtest/gtest.h>

#include <map>

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;

Result<VerbRequest> Parsed(const std::vector<std::string>& args,
                           const std::map<std::string, std::string>& environment = {}) {
  return ParseVerb(args, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string Problem(const std::vector<std::string>& args) {
  const auto parsed = Parsed(args);
  return parsed ? "" : parsed.error().message;
}

TEST(Verbs, StatusTakesItsServerFromFlagsOrEnvironment) {
  const auto by_flag = Parsed({"status", "--endpoint=n0:1", "--rdzv-id", "demo", "-o", "json"});
  ASSERT_TRUE(by_flag) << by_flag.error().message;
  const auto& request = std::get<StatusRequest>(*by_flag);
  EXPECT_EQ(request.server.endpoint, "n0:1");
  EXPECT_EQ(request.server.run_id, "demo");
  EXPECT_TRUE(request.json);
  const auto by_environment = Parsed({"status"}, {{"DDPRUN_ENDPOINT", "n9:2"}});
  EXPECT_EQ(std::get<StatusRequest>(*by_environment).server.endpoint, "n9:2");
  EXPECT_FALSE(std::get<StatusRequest>(*by_environment).json);
}

TEST(Verbs, DrainNamesOneNodeAndFlagsMayFollowIt) {
  const auto parsed =
      Parsed({"drain", "n1#0", "--endpoint=n0:1"}, {{"DDPRUN_TOKEN", "0123456789abcdef"}});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& wish = std::get<ControlWish>(*parsed);
  EXPECT_EQ(wish.verb, ControlVerb::kDrain);
  EXPECT_EQ(wish.node, "n1#0");
  EXPECT_EQ(wish.server.endpoint, "n0:1");
  EXPECT_EQ(wish.server.token, "0123456789abcdef");
  EXPECT_EQ(std::get<ControlWish>(*Parsed({"stop"})).verb, ControlVerb::kStop);
}

TEST(Verbs, StacksTakesProcesses) {
  const auto parsed = Parsed({"stacks", "--limit=500ms", "12", "13"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(std::get<StacksRequest>(*parsed).pids, (std::vector<std::int64_t>{12, 13}));
  EXPECT_EQ(std::get<StacksRequest>(*parsed).limit, 500ms);
}

TEST(Verbs, BadLinesAreNamed) {
  EXPECT_NE(Problem({"status", "x"}).find("no further argument: 'x'"), std::string::npos);
  EXPECT_NE(Problem({"status", "-o", "xml"}).find("text or json"), std::string::npos);
  EXPECT_NE(Problem({"status", "--endpont=n0:1"}).find("did you mean --endpoint"),
            std::string::npos);
  EXPECT_NE(Problem({"drain"}).find("ddprun drain NODE"), std::string::npos);
  EXPECT_NE(Problem({"drain", "a", "b"}).find("'b'"), std::string::npos);
  EXPECT_NE(Problem({"stop", "a"}).find("'a'"), std::string::npos);
  EXPECT_NE(Problem({"stacks"}).find("PID"), std::string::npos);
  EXPECT_NE(Problem({"stacks", "-1x"}).find("unknown option"), std::string::npos);
  EXPECT_NE(Problem({"stacks", "0"}).find("'0'"), std::string::npos);
}

TEST(Verbs, EveryOneHasHelp) {
  for (const char* verb : {"status", "drain", "stop", "stacks"}) {
    ASSERT_TRUE(IsVerb(verb));
    const auto parsed = Parsed({verb, "--help"});
    ASSERT_TRUE(parsed);
    EXPECT_NE(std::get<HelpRequest>(*parsed).text.find(verb), std::string::npos);
  }
  EXPECT_FALSE(IsVerb("train.py"));
}

}  // namespace
}  // namespace ddprun
