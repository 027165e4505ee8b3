#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "launcher/verbs/verbs.h"
#include "proto/environment_testing.h"

namespace ddprun {
namespace {

std::string Printed(std::vector<std::string> args) {
  args.insert(args.begin(), "k8s-manifest");
  const Result<VerbRequest> request = ParseVerb(args, Environment({}));
  return request ? std::get<HelpRequest>(*request).text : request.error().message;
}

void ExpectParts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(K8sManifest, TheTrainerKeepsItsCheckpointsBeyondTheJob) {
  ExpectParts(Printed({"--name=a", "bin/ddprun-train"}), {", \"--checkpoint-dir=/ckpt/a\"]"});
  EXPECT_EQ(Printed({"ddprun-train", "--checkpoint-dir=here"}).find("/ckpt/train\""),
            std::string::npos);
}

TEST(K8sManifest, NamesAllProblemsAtOnce) {
  ExpectParts(Printed({"--nodes=4:2", "--gpus=x", "--name=A_b", "--claim=-x", "--image=a b",
                       "--grace=0", "--jobset", "--trainjob"}),
              {"--nodes must be N or MIN:MAX, from 1 to 100000: '4:2'",
               "--gpus must be a number from 0 to 100000: 'x'", "--name must be", "'A_b'",
               "--claim must be", "--image must be one word", "--grace must be",
               "--jobset and --trainjob", "no program given"});
  ExpectParts(Printed({"--runtime=x", "x"}), {"--runtime needs --trainjob"});
}

std::size_t LinesOf(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
}

TEST(K8sManifest, RefusesNonsenseInOneLine) {
  const std::map<std::string, std::vector<std::string>> bad = {
      {"nodes", {"0", ":3", "3:", "0:3", "1:2:3", "-1", "1:1000000", "1000000", "", "x"}},
      {"cpus", {"abc", "-5", "0", "0.0", ".", "1.2.3", "4Gi", "4 ", "m", "1e3"}},
      {"memory", {"-5", "abc", "64GB", "64gi", "Gi", "0Gi", "100m", "6 4", "0x10", "+5"}},
      {"claim", {"", "a..b", ".a", "a.", "a.-b", "a-.b", "A", "a_b", std::string(254, 'a')}},
      {"runtime", {"a..b"}},
  };
  for (const auto& [flag, values] : bad) {
    for (const std::string& value : values) {
      const std::string said = Printed({"--trainjob", "--" + flag + "=" + value, "x"});
      EXPECT_TRUE(said.starts_with("--" + flag + " must be")) << value << ": " << said;
      EXPECT_TRUE(said.ends_with("'" + value + "'")) << said;
      EXPECT_EQ(LinesOf(said), 1u) << said;
    }
  }
  EXPECT_EQ(Printed({""}),
            "no program given. Usage: ddprun k8s-manifest [options] PROGRAM [arguments]");
}

TEST(K8sManifest, TakesWhatKubernetesDoes) {
  ExpectParts(Printed({"--grace=5m", "x"}), {"Seconds: 300", "--shutdown-timeout=270"});
  ExpectParts(Printed({"--cpus=0.5", "--memory=1.5Gi", "--claim=a.b-c.0", "x"}),
              {"{cpu: \"0.5\", memory: \"1.5Gi\"}", "claimName: \"a.b-c.0\""});
  ExpectParts(
      Printed({"--cpus=500m", "--memory=1000000000", "--claim=" + std::string(253, 'a'), "x"}),
      {"cpu: \"500m\"", "memory: \"1000000000\""});
}

// <name>-7 and <name>-node-0-7 are host names, 63 at most.
TEST(K8sManifest, PodsNamesAreWhole) {
  const auto of = [](std::size_t length, const std::string& form) {
    return Printed({form, "--nodes=8", "--name=" + std::string(length, 'a'), "x"});
  };
  ExpectParts(of(62, "--jobset"), {"at most 54"});
  ExpectParts(of(54, "--jobset"), {"kind: JobSet"});
  ExpectParts(of(62, "--gpus=0"), {"at most 61"});
  ExpectParts(of(61, "--gpus=0"), {"kind: Job\n"});
}

}  // namespace
}  // namespace ddprun
