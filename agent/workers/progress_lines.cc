#include "agent/workers/progress_lines.h"

#include <re2/re2.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "agent/workers/terminal_text.h"
#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::int64_t kExpressionMemory = 1 << 20;
constexpr std::size_t kMaxTrack = 64;

// tqdm's, and so Lightning's and transformers': "name:  12%|##   | 12/100 [00:01<00:08, ...]". The
// numbers are no plain ones where it scales them ("1.2k/10.0k"): then its percentage counts.
constexpr const char* kBar =
    R"(^(.*?)(?:(\d{1,3})%)?\|[^|]*\| *(?:(\d{1,18})/(\d{1,18}|\?)|[^ ]+/[^ ]+) \[)";
// The same without a total: "12it [00:01, 10.0it/s]".
constexpr const char* kEndlessBar = R"(^(.*?)\b(\d{1,18})([A-Za-z]{1,16}) \[\d\d:\d\d)";
// torchtitan's "step: 10  loss: ...", "step=10", "Step [10/100]", "iter 10", "'step': 10". No
// measure of time ("step 41ms") and no fraction.
constexpr const char* kStep =
    R"((?i)(?:^|[^\w.-])(?:global[_ ])?(step|iter(?:ation)?)['"]?\s*[ =:#\[]\s*(\d{1,18}))"
    R"((\s*/\s*\d+|[^\w.,%/]|[.,](?:[^\d]|$)|$))";
constexpr const char* kPart = R"((?i)\b(epoch|eval|valid|test|sanity|warm-?up))";

std::unique_ptr<re2::RE2> Compiled(const std::string& expression, bool latin1) {
  re2::RE2::Options options(latin1 ? re2::RE2::Latin1 : re2::RE2::DefaultOptions);
  options.set_log_errors(false);
  options.set_max_mem(kExpressionMemory);
  return std::make_unique<re2::RE2>(expression, options);
}

std::optional<std::uint64_t> NumberIn(const re2::StringPiece& text) {
  return ParseNumber<std::uint64_t>({text.data(), text.size()});
}

re2::StringPiece Piece(std::string_view text) {
  return {text.data(), text.size()};
}

// A percentage is aligned to the right: the space before it is no part of the name.
std::string TrackOf(const char* kind, re2::StringPiece name, const re2::StringPiece& more) {
  while (name.ends_with(" ")) {
    name.remove_suffix(1);
  }
  return kind + std::string(name.data(), std::min(name.size(), kMaxTrack)) + "/" +
         std::string(more.data(), std::min(more.size(), kMaxTrack));
}

}  // namespace

ProgressForms::~ProgressForms() = default;

Result<std::shared_ptr<const ProgressForms>> ProgressForms::Make(const std::string& text) {
  std::shared_ptr<ProgressForms> forms(new ProgressForms);
  if (text == "auto") {
    forms->bar_ = Compiled(kBar, true);
    forms->endless_bar_ = Compiled(kEndlessBar, true);
    forms->step_ = Compiled(kStep, true);
    forms->part_ = Compiled(kPart, true);
    return std::shared_ptr<const ProgressForms>(std::move(forms));
  }
  if (text.size() > kMaxExpression) {
    return Error{ErrorKind::kInvalid,
                 "the expression must have at most " + std::to_string(kMaxExpression) + " bytes"};
  }
  forms->own_ = Compiled(text, false);
  if (!forms->own_->ok()) {
    return Error{ErrorKind::kInvalid, forms->own_->error()};
  }
  if (forms->own_->NumberOfCapturingGroups() < 1) {
    return Error{ErrorKind::kInvalid, "the expression needs a group in parentheses for the step"};
  }
  return std::shared_ptr<const ProgressForms>(std::move(forms));
}

