#include "launcher/evidence/event_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include "common/files.h"
#include "common/json.h"
#include "common/text.h"
#include "launcher/status_json.h"
#include "rendezvous/messages/history.h"

namespace ddprun {
namespace {

// Looked at for what another server wrote: as much as nodes may have kept, in longer words.
constexpr std::size_t kEventTail = 3 * History::kMostBytes;
constexpr unsigned kEventMode = 0644;

using EventPlace = std::pair<RunId, EventMark>;

// Of a line of ours; {}: it is none.
EventPlace PlaceOf(std::string_view line) {
  const nlohmann::json json = ParseJson(line);
  const auto number = [&json](const char* name) {
    const auto found = json.is_object() ? json.find(name) : json.end();
    return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  };
  return {TextIn(json, "run_id"), {{number("term")}, number("number")}};
}

}  // namespace

struct EventFile::Shared {
  explicit Shared(const std::filesystem::path& directory)
      : path(directory / "events.jsonl"), before(directory / "events.1.jsonl") {}

  const std::filesystem::path path;
  const std::filesystem::path before;

  std::optional<std::set<EventPlace>> there;
  bool torn = false;  // The file does not end with a whole line.

  // Reads the file's end once, and that of the file before if this one is short.
  Result<void> Look(int fd, std::uint64_t size) {
    there.emplace();
    if (size < kEventTail) {
      const Result<UniqueFd> old = OpenOrdinary(before, O_RDONLY, 0);
      struct stat found {};
      if (old && ::fstat(old->get(), &found) == 0) {
        RETURN_IF_ERROR(Note(old->get(), static_cast<std::uint64_t>(found.st_size)));
      }
    }
    return Note(fd, size);
  }

  Result<void> Note(int fd, std::uint64_t size) {
    std::string tail(std::min<std::uint64_t>(size, kEventTail), '\0');
    const ssize_t got =
        ::pread(fd, tail.data(), tail.size(), static_cast<off_t>(size - tail.size()));
    if (got < 0) {
      return SystemError("read the events", path.native(), errno);
    }
    tail.resize(static_cast<std::size_t>(got));
    torn = !tail.empty() && tail.back() != '\n';
    for (const std::string& line : Split(tail, '\n')) {
      if (line.starts_with('{')) {
        there->insert(PlaceOf(line));
      }
    }
    return {};
  }

  Result<void> Write(const EventPlace& place, const std::string& line) {
    for (bool again = false;; again = true) {
      ASSIGN_OR_RETURN(const UniqueFd fd,
                       OpenOrdinary(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kEventMode));
      struct stat found {};
      if (::fstat(fd.get(), &found) != 0) {
        return SystemError("read the size of the events", path.native(), errno);
      }
      const auto size = static_cast<std::uint64_t>(found.st_size);
      if (!there) {
        RETURN_IF_ERROR(Look(fd.get(), size));
      }
      if (size >= kMostBytes && !again) {
        if (::rename(path.c_str(), before.c_str()) != 0) {
          return SystemError("rename the full events file to", before.native(), errno);
        }
        torn = false;
        continue;
      }
      if (there->contains(place)) {
        return {};
      }
      const std::string text = (torn ? "\n" : "") + line;
      torn = true;
      RETURN_IF_ERROR(WriteAll(fd.get(), text, path));
      torn = false;
      return {};
    }
  }
};

EventFile::EventFile(Loop& loop, std::filesystem::path directory)
    : shared_(std::make_shared<Shared>(directory)),
      writer_(loop,
              {.place = shared_->path.native(),
               .consequence = "events of this run are not in that file until it can be written",
               .room = kMostWaiting}) {}

EventFile::~EventFile() = default;

std::string EventLineOf(const RunId& run_id, const RunEvent& event) {
  OrderedJson json;
  json["run_id"] = run_id;
  json.update(EventInJson(event));
  return JsonText(json) + "\n";
}

void EventFile::Keep(const RunId& run_id, const RunEvent& event) {
  writer_.Write([shared = shared_, place = EventPlace{run_id, event.mark()},
                 line = EventLineOf(run_id, event)] { return shared->Write(place, line); });
}

}  // namespace ddprun
