// Everything that peers and operators send a server, and a server its nodes: bytes to Protobuf to
// values. Messages that are taken must go back over the wire as they came.
#include <google/protobuf/stubs/logging.h>
#include "rendezvous/wire/convert.h"

#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace ddprun;

template <class Wire, class Read>
void Converse(const std::string& bytes, const Read& read) {
  Wire came;
  if (!came.ParseFromString(bytes)) {
    return;
  }
  const auto value = read(came);
  if (!Taken(value)) {
    return;
  }
  Wire written;
  ToProto(*value, &written);
  const auto again = read(written);
  CHECK(again);  // Nothing is written that reading would refuse.
  Wire rewritten;
  ToProto(*again, &rewritten);
  CHECK(written.SerializeAsString() == rewritten.SerializeAsString());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto silenced = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(silenced);
  FuzzInput input(data, size);
  const std::uint8_t kind = input.Byte();
  const std::string bytes = input.RestText();
  switch (kind % 6) {
    case 0:
      Converse<v1::SyncRequest>(bytes, FromProto<NodeReport, v1::SyncRequest>);
      break;
    case 1:
      Converse<v1::SyncReply>(bytes, FromProto<SyncReply, v1::SyncReply>);
      break;
    case 2:
      Converse<v1::DescribeReply>(bytes, FromProto<std::vector<RunStatus>, v1::DescribeReply>);
      break;
    case 3:
      Converse<v1::ControlRequest>(bytes, FromProto<ControlRequest, v1::ControlRequest>);
      break;
    case 4:
      Converse<v1::PoolReport>(bytes, FromProto<PoolReport, v1::PoolReport>);
      break;
    default:
      Converse<v1::PoolReply>(bytes, FromProto<PoolReply, v1::PoolReply>);
      break;
  }
  return 0;
}
