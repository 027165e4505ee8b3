#include "launcher/check/check_report.h"

#include <gtest/gtest.h>

#include <tuple>

namespace ddprun {
namespace {

using Lines = std::vector<std::string>;

// So many nodes, all of which send to all others.
std::vector<CheckedNode> Nodes(std::size_t count, double rate) {
  std::vector<CheckedNode> nodes(count);
  for (std::size_t from = 0; from < count; ++from) {
    nodes[from].host = "n" + std::to_string(from);
    for (std::size_t i = 1; i < count; ++i) {
      nodes[from].links.push_back({(from + i) % count, rate, 0.0001, ""});
    }
  }
  return nodes;
}

CheckedLink& Link(std::vector<CheckedNode>& nodes, std::size_t from, std::size_t to) {
  for (CheckedLink& link : nodes[from].links) {
    if (link.to == to) {
      return link;
    }
  }
  ADD_FAILURE() << "no link to " << to;
  return nodes[from].links.front();
}

void Cut(CheckedLink& link) {
  link = {link.to, 0, 0, "no route"};
}

Lines Verdicts(const CheckReport& report) {
  Lines verdicts;
  for (const CheckedNode& node : report.nodes) {
    verdicts.push_back(node.verdict);
  }
  return verdicts;
}

TEST(CheckReport, WhereAllAreAlikeNoneIsNamed) {
  for (const std::size_t count : {1u, 2u, 3u, 4u}) {
    const CheckReport report = Judge(Nodes(count, 1e9));
    EXPECT_EQ(report.problems, Lines{});
    EXPECT_EQ(Verdicts(report), Lines(count, "ok"));
  }
}

TEST(CheckReport, ANodeThatIsSlowWithAllIsNamedAndNotItsLinks) {
  for (const std::size_t count : {3u, 4u, 5u}) {
    for (const bool sends : {true, false}) {
      std::vector<CheckedNode> nodes = Nodes(count, 1e9);
      for (std::size_t other = 1; other < count; ++other) {
        (sends ? Link(nodes, 0, other) : Link(nodes, other, 0)).bytes_per_second = 1e8;
      }
      const CheckReport report = Judge(nodes);
      EXPECT_EQ(report.problems, Lines{"slow node: n0: 100.0 MB/s at its best; the median of all "
                                       "nodes: 1000.0 MB/s"});
      EXPECT_EQ(report.nodes[0].verdict, "SLOW");
      EXPECT_EQ(report.nodes[1].verdict, "ok");
    }
  }
}

TEST(CheckReport, ALinkBetweenTwoGoodNodesIsNamed) {
  std::vector<CheckedNode> nodes = Nodes(4, 1e9);
  Link(nodes, 1, 3).bytes_per_second = 1e8;
  const CheckReport report = Judge(nodes);
  EXPECT_EQ(report.problems,
            Lines{"slow link: n1 -> n3: 100.0 MB/s; the median of all nodes: 1000.0 MB/s"});
  EXPECT_EQ(Verdicts(report), Lines(4, "ok"));
}

// Half of the others' is the limit, and of two nodes none is the usual one.
TEST(CheckReport, AnUnclearFindingIsNotSaid) {
  std::vector<CheckedNode> nodes = Nodes(3, 1e9);
  Link(nodes, 0, 2).bytes_per_second = Link(nodes, 1, 2).bytes_per_second = 0.6e9;
  EXPECT_EQ(Judge(nodes).problems, Lines{});
  nodes = Nodes(2, 1e9);
  Link(nodes, 0, 1).bytes_per_second = 1e3;
  EXPECT_EQ(Judge(nodes).problems, Lines{});
}

TEST(CheckReport, ANodeThatNoneReachesIsTheOne) {
  std::vector<CheckedNode> nodes = Nodes(3, 1e9);
  Cut(Link(nodes, 0, 2));
  Cut(Link(nodes, 1, 2));
  const CheckReport report = Judge(nodes);
  EXPECT_EQ(Verdicts(report), (Lines{"ok", "ok", "NO LINK"}));
  EXPECT_EQ(report.problems, (Lines{"no link: n0 -> n2: no route", "no link: n1 -> n2: no route"}));
}

TEST(CheckReport, ANodeThatIsBadIsSoWhateverItsSpeed) {
  std::vector<CheckedNode> nodes = Nodes(3, 1e9);
  for (CheckedLink& link : nodes[2].links) {
    link.bytes_per_second = 1e8;
  }
  nodes[2].facts = {{"gpu0", "Xid 74", true}, {"gpus", "1 of 2 well", false}};
  nodes[2].refused = "GPU 0: Xid 74";
  nodes[1].facts = {{"gpus", "their driver has not answered for 10.0 s", true}};
  nodes[1].asked = true;
  nodes[1].node_check = "no disk";
  const CheckReport report = Judge(nodes);
  EXPECT_EQ(Verdicts(report), (Lines{"ok", "BAD", "BAD"}));
  EXPECT_EQ(InWords(report),
            "NODE  GPUS         NODE CHECK  SPEED        LATENCY   VERDICT\n"
            "n0    -            -           1000.0 MB/s  0.100 ms  ok\n"
            "n1    bad          refuses     1000.0 MB/s  0.100 ms  BAD\n"
            "n2    1 of 2 well  -           100.0 MB/s   0.100 ms  BAD\n"
            "n1: gpus their driver has not answered for 10.0 s\n"
            "n1 is refused by its node check: no disk\n"
            "n2 would be refused: GPU 0: Xid 74\n"
            "n2: gpu0 Xid 74\n"
            "slow node: n2: 100.0 MB/s at its best; the median of all nodes: 1000.0 MB/s\n");
}

TEST(CheckReport, NodesOfOneHostAreDistinguished) {
  std::vector<CheckedNode> nodes = Nodes(3, 1e9);
  nodes[2].host = "n0";
  const CheckReport report = Judge(nodes);
  EXPECT_EQ(report.nodes[0].node, "node 0 (n0)");
  EXPECT_EQ(report.nodes[1].node, "n1");
  EXPECT_EQ(report.nodes[2].node, "node 2 (n0)");
}

TEST(CheckReport, OfManyProblemsThoseInJsonAreAll) {
  std::vector<CheckedNode> nodes = Nodes(8, 1e9);
  for (CheckedNode& node : nodes) {
    for (CheckedLink& link : node.links) {
      Cut(link);
    }
  }
  const CheckReport report = Judge(nodes);
  EXPECT_EQ(report.problems.size(), 56u);
  EXPECT_TRUE(InWords(report).ends_with("\nand 16 more (-o json has all)\n"));
  EXPECT_NE(InJson(report).find("no link: n7 -> n6: no route"), std::string::npos);
}

TEST(CheckReport, TheFindingsOfANodeTravel) {
  CheckedNode node;
  node.host = "n0";
  node.facts = {{"gpu0", "Xid 74", true}};
  node.refused = "why";
  node.asked = true;
  node.node_check = "exit code 1";
  node.links = {{1, 1e9, 0.001, ""}, {2, 0, 0, "no route"}};
  const Result<CheckedNode> back = NodeFromJson(InJson(node), 3);
  ASSERT_TRUE(back);
  EXPECT_EQ(std::tie(back->host, back->facts, back->refused, back->asked, back->node_check),
            std::tie(node.host, node.facts, node.refused, node.asked, node.node_check));
  ASSERT_EQ(back->links.size(), 2u);
  EXPECT_EQ(back->links[0].bytes_per_second, 1e9);
  EXPECT_EQ(back->links[1].error, "no route");
  EXPECT_FALSE(NodeFromJson(InJson(node), 2));  // A link to a third one.
}

TEST(CheckReport, OtherKindsOfValuesAreRefused) {
  for (const std::string text : {"", "[]", "7", "{}", R"({"host": 7})"}) {
    EXPECT_FALSE(NodeFromJson(text, 1)) << text;
  }
  const std::string facts =
      R"({"node":"","host":"a","refused":"","asked":false,"node_check":"","links":[],)"
      R"("verdict":"","facts":)";
  EXPECT_TRUE(NodeFromJson(facts + "[]}", 1));
  for (const std::string text : {"[5]", R"([{"name":"a","value":1,"bad":true}])", R"(["text"])"}) {
    EXPECT_FALSE(NodeFromJson(facts + text + "}", 1)) << text;
  }
}

}  // namespace
}  // namespace ddprun
