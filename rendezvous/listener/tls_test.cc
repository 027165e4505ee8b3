// The callers that a server with TLS hears, and the answer to all others.
#include "rendezvous/listener/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "rendezvous/client_asks.h"
#include "rendezvous/testing/certificates.h"
#include "rendezvous/testing/wire_fixture.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class TlsTest : public WireTest {
 protected:
  std::string TryToJoin(const Access& access) { return WireTest::TryToJoin(endpoint_, access); }
  Tls Node(const TestAuthority& authority, const std::string& names = "IP:127.0.0.1") {
    const Pem pem = authority.Issue(names);
    return {pem.certificate, pem.key, authority.certificate()};
  }

  static Tls CallerWithoutCertificate(const TestAuthority& authority) {
    return {"", "", authority.certificate()};
  }

  const TestAuthority ours_{"ours"};
  const TestAuthority others_{"others"};
};

TEST_F(TlsTest, AServerWithoutAnAuthorityHearsCallersThatTrustIt) {
  Tls server = Node(ours_);
  server.authority.clear();
  Serve({"127.0.0.1", 0}, {"", server});
  EXPECT_EQ(TryToJoin({"", CallerWithoutCertificate(ours_)}), "");
  EXPECT_EQ(TryToJoin({"", Node(ours_)}), "");
}

TEST_F(TlsTest, WithAnAuthorityOnlyCallersThatItSignedAreHeard) {
  Serve({"127.0.0.1", 0}, {"", Node(ours_)});
  EXPECT_EQ(TryToJoin({"", Node(ours_)}), "");
  EXPECT_NE(TryToJoin({"", CallerWithoutCertificate(ours_)}), "");
  Tls impostor = Node(others_);
  impostor.authority = ours_.certificate();
  EXPECT_NE(TryToJoin({"", impostor}), "");
  EXPECT_EQ(reports_.size(), 1u);
}

TEST_F(TlsTest, WhereTheTwoEndsDoNotFitNothingIsReportedAndTheCallerHearsWhy) {
  struct Case {
    const char* server;
    Access speaks;
    Access caller;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"not signed by the authority", {"", Node(others_)}, {"", Node(ours_)}, "--tls-ca"},
      {"of another host",
       {"", Node(ours_, "DNS:elsewhere.example")},
       {"", Node(ours_)},
       "its certificate does not name '127.0.0.1'"},
      {"called in the clear",
       {"", Node(ours_)},
       {},
       "it speaks TLS alone. Set --tls-ca=FILE to the certificate"},
      {"in the clear", {}, {"", Node(ours_)}, "does it speak TLS?"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.server);
    Serve({"127.0.0.1", 0}, one.speaks);
    EXPECT_THAT(TryToJoin(one.caller), HasSubstr(one.says));
    EXPECT_EQ(last_kind_, ErrorKind::kInvalid);
    EXPECT_TRUE(reports_.empty());
  }
}

TEST_F(TlsTest, TheTokenIsAskedForAsWell) {
  Serve({"127.0.0.1", 0}, {"sesame-sesame-sesame", Node(ours_)});
  EXPECT_THAT(TryToJoin({"", Node(ours_)}), HasSubstr("wants a token"));
  EXPECT_THAT(TryToJoin({"sesame-sesame-sesamE", Node(ours_)}),
              HasSubstr("this is not the server's token"));
  EXPECT_EQ(TryToJoin({"sesame-sesame-sesame", Node(ours_)}), "");
  EXPECT_THAT(TryToJoin({"sesame-sesame-sesame", {}}), HasSubstr("(--tls-ca=FILE)"));
  const auto runs = Beside<std::vector<RunStatus>>([&] {
    return AskStatus({endpoint_, {"sesame-sesame-sesame", Node(ours_)}, {}}, "r1", 5s);
  });
  EXPECT_TRUE(runs);
}

TEST_F(TlsTest, TheHostMayHaveAName) {
  Serve({"localhost", 0}, {"", Node(ours_, "DNS:localhost")});
  EXPECT_EQ(TryToJoin({"", Node(ours_)}), "");
}

class TlsFilesTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text, unsigned mode = 0600) {
    const std::filesystem::path path = directory_ / name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path.native();
  }

  static std::string Refusal(const TlsFiles& files) {
    const Result<Tls> tls = ReadTls(files);
    if (tls) {
      return "";
    }
    EXPECT_EQ(tls.error().kind, ErrorKind::kInvalid);
    return tls.error().message;
  }

  ScratchDirectory scratch_;
  const std::filesystem::path directory_ = scratch_.path();
  const TestAuthority authority_{"ours"};
  const Pem pem_ = authority_.Issue("DNS:n0");
};

TEST_F(TlsFilesTest, AreReadAndChecked) {
  const std::string certificate = Write("cert", pem_.certificate), key = Write("key", pem_.key);
  const std::string ca = Write("ca", authority_.certificate());
  EXPECT_EQ(Refusal({certificate, key, ca}), "");
  EXPECT_EQ(ReadTls({certificate, key, ca})->authority, authority_.certificate());
  EXPECT_EQ(Refusal({}), "");
  EXPECT_THAT(Refusal({certificate, "", ca}), HasSubstr("go together"));
  EXPECT_THAT(Refusal({certificate, directory_ / "none", ca}), HasSubstr("--tls-key"));
  EXPECT_THAT(Refusal({certificate, Write("open", pem_.key, 0640), ca}), HasSubstr("chmod 600"));
  EXPECT_THAT(Refusal({key, key, ca}), HasSubstr("--tls-cert must name a certificate"));
  EXPECT_THAT(Refusal({certificate, certificate, ca}), HasSubstr("--tls-key must name a key"));
  EXPECT_THAT(Refusal({certificate, Write("other", authority_.Issue("DNS:n1").key), ca}),
              HasSubstr("not the key of --tls-cert"));
  EXPECT_THAT(Refusal({"", "", Write("junk", "junk")}), HasSubstr("--tls-ca must name"));
}

}  // namespace
}  // namespace ddprun
