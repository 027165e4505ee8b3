#include "launcher/hosts/control_stream.h"

#include <algorithm>

#include "common/text.h"

namespace ddprun {
namespace {

constexpr std::string_view kOrderMagic = "ddprun order 1 ";  // Then the length, and '\n'.
constexpr std::size_t kMaxOrder = 16 << 20;
constexpr std::size_t kFixedWords = 4;
constexpr char kEdge = '\x1e';  // Around a mark: ASCII's record separator.
constexpr std::string_view kGreets = "ddprun node 1";
constexpr std::string_view kLacks = "ddprun lacks ";
constexpr std::string_view kRunEnds = "run ";  // Before the exit code: of the run.
constexpr std::size_t kMaxMark = 96;

Error NoOrder() {
  return {ErrorKind::kInvalid, "standard input has no order of `ddprun --hosts` of this release"};
}

}  // namespace

std::string Encode(const NodeOrder& order) {
  std::string words;
  for (const std::string& word : {order.word, order.token, order.place, order.directory}) {
    words += word + '\0';
  }
  for (const std::string& word : order.args) {
    words += word + '\0';
  }
  return std::string(kOrderMagic) + std::to_string(words.size()) + "\n" + words;
}

Result<bool> OrderReader::Feed(std::string_view bytes) {
  bytes_ += bytes;
  bytes_.erase(0, std::min(bytes_.find_first_not_of(kStillThere), bytes_.size()));
  const std::size_t line = bytes_.find('\n');
  if (line == std::string::npos) {
    const std::size_t known = std::min(bytes_.size(), kOrderMagic.size());
    const bool may_be = bytes_.compare(0, known, kOrderMagic.substr(0, known)) == 0;
    return may_be && bytes_.size() < kOrderMagic.size() + 16 ? Result<bool>(false) : NoOrder();
  }
  const std::string_view head = std::string_view(bytes_).substr(0, line);
  const auto size = head.starts_with(kOrderMagic)
                        ? ParseNumber<std::size_t>(head.substr(kOrderMagic.size()))
                        : std::nullopt;
  if (!size || *size > kMaxOrder) {
    return NoOrder();
  }
  if (bytes_.size() < line + 1 + *size) {
    return false;
  }
  const std::string words = bytes_.substr(line + 1, *size);
  bytes_.erase(0, line + 1 + *size);
  const std::vector<std::string> all = Split(words, '\0');
  if (all.size() < kFixedWords || words.back() != '\0') {
    return NoOrder();
  }
  order_ = {all[0], all[1], all[2], all[3], {all.begin() + kFixedWords, all.end()}};
  return true;
}

std::string Greeting() {
  return std::string(1, kEdge) + std::string(kGreets) + kEdge;
}

std::string RunEndMark(const std::string& word, int exit_code) {
  return kEdge + word + " " + std::string(kRunEnds) + std::to_string(exit_code) + kEdge;
}

std::string EndMark(const std::string& word, int exit_code) {
  return std::string(1, kEdge) + word + " " + std::to_string(exit_code) + kEdge;
}

bool MarkReader::Take(std::string_view mark, std::string& shown) {
  if (mark == kGreets && !greeted_) {
    greeted_ = true;
    shown.clear();
    return true;
  }
  if (mark.starts_with(kLacks) && !greeted_) {
    const auto file = ParseNumber<std::size_t>(mark.substr(kLacks.size()));
    if (file && (!lacks_ || *file > *lacks_)) {
      lacks_ = file;
    }
    return file.has_value();
  }
  if (mark.size() <= word_.size() || !mark.starts_with(word_) || mark[word_.size()] != ' ') {
    return false;
  }
  const std::string_view end = mark.substr(word_.size() + 1);
  const bool of_run = end.starts_with(kRunEnds);
  const auto code = ParseNumber<int>(end.substr(of_run ? kRunEnds.size() : 0));
  if (!greeted_ || !code) {
    return false;
  }
  (of_run ? run_code_ : exit_code_) = *code & 0xff;
  return true;
}

std::string MarkReader::Feed(std::string_view bytes) {
  held_ += bytes;
  std::string shown;
  std::size_t at = 0;
  while (at < held_.size()) {
    const std::size_t edge = std::min(held_.find(kEdge, at), held_.size());
    shown.append(held_, at, edge - at);
    at = edge;
    const std::size_t end = held_.find(kEdge, at + 1);
    if (at == held_.size() || (end == std::string::npos && held_.size() - at < kMaxMark)) {
      break;  // The rest of a mark may still come.
    }
    if (end != std::string::npos && end - at < kMaxMark &&
        Take(std::string_view(held_).substr(at + 1, end - at - 1), shown)) {
      at = end + 1;
    } else {
      shown += held_[at++];
    }
  }
  held_.erase(0, at);
  return greeted_ ? shown : "";
}

}  // namespace ddprun
