#include "rendezvous/wire/kept_requests.h"

#include <utility>

#include "common/files.h"
#include "rendezvous/wire/wire_messages.h"

namespace ddprun {

std::string Encode(const std::vector<PoolRequest>& requests) {
  v1::PoolRequests wire;
  for (const PoolRequest& request : requests) {
    WriteFields(request, wire.add_requests());
  }
  return wire.SerializeAsString();
}

Result<std::vector<PoolRequest>> DecodePoolRequests(const std::string& bytes) {
  v1::PoolRequests wire;
  if (!wire.ParseFromString(bytes) ||
      static_cast<std::size_t>(wire.requests_size()) > kMostPoolRequests) {
    return Error{ErrorKind::kInvalid, "it is not a list of a pool's runs"};
  }
  std::vector<PoolRequest> requests;
  for (const v1::PoolRequest& one : wire.requests()) {
    Reader in(kServersAhead);
    ASSIGN_OR_RETURN(PoolRequest request, ReadFields<PoolRequest>(one, in, "request"));
    requests.push_back(std::move(request));
  }
  return requests;
}

Result<std::vector<PoolRequest>> ReadPoolRequests(const std::filesystem::path& file) {
  constexpr std::size_t kMostOfFile = kMostPoolRequests * 2 * kMaxWork;
  const Result<std::string> bytes = ReadOrdinary(file, kMostOfFile);
  if (!bytes && bytes.error().kind == ErrorKind::kNotFound) {
    return std::vector<PoolRequest>{};
  }
  RETURN_IF_ERROR(bytes);
  auto requests = DecodePoolRequests(*bytes);
  return requests ? std::move(requests)
                  : Error{ErrorKind::kInvalid,
                          "cannot read '" + file.native() + "': " + requests.error().message +
                              ". Remove it to start without the detached runs that waited"};
}

}  // namespace ddprun
