#include "launcher/verbs/stack_groups.h"

#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <optional>

#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostFrames = 60;
constexpr std::size_t kInHeadline = 3;
constexpr std::size_t kMostOfName = 200;

struct Frame {
  std::string name;
  std::string place;  // "name (file:line)", as far as the tool knows it.
};

// "#3  0x00007f in c10d::wait (this=...) at x.cc:3" and "#0  main () at y.cc:9".
std::optional<Frame> FrameOfGdb(std::string_view line) {
  static const RE2 form(R"(#\d+ +(?:0x\w+ in )?(.+?)(?: \(.*\) at (.*)| \(.*)?)", RE2::Latin1);
  std::string name;
  std::string place;
  if (!RE2::FullMatch(line, form, &name, &place)) {
    return std::nullopt;
  }
  name.resize(std::min(name.size(), kMostOfName));
  place.resize(std::min(place.size(), kMostOfName));
  return Frame{name, place.empty() ? name : name + " (" + place + ")"};
}

// "    forward (model.py:12)"
std::optional<Frame> FrameOfPySpy(std::string_view line) {
  if (!line.starts_with("    ") || !line.ends_with(')')) {
    return std::nullopt;
  }
  line.remove_prefix(line.find_first_not_of(' '));
  const std::size_t end = line.rfind(" (");
  if (end == std::string_view::npos || end == 0) {
    return std::nullopt;
  }
  Frame frame{std::string(line.substr(0, std::min(end, kMostOfName))),
              std::string(line.substr(0, 2 * kMostOfName))};
  if (frame.name == "<module>") {  // All modules have it: its file tells which one is imported.
    const std::string_view file = line.substr(end + 2, line.rfind(':') - (end + 2));
    frame.name += " of " + std::string(file.substr(file.rfind('/') + 1, kMostOfName));
  }
  return frame;
}

// Python's own steps of an import. There are five or more for each module.
bool IsOfImports(const Frame& frame) {
  return frame.place.find(" (<frozen importlib.") != frame.place.npos;
}

// "thread 12 (python): state S (sleeping), waits in futex_wait, system call 202 0x7f 0x0 ..."
std::vector<Frame> KernelsWords(std::string_view line) {
  const std::size_t state = line.find(": state ");
  if (state == std::string_view::npos) {
    return {};
  }
  line.remove_prefix(state + 2);
  const std::size_t call = line.find(", system call ");
  std::string words(line.substr(0, call));
  if (call != std::string_view::npos) {
    const std::string_view number = line.substr(call + 14);
    words += ", system call " + std::string(number.substr(0, number.find(' ')));
  }
  words.resize(std::min(words.size(), kMostOfName));
  return {{words, words}};
}

// The frames of one thread from line `at` on.
template <class FrameOf>
std::vector<Frame> FramesFrom(const std::vector<std::string>& lines, std::size_t at,
                              FrameOf frame_of) {
  std::vector<Frame> frames;
  for (; at < lines.size() && frames.size() < kMostFrames; ++at) {
    const auto frame = frame_of(lines[at]);
    if (frame && IsOfImports(*frame)) {
      continue;
    }
    if (frame) {
      frames.push_back(*frame);
    } else if (lines[at].empty() || lines[at].starts_with("Thread ") ||
               lines[at].starts_with("--")) {
      break;
    }
  }
  return frames;
}

std::vector<Frame> FramesOf(std::string_view text) {
  std::vector<std::string> lines = Split(text, '\n');
  // Of its own process alone: helpers come after it.
  std::size_t processes = 0;
  const auto helpers = std::ranges::find_if(lines, [&](std::string_view line) {
    return line.starts_with("-- process ") && ++processes > 1;
  });
  lines.erase(helpers, lines.end());
  std::vector<Frame> frames;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("Thread ") && lines[i].ends_with("\"MainThread\"")) {
      frames = FramesFrom(lines, i + 1, FrameOfPySpy);
    } else if (frames.empty() && lines[i].starts_with("Thread 1 (")) {
      frames = FramesFrom(lines, i + 1, FrameOfGdb);
    }
  }
  for (std::size_t i = 0; i < lines.size() && frames.empty(); ++i) {
    frames = lines[i].starts_with("thread ") ? KernelsWords(lines[i]) : frames;
  }
  const char* const none = "(unknown)";
  return frames.empty() ? std::vector<Frame>{{none, none}} : frames;
}

std::vector<std::string> Each(const std::vector<Frame>& frames, std::string Frame::*of) {
  std::vector<std::string> texts;
  for (const Frame& frame : frames) {
    texts.push_back(frame.*of);
  }
  return texts;
}

}  // namespace

std::vector<StackGroup> GroupStacks(const std::vector<StackText>& stacks) {
  std::map<std::vector<std::string>, StackGroup> by_frames;
  const bool one_node = std::ranges::all_of(
      stacks, [&](const StackText& stack) { return stack.node == stacks.front().node; });
  for (const StackText& stack : stacks) {
    const std::vector<Frame> found = FramesOf(stack.text);
    std::vector<std::string> frames = Each(found, &Frame::name);
    StackGroup& group = by_frames[frames];
    if (group.ranks.empty()) {
      group.places = Each(found, &Frame::place);
    }
    const bool same = group.ranks.empty() || group.node == stack.node;
    group.node = same && !one_node ? stack.node : "";
    group.ranks.push_back(stack.rank);
    group.frames = std::move(frames);
  }
  std::vector<StackGroup> groups;
  for (auto& [frames, group] : by_frames) {
    std::ranges::sort(group.ranks);
    // The C library's own steps of a wait are the same everywhere.
    auto frame = std::ranges::find_if_not(
        frames, [](const std::string& name) { return name.starts_with("__"); });
    frame = frame == frames.end() ? frames.begin() : frame;
    for (std::size_t i = 0; i < kInHeadline && frame != frames.end(); ++i, ++frame) {
      group.headline += (i == 0 ? "" : " < ") + *frame;
    }
    groups.push_back(std::move(group));
  }
  std::ranges::sort(groups, [](const StackGroup& a, const StackGroup& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : a.ranks < b.ranks;
  });
  return groups;
}

}  // namespace ddprun
