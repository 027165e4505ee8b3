// What `ddprun top` shows on a terminal with keys: the run, a table of its nodes or of its ranks
// with a cursor, or what was asked for instead of it.
//
// Pure. The cursor stays on its row, by name, whatever the order becomes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/time.h"
#include "launcher/verbs/screen.h"
#include "rendezvous/core/status.h"

namespace ddprun {

enum class TopKey { kUp, kDown, kPageUp, kPageDown, kOrder, kRows, kStacks, kHelp, kBack, kQuit };

// Keys as a terminal sends them, in whatever pieces that comes: an arrow begins as ESC does, and a
// slow line brings the rest of it later. What is no key of ours is passed over.
class KeyReader {
 public:
  static constexpr Duration kRestOfKey{50};

  std::vector<TopKey> Read(std::string_view bytes);
  // The rest of a key may come.
  bool waits() const { return !begun_.empty(); }
  // None came for kRestOfKey: ESC was a key of its own.
  std::vector<TopKey> ReadLate();

 private:
  std::string begun_;
};

enum class TopOrder { kOddFirst, kName, kStep, kPhase };

struct TopRow {
  std::string name;                  // Of a node, or "rank 12".
  std::vector<std::uint32_t> ranks;  // What `s` looks at; none: it has no workers.
};

struct TopState {
  bool by_rank = false;  // Rows are ranks, else nodes.
  TopOrder order = TopOrder::kOddFirst;
  std::string chosen;  // Its row's name; empty: the first.
  bool help = false;
  std::string panel;          // Instead of the table; empty: the table.
  std::size_t scrolled = 0;   // Lines of the panel.
  std::size_t page = 1;       // Rows that were shown at once,
  std::vector<TopRow> table;  // of all these, in their order.

  const TopRow* Chosen() const;
};

// All keys but kQuit and kStacks, which are their owner's.
void Press(TopState& state, TopKey key);

// As many lines as there are rows at most.
std::string FormatTop(const RunStatus& run, std::int64_t now_unix, ScreenSize size,
                      TopState& state);

}  // namespace ddprun
