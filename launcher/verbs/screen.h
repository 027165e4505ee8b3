// A terminal's screen that a verb draws on, and gives back as it was.
//
// Where standard output is a terminal that can do it, its other screen; else what is drawn is
// printed one after the other. Keys are read from standard input as they are pressed, where that is
// its terminal and this process is in front. All given back at every end: the object's, exit, and
// the signals that end or stop a process (not SIGKILL's). One at a time.
#pragma once

#include <cstddef>
#include <string>

namespace ddprun {

struct ScreenSize {
  std::size_t rows = 24;
  std::size_t columns = 80;
};

class Screen {
 public:
  // `term`: of the environment; "dumb", or empty: it cannot. `keys`: they are wanted.
  Screen(const std::string& term, bool keys);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool redraws() const { return redraws_; }
  bool has_keys() const;    // Now.
  ScreenSize Size() const;  // As it is now.

  // Before other words: as if nothing had been drawn.
  void Give();

  // False: standard output is closed.
  bool Draw(const std::string& text);

 private:
  bool redraws_ = false;
  bool keys_ = false;
};

// As many lines as there are rows, none wider than there are columns; what is cut is told by "..."
// at a line's end.
std::string Fitted(const std::string& text, ScreenSize size);

}  // namespace ddprun
