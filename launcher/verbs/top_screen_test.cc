#include "launcher/verbs/top_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunStatus Large() {
  RunStatus run{.run_id = "big", .phase = "running"};
  for (std::uint32_t i = 0; i < 100; ++i) {
    NodeStatus node{.node = "n" + std::to_string(i),
                    .state = "running",
                    .workers = 2,
                    .in_world = true,
                    .first_rank = 2 * i,
                    .step = 50};
    node.closeup = {
        .ranks = {{RankState::kRunning, 50, {}, {}, 1}, {RankState::kRunning, 51, {}, {}, 1}},
        .phases = {"train"}};
    run.nodes.push_back(node);
  }
  run.nodes[70].late = 1;
  run.nodes[70].closeup.ranks[1].state = RankState::kLate;
  return run;
}

std::size_t LinesOf(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::vector<TopKey> KeysOf(const std::vector<std::string>& pieces) {
  KeyReader reader;
  std::vector<TopKey> keys;
  for (const std::string& piece : pieces) {
    const std::vector<TopKey> read = reader.Read(piece);
    keys.insert(keys.end(), read.begin(), read.end());
  }
  EXPECT_FALSE(reader.waits());
  return keys;
}

TEST(TopKeys, AreReadAsATerminalSendsThem) {
  EXPECT_THAT(KeysOf({"j\x1b[Ak\x1bOB"}),
              ElementsAre(TopKey::kDown, TopKey::kUp, TopKey::kUp, TopKey::kDown));
  EXPECT_THAT(KeysOf({"x\x1b[15~\x1b[1;5Cq"}), ElementsAre(TopKey::kQuit));
  EXPECT_THAT(KeysOf({"\x1b\x1b[A"}), ElementsAre(TopKey::kBack, TopKey::kUp));
  EXPECT_THAT(KeysOf({"\x1b[1\x1b[A"}), ElementsAre(TopKey::kUp)) << "one was cut off";
}

// A slow line: no piece of an arrow is ESC.
TEST(TopKeys, AreReadInWhateverPiecesTheyCome) {
  const std::string sent = "j\x1b[A\x1bOB\x1b[5~\x1b[15~\x1b[6~q";
  const std::vector<TopKey> keys = KeysOf({sent});
  EXPECT_EQ(keys.size(), 6u);
  for (std::size_t cut = 0; cut <= sent.size(); ++cut) {
    EXPECT_EQ(KeysOf({sent.substr(0, cut), sent.substr(cut)}), keys) << cut;
  }
  std::vector<std::string> bytes;
  for (const char byte : sent) {
    bytes.emplace_back(1, byte);
  }
  EXPECT_EQ(KeysOf(bytes), keys);
}

TEST(TopKeys, EscIsAKeyOnceNothingFollowsIt) {
  KeyReader reader;
  EXPECT_THAT(reader.Read("j\x1b"), ElementsAre(TopKey::kDown));
  EXPECT_TRUE(reader.waits());
  EXPECT_THAT(reader.ReadLate(), ElementsAre(TopKey::kBack));
  EXPECT_FALSE(reader.waits());
  EXPECT_THAT(reader.Read("\x1b[1"), ElementsAre());
  EXPECT_THAT(reader.ReadLate(), ElementsAre()) << "the rest of it was lost";
  EXPECT_THAT(reader.Read("q"), ElementsAre(TopKey::kQuit));
}

TEST(TopKeys, ASequenceWithoutAnEndIsNotKept) {
  KeyReader reader;
  reader.Read("\x1b[" + std::string(1'000, '1'));
  EXPECT_FALSE(reader.waits());
  EXPECT_THAT(reader.Read("q"), ElementsAre(TopKey::kQuit));
}

TEST(TopScreen, TheCursorStaysOnItsRow) {
  RunStatus run = Large();
  TopState state;
  const ScreenSize size{24, 80};
  EXPECT_THAT(FormatTop(run, 0, size, state), HasSubstr(">  n70 "));
  Press(state, TopKey::kDown);
  EXPECT_THAT(FormatTop(run, 0, size, state), HasSubstr(">  n0 "));
  run.nodes[50].state = "lost";  // Comes before it.
  EXPECT_THAT(FormatTop(run, 0, size, state), HasSubstr(">  n0 "));
  run.nodes.erase(run.nodes.begin());
  EXPECT_THAT(FormatTop(run, 0, size, state), HasSubstr(">  n70 "));
  for (int i = 0; i < 3; ++i) {
    Press(state, TopKey::kUp);
  }
  EXPECT_EQ(state.chosen, "n70");
  for (int i = 0; i < 200; ++i) {
    Press(state, TopKey::kPageDown);
  }
  const std::string end = FormatTop(run, 0, size, state);
  EXPECT_THAT(end, HasSubstr(">  n99 "));
  EXPECT_LE(LinesOf(end), 24u);
}

TEST(TopScreen, RanksAreRowsToo) {
  const RunStatus run = Large();
  TopState state;
  FormatTop(run, 0, {24, 80}, state);
  EXPECT_THAT(state.Chosen()->ranks, ElementsAre(140, 141));
  Press(state, TopKey::kRows);
  EXPECT_THAT(FormatTop(run, 0, {24, 80}, state), HasSubstr(">  141   n70   late"));
  EXPECT_THAT(state.Chosen()->ranks, ElementsAre(141));
  Press(state, TopKey::kOrder);  // By name.
  FormatTop(run, 0, {24, 80}, state);
  for (int i = 0; i < 20; ++i) {
    Press(state, TopKey::kPageUp);
  }
  FormatTop(run, 0, {24, 80}, state);
  EXPECT_THAT(state.Chosen()->ranks, ElementsAre(0));
}

// What `ddprun status` tells of a node is there too.
TEST(TopScreen, SaysOfANodeWhatStatusSays) {
  RunStatus run = Large();
  run.more_nodes = 5;
  run.nodes[70].facts = {{"clock", "4 s off", true}, {"links", "1 up", false}};
  run.nodes[70].step_source = "printed";
  TopState state;
  const std::string text = FormatTop(run, 0, {24, 80}, state);
  EXPECT_THAT(text, HasSubstr("50 printed"));
  EXPECT_THAT(text, HasSubstr("clock 4 s off\n"));
  EXPECT_THAT(text, HasSubstr("\nand 5 more nodes\n"));
  EXPECT_EQ(LinesOf(text), 24u);
}

TEST(TopScreen, APanelIsScrolledAndLeft) {
  const RunStatus run = Large();
  TopState state;
  FormatTop(run, 0, {10, 80}, state);
  Press(state, TopKey::kHelp);
  EXPECT_THAT(FormatTop(run, 0, {24, 80}, state), HasSubstr("ddprun stacks"));
  Press(state, TopKey::kBack);
  for (int i = 0; i < 100; ++i) {
    state.panel += "line " + std::to_string(i) + "\n";
  }
  for (int i = 0; i < 500; ++i) {
    Press(state, TopKey::kDown);
  }
  const std::string last = FormatTop(run, 0, {24, 80}, state);
  EXPECT_THAT(last, HasSubstr("line 99"));
  EXPECT_THAT(last, Not(HasSubstr("line 98")));
  Press(state, TopKey::kBack);
  EXPECT_THAT(FormatTop(run, 0, {24, 80}, state), HasSubstr("NODE"));
}

TEST(TopScreen, NothingIsThereToChoose) {
  TopState state;
  EXPECT_THAT(FormatTop({.run_id = "new"}, 0, {10, 20}, state), HasSubstr("q quit"));
  for (const TopKey key :
       {TopKey::kDown, TopKey::kPageDown, TopKey::kRows, TopKey::kOrder, TopKey::kUp}) {
    Press(state, key);
    FormatTop({.run_id = "new"}, 0, {10, 20}, state);
  }
  EXPECT_EQ(state.Chosen(), nullptr);
}

}  // namespace
}  // namespace ddprun