std::optional<ProgressForms::Found> ProgressForms::Find(std::string_view line) const {
  if (!own_) {
    std::optional<Found> bar = FindBar(line);
    return bar ? std::move(bar) : FindStep(line);
  }
  re2::StringPiece parts[2];
  if (!own_->Match(Piece(line), 0, line.size(), re2::RE2::UNANCHORED, parts, 2)) {
    return std::nullopt;
  }
  const auto number = NumberIn(parts[1]);
  return number ? std::optional(Found{"own", *number, true}) : std::nullopt;
}

std::optional<ProgressForms::Found> ProgressForms::FindInOpenLine(std::string_view line) const {
  return !own_ && line.ends_with(']') ? FindBar(line) : std::nullopt;
}

std::optional<ProgressForms::Found> ProgressForms::FindBar(std::string_view line) const {
  if (line.find(" [") == std::string_view::npos) {  // Much quicker than an expression.
    return std::nullopt;
  }
  re2::StringPiece parts[5];
  if (bar_->Match(Piece(line), 0, line.size(), re2::RE2::UNANCHORED, parts, 5)) {
    const auto number = NumberIn(parts[parts[3].empty() ? 2 : 3]);
    return number ? std::optional(Found{TrackOf("bar ", parts[1], parts[4]), *number, false})
                  : std::nullopt;
  }
  if (endless_bar_->Match(Piece(line), 0, line.size(), re2::RE2::UNANCHORED, parts, 4)) {
    const auto number = NumberIn(parts[2]);
    return number ? std::optional(Found{TrackOf("count ", parts[1], parts[3]), *number, false})
                  : std::nullopt;
  }
  return std::nullopt;
}

std::optional<ProgressForms::Found> ProgressForms::FindStep(std::string_view line) const {
  re2::StringPiece parts[4];
  if (line.find_first_of("0123456789") == std::string_view::npos ||
      !step_->Match(Piece(line), 0, line.size(), re2::RE2::UNANCHORED, parts, 4)) {
    return std::nullopt;
  }
  const auto number = NumberIn(parts[2]);
  if (!number) {
    return std::nullopt;
  }
  re2::StringPiece part[2];
  part_->Match(Piece(line), 0, line.size(), re2::RE2::UNANCHORED, part, 2);
  const bool of_run = part[1].empty() && (parts[1][0] | 0x20) == 's' &&
                      parts[3].find('/') == re2::StringPiece::npos;
  return Found{TrackOf("step ", parts[1], part[1]), *number, of_run};
}

void ProgressCount::Take(const ProgressForms::Found& found) {
  auto track = std::find_if(tracks_.begin(), tracks_.end(),
                            [&](const Track& one) { return one.name == found.track; });
  const std::uint64_t before = track == tracks_.end() ? 0 : track->number;
  if (track != tracks_.end()) {
    tracks_.erase(track);
  } else if (tracks_.size() == kMostTracks) {
    tracks_.pop_front();
  }
  tracks_.push_back({found.track, found.number});
  const std::uint64_t moved = found.number < before ? found.number : found.number - before;
  counted_ += std::min(moved, std::numeric_limits<std::uint64_t>::max() - counted_);
  if (found.absolute) {
    fell_ |= absolute_ && found.number < *absolute_;
    absolute_ = found.number;
  }
}

void ProgressLines::Feed(std::string_view bytes, ProgressCount& count) {
  constexpr std::size_t kMostRaw = 4 * kMaxLine;  // The rest of a line is not looked at.
  while (true) {
    const std::size_t end = EndOfLine(bytes);
    line_ += bytes.substr(0, std::min(end, kMostRaw - line_.size()));
    if (end == bytes.size()) {
      break;
    }
    if (const auto found = forms_->Find(Text())) {
      count.Take(*found);
    }
    line_.clear();
    bytes.remove_prefix(end + 1);
  }
  if (const auto found = forms_->FindInOpenLine(Text())) {
    count.Take(*found);
  }
}

std::string ProgressLines::Text() const {
  return WithoutEscapes(line_).substr(0, kMaxLine);
}

}  // namespace ddprun
