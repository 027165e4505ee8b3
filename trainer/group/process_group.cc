#include "trainer/group/process_group.h"

#include <ATen/ATen.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <typeinfo>
#include <utility>
#include <vector>

#include "common/route.h"
#include "trainer/group/across_nodes.h"
#include "trainer/group/nccl_group.h"
#include "trainer/group/shared_join.h"
#include "trainer/group/shm_backend.h"
#include "trainer/group/torch_group.h"

namespace ddprun {
namespace {

constexpr std::int64_t kMaxTextBytes = 64 << 20;

// The one line of a libtorch message that says something: without "[file.cc:123] " before it, and
// the advice and stack after it.
std::string Essence(std::string text) {
  if (const std::size_t end = text.find("] "); text.starts_with('[') && end != text.npos) {
    text.erase(0, end + 2);
  }
  for (const char* const rest : {"\n", ". This is typically"}) {
    text.resize(std::min(text.size(), text.find(rest)));
  }
  return text;
}

c10::intrusive_ptr<c10d::Store> ConnectStore(const WorkerEnv& env, const GroupOptions& group) {
  c10d::TCPStoreOptions options;
  options.port = env.master.port;
  options.waitWorkers = false;
  options.timeout = group.timeout;
  if (env.hosts_store) {  // One for all groups, as long as the process lives.
    options.isServer = true;
    static const auto served = c10::make_intrusive<c10d::TCPStore>(env.master.host, options);
  }
  options.isServer = false;
  auto store = c10::make_intrusive<c10d::TCPStore>(env.master.host, options);
  // A store that outlives a generation must not show the next one what this one wrote.
  return c10::make_intrusive<c10d::PrefixStore>("ddprun-train/" +
                                                    std::to_string(env.generation.value) + "-" +
                                                    Hex(env.world_id.value) + "/" + group.name,
                                                store);
}

class StoreBoard : public Board {
 public:
  explicit StoreBoard(c10d::Store& store) : store_(store) {}
  Result<void> Set(const std::string& key, const std::string& text) override {
    return Try([&] { store_.set(key, std::vector<std::uint8_t>(text.begin(), text.end())); });
  }
  Result<std::string> Get(const std::string& key) override {
    std::vector<std::uint8_t> bytes;
    RETURN_IF_ERROR(Try([&] { bytes = store_.get(key); }));
    return std::string(bytes.begin(), bytes.end());
  }

