// --hosts and --hostfile, what comes on the standard input of a node that they start, and what a
// host prints.
#include <algorithm>

#include "launcher/command_line/host_list.h"
#include "launcher/hosts/control_stream.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace ddprun;

void CheckHosts(const Result<std::vector<LaunchHost>>& hosts) {
  if (!Taken(hosts)) {
    return;
  }
  for (const LaunchHost& host : *hosts) {
    CHECK(!host.name.empty() && host.address.front() != '-' && host.workers.value_or(1) > 0);
    CHECK(host.address.find_first_of(std::string_view(" \t\n\r\0;$`'\"\\&|<>", 16)) ==
          std::string::npos);
  }
}

void ReadOrder(std::string_view bytes, std::size_t piece) {
  OrderReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const Result<bool> whole = reader.Feed(bytes.substr(at, piece));
    if (!whole) {
      return;
    }
    if (*whole) {
      OrderReader again;
      CHECK(again.Feed(Encode(reader.order())).value() && again.order() == reader.order());
      return;
    }
  }
}

// Each byte is shown once, but for marks and what may still become one.
void ReadMarks(std::string_view bytes, std::size_t piece) {
  MarkReader before("w0rd");
  CHECK(before.Feed(bytes).empty() || before.greeted());
  MarkReader reader("w0rd");
  CHECK(reader.Feed(Greeting()).empty() && reader.greeted());
  std::string shown;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    shown += reader.Feed(bytes.substr(at, piece));
  }
  CHECK(shown.size() <= bytes.size());
  CHECK(reader.exit_code() || reader.run_code() || shown == bytes.substr(0, shown.size()));
  CHECK(reader.exit_code() || reader.run_code() || shown.size() + 96 >= bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzInput input(data, size);
  const std::size_t piece = 1u + input.Byte();
  switch (input.Byte() % 4) {
    case 0:
      CheckHosts(ParseHosts(input.Rest()));
      break;
    case 1:
      CheckHosts(ParseHostfile("hosts", input.Rest()));
      break;
    case 2:
      ReadOrder(input.Rest(), piece);
      break;
    default:
      ReadMarks(input.Rest(), piece);
      break;
  }
  return 0;
}
