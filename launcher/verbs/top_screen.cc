#include "launcher/verbs/top_screen.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/log.h"
#include "launcher/headline.h"
#include "launcher/verbs/status.h"

namespace ddprun {
namespace {

constexpr const char* kTopHelp =
    "q          quit\n"
    "j k        down, up; likewise arrows, page down, page up\n"
    "r          a row for each rank; for each node\n"
    "o          the order: odd ones first, by name, by step, by phase\n"
    "s          where the workers of the row stand (ddprun stacks)\n"
    "esc        back to the table\n"
    "?          this\n";

constexpr std::pair<std::string_view, TopKey> kKeys[] = {
    {"\x1b[A", TopKey::kUp},        {"\x1bOA", TopKey::kUp},   {"k", TopKey::kUp},
    {"\x1b[B", TopKey::kDown},      {"\x1bOB", TopKey::kDown}, {"j", TopKey::kDown},
    {"\x1b[5~", TopKey::kPageUp},   {"o", TopKey::kOrder},     {"r", TopKey::kRows},
    {"\x1b[6~", TopKey::kPageDown}, {"s", TopKey::kStacks},    {"?", TopKey::kHelp},
    {"h", TopKey::kHelp},           {"q", TopKey::kQuit},      {"\x1b", TopKey::kBack},
};

constexpr std::size_t kLongestKey = 32;  // Beyond it is what nobody's terminal sends.

// Of the first key: "\x1b[200~" and its like are one. 0: its rest has not come.
std::size_t SizeOfKey(std::string_view bytes) {
  if (bytes.front() != '\x1b') {
    return 1;
  }
  if (bytes.size() < 2) {
    return 0;
  }
  if (bytes[1] != '[' && bytes[1] != 'O') {
    return 1;
  }
  std::size_t end = 2;
  while (end < bytes.size() && bytes[end] >= 0x20 && bytes[end] < 0x40) {
    ++end;
  }
  if (end == bytes.size()) {
    return end < kLongestKey ? 0 : end;
  }
  return bytes[end] >= 0x40 && bytes[end] < 0x7f ? end + 1 : end;
}

// What is odd about a row, the oddest first; then what it is ordered by.
struct PlacedRow {
  TopRow row;
  const NodeStatus* node;
  const RankCloseup* rank;  // nullptr: the row is the node's.
  std::uint64_t number = 0;
  int oddity = 0;