 private:
  template <class Call>
  static Result<void> Try(Call call) {
    try {
      call();
      return {};
    } catch (const std::exception&) {
      return DescribeCurrentException();
    }
  }
  c10d::Store& store_;
};

// Asked of all ranks or of none: they have the same options and the same launcher.
Result<SharedOutcome> ShareMemory(const WorkerEnv& env, const GroupOptions& options,
                                  c10d::Store& store) {
  if (options.backend == BackendChoice::kGloo) {
    return SharedOutcome{nullptr, "--backend=gloo"};
  }
  if (options.backend != BackendChoice::kShm && env.local_world_size != env.world_size) {
    return SharedOutcome{nullptr, "not all ranks are of one node"};
  }
  StoreBoard board(store);
  ASSIGN_OR_RETURN(SharedOutcome outcome,
                   JoinShared(board, env.rank, env.world_size, options.timeout));
  if (!outcome.world && options.backend == BackendChoice::kShm) {
    return Error{ErrorKind::kInvalid, "--backend=shm: the ranks do not share memory: " +
                                          outcome.why_not + "; use --backend=auto or gloo"};
  }
  return outcome;
}

c10::intrusive_ptr<GlooOfNodes> MakeGloo(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                         int size, const GroupOptions& options,
                                         const std::string& own_address) {
  // Gloo writes to a peer that is gone with writev, whose signal would end this process before it
  // can say so. Python, which Gloo is used from elsewhere, ignores it too.
  std::signal(SIGPIPE, SIG_IGN);
  auto gloo_options = c10d::ProcessGroupGloo::Options::create(options.timeout);
  gloo_options->threads = 1;
  gloo_options->devices.push_back(
      options.interface.empty()
          ? c10d::ProcessGroupGloo::createDeviceForHostname(own_address)
          : c10d::ProcessGroupGloo::createDeviceForInterface(options.interface));
  return c10::make_intrusive<GlooOfNodes>(store, rank, size, gloo_options);
}

// Whether the ranks say of themselves what makes whole nodes of them. Launchers may know only how
// many ranks a node has, and not which (proto/task_env.h).
bool AreNodes(const std::vector<at::Tensor>& places, std::uint32_t nodes) {
  std::map<std::int64_t, std::set<std::int64_t>> there;  // Local ranks, by node.
  std::map<std::int64_t, std::int64_t> sizes;
  for (const at::Tensor& place : places) {
    const auto* const said = place.const_data_ptr<std::int64_t>();
    const std::int64_t node = said[0];
    const std::int64_t local_rank = said[1];
    const std::int64_t local_size = said[2];
    const bool known = !sizes.emplace(node, local_size).second;
    if (node < 0 || node >= nodes || said[3] != nodes || local_rank < 0 ||
        local_rank >= local_size || (known && sizes[node] != local_size) ||
        !there[node].insert(local_rank).second) {
      return false;
    }
  }
  return there.size() == nodes && std::ranges::all_of(there, [&](const auto& ranks) {
           return static_cast<std::int64_t>(ranks.second.size()) == sizes[ranks.first];
         });
}

// Within each node through shared memory. All nodes do or none.
Result<void> SumByNodes(TorchGroup& torch, const c10::intrusive_ptr<c10d::Store>& store,
                        const c10::intrusive_ptr<GlooOfNodes>& all, const WorkerEnv& env,
                        const GroupOptions& options, const std::string& own_address) {
  std::vector<at::Tensor> own = {
      at::tensor({std::int64_t{env.group_rank}, std::int64_t{env.local_rank},
                  std::int64_t{env.local_world_size}, std::int64_t{env.group_world_size}})};
  std::vector<std::vector<at::Tensor>> places(1);
  for (std::uint32_t rank = 0; rank < env.world_size; ++rank) {
    places[0].push_back(at::zeros_like(own[0]));
  }
  all->allgather(places, own)->wait();
  if (env.group_world_size < 2 || !AreNodes(places[0], env.group_world_size)) {
    return {};
  }
  c10d::PrefixStore of_node("node/" + std::to_string(env.group_rank), store);
  StoreBoard board(of_node);
  ASSIGN_OR_RETURN(SharedOutcome shared,
                   JoinShared(board, env.local_rank, env.local_world_size, options.timeout));
  std::vector<at::Tensor> shares = {at::full({1}, shared.world ? 1 : 0, at::kInt)};
  c10d::AllreduceOptions least;
  least.reduceOp = c10d::ReduceOp::MIN;
  all->allreduce(shares, least)->wait();
  if (shares[0].item<int>() == 0) {
    return {};
  }
  std::vector<std::size_t> numbers(env.local_world_size);
  for (std::size_t rank = 0; rank < env.world_size; ++rank) {
    const auto* const said = places[0][rank].const_data_ptr<std::int64_t>();
    if (said[0] == env.group_rank) {
      numbers[static_cast<std::size_t>(said[1])] = rank;
    }
  }
  shared.world->NumberRanks(std::move(numbers));
  c10::intrusive_ptr<c10d::Backend> leaders;
  if (env.world_size == env.group_world_size) {
    leaders = all;
  } else if (env.local_rank == 0) {
    leaders = MakeGloo(c10::make_intrusive<c10d::PrefixStore>("leaders", store),
                       static_cast<int>(env.group_rank), static_cast<int>(env.group_world_size),
                       options, own_address);
  }
  torch.shared = std::move(shared.world);
  torch.across = AcrossNodes(std::move(leaders));
  if (env.world_size > env.group_world_size) {
    torch.backend = "nodes";
    torch.note = "the ranks of a node talk through shared memory, nodes through Gloo";
    all->SumBy(MakeShmBackend(torch.shared, torch.across));
  }
  return {};
}

// Tensors in the CPU's memory travel through this, also between ranks that compute on GPUs.
Result<void> AddCpuBackend(TorchGroup& torch, const c10::intrusive_ptr<c10d::Store>& store,
                           const WorkerEnv& env, const GroupOptions& options) {
  using BackendType = c10d::ProcessGroup::BackendType;
  ASSIGN_OR_RETURN(SharedOutcome shared, ShareMemory(env, options, *store));
  c10::intrusive_ptr<c10d::Backend> backend;
  BackendType type = BackendType::CUSTOM;
  if (shared.world) {
    torch.backend = "shm";
    torch.note = "the ranks talk through shared memory";
    torch.shared = std::move(shared.world);
    backend = MakeShmBackend(torch.shared);
  } else {
    std::string own_address;
    if (options.interface.empty()) {
      // Gloo's own default resolves this machine's name, which often gives the loopback address.
      Result<std::string> towards_store = RouteTo(env.master.host);
      if (!towards_store) {
        return Error{ErrorKind::kUnavailable, towards_store.error().message};
      }
      own_address = *std::move(towards_store);
    }
    torch.backend = "gloo";
    torch.note = "the ranks talk through Gloo (" + shared.why_not + ")";
    type = BackendType::GLOO;
    const auto all = MakeGloo(store, static_cast<int>(env.rank), static_cast<int>(env.world_size),
                              options, own_address);
    backend = all;
    if (options.backend == BackendChoice::kAuto && !options.device.plugin) {
      RETURN_IF_ERROR(SumByNodes(torch, store, all, env, options, own_address));
    }
  }
  torch.group->setDefaultBackend(type);
  torch.group->setBackend(c10::DeviceType::CPU, type, backend);
  if (options.device.plugin && options.backend == BackendChoice::kGloo) {
    torch.group->setBackend(c10::DeviceType::CUDA, type, backend);  // By way of the CPU.
  }
  return {};
}

Result<std::unique_ptr<TorchGroup>> FormGroup(const WorkerEnv& env, const GroupOptions& options) {
  if (env.world_size == 1) {
    return NcclAlone(env, options);
  }
  const auto store = ConnectStore(env, options);
  if (options.settle) {
    StoreBoard board(*store);
    RETURN_IF_ERROR(options.settle(board));
  }
  RETURN_IF_ERROR(AgreeOnDevices(*store, env, options));
  auto torch = std::make_unique<TorchGroup>();
  torch->group = c10::make_intrusive<WatchedGroup>(store, static_cast<int>(env.rank),
                                                   static_cast<int>(env.world_size));
  RETURN_IF_ERROR(AddCpuBackend(*torch, store, env, options));
  if (options.device.plugin && options.backend != BackendChoice::kGloo) {
    RETURN_IF_ERROR(AddNccl(*torch, store, env, options));
  }
  return torch;
}

// Thrown by ddprun's own transport.
class PeerGone : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Other exceptions come from a program's own code that ran beside a collective, in a backward. The
// types of Gloo's are not ours to name, as libtorch comes without its headers.
bool OfTransport(const std::exception& error) {
  return dynamic_cast<const PeerGone*>(&error) != nullptr ||
         std::string_view(typeid(error).name()).starts_with("N4gloo");
}

}  // namespace

void Broadcast(TorchGroup& torch, const std::vector<at::Tensor>& tensors, std::uint32_t from) {
  constexpr std::size_t kBytesAtATime = std::size_t{250} << 20;
  const at::NoGradGuard no_grad;
  // Coalescing wants one type on one device at a time.
  std::map<std::pair<at::ScalarType, std::string>, std::vector<at::Tensor>> kinds;
  for (const at::Tensor& tensor : tensors) {
    if (torch.group->getSize() > 1 || !tensor.is_cpu()) {  // NCCL alone has no CPU part.
      kinds[{tensor.scalar_type(), tensor.device().str()}].push_back(tensor);
    }
  }
  for (const auto& [kind, same] : kinds) {
    c10d::broadcast_coalesced(torch.group, same, kBytesAtATime, static_cast<int>(from));
  }
}

Error DescribeCurrentException() {
  try {
    throw;
  } catch (const c10::DistError& error) {
    const std::string text = Essence(error.what_without_backtrace());
    // NCCL's watchdog reports the GPU's own trouble in the same way.
    const bool own = text.find("CUDA error") != std::string::npos;
    return {own ? ErrorKind::kSystem : ErrorKind::kUnavailable, text};
  } catch (const c10::Error& error) {
    return {ErrorKind::kSystem, Essence(error.what_without_backtrace())};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::kSystem, "out of memory"};
  } catch (const std::exception& error) {
    return {OfTransport(error) ? ErrorKind::kUnavailable : ErrorKind::kSystem,
            Essence(error.what())};
  }
}

