// A token is shown to a caller that proves that it has it, and to no other.
#include "rendezvous/listener/token_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "rendezvous/client.h"
#include "rendezvous/client_asks.h"
#include "rendezvous/listener/http.h"
#include "rendezvous/testing/foreign_server.h"
#include "rendezvous/testing/wire_fixture.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kToken = "sesame-sesame-sesame";
constexpr const char* kUnproven = "does not prove that it has the same token as this side";
const std::string kOther = "simsim-simsim-simsim";

TEST(TokenProof, IsOfOneTokenAndOneKey) {
  const Result<Tls> one = DrawCertificate(kToken);
  const Result<Tls> two = DrawCertificate(kToken);
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->certificate, two->certificate);
  EXPECT_TRUE(ProvesToken(one->certificate, kToken));
  EXPECT_TRUE(ProvesToken(two->certificate, kToken));
  EXPECT_FALSE(ProvesToken(one->certificate, kOther));
  EXPECT_FALSE(ProvesToken(one->certificate, ""));
  EXPECT_FALSE(ProvesToken(DrawCertificate("")->certificate, ""));
  EXPECT_FALSE(ProvesToken("", kToken));
  EXPECT_FALSE(
      ProvesToken("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", kToken));
  EXPECT_FALSE(ProvesToken(TestAuthority("a").certificate(), kToken));
}

class TokenTest : public WireTest {
 protected:
  void ExpectNothingIsTold(const std::optional<Pem>& shown, ErrorKind kind, const char* why) {
    ForeignServer foreign_server(shown);
    const Endpoint at = foreign_server.endpoint();
    const Access access{kToken, {}};
    const std::string refused = TryToJoin(at, access);
    EXPECT_THAT(refused, HasSubstr(why));
    EXPECT_EQ(last_kind_, kind);
    const auto status = Beside<std::vector<RunStatus>>([&] {
      return AskStatus({at, access, {}}, "run", 5s);
    });
    EXPECT_EQ(status.error().message, refused);
    const auto stopped = Beside<std::string>([&] {
      return AskControl({at, {}, {}}, {"run", ControlVerb::kStop, "", kToken}, 5s);
    });
    EXPECT_EQ(stopped.error().message, refused);
    EXPECT_GE(foreign_server.clients(), 3);
    if (shown) {
      EXPECT_EQ(foreign_server.heard(), "");
    } else {  // Hellos of TLS.
      EXPECT_THAT(foreign_server.heard(), StartsWith("\x16\x03"));
      EXPECT_EQ(foreign_server.heard().find("PRI *"), std::string::npos);
    }
  }
};

TEST_F(TokenTest, ASquatterInTheClearHearsNothing) {
  ExpectNothingIsTold(std::nullopt, ErrorKind::kRefused, "is not a ddprun rendezvous with a token");
}

TEST_F(TokenTest, ASquatterWithACertificateOfHisOwnHearsNothing) {
  ExpectNothingIsTold(TestAuthority("others").Issue("IP:127.0.0.1"), ErrorKind::kInvalid,
                      kUnproven);
}

TEST_F(TokenTest, ASquatterWithAnotherTokenHearsNothing) {
  const Result<Tls> drawn = DrawCertificate(kOther);
  ExpectNothingIsTold(Pem{drawn->certificate, drawn->key}, ErrorKind::kInvalid, kUnproven);
}

// The very certificate of the real server, which any caller may ask for.
TEST_F(TokenTest, AReplayOfTheServersCertificateHearsNothing) {
  ExpectNothingIsTold(Pem{DrawCertificate(kToken)->certificate, ""}, ErrorKind::kRefused,
                      "is not a ddprun rendezvous with a token");
}

// He ends TLS himself, with a key of his own, and under the name of the real server's certificate.
TEST_F(TokenTest, ARelayHearsNothing) {
  Serve({"127.0.0.1", 0}, {kToken, {}});
  const std::string name =
      *Beside<std::string>([&] { return Result<std::string>(AskOverTls(endpoint_).name); });
  EXPECT_EQ(name.size(), 64u);
  const TestAuthority relay(name.c_str());
  ExpectNothingIsTold(Pem{relay.certificate(), relay.key()}, ErrorKind::kInvalid, kUnproven);
  EXPECT_TRUE(reports_.empty() && asked_.empty());
}

// Answers that unauthenticated clients would get if they were believed: the tests above would see
// them.
TEST_F(TokenTest, AServerThatIsBelievedHearsAll) {
  const TestAuthority authority("ours");
  ForeignServer believed(authority.Issue("IP:127.0.0.1"));
  const auto channel =
      GrpcChannelTo(loop_, believed.endpoint(), {kToken, {"", "", authority.certificate()}});
  channel->Send(Report(1), 60s, Note());
  EXPECT_TRUE(Until([&] { return believed.heard().find("PRI *") == 0; }));
}

