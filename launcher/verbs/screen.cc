#include "launcher/verbs/screen.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace ddprun {
namespace {

constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l";  // The other screen, without a cursor.
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr std::size_t kSmallest = 10;

volatile sig_atomic_t on_other_screen = 0;
volatile sig_atomic_t keys_taken = 0;
termios before_keys;  // While they are.

void WriteToTerminal(const char* text, std::size_t size) {
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, text, size);
}

// In the background the terminal is somebody else's.
bool InFront() {
  return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

void TakeKeys() {
  termios now;
  if (!InFront() || ::tcgetattr(STDIN_FILENO, &now) != 0 ||
      (keys_taken != 0 && (now.c_lflag & ICANON) == 0)) {
    return;  // A shell that took the terminal meanwhile may have set it as it was.
  }
  before_keys = now;
  termios raw = now;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  keys_taken = 1;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

void LeaveOtherScreen() {
  if (keys_taken != 0) {
    keys_taken = 0;
    if (InFront()) {  // Else its owner has set it by now, and who sets it is stopped.
      ::tcsetattr(STDIN_FILENO, TCSANOW, &before_keys);
    }
  }
  if (on_other_screen != 0) {
    on_other_screen = 0;
    WriteToTerminal(kLeave, sizeof kLeave - 1);
  }
}

// Ends, or stops, as it would have without a handler.
void LeaveAndGo(int signal) {
  LeaveOtherScreen();
  struct sigaction original {};
  original.sa_handler = SIG_DFL;
  ::sigaction(signal, &original, nullptr);
  ::raise(signal);
  sigset_t this_one;
  ::sigemptyset(&this_one);
  ::sigaddset(&this_one, signal);
  ::sigprocmask(SIG_UNBLOCK, &this_one, nullptr);  // Ended or stopped here.
}

void HandleEnd(int signal) {
  struct sigaction action {};
  action.sa_handler = LeaveAndGo;
  ::sigaddset(&action.sa_mask, SIGTTOU);  // In the background its words would stop it first.
  ::sigaction(signal, &action, nullptr);
}

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE, SIGABRT};

}  // namespace

Screen::Screen(const std::string& term, bool keys)
    : redraws_(::isatty(STDOUT_FILENO) == 1 && !term.empty() && term != "dumb"),
      keys_(redraws_ && keys && ::isatty(STDIN_FILENO) == 1) {
  if (redraws_) {
    static const bool at_exit = std::atexit(LeaveOtherScreen) == 0;
    (void)at_exit;
    for (const int signal : kSignals) {
      HandleEnd(signal);
    }
  }
}

Screen::~Screen() {
  LeaveOtherScreen();
  for (const int signal : kSignals) {
    if (redraws_) {
      ::signal(signal, SIG_DFL);
    }
  }
}

void Screen::Give() {
  LeaveOtherScreen();
}

bool Screen::has_keys() const {
  return keys_ && InFront();
}

ScreenSize Screen::Size() const {
  winsize size{};
  if (!redraws_ || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 ||
      size.ws_col == 0) {
    return {};
  }
  return {std::max<std::size_t>(size.ws_row, kSmallest),
          std::max<std::size_t>(size.ws_col, kSmallest)};
}

bool Screen::Draw(const std::string& text) {
  if (!redraws_) {
    return std::fputs((text + "\n").c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  }
  std::string drawn;
  if (on_other_screen == 0) {
    for (const int signal : kSignals) {
      HandleEnd(signal);  // After a stop.
    }
    on_other_screen = 1;
    drawn = kEnter;
  }
  if (keys_) {
    TakeKeys();
  }
  drawn += "\x1b[H";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    drawn += text.substr(begin, end - begin) + "\x1b[K" + (end + 1 < text.size() ? "\r\n" : "");
    begin = end + 1;
  }
  drawn += "\x1b[J";
  const bool written = std::fputs(drawn.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  on_other_screen = 1;  // Whatever came while it was written.
  return written;
}

std::string Fitted(const std::string& text, ScreenSize size) {
  std::string fitted;
  std::size_t rows = 0;
  for (std::size_t begin = 0; begin < text.size() && rows < size.rows; ++rows) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.size() > size.columns) {
      line = line.substr(0, size.columns - 3) + "...";
    }
    fitted += line + "\n";
    begin = end + 1;
  }
  return fitted;
}

}  // namespace ddprun
