#include "agent/watch/nccl_ras.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kRunning =
    R"("init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, )"
    R"("abort_flag": false)";

// As NCCL writes them, line by line.
std::string Rank(int rank, int host, int pid, std::uint64_t all_reduces,
                 const std::string& status = kRunning) {
  return "{\n\"rank\": " + std::to_string(rank) + ",\n\"host\": \"10.0.0." + std::to_string(host) +
         "\",\n\"pid\": " + std::to_string(pid) + ",\n\"cuda_dev\": 0,\n\"nvml_dev\": 0,\n" +
         "\"status\": {\n" + status + "\n},\n\"collective_counts\": {\n\"Broadcast\": 3,\n" +
         "\"AllReduce\": " + std::to_string(all_reduces) + "\n}\n}";
}

std::string Missing(int rank, int host, int pid, const std::string& after_device) {
  return "{\n\"rank\": " + std::to_string(rank) + ",\n\"host\": \"10.0.0." + std::to_string(host) +
         "\",\n\"pid\": " + std::to_string(pid) + ",\n\"cuda_dev\": 0,\n\"nvml_dev\": 0" +
         after_device +
         "\n\"status\": {\n\"unresponsive\": true,\n\"considered_dead\": false\n}\n}";
}

std::string Communicator(const std::string& hash, int size, const std::string& ranks,
                         const std::string& missing) {
  return "{\n\"hash\": \"" + hash +
         "\",\n\"secondary_hash\": \"0x1:0x2\",\n\"size\": " + std::to_string(size) +
         ",\n\"ranks\": [\n" + ranks + "\n],\n\"missing_ranks\": [\n" + missing + "\n]\n}";
}

std::string Answer(const std::string& communicators) {
  return "{\n\"nccl_version\": \"2.29.7\",\n\"timestamp\": \"2026-06-19 06:51:56\",\n"
         "\"communicators\": [\n" +
         communicators + "\n],\n\"ras\": {\n\"collection_time_sec\": 0.000\n}\n}\n";
}

// 64 ranks, 8 on each host; which have begun how many is the caller's.
std::string Ranks(int count, const std::function<std::uint64_t(int)>& begun) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ",\n") + Rank(i, i / 8 + 1, 100 + i, begun(i));
  }
  return text;
}

RasAnswer Parsed(const std::string& text) {
  const Result<RasAnswer> answer = ParseRas(text);
  EXPECT_TRUE(answer) << answer.error().message;
  return answer ? *answer : RasAnswer{};
}

std::vector<std::string> Words(const std::string& communicators, std::uint32_t world = 64) {
  return GroupsInWords(Parsed(Answer(communicators)), world);
}

TEST(NcclRas, TheFewAreNamedWhoeverTheyAre) {
  const auto behind = [](int i) { return i == 12 || i == 13 ? 640u : 641u; };
  EXPECT_THAT(Words(Communicator("0xa", 64, Ranks(64, behind), "")),
              ElementsAre("of all ranks: 62 ranks: AllReduce 641; 2 ranks: AllReduce 640: "
                          "rank 12 and 13 on 10.0.0.2"));
  const auto ahead = [](int i) { return i == 12 || i == 63 ? 641u : 640u; };
  EXPECT_THAT(Words(Communicator("0xa", 64, Ranks(64, ahead), "")),
              ElementsAre("of all ranks: 62 ranks: AllReduce 640; 2 ranks: AllReduce 641: "
                          "rank 12 on 10.0.0.2, rank 63 on 10.0.0.8"));
}

TEST(NcclRas, OfTwoHalvesBothAreNamed) {
  EXPECT_THAT(Words(Communicator("0xa", 2, Ranks(2, [](int i) { return i + 4u; }), ""), 2),
              ElementsAre("of all ranks: 1 rank: AllReduce 4: rank 0 on 10.0.0.1; "
                          "1 rank: AllReduce 5: rank 1 on 10.0.0.1"));
}

TEST(NcclRas, ManyNamesAreCut) {
  const std::vector<std::string> words =
      Words(Communicator("0xa", 64, Ranks(64, [](int i) { return i < 30 ? 1u : 2u; }), ""));
  EXPECT_THAT(words.front(), HasSubstr(", and 14 more"));
}

TEST(NcclRas, EqualOnesAreOneLine) {
  const std::string equal = Ranks(8, [](int) { return 5u; });
  const std::string one = Communicator("0xa", 8, equal, "");
  EXPECT_THAT(Words(one + "," + Communicator("0xb", 8, equal, "")),
              ElementsAre("2 communicators: all ranks have begun as many collectives"));
}

// Ranks of a smaller one are called as they are in that of all.
TEST(NcclRas, RanksOfASmallerCommunicatorHaveTheirWorldsNames) {
  const std::string all = Communicator("0xb", 8, Ranks(8, [](int) { return 5u; }), "");
  const std::string pair = Rank(0, 1, 106, 9) + "," + Rank(1, 1, 107, 8) + "," +
                           Rank(2, 9, 9999, 8) + "," + Rank(3, 1, 103, 8);
  EXPECT_THAT(Words(all + "," + Communicator("0xa", 4, pair, ""), 8),
              ElementsAre("of communicator 0xa:0x1:0x2 (4 ranks): 3 ranks: AllReduce 8; "
                          "1 rank: AllReduce 9: rank 6 on 10.0.0.1",
                          "1 communicator: all ranks have begun as many collectives"));
  const std::string stranger =
      Rank(0, 1, 100, 9) + "," + Rank(1, 1, 101, 9) + "," + Rank(2, 9, 9999, 8);
  EXPECT_THAT(Words(Communicator("0xa", 3, stranger, ""), 8).front(),
              HasSubstr("1 rank: AllReduce 8: rank 2 of it (pid 9999) on 10.0.0.9"));
}