std::exception_ptr ExceptionFor(const Error& error) {
  if (error.kind == ErrorKind::kUnavailable) {
    return std::make_exception_ptr(PeerGone(error.message));
  }
  return std::make_exception_ptr(c10::Error(
      c10::SourceLocation{__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, error.message));
}

Error CollectiveError(std::uint32_t rank, std::string_view doing) {
  Error error = DescribeCurrentException();
  const std::string who = error.kind == ErrorKind::kUnavailable
                              ? "a peer of rank " + std::to_string(rank) + " is gone: "
                              : "rank " + std::to_string(rank) + " failed: ";
  error.message = who + "cannot " + std::string(doing) + ": " + error.message +
                  (error.kind == ErrorKind::kUnavailable ? " [peer-gone]" : "");
  return error;
}

std::string GlooInterface() {
  const std::string interfaces = GetProcessEnv("GLOO_SOCKET_IFNAME").value_or("");
  return interfaces.substr(0, interfaces.find(','));
}

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::Join(const WorkerEnv& env,
                                                         const GroupOptions& options) {
  std::unique_ptr<TorchGroup> torch;
  const bool nccl_asked = options.device.plugin && options.backend == BackendChoice::kNccl;
  if (env.world_size > 1 || nccl_asked) {
    if (!options.interface.empty() && if_nametoindex(options.interface.c_str()) == 0) {
      Error error =
          SystemError("use the network interface (GLOO_SOCKET_IFNAME)", options.interface, errno);
      error.message += " [no-interface]";
      return error;
    }
    Result<std::unique_ptr<TorchGroup>> formed = Error{};
    try {
      formed = FormGroup(env, options);
    } catch (const std::exception&) {
      formed = DescribeCurrentException();
    }
    if (formed) {
      torch = *std::move(formed);
    } else {
      Error error = std::move(formed).error();
      if (error.kind == ErrorKind::kInvalid || error.kind == ErrorKind::kRefused) {
        return error;  // Says who and what itself.
      }
      error.message =
          "rank " + std::to_string(env.rank) + " cannot join the world of " +
          std::to_string(env.world_size) + " ranks at the store " + ToString(env.master) +
          (options.interface.empty() ? "" : " through " + options.interface) + ": " + error.message;
      return error;
    }
  }
  return std::unique_ptr<ProcessGroup>(
      new ProcessGroup(env.rank, env.world_size, std::move(torch)));
}

ProcessGroup::ProcessGroup(std::uint32_t rank, std::uint32_t size,
                           std::unique_ptr<TorchGroup> torch)
    : backend_(torch ? torch->backend : "none"),
      note_(torch ? torch->note : ""),
      rank_(rank),
      size_(size),
      torch_(std::move(torch)) {}

ProcessGroup::~ProcessGroup() = default;

std::optional<std::chrono::steady_clock::time_point> ProcessGroup::TakeEntry() {
  return torch_ ? std::exchange(torch_->group->entered, std::nullopt) : std::nullopt;
}

Result<std::string> ProcessGroup::BroadcastText(std::string text, std::uint32_t from) {
  if (size_ == 1) {
    return text;
  }
  return Collectively(rank_, "take part in a broadcast", [&]() -> Result<std::string> {
    at::Tensor size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
    Broadcast(*torch_, {size}, from);
    const std::int64_t bytes = size.item<std::int64_t>();
    if (bytes < 0 || bytes > kMaxTextBytes) {
      return Error{ErrorKind::kInvalid, "rank " + std::to_string(from) + " sent a text of " +
                                            std::to_string(bytes) + " bytes, which is too long"};
    }
    text.resize(static_cast<std::size_t>(bytes));
    if (bytes > 0) {
      Broadcast(*torch_, {at::from_blob(text.data(), {bytes}, at::kByte)}, from);
    }
    return text;
  });
}

Result<void> ProcessGroup::Sum(std::span<double> values) {
  if (size_ == 1) {
    return {};
  }
  return Collectively(rank_, "take part in an all-reduce", [&]() -> Result<void> {
    std::vector<at::Tensor> tensors = {
        at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kDouble)};
    torch_->group->allreduce(tensors, c10d::AllreduceOptions())->wait();
    return {};
  });
}

Result<bool> ProcessGroup::Count(const std::string& what) {
  if (size_ == 1) {
    return true;
  }
  return Collectively(rank_, "reach the store", [&]() -> Result<bool> {
    c10d::Store& store = *torch_->group->getStore();
    const bool last = store.add(what, 1) == size_;
    if (last) {
      store.set(what + "/all", std::vector<std::uint8_t>{1});
    }
    return last;
  });
}

Result<bool> ProcessGroup::AllCounted(const std::string& what, std::chrono::milliseconds limit) {
  try {
    torch_->group->getStore()->wait({what + "/all"}, limit);
    return true;
  } catch (const c10::DistStoreError&) {
    return false;
  } catch (const std::exception&) {
    return CollectiveError(rank_, "reach the store");
  }
}

}  // namespace ddprun
