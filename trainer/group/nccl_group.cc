#include "trainer/group/nccl_group.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "common/files.h"

namespace ddprun {
namespace {

void (*end_of_process)(const Error&) = nullptr;

// Called by the runtime in the thread whose exception was not caught.
[[noreturn]] void OnTerminate() {
  if (std::current_exception() != nullptr && end_of_process != nullptr) {
    Error error = DescribeCurrentException();
    if (error.kind == ErrorKind::kUnavailable) {
      error.message = "a peer is gone: " + error.message;
    }
    end_of_process(error);
  }
  std::abort();
}

// A variable that is set already stays. libtorch's watchdog waits for dumps after a time-out: four
// times this number of milliseconds, 15 s by default, even if there are none. So without a request
// for dumps they are turned off and that wait is made short: a time-out ends this process at once.
// No dump request of an earlier generation is looked for either.
void SetDefaults() {
  if (getenv("TORCH_NCCL_DUMP_ON_TIMEOUT") == nullptr) {
    setenv("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", /*overwrite=*/0);
    setenv("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "1", /*overwrite=*/0);
  }
  // No warning about two ranks that exchange messages: ddprun-bench-comm does so.
  setenv("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "false", /*overwrite=*/0);
  setenv("TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", "0", /*overwrite=*/0);
}

std::string Where(const GroupOptions& options) {
  return !options.device.plugin ? "the CPU" : "a GPU";
}

// The kernel's name for this boot of this machine: GPUs of two nodes never look the same.
std::string Machine() {
  Result<std::string> id = ReadFile("/proc/sys/kernel/random/boot_id", 64);
  return id ? id->substr(0, id->find('\n')) : "";
}

}  // namespace

void EndWhenNcclGivesUp(void (*end)(const Error&)) {
  end_of_process = end;
}

Result<void> AgreeOnDevices(c10d::Store& store, const WorkerEnv& env, const GroupOptions& options) {
  const std::string mine = Where(options);
  if (env.rank == 0) {
    store.set("device", std::vector<std::uint8_t>(mine.begin(), mine.end()));
  } else {
    const std::vector<std::uint8_t> bytes = store.get("device");
    const std::string first(bytes.begin(), bytes.end());
    if (first != mine) {
      return Error{ErrorKind::kInvalid, "rank " + std::to_string(env.rank) + " computes on " +
                                            mine + ", rank 0 on " + first +
                                            ". Set the same --device on all nodes: cpu or cuda"};
    }
  }
  if (!options.device.plugin || options.backend == BackendChoice::kGloo) {
    return {};
  }
  ASSIGN_OR_RETURN(const DeviceFacts facts, options.device.plugin->Describe(options.device.index));
  const std::int64_t users = store.add("gpu/" + Machine() + facts.identity, 1);
  if (users > 1) {
    return Error{ErrorKind::kInvalid,
                 "rank " + std::to_string(env.rank) + " would share GPU " +
                     std::to_string(options.device.index) + " (" + facts.name + ", " +
                     facts.identity +
                     ") with another rank, which NCCL refuses; give each its own "
                     "(--virtual-local-rank or CUDA_VISIBLE_DEVICES), or use --backend=gloo"};
  }
  return {};
}

Result<void> AddNccl(TorchGroup& torch, const c10::intrusive_ptr<c10d::Store>& store,
                     const WorkerEnv& env, const GroupOptions& options) {
  SetDefaults();
  std::set_terminate(OnTerminate);  // Only where there is such a thread.
  ASSIGN_OR_RETURN(c10d::Backend* const backend,
                   options.device.plugin->MakeNccl(store.get(), static_cast<int>(env.rank),
                                                   static_cast<int>(env.world_size),
                                                   options.device.index, options.timeout));
  torch.nccl = c10::intrusive_ptr<c10d::Backend>::reclaim(backend);
  torch.group->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL, torch.nccl);
  torch.device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(options.device.index));
  torch.backend = "nccl";
  torch.note = "gradients travel through NCCL " + options.device.plugin->NcclVersion() +
               (torch.note.empty() ? "" : "; apart from that " + torch.note);
  return {};
}

Result<std::unique_ptr<TorchGroup>> NcclAlone(const WorkerEnv& env, const GroupOptions& options) {
  auto torch = std::make_unique<TorchGroup>();
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  torch->group = c10::make_intrusive<WatchedGroup>(store, 0, 1);
  torch->group->setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
  RETURN_IF_ERROR(AddNccl(*torch, store, env, options));
  return torch;
}

TorchGroup::~TorchGroup() {
  if (nccl) {
    nccl->abort();  // All ranks have finished; shutdown() would wait for them once more.
  }
}

}  // namespace ddprun