TEST_F(TokenTest, ACallerWithTheTokenIsHeard) {
  Serve({"127.0.0.1", 0}, {kToken, {}});
  const auto look = [&](const std::string& token) {
    return Beside<std::vector<RunStatus>>([&] {
      return AskStatus({endpoint_, {token, {}}, {}}, "run", 5s);
    });
  };
  EXPECT_EQ(TryToJoin(endpoint_, {kToken, {}}), "");
  EXPECT_TRUE(look(kToken));
  for (const auto& [token, why] :
       {std::pair(std::string(), "the server wants a token. Set --token-file"),
        {kOther, kUnproven}}) {
    const std::string refused = TryToJoin(endpoint_, {token, {}});
    EXPECT_THAT(refused, AllOf(HasSubstr(why), HasSubstr("--token-file=FILE or DDPRUN_TOKEN")));
    EXPECT_EQ(last_kind_, ErrorKind::kInvalid);
    EXPECT_EQ(look(token).error().kind, ErrorKind::kInvalid);
    EXPECT_FALSE(Beside<std::string>([&] {
      return AskControl({endpoint_, {}, {}}, {"run", ControlVerb::kStop, "", token}, 5s);
    }));
  }
  EXPECT_TRUE(reports_.size() == 1 && asked_.empty());
}

// His headers cost a server much (CVE-2023-33953), so they are not read.
TEST_F(TokenTest, TheHttp2OfAnotherAuthorityIsNotBegun) {
  const auto told = [&](const std::optional<Pem>& shown) {
    return *Beside<ToldOverTls>([&] { return Result<ToldOverTls>(AskOverTls(endpoint_, shown)); });
  };
  const auto drawn = [](const std::string& token) {
    const Result<Tls> tls = DrawCertificate(token);
    return Pem{tls->certificate, tls->key};
  };
  Serve({"127.0.0.1", 0}, {kToken, {}});
  EXPECT_EQ(told(std::nullopt).first, "");
  EXPECT_EQ(told(drawn(kOther)).first, "");
  EXPECT_EQ(told(TestAuthority("others").Issue("IP:127.0.0.1")).first, "");
  const ToldOverTls let_in = told(drawn(kToken));
  EXPECT_NE(let_in.first, "");      // SETTINGS.
  EXPECT_FALSE(let_in.may_resume);  // Only a whole handshake proves the token.
}

// OpenSSL checks every link before a caller can look whose the certificate is: 46 ms of a server
// for 43 KB of an unauthenticated peer.
TEST_F(TokenTest, ACertificateWithAChainIsNotLookedAt) {
  Serve({"127.0.0.1", 0}, {kToken, {}});
  const Result<Tls> drawn = DrawCertificate(kToken);
  const std::string link = TestAuthority("link").certificate();
  const auto told = [&](const std::string& chain) {
    return *Beside<std::string>([&] {
      const Pem shown{drawn->certificate + chain, drawn->key};
      return Result<std::string>(AskOverTls(endpoint_, shown).first);
    });
  };
  EXPECT_NE(told(""), "");
  EXPECT_EQ(told(link + link + link), "");
}

// A restart, or another node that took over.
TEST_F(TokenTest, TheNextServerHasAnotherKeyAndIsBelieved) {
  Serve({"127.0.0.1", 0}, {kToken, {}});
  const auto channel = GrpcChannelTo(loop_, endpoint_, {kToken, {}});
  channel->Send(Report(1), 5s, Note());
  ASSERT_TRUE(UntilParked(1));
  server_->Shutdown();
  ASSERT_TRUE(UntilHeard(1));
  Serve(endpoint_, {kToken, {}});
  channel->Send(Report(2), 5s, Note());
  ASSERT_TRUE(UntilParked(2));
}

TEST_F(TokenTest, WithoutATokenAServerHearsNoCallerThatHasOne) {
  Serve({"127.0.0.1", 0});
  EXPECT_THAT(TryToJoin(endpoint_, {kToken, {}}), HasSubstr("It has no token (--insecure?)"));
  EXPECT_EQ(last_kind_, ErrorKind::kInvalid);
  EXPECT_TRUE(reports_.empty());
}

TEST(HttpReply, TellsNoCallerTheRunOfAServerWithAToken) {
  const auto body = [](bool wants_token) {
    const std::string reply = *HttpReply("GET /healthz HTTP/1.0\r\n\r\n", {"the-run", wants_token});
    return reply.substr(reply.find("\r\n\r\n") + 4);
  };
  EXPECT_THAT(body(false), testing::EndsWith("\nrun the-run\n"));
  EXPECT_THAT(body(true), testing::EndsWith("\na token is needed\n"));
  EXPECT_EQ(body(true).find("the-run"), std::string::npos);
}

}  // namespace
}  // namespace ddprun
