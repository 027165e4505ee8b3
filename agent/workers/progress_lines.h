// How far a program is, read from what it prints: an unmodified one has no other word.
//
// Pure and bounded: of a line, which ends at \n or \r, the first kMaxLine bytes are looked at,
// without escape sequences (colours, cursor moves); each in linear time, whatever the expression.
//
// Every movement of every form counts, so the count only grows. Bars are distinguished by name and
// total, at most kMostTracks of them; one that begins anew continues counting. Bars that are not
// training (Loading, Map, Validation, Sanity Checking) count too: they are life, and a node that
// evaluates does not hang. No bar's number is a step of the run: bars begin anew after a restart,
// and in each epoch. A step is the run's where the user's own expression takes it, or the line says
// "step N" and neither a total, an epoch nor an evaluation; once such a number has fallen it was
// none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"

namespace re2 {
class RE2;
}

namespace ddprun {

// The forms that are looked for. Immutable once made.
class ProgressForms {
 public:
  static constexpr std::size_t kMaxExpression = 512;

  // "auto", or an RE2 expression whose first group is the step. The error is for people.
  static Result<std::shared_ptr<const ProgressForms>> Make(const std::string& text);
  ~ProgressForms();

  struct Found {
    std::string track;  // Names the series in which this number is compared.
    std::uint64_t number = 0;
    bool absolute = false;
  };
  std::optional<Found> Find(std::string_view line) const;
  // The same in a line that may continue: a bar alone, which says when it is whole.
  std::optional<Found> FindInOpenLine(std::string_view line) const;

 private:
  ProgressForms() = default;
  std::optional<Found> FindBar(std::string_view line) const;
  std::optional<Found> FindStep(std::string_view line) const;

  std::unique_ptr<re2::RE2> own_;  // The user's; then none of the others.
  std::unique_ptr<re2::RE2> bar_;
  std::unique_ptr<re2::RE2> endless_bar_;
  std::unique_ptr<re2::RE2> step_;
  std::unique_ptr<re2::RE2> part_;  // Marks a step as one of an epoch or of an evaluation.
};

// Of one worker, in one generation.
class ProgressCount {
 public:
  static constexpr std::size_t kMostTracks = 16;

  void Take(const ProgressForms::Found& found);

  std::uint64_t counted() const { return counted_; }
  // The run's own step.
  std::optional<std::uint64_t> absolute() const { return fell_ ? std::nullopt : absolute_; }

 private:
  struct Track {
    std::string name;
    std::uint64_t number = 0;
  };
  std::deque<Track> tracks_;  // Seen last at the end.
  std::uint64_t counted_ = 0;
  std::optional<std::uint64_t> absolute_;
  bool fell_ = false;
};

// Of one stream.
class ProgressLines {
 public:
  static constexpr std::size_t kMaxLine = 1024;

  explicit ProgressLines(std::shared_ptr<const ProgressForms> forms) : forms_(std::move(forms)) {}

  void Feed(std::string_view bytes, ProgressCount& count);

 private:
  std::string Text() const;

  std::shared_ptr<const ProgressForms> forms_;
  std::string line_;  // As it came.
};

}  // namespace ddprun
