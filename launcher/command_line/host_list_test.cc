#include "launcher/command_line/host_list.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

std::string WhyNot(const Result<std::vector<LaunchHost>>& hosts) {
  return hosts ? "taken" : hosts.error().message;
}

TEST(HostList, NamesUsersAndSlots) {
  const std::vector<LaunchHost> hosts =
      ParseHosts("n1, n2:4,user@n3,[fd00::1]:2,u@10.0.0.1").value();
  EXPECT_EQ(hosts, (std::vector<LaunchHost>{{"n1", "n1", {}, 0},
                                            {"n2", "n2", 4, 0},
                                            {"user@n3", "n3", {}, 0},
                                            {"fd00::1", "fd00::1", 2, 0},
                                            {"u@10.0.0.1", "10.0.0.1", {}, 0}}));
}

// $PBS_NODEFILE has a line for each slot.
TEST(HostList, AHostThatIsNamedAgainHasTheSumOfItsSlots) {
  EXPECT_EQ(ParseHosts("n1,n2,n1,n1:3").value(),
            (std::vector<LaunchHost>{{"n1", "n1", 5, 0}, {"n2", "n2", {}, 0}}));
  EXPECT_EQ(ParseHostfile("f", "n1\nn1\n").value(), (std::vector<LaunchHost>{{"n1", "n1", 2, 0}}));
}

TEST(HostList, AFileAsOpenMpiReadsIt) {
  const std::string text =
      "# hosts of the lab\n\n n1 slots=4 max_slots=8 # fast\r\nn2 max-slots=2\nu@n3:3\n";
  EXPECT_EQ(
      ParseHostfile("hosts", text).value(),
      (std::vector<LaunchHost>{{"n1", "n1", 4, 8}, {"n2", "n2", {}, 2}, {"u@n3", "n3", 3, 0}}));
}

// They are words of ssh's command line.
TEST(HostList, NothingThatSshOrAShellWouldReadAsMore) {
  for (const char* text :
       {"-oProxyCommand=x", "n1;id", "u@-n1", "-u@n1", "$(id)", "n 1", "@n1", "n1@", "[::1",
        "[::1]x", "n1:0", "n1:x", "n1:99999", "n1:", "a@b@c", "[]", "n\xc3\xa4"}) {
    EXPECT_FALSE(ParseHosts(std::string("ok,") + text)) << text;
  }
  EXPECT_FALSE(ParseHosts(std::string("n1\0", 3)));
  EXPECT_FALSE(ParseHosts(std::string(300, 'n')));
  EXPECT_EQ(WhyNot(ParseHosts("")), "no host is named");
}

TEST(HostList, ErrorsNameTheLine) {
  EXPECT_EQ(WhyNot(ParseHostfile("hosts", "n1\nn2 cores=4\n")),
            "hosts:2: only slots=N and max_slots=N may follow a host: 'cores=4'");
  EXPECT_EQ(WhyNot(ParseHostfile("hosts", "n1\nn2 slots\n")),
            "hosts:2: only slots=N and max_slots=N may follow a host: 'slots'");
  EXPECT_EQ(WhyNot(ParseHostfile("hosts", "n1 slots=4 slots=5\n")),
            "hosts:1: a host's slots is given twice: 'slots=5'");
  EXPECT_EQ(WhyNot(ParseHostfile("hosts", "n1:4 slots=2\n")),
            "hosts:1: a host's slots is given twice: 'slots=2'");
  EXPECT_EQ(WhyNot(ParseHostfile("hosts", "n1 slots=9 max_slots=8")),
            "host n1 has 9 slots, but at most 8 are allowed");
  EXPECT_EQ(WhyNot(ParseHostfile("hosts", "# nothing\n")), "no host is named");
  EXPECT_EQ(WhyNot(ParseHosts("a@n1,n1")), "a host is named with two users: 'n1'");
}

TEST(HostList, AnIpv6AddressNeedsBrackets) {
  EXPECT_EQ(WhyNot(ParseHosts("fd00::1")),
            "a host must be NAME, NAME:SLOTS, USER@NAME or [IPV6]:SLOTS, of letters, digits, '.', "
            "'_' and '-': "
            "'fd00::1'");
}

TEST(HostList, ABinaryFileIsRefusedAtItsFirstLine) {
  std::string bytes;
  for (int i = 0; i < 4096; ++i) {
    bytes += static_cast<char>(i * 37 + 127);
  }
  EXPECT_TRUE(WhyNot(ParseHostfile("x", bytes)).starts_with("x:1: a host must be"));
}

}  // namespace
}  // namespace ddprun
