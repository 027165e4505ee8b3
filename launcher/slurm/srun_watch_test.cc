#include "launcher/slurm/srun_watch.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

// As Linux 6.1 writes it.
constexpr const char* kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 00000000:A345 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1\n"
    "   1: 0100007F:9F05 0100007F:A345 01 00000000:00000000 00:00000000 00000000     0        0 2\n"
    "   2: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A 0:0 0\n";

TEST(SrunWatch, FindsWhoListens) {
  EXPECT_TRUE(HasListener(kTable, 0xA345));
  EXPECT_TRUE(HasListener(kTable, 0x0050));
  EXPECT_FALSE(HasListener(kTable, 0x9F05)) << "a connection is no listener";
  EXPECT_FALSE(HasListener(kTable, 1));
  EXPECT_FALSE(HasListener("", 1));
  EXPECT_FALSE(HasListener(":\n::\n:1:", 1));
}

}  // namespace
}  // namespace ddprun
