#include "rendezvous/store/allow_list.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

namespace ip = boost::asio::ip;

bool Lets(const std::string& list, const std::string& peer) {
  const Result<AllowList> parsed = AllowList::Parse(list);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed->Allows(ip::make_address(peer), ip::make_address("9.9.9.9"));
}

TEST(AllowList, AdmitsTheNetworksThatItNames) {
  EXPECT_TRUE(Lets("10.0.0.0/8", "10.255.0.1"));
  EXPECT_FALSE(Lets("10.0.0.0/8", "11.0.0.1"));
  EXPECT_FALSE(Lets("10.0.0.0/8", "fd00::1"));
  EXPECT_TRUE(Lets("10.0.0.0/8,192.168.1.7", "192.168.1.7"));
  EXPECT_FALSE(Lets("10.0.0.0/8,192.168.1.7", "192.168.1.8"));
  EXPECT_TRUE(Lets("10.1.2.3/8", "10.9.9.9"));  // Bits of a host in it do not matter.
  EXPECT_TRUE(Lets("0.0.0.0/0", "1.2.3.4"));
  EXPECT_TRUE(Lets("fd00::/8", "fd12::9"));
  EXPECT_FALSE(Lets("fd00::/8", "fe80::1%1"));
  EXPECT_TRUE(Lets("fe80::/10", "fe80::1%1"));
  EXPECT_FALSE(Lets("::/0", "1.2.3.4"));
}

TEST(AllowList, RefusesWhatIsNoNetwork) {
  for (const char* const text : {"10.0.0.0/33", "10.0.0/8", "host", ",", "10.0.0.0/8,",
                                 "10.0.0.0/-1", "fd00::/129", "10.0.0.0/8 "}) {
    const Result<AllowList> parsed = AllowList::Parse(text);
    if (text == std::string("10.0.0.0/8,")) {
      EXPECT_TRUE(parsed);  // A last comma does no harm.
      continue;
    }
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalid);
  }
  std::string many;
  for (int i = 0; i < 300; ++i) {
    many += "10.0.0.1,";
  }
  EXPECT_FALSE(AllowList::Parse(many));
}

// The kernel's knowledge of this machine's sockets counts before any address.
TEST(AllowList, OnThisMachineOnlySocketsOfTheStoresUser) {
  const auto peer = ip::make_address("10.0.0.1");
  const auto own = ip::make_address("10.0.0.2");
  const AllowList one_address = *AllowList::Parse("192.168.0.1");
  const AllowList names = *AllowList::Parse("10.0.0.0/8");
  EXPECT_FALSE(one_address.WhyNot(peer, own, LocalPeer{1000}, 1000));
  EXPECT_FALSE(one_address.WhyNot(peer, own, LocalPeer{0}, 1000));
  for (const AllowList& list : {names, AllowList()}) {
    for (const SocketPeer& end : {SocketPeer(LocalPeer{1001}), SocketPeer(ClosedPeer{})}) {
      EXPECT_TRUE(list.WhyNot(own, own, end, 1000));
      EXPECT_TRUE(list.WhyNot(peer, own, end, 0));
      EXPECT_FALSE(AllowList::Parse("any")->WhyNot(peer, own, end, 1000));
    }
  }
  EXPECT_NE(names.WhyNot(peer, own, LocalPeer{1001}, 1000)->find("user 1001 of this machine"),
            std::string::npos);
}

TEST(AllowList, TheNodesOfAWorldBesideWhatWasSaid) {
  const ip::address own = ip::make_address("10.0.0.1");
  for (const char* said : {"", "192.168.7.0/24"}) {
    AllowList list = *AllowList::Parse(said);
    list.AllowAlso("");
    EXPECT_EQ(list.Allows(ip::make_address("10.9.9.9"), own), *said == '\0') << said;
    list.AllowAlso("10.0.0.2,fd00::2,,nonsense,::ffff:10.0.0.3");
    for (const char* peer :
         {"10.0.0.2", "::ffff:10.0.0.2", "fd00::2", "10.0.0.3", "127.0.0.1", "::1", "10.0.0.1"}) {
      EXPECT_TRUE(list.Allows(ip::make_address(peer), own)) << said << " " << peer;
    }
    EXPECT_TRUE(list.Allows(own, ip::make_address("::ffff:10.0.0.1")));
    for (const char* peer : {"10.0.0.4", "fd00::3", "10.9.9.9"}) {
      EXPECT_FALSE(list.Allows(ip::make_address(peer), own)) << said << " " << peer;
      EXPECT_NE(
          list.WhyNot(ip::make_address(peer), own, RemotePeer{}, 0)->find("no node of this world"),
          std::string::npos);
    }
    EXPECT_EQ(list.Allows(ip::make_address("192.168.7.1"), own), *said != '\0');
  }
}

TEST(AllowList, AnyIsAny) {
  AllowList list = *AllowList::Parse("any");
  list.AllowAlso("10.0.0.2");
  EXPECT_FALSE(
      list.WhyNot(ip::make_address("10.9.9.9"), ip::make_address("10.0.0.1"), RemotePeer{}, 0));
}

TEST(AllowList, ElsewhereAndWhereTheKernelDoesNotTellItIsTheAddress) {
  const auto peer = ip::make_address("10.0.0.1");
  const auto own = ip::make_address("10.0.0.2");
  for (const SocketPeer& end : {SocketPeer(RemotePeer{}), SocketPeer(UnknownPeer{})}) {
    EXPECT_FALSE(AllowList().WhyNot(peer, own, end, 1000));
    EXPECT_FALSE(AllowList::Parse("10.0.0.0/8")->WhyNot(peer, own, end, 1000));
    EXPECT_TRUE(AllowList::Parse("10.1.0.0/16")->WhyNot(peer, own, end, 1000));
    EXPECT_FALSE(AllowList::Parse("10.1.0.0/16")->WhyNot(own, own, end, 1000));
  }
}

}  // namespace
}  // namespace ddprun
