#include "proto/notify.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "common/files.h"
#include "proto/memory_block.h"

namespace ddprun {
namespace {

std::optional<std::uint64_t> ParsedNumber(std::string_view text) {
  std::uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), last, value);
  const bool whole = error == std::errc{} && parsed == last && !text.empty();
  return whole ? std::optional(value) : std::nullopt;
}

// What is no finite number is not there.
std::optional<double> Real(std::string_view text) {
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), last, value);
  const bool whole = error == std::errc{} && parsed == last && !text.empty();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// Of those that a process can act upon.
bool IsSaveSignal(std::uint64_t number) {
  constexpr std::uint64_t kLast = 64;  // Linux has no higher one.
  return number >= 1 && number <= kLast && number != SIGKILL && number != SIGSTOP;
}

void ReadHowWellItGoes(std::string_view name, std::string_view value, Notification& told) {
  if (name == "LOSS") {
    const auto loss = Real(value);
    told.loss = loss ? loss : told.loss;
  } else if (name == "SAMPLES_PER_S") {
    const auto rate = Real(value);
    told.samples_per_s = rate && *rate >= 0 ? rate : told.samples_per_s;
  } else if (name == "WORK_USEC") {
    const auto work = ParsedNumber(value);
    told.work_microseconds = work ? work : told.work_microseconds;
  } else if (name == "STEP_PAGE") {
    const auto entries = ParsedNumber(value);
    told.step_page = entries ? entries : told.step_page;
  } else if (name == "COLLECTIVES") {
    const auto count = ParsedNumber(value);
    told.collectives = count ? count : told.collectives;
  } else if (name == "WORLD_COLLECTIVES") {
    told.world_collectives = ParsedNumber(value).value_or(0);
  } else if (name == "STILL_USEC") {
    const auto still = ParsedNumber(value);
    told.still_microseconds = still ? still : told.still_microseconds;
  } else if (name == "IDLE_USEC") {
    const auto idle = ParsedNumber(value);
    told.idle_microseconds = idle ? idle : told.idle_microseconds;
  } else if (name == "IN_COLLECTIVE") {
    told.in_collective = value == "1";
  } else if (name == "CHECKPOINT") {
    const auto checkpoint = ParsedNumber(value);
    told.checkpoint = checkpoint ? checkpoint : told.checkpoint;
  } else if (name == "STEPS") {
    const auto steps = ParsedNumber(value);
    told.steps = steps && *steps > 0 ? steps : told.steps;
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
    ReadHowWellItGoes(name, value, notification);
    if (name == "READY") {
      notification.ready = value == "1";
    } else if (name == "STEP") {
      if (const auto step = ParsedNumber(value)) {
        notification.step = step;
      }
    } else if (name == "RESUME") {
      if (const auto resume = ParsedNumber(value)) {
        notification.resume = resume;
      }
    } else if (name == "EXTEND_TIMEOUT_USEC") {
      if (const auto extend = ParsedNumber(value)) {
        notification.extend_microseconds = extend;
      }
    } else if (name == "SAVE_SIGNAL") {
      if (const auto signal = ParsedNumber(value); signal && IsSaveSignal(*signal)) {
        notification.save_signal = static_cast<int>(*signal);
      }
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
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.empty() || socket_path.size() >= sizeof address.sun_path) {
    return;
  }
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ >= 0 &&
      ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

Notifier::~Notifier() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

void Notifier::Send(std::string_view lines) const {
  if (fd_ >= 0) {
    // A full or vanished agent must not disturb the worker: the datagram is lost.
    (void)!::send(fd_, lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

bool Notifier::SendWith(std::string_view lines, int descriptor) const {
  return fd_ >= 0 && SendWithDescriptors(fd_, lines, {&descriptor, 1}, MSG_DONTWAIT);
}

}  // namespace ddprun