// 2.28.9 forgets a comma; later ones do not.
TEST(NcclRas, WhoDoesNotAnswerIsNamed) {
  for (const char* const after_device : {"", ","}) {
    const std::string text =
        Communicator("0xa", 4, Ranks(3, [](int) { return 5u; }), Missing(3, 2, 4711, after_device));
    EXPECT_THAT(Words(text, 4), ElementsAre("of all ranks: 3 ranks: running; 1 rank: no answer: "
                                            "rank 3 on 10.0.0.2"));
    EXPECT_THAT(ProgressThatDiffers(Parsed(Answer(text)), 4), SizeIs(0));
  }
}

TEST(NcclRas, WhatIsNoAnswerIsRefused) {
  for (const std::string& text :
       {std::string(), std::string("OK"), std::string("NCCL version 2.27.5 compiled with CUDA"),
        std::string("{}"), std::string(R"({"communicators": {}})"),
        std::string(R"({"communicators": [{"size": -1}]})"),
        std::string(R"({"communicators": [{"size": 2, "ranks": [{"rank": "one"}]}]})"),
        std::string(R"({"communicators": [{"size": 2, "ranks": 7}]})"),
        std::string(R"({"communicators": [)"), std::string(100'000, '['), std::string("\0\xff", 2),
        R"({"communicators": )" + std::string(100, '[') + std::string(100, ']') + "}"}) {
    EXPECT_FALSE(ParseRas(text)) << text.substr(0, 60);
  }
}

// It is put on terminals and into logs.
TEST(NcclRas, HostileNamesAreMadePrintableAndShort) {
  std::string rank = Rank(0, 1, 100, 9);
  rank.replace(rank.find("10.0.0.1"), 8, "\\u001b[31m\\nn1" + std::string(500, 'x'));
  const std::vector<std::string> words =
      Words(Communicator("0xa", 3, rank + "," + Rank(1, 1, 101, 8) + "," + Rank(2, 1, 102, 8), ""));
  EXPECT_THAT(words, SizeIs(1));
  EXPECT_LT(words.front().size(), 300u);
  EXPECT_TRUE(std::ranges::none_of(words.front(),
                                   [](char c) { return static_cast<unsigned char>(c) < ' '; }));
}

TEST(NcclRas, WhoIsAheadWaits) {
  const std::string all =
      Communicator("0xa", 3, Ranks(3, [](int i) { return i == 1 ? 4u : 5u; }), "");
  const auto progress = ProgressThatDiffers(Parsed(Answer(all)), 3);
  ASSERT_THAT(progress, SizeIs(3));
  EXPECT_EQ(progress.at({"10.0.0.1", 100}), (RasProgress{8, 8, true}));
  EXPECT_EQ(progress.at({"10.0.0.1", 101}), (RasProgress{7, 7, false}));
}

// Equal counts, and zeros above all (one-node communicators from 2.27 on), prove nothing.
TEST(NcclRas, WithoutADifferenceNothingIsProven) {
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{7}}) {
    const std::string all = Communicator("0xa", 3, Ranks(3, [&](int) { return count; }), "");
    EXPECT_THAT(ProgressThatDiffers(Parsed(Answer(all)), 3), SizeIs(0));
  }
}

TEST(NcclRas, OnlyWhereAllAreThereAndRunAnythingIsProven) {
  const auto differ = [](int i) { return i + 4u; };
  const std::string part = Communicator("0xa", 2, Ranks(2, differ), "");
  EXPECT_THAT(ProgressThatDiffers(Parsed(Answer(part)), 3), SizeIs(0)) << "none has all ranks";
  const std::string fewer = Communicator("0xa", 3, Ranks(2, differ), "");
  EXPECT_THAT(ProgressThatDiffers(Parsed(Answer(fewer)), 3), SizeIs(0)) << "one is not told of";
  for (const char* const status :
       {R"("init_state": 7)", R"("init_state": 0, "abort_flag": true)",
        R"("init_state": 0, "finalize_called": true)", R"("init_state": 0, "destroy_flag": true)",
        R"("init_state": "0")", ""}) {
    const std::string one =
        Communicator("0xa", 3, Ranks(2, differ) + "," + Rank(2, 1, 102, 9, status), "");
    EXPECT_THAT(ProgressThatDiffers(Parsed(Answer(one)), 3), SizeIs(0)) << status;
  }
}

TEST(NcclRas, OnlySoundVersionsAreAskedOften) {
  for (const char* const version : {"2.29.2", "2.29.7", "2.30.4+cuda13.2", "2.31.0", "3.0.1"}) {
    EXPECT_TRUE(MayBeAskedOften(version)) << version;
  }
  for (const char* const version :
       {"", "2", "2.29", "2.28.9", "2.29.1", "1.99.9", "new", "-3.0.0"}) {
    EXPECT_FALSE(MayBeAskedOften(version)) << version;
  }
}

}  // namespace
}  // namespace ddprun
