#include "rendezvous/listener/first_bytes.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const std::string kTls("\x16\x03\x01\x02\x00", 5);
const std::string kValidate("\x00\xce\xf7\x85\x3c\x00\x01", 7);

TEST(FirstBytes, StayUndecidedUntilEnoughAreHere) {
  for (std::size_t size = 0; size < kPreface.size(); ++size) {
    EXPECT_EQ(ProtocolOf(kPreface.substr(0, size)), Protocol::kUndecided) << size;
  }
  EXPECT_EQ(ProtocolOf(kTls.substr(0, 1)), Protocol::kUndecided);
  for (std::size_t size = 0; size < 5; ++size) {
    EXPECT_EQ(ProtocolOf(kValidate.substr(0, size)), Protocol::kUndecided) << size;
  }
}

TEST(FirstBytes, KnowNoOthers) {
  for (const std::string& bytes :
       {std::string("get /"), std::string("\x16\x02", 2), std::string("\x00\xce\xf7\x85\x3d", 5),
        std::string("\x00\x00", 2), std::string("\xff", 1), std::string(" ", 1)}) {
    EXPECT_EQ(ProtocolOf(bytes), Protocol::kUnknown) << bytes;
  }
}

}  // namespace
}  // namespace ddprun
