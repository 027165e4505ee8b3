#include "trainer/checkpoint/memory_block.h"

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/checkpoint/digest.h"
#include "trainer/checkpoint/safetensors.h"

namespace ddprun {
namespace {

constexpr char kMagic[8] = {'d', 'd', 'p', 'r', 'u', 'n', 'm', '4'};
constexpr std::size_t kSpare = 64 << 10;
constexpr const char* kStateText = "state";
constexpr const char* kName = "the state in memory";
// Before a tensor's name: two may have the same one.
constexpr char kOfModel = 'm';
constexpr char kOfOptimizer = 'o';

struct Head {
  char magic[8];
  std::uint64_t bytes;
  std::uint64_t digest;
};

// All after the head, in parts.
struct Payload {
  explicit Payload(const Snapshot& snapshot) {
    Add(kOfModel, snapshot.model);
    Add(kOfOptimizer, snapshot.optimizer);
    header = SafetensorsHeader(tensors, {{kStateText, ToJson(StateFile{snapshot.state, {}})}});
    parts = SafetensorsParts(header, tensors);
    for (const std::string_view part : parts) {
      bytes += part.size();
    }
  }
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;

  void Add(char kind, const std::vector<Tensor>& some) {
    for (const Tensor& tensor : some) {
      tensors.push_back(tensor);
      tensors.back().name.insert(0, 1, kind);
    }
  }

  std::vector<Tensor> tensors;  // Their bytes are shared, not copied.
  std::string header;
  std::vector<std::string_view> parts;
  std::size_t bytes = 0;
};

}  // namespace

std::size_t BlockBytes(const Snapshot& snapshot) {
  return sizeof(Head) + Payload(snapshot).bytes + kSpare;
}

bool WriteBlock(Bytes& block, const Snapshot& snapshot) {
  const Payload payload(snapshot);
  if (block.size() < sizeof(Head) || block.size() - sizeof(Head) < payload.bytes) {
    return false;
  }
  Head head{.bytes = payload.bytes, .digest = Digest(payload.parts)};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  std::memcpy(block.mutable_data(), &head, sizeof head);
  char* to = block.mutable_data() + sizeof head;
  for (const std::string_view part : payload.parts) {
    to += part.copy(to, part.size());
  }
  return true;
}

Result<Snapshot> ReadBlock(const Bytes& block) {
  Head head{};
  if (block.size() >= sizeof head) {
    std::memcpy(&head, block.data(), sizeof head);
  }
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) {
    return Invalid("it holds no snapshot of this release", kName);
  }
  if (head.bytes > block.size() - sizeof head) {
    return Invalid("its size is not valid", kName);
  }
  const Bytes rest = block.Slice(sizeof head, head.bytes);
  if (Digest(rest) != head.digest) {
    return Invalid("its digest does not match", kName);
  }
  ASSIGN_OR_RETURN(SafetensorsFile file, ParseSafetensors(rest, kName));
  ASSIGN_OR_RETURN(StateFile state, StateFileFromJson(file.metadata[kStateText], kName));
  Snapshot found{.state = std::move(state.state)};
  for (Tensor& tensor : file.tensors) {
    std::vector<Tensor>& kind = tensor.name.starts_with(kOfModel) ? found.model : found.optimizer;
    tensor.name.erase(0, 1);
    kind.push_back(std::move(tensor));
  }
  return found;
}

}  // namespace ddprun
