#include "trainer/process_group.h"

#include <ATen/ATen.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "common/files.h"
#include "trainer/torch_group.h"

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

// The numeric address of the interface through which the kernel would reach `host`: connecting a
// datagram socket chooses the route and sends nothing. Gloo's own default resolves this machine's
// name, which often gives the loopback address.
Result<std::string> AddressTowards(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int code =
      getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (code != 0) {
    return Error{ErrorKind::kUnavailable,
                 "cannot resolve MASTER_ADDR '" + endpoint.host + "': " + gai_strerror(code)};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  int error_number = EADDRNOTAVAIL;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    const UniqueFd fd(socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t own_size = sizeof own;
    char text[NI_MAXHOST];
    if (fd && connect(fd.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), own_size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      return std::string(text);
    }
    error_number = errno;
  }
  Error error = SystemError("find a route to the store", ToString(endpoint), error_number);
  error.kind = ErrorKind::kUnavailable;
  return error;
}

c10::intrusive_ptr<c10d::Store> ConnectStore(const WorkerEnv& env,
                                             std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = env.master.port;
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(env.master.host, options);
  // A store that outlives a generation must not show the next one what this one wrote.
  return c10::make_intrusive<c10d::PrefixStore>(
      "ddprun-train/" + std::to_string(env.generation.value) + "-" + Hex(env.world_id.value),
      store);
}

std::unique_ptr<TorchGroup> FormGroup(const WorkerEnv& env, const GroupOptions& options,
                                      const std::string& own_address) {
  const auto store = ConnectStore(env, options.timeout);
  const auto rank = static_cast<int>(env.rank);
  const auto size = static_cast<int>(env.world_size);
  auto gloo_options = c10d::ProcessGroupGloo::Options::create(options.timeout);
  gloo_options->threads = 1;
  gloo_options->devices.push_back(
      options.interface.empty()
          ? c10d::ProcessGroupGloo::createDeviceForHostname(own_address)
          : c10d::ProcessGroupGloo::createDeviceForInterface(options.interface));
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, gloo_options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                    c10::intrusive_ptr<c10d::Backend>(gloo));
  return std::make_unique<TorchGroup>(TorchGroup{std::move(group)});
}

void Broadcast(TorchGroup& torch, at::Tensor tensor) {
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  torch.group->broadcast(tensors)->wait();
}

}  // namespace

Error DescribeCurrentException() {
  try {
    throw;
  } catch (const c10::DistError& error) {
    return {ErrorKind::kUnavailable, Essence(error.what_without_backtrace())};
  } catch (const c10::Error& error) {
    return {ErrorKind::kSystem, Essence(error.what_without_backtrace())};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::kSystem, "out of memory"};
  } catch (const std::exception& error) {  // Gloo's exceptions; their types are not ours to name.
    return {ErrorKind::kUnavailable, Essence(error.what())};
  }
}

Error CollectiveError(std::uint32_t rank, const std::string& doing) {
  Error error = DescribeCurrentException();
  const std::string who = error.kind == ErrorKind::kUnavailable
                              ? "a peer of rank " + std::to_string(rank) + " is gone: "
                              : "rank " + std::to_string(rank) + " failed: ";
  error.message = who + "cannot " + doing + ": " + error.message;
  return error;
}

Result<std::unique_ptr<ProcessGroup>> ProcessGroup::Join(const WorkerEnv& env,
                                                         const GroupOptions& options) {
  std::unique_ptr<TorchGroup> torch;
  if (env.world_size > 1) {
    std::string own_address;
    if (!options.interface.empty() && if_nametoindex(options.interface.c_str()) == 0) {
      return SystemError("use the network interface (GLOO_SOCKET_IFNAME)", options.interface,
                         errno);
    }
    if (options.interface.empty()) {
      ASSIGN_OR_RETURN(own_address, AddressTowards(env.master));
    }
    try {
      torch = FormGroup(env, options, own_address);
    } catch (const std::exception&) {
      Error error = DescribeCurrentException();
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
    : rank_(rank), size_(size), torch_(std::move(torch)) {}

ProcessGroup::~ProcessGroup() = default;

Result<std::string> ProcessGroup::BroadcastText(std::string text) {
  if (!torch_) {
    return text;
  }
  try {
    at::Tensor size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
    Broadcast(*torch_, size);
    const std::int64_t bytes = size.item<std::int64_t>();
    if (bytes < 0 || bytes > kMaxTextBytes) {
      return Error{ErrorKind::kInvalid,
                   "rank 0 sent a text of " + std::to_string(bytes) + " bytes, which is absurd"};
    }
    text.resize(static_cast<std::size_t>(bytes));
    if (bytes > 0) {
      Broadcast(*torch_, at::from_blob(text.data(), {bytes}, at::kByte));
    }
    return text;
  } catch (const std::exception&) {
    return CollectiveError(rank_, "take part in a broadcast");
  }
}

Result<void> ProcessGroup::Sum(std::span<double> values) {
  if (!torch_) {
    return {};
  }
  try {
    std::vector<at::Tensor> tensors = {
        at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kDouble)};
    torch_->group->allreduce(tensors)->wait();
    return {};
  } catch (const std::exception&) {
    return CollectiveError(rank_, "take part in an all-reduce");
  }
}

}  // namespace ddprun
