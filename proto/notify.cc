#include "proto/notify.h"

#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/text.h"
#include "proto/memory_block.h"

namespace ddprun {
namespace {

// A value that is not a finite number is left out.
std::optional<double> Real(std::string_view text) {
  const auto value = ParseNumber<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// Of those that a process can act upon.
bool IsSaveSignal(std::uint64_t number) {
  constexpr std::uint64_t kLast = 64;  // Linux has no higher one.
  return number >= 1 && number <= kLast && number != SIGKILL && number != SIGSTOP;
}

struct NumberField {
  std::string_view name;
  std::optional<std::uint64_t> Notification::*field;
  std::uint64_t least = 0;
};

constexpr NumberField kNumbers[] = {{"STEP", &Notification::step},
                                    {"STEPS", &Notification::steps, 1},
                                    {"RESUME", &Notification::resume},
                                    {"CHECKPOINT", &Notification::checkpoint},
                                    {"COLLECTIVES", &Notification::collectives}};

constexpr std::pair<std::string_view, std::optional<std::chrono::microseconds> WorkerWord::*>
    kTimes[] = {{"EXTEND_TIMEOUT_USEC", &WorkerWord::extend},
                {"WORK_USEC", &WorkerWord::work},
                {"STILL_USEC", &WorkerWord::still},
                {"IDLE_USEC", &WorkerWord::idle}};

void ReadNumbers(std::string_view name, std::string_view value, Notification& told) {
  const auto number = ParseNumber<std::uint64_t>(value);
  for (const NumberField& known : kNumbers) {
    if (known.name == name && number && *number >= known.least) {
      told.*known.field = number;
    }
  }
  for (const auto& [known, field] : kTimes) {
    if (known == name && number) {
      told.*field = BoundedMicroseconds(*number);
    }
  }
  if (name == "WORLD_COLLECTIVES") {
    told.world_collectives = number.value_or(0);
  } else if (name == "SAVE_SIGNAL" && number && IsSaveSignal(*number)) {
    told.save_signal = static_cast<int>(*number);
  } else if (const auto real = Real(value); name == "LOSS" && real) {
    told.loss = real;
  } else if (name == "SAMPLES_PER_S" && real && *real >= 0) {
    told.samples_per_s = real;
  }
}

}  // namespace

bool IsBlockName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxBlockName &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c >= 0x20 && c < 0x7f && c != ':'; });
}

std::string AskSocketBeside(const std::string& notify_socket, int pid) {
  return notify_socket.empty() ? "" : notify_socket + "." + std::to_string(pid);
}

std::chrono::microseconds BoundedMicroseconds(std::uint64_t microseconds) {
  constexpr std::uint64_t kLongest = std::uint64_t{1} << 40;
  return std::chrono::microseconds(std::min(microseconds, kLongest));
}

Notification ParseNotification(std::string_view datagram) {
  Notification notification;
  datagram = datagram.substr(0, kMaxNotifyBytes);
  while (!datagram.empty()) {
    const std::size_t end = std::min(datagram.find('\n'), datagram.size());
    const std::string_view line = datagram.substr(0, end);
    datagram.remove_prefix(std::min(end + 1, datagram.size()));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      continue;
    }
    const std::string_view name = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    ReadNumbers(name, value, notification);
    if (name == "READY") {
      notification.ready = value == "1";
    } else if (name == "IN_COLLECTIVE") {
      notification.in_collective = value == "1";
    } else if (name == "FDSTORE") {
      notification.store = value == "1";
    } else if (name == "FDSTOREREMOVE") {
      notification.remove = value == "1";
    } else if (name == "FDNAME") {
      notification.block = IsBlockName(value) ? std::string(value) : "";
    } else if (name == "PHASE") {
      const bool printable =
          std::all_of(value.begin(), value.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
      if (printable && !value.empty() && value.size() <= 64) {
        notification.phase = std::string(value);
      }
    }
  }
  return notification;
}

Notifier::Notifier(const std::string& socket_path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (AtUnixPath(::connect, fd.get(), socket_path)) {
    fd_ = std::move(fd);
  }
}

void Notifier::Send(std::string_view lines) const {
  if (fd_) {
    // A full or vanished agent must not disturb the worker: the datagram is lost.
    (void)!::send(fd_.get(), lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

bool Notifier::SendWith(std::string_view lines, int descriptor) const {
  return fd_ && SendWithDescriptors(fd_.get(), lines, {&descriptor, 1}, MSG_DONTWAIT);
}

}  // namespace ddprun