  std::uint64_t step() const { return rank != nullptr ? rank->step : node->step; }
  std::string phase() const {
    return rank != nullptr ? PhaseOf(node->closeup, *rank) : node->phase;
  }
};

std::vector<PlacedRow> NodeRows(const RunStatus& run) {
  std::vector<PlacedRow> rows;
  for (const NodeStatus& node : run.nodes) {
    PlacedRow& placed = rows.emplace_back(PlacedRow{{node.node, {}}, &node, nullptr, rows.size()});
    placed.oddity = OddityOf(node);
    for (std::uint32_t i = 0; node.in_world && i < node.workers; ++i) {
      placed.row.ranks.push_back(node.first_rank + i);
    }
  }
  return rows;
}

std::vector<PlacedRow> RankRows(const RunStatus& run) {
  std::vector<PlacedRow> rows;
  for (const NodeStatus& node : run.nodes) {
    std::uint32_t number = node.first_rank;
    for (const RankCloseup& rank : node.closeup.ranks) {
      if (node.in_world) {
        PlacedRow& placed = rows.emplace_back(
            PlacedRow{{"rank " + std::to_string(number), {number}}, &node, &rank, number});
        placed.oddity = rank.state == RankState::kLate      ? 0
                        : rank.state == RankState::kRunning ? 2
                                                            : 1;
      }
      ++number;
    }
  }
  return rows;
}

void Sort(std::vector<PlacedRow>& rows, TopOrder order) {
  std::ranges::stable_sort(rows, [order](const PlacedRow& a, const PlacedRow& b) {
    switch (order) {
      case TopOrder::kOddFirst:
        return std::tuple(a.oddity, a.step()) < std::tuple(b.oddity, b.step());
      case TopOrder::kName:
        return a.rank != nullptr ? a.number < b.number : a.row.name < b.row.name;
      case TopOrder::kStep:
        return a.step() < b.step();
      case TopOrder::kPhase:
        return a.phase() < b.phase();
    }
    return false;
  });
}

const char* StateWord(const RankCloseup& rank) {
  return rank.state == RankState::kNoWord ? "no word" : WordOf(rank.state);
}

std::string IfTold(std::chrono::microseconds took) {
  return took.count() == 0 ? "-" : FormatDuration(took);
}

std::vector<std::string> CellsOf(const PlacedRow& placed, bool chosen) {
  const NodeStatus& node = *placed.node;
  const std::string mark = chosen ? ">" : " ";
  if (placed.rank != nullptr) {
    return {mark,
            std::to_string(placed.number),
            node.node,
            StateWord(*placed.rank),
            placed.step() == 0 ? "-" : std::to_string(placed.step()),
            placed.phase(),
            FormatDuration(placed.rank->since),
            IfTold(placed.rank->step_time),
            IfTold(placed.rank->work)};
  }
  std::vector<std::string> cells = NodeCells(node);
  cells.insert(cells.begin(), mark);
  return cells;
}

std::string Table(const std::vector<PlacedRow>& rows, std::size_t chosen, std::size_t shown,
                  bool by_rank) {
  std::vector<std::vector<std::string>> cells = {
      by_rank ? std::vector<std::string>{"RANK", "NODE", "STATE", "STEP", "PHASE", "SINCE",
                                         "A STEP", "BY ITSELF"}
              : NodeColumns()};
  cells.front().insert(cells.front().begin(), " ");
  const std::size_t from =
      std::min(chosen - std::min(chosen, shown / 2), rows.size() - std::min(rows.size(), shown));
  for (std::size_t i = from; i < std::min(from + shown, rows.size()); ++i) {
    cells.push_back(CellsOf(rows[i], i == chosen));
  }
  return AlignedRows(cells);
}

std::string Lines(const std::string& text, std::size_t from, std::size_t count) {
  std::string lines;
  std::size_t begin = 0;
  for (std::size_t line = 0; begin < text.size() && line < from + count; ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines += line < from ? "" : text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::vector<TopKey> KeyReader::Read(std::string_view bytes) {
  begun_ += bytes;
  std::vector<TopKey> keys;
  std::string_view left = begun_;
  for (std::size_t size = 0; !left.empty() && (size = SizeOfKey(left)) > 0;) {
    const std::string_view sent = left.substr(0, size);
    const auto* const key =
        std::ranges::find(kKeys, sent, [](const auto& one) { return one.first; });
    if (key != std::end(kKeys)) {
      keys.push_back(key->second);
    }
    left.remove_prefix(size);
  }
  begun_ = std::string(left);
  return keys;
}

std::vector<TopKey> KeyReader::ReadLate() {
  const bool alone = std::exchange(begun_, "") == "\x1b";
  return alone ? std::vector{TopKey::kBack} : std::vector<TopKey>();
}

const TopRow* TopState::Chosen() const {
  const auto row = std::ranges::find(table, chosen, &TopRow::name);
  return row == table.end() ? nullptr : &*row;
}

void Press(TopState& state, TopKey key) {
  const auto move = [&](std::ptrdiff_t by) {
    if (!state.panel.empty()) {
      const std::ptrdiff_t to = static_cast<std::ptrdiff_t>(state.scrolled) + by;
      const auto lines = std::ranges::count(state.panel, '\n');
      state.scrolled = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(to, 0, lines - 1));
    } else if (const TopRow* const row = state.Chosen(); row != nullptr) {
      const auto last = static_cast<std::ptrdiff_t>(state.table.size()) - 1;
      const std::ptrdiff_t to = std::clamp<std::ptrdiff_t>(row - state.table.data() + by, 0, last);
      state.chosen = state.table[static_cast<std::size_t>(to)].name;
    }
  };
  const auto page = static_cast<std::ptrdiff_t>(state.page);
  switch (key) {
    case TopKey::kUp:
      return move(-1);
    case TopKey::kDown:
      return move(1);
    case TopKey::kPageUp:
      return move(-page);
    case TopKey::kPageDown:
      return move(page);
    case TopKey::kOrder:
      state.order = state.order == TopOrder::kPhase
                        ? TopOrder::kOddFirst
                        : static_cast<TopOrder>(static_cast<int>(state.order) + 1);
      return;
    case TopKey::kRows:
      state.by_rank = !state.by_rank;
      state.chosen.clear();
      return;
    case TopKey::kHelp:
      state.help = !state.help;
      state.panel = state.help ? kTopHelp : "";
      state.scrolled = 0;
      return;
    case TopKey::kBack:
      state.help = false;
      state.panel.clear();
      return;
    case TopKey::kStacks:
    case TopKey::kQuit:
      return;
  }
}

std::string FormatTop(const RunStatus& run, std::int64_t now_unix, ScreenSize size,
                      TopState& state) {
  constexpr const char* kOrders[] = {"odd first", "by name", "by step", "by phase"};
  constexpr std::size_t kHeadAndFoot = 2;
  std::vector<PlacedRow> rows = state.by_rank ? RankRows(run) : NodeRows(run);
  Sort(rows, state.order);
  state.table.clear();
  for (const PlacedRow& placed : rows) {
    state.table.push_back(placed.row);
  }
  if (state.Chosen() == nullptr) {
    state.chosen = state.table.empty() ? "" : state.table.front().name;
  }
  const std::string head = BeginningOf(run, now_unix);
  const auto used = static_cast<std::size_t>(std::ranges::count(head, '\n')) + kHeadAndFoot +
                    (run.more_nodes > 0 ? 1 : 0);
  const std::size_t events = std::min(run.events.size(), size.rows / 4);
  state.page = size.rows > used + events ? size.rows - used - events : 1;
  std::string text = head;
  if (state.panel.empty()) {
    const TopRow* const chosen = state.Chosen();
    const auto at = chosen == nullptr ? 0 : static_cast<std::size_t>(chosen - state.table.data());
    text += Table(rows, at, state.page, state.by_rank);
    text += run.more_nodes == 0 ? "" : "and " + std::to_string(run.more_nodes) + " more nodes\n";
    for (std::size_t i = run.events.size() - events; i < run.events.size(); ++i) {
      text += EventLine(run.events[i]);
    }
  } else {
    text += Lines(state.panel, state.scrolled, state.page + events);
  }
  return Printable(text) + "q quit  j/k move  o " + kOrders[static_cast<int>(state.order)] +
         "  r " + (state.by_rank ? "nodes" : "ranks") + "  s stacks  ? help\n";
}

}  // namespace ddprun
