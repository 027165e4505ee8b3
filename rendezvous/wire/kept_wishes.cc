#include "rendezvous/wire/kept_wishes.h"

#include <utility>

#include "common/files.h"
#include "rendezvous/wire/wire_messages.h"

namespace ddprun {

std::string Encode(const std::vector<PoolWish>& wishes) {
  v1::PoolWishes wire;
  for (const PoolWish& wish : wishes) {
    WriteFields(wish, wire.add_wishes());
  }
  return wire.SerializeAsString();
}

Result<std::vector<PoolWish>> DecodeWishes(const std::string& bytes) {
  v1::PoolWishes wire;
  if (!wire.ParseFromString(bytes) || static_cast<std::size_t>(wire.wishes_size()) > kMostWishes) {
    return Error{ErrorKind::kInvalid, "it is not a list of a pool's runs"};
  }
  std::vector<PoolWish> wishes;
  for (const v1::PoolWish& one : wire.wishes()) {
    Reader in(kServersAhead);
    ASSIGN_OR_RETURN(PoolWish wish, ReadFields<PoolWish>(one, in, "wish"));
    wishes.push_back(std::move(wish));
  }
  return wishes;
}

Result<std::vector<PoolWish>> ReadWishes(const std::filesystem::path& file) {
  constexpr std::size_t kMostOfFile = kMostWishes * 2 * kMaxWork;
  const Result<std::string> bytes = ReadOrdinary(file, kMostOfFile);
  if (!bytes && bytes.error().kind == ErrorKind::kNotFound) {
    return std::vector<PoolWish>{};
  }
  RETURN_IF_ERROR(bytes);
  auto wishes = DecodeWishes(*bytes);
  return wishes ? std::move(wishes)
                : Error{ErrorKind::kInvalid,
                        "cannot read '" + file.native() + "': " + wishes.error().message +
                            ". Remove it to start without the detached runs that waited"};
}

}  // namespace ddprun
