#include <gtest/gtest.h>

#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/kept_requests.h"

namespace ddprun {
namespace {

const PoolOffer kOffer{"n1",
                       {9},
                       "8 GPUs, 96 CPUs",
                       "a GPU is missing",
                       true,
                       "run",
                       7,
                       true,
                       {{"run", 5, 3}, {"run", 6, std::nullopt}},
                       {{1, 2, "a line"}},
                       7};
const PoolRequest kRequest{"run",   {9}, 4, true, 2, 4, "/here", {"--", "train.py", ""},
                           "\2\17", true};

TEST(WirePool, MessagesCrossAsTheyAre) {
  for (const PoolReport& report :
       {PoolReport(kOffer), PoolReport(kRequest), PoolReport(PoolQuestion{})}) {
    v1::PoolReport wire;
    ToProto(report, &wire);
    EXPECT_EQ(FromProto<PoolReport>(wire).value(), report);
  }
  const PoolOrder order{"run", 7, "/here", {"--", "train.py"}, "\2", true, true, true};
  const PoolView view{4, true, 2, "why", {{"n1", true, {{1, 2, "a line"}}}}, true, 3};
  const PoolStatus status{{{"n1", "8 GPUs", "free"}},
                          {{"run", 1, 2, PoolRunPhase::kRuns, "runs on n1"}}};
  for (const PoolReply& reply : {PoolReply(order), PoolReply(view), PoolReply(status)}) {
    v1::PoolReply wire;
    ToProto(reply, &wire);
    EXPECT_EQ(FromProto<PoolReply>(wire).value(), reply);
  }
}

TEST(WirePool, KeptRequestsAreReadAsTheyWere) {
  PoolRequest second = kRequest;
  second.run_id = "second";
  const std::vector<PoolRequest> requests{kRequest, second};
  EXPECT_EQ(DecodePoolRequests(Encode(requests)).value(), requests);
  EXPECT_EQ(DecodePoolRequests("").value().size(), 0u);
  EXPECT_EQ(DecodePoolRequests("no such bytes").error().kind, ErrorKind::kInvalid);
  second.run_id.clear();
  EXPECT_EQ(DecodePoolRequests(Encode({second})).error().message, "request.run_id is empty");
}

template <class Value, class Spoil>
std::string RefusalOf(Value value, Spoil spoil) {
  spoil(value);
  v1::PoolReport wire;
  ToProto(PoolReport(value), &wire);
  const auto report = FromProto<PoolReport>(wire);
  return report ? "accepted" : report.error().message;
}

TEST(WirePool, ImpossibleValuesAreRefusedByField) {
  EXPECT_EQ(RefusalOf(kOffer, [](auto& o) { o.name.clear(); }), "offer.name is empty");
  EXPECT_EQ(RefusalOf(kRequest, [](auto& w) { w.min_nodes = 5; }),
            "request.max_nodes must be from 5 to 1000, not 4");
  EXPECT_EQ(RefusalOf(kRequest, [](auto& w) { w.run_id = "two words"; }),
            "request.run_id has a space");
  EXPECT_EQ(RefusalOf(kRequest, [](auto& w) { w.args.assign(3, std::string(kMaxWork / 2, 'x')); }),
            "request.args is too long");
  EXPECT_EQ(RefusalOf(kOffer,
                      [](auto& o) {
                        o.said.assign(5, {1, 1, std::string(kMaxSaidLine, 'x')});
                      }),
            "offer.said is too long");
  v1::PoolReport of_another;
  of_another.set_protocol(kProtocol + 1);
  EXPECT_FALSE(FromProto<PoolReport>(of_another));
  EXPECT_FALSE(FromProto<PoolReply>(v1::PoolReply()));
}

}  // namespace
}  // namespace ddprun
