// A terminal's screen that a verb draws on, and gives back as it was.
//
// Where standard output is a terminal that can do it, its other screen; else what is drawn is
// printed one after the other. Given back at every end: the object's, exit, and the signals that
// end or stop a process (not SIGKILL's). One at a time.
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
  // `term`: of the environment; "dumb", or empty: it cannot.
  explicit Screen(const std::string& term);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool redraws() const { return redraws_; }
  ScreenSize Size() const;  // As it is now.

  // Before other words: as if nothing had been drawn.
  void Give();

  // False: standard output is closed.
  bool Draw(const std::string& text);

 private:
  bool redraws_ = false;
};

// As many lines as there are rows, none wider than there are columns; what is cut is told by "..."
// at a line's end.
std::string Fitted(const std::string& text, ScreenSize size);

}  // namespace ddprun
