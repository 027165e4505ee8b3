#include "launcher/command_line/message_help.h"

#include <re2/re2.h>

#include <algorithm>
#include <iterator>

#include "common/text.h"
#include "launcher/command_line/help.h"
#include "launcher/command_line/message_pages.h"

namespace ddprun {
namespace {

constexpr std::size_t kLineWidth = 100;

// "### slug", its messages in one line, and what follows up to the next heading. The style test
// holds the pages to it.
struct Entry {
  std::string slug;
  std::string messages;
  std::string text;
};

std::vector<Entry> Entries() {
  constexpr std::string_view kHeading = "\n### ";
  std::vector<Entry> entries;
  for (const auto& [name, page] : kMessagePages) {
    for (std::size_t at = page.find(kHeading); at != page.npos;) {
      const std::size_t begin = at + kHeading.size();
      const std::size_t slug_end = page.find('\n', begin);
      const std::size_t messages_end = page.find('\n', slug_end + 1);
      entries.push_back(
          {std::string(page.substr(begin, slug_end - begin)),
           std::string(page.substr(slug_end + 1, messages_end - slug_end - 1)),
           std::string(page.substr(messages_end, page.find("\n#", messages_end) - messages_end))});
      at = page.find(kHeading, messages_end);
    }
  }
  return entries;
}

// Without pictures, comments, bold marks and the targets of links.
std::string Plain(std::string markdown) {
  static const re2::RE2 kLeftOut(
      R"((!\[[^\]]*\]\([^)]+\)|<!--[^>]*-->|<picture>(?s:.*?)</picture>)\n+)");
  static const re2::RE2 kLink(R"(\[([^\]]+)\]\([^)]+\))");
  static const re2::RE2 kBold(R"(\*\*([^*]+)\*\*)");
  re2::RE2::GlobalReplace(&markdown, kLeftOut, "");
  re2::RE2::GlobalReplace(&markdown, kLink, R"(\1)");
  re2::RE2::GlobalReplace(&markdown, kBold, R"(\1)");
  return markdown;
}

// How many letters an item of a list begins with: "- " or "12. ". 0: the line begins no item.
std::size_t MarkOfItem(const std::string& line) {
  const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  return line.starts_with("- ")                             ? 2
         : digits > 0 && line.compare(digits, 2, ". ") == 0 ? digits + 2
                                                            : 0;
}

// A page whose paragraphs and items of lists are wrapped anew: without its links they have lines of
// any length. Blocks of code, tables and headings stay.
std::string WrappedPage(const std::string& text) {
  std::string page;
  std::string open;  // Of a paragraph or an item that has not ended.
  const auto close = [&page, &open] {
    const std::size_t mark = MarkOfItem(open);
    page += open.substr(0, mark) + Wrapped(open.substr(mark), mark, kLineWidth);
    page += open.empty() ? "" : "\n";
    open.clear();
  };
  bool code = false;
  for (const std::string& line : Split(text, '\n')) {
    const bool fence = line.starts_with("```");
    const bool stays = code || fence || line.empty() || line.front() == '|' || line.front() == '#';
    code = code != fence;
    if (stays || MarkOfItem(line) > 0) {
      close();
    }
    if (stays) {
      page += line + "\n";
    } else {
      open += (open.empty() ? "" : " ") + line;
    }
  }
  close();
  return page;
}

}  // namespace

std::vector<std::string> ExplainedSlugs() {
  std::vector<std::string> slugs;
  for (Entry& entry : Entries()) {
    slugs.push_back(std::move(entry.slug));
  }
  return slugs;
}

std::optional<std::string> MessageHelp(std::string_view slug) {
  for (const Entry& entry : Entries()) {
    if (entry.slug != slug) {
      continue;
    }
    std::string help = Wrapped(Plain(entry.messages), 0, kLineWidth) + "\n";
    // Each part begins in a line of its own: cause, how to confirm it, what to do.
    for (std::size_t at = entry.text.find("\n**"); at != std::string::npos;) {
      const std::size_t next = entry.text.find("\n**", at + 1);
      help += "\n" + Wrapped(Plain(entry.text.substr(at, next - at)), 0, kLineWidth) + "\n";
      at = next;
    }
    return help;
  }
  return std::nullopt;
}

std::vector<std::string> Topics() {
  std::vector<std::string> topics;
  for (const Page& page : kTopicPages) {
    topics.emplace_back(page.name);
  }
  return topics;
}

std::optional<std::string> TopicHelp(std::string_view topic) {
  const auto page = std::ranges::find(kTopicPages, topic, &Page::name);
  return page == std::end(kTopicPages) ? std::nullopt
                                       : std::optional(WrappedPage(Plain(std::string(page->text))));
}

std::string MessagesHelp() {
  std::string help = "`ddprun help NAME` explains the messages that end in [NAME]:\n";
  for (const Entry& entry : Entries()) {
    help += "\n" + entry.slug + "\n  " + Wrapped(Plain(entry.messages), 2, kLineWidth) + "\n";
  }
  return help;
}

}  // namespace ddprun
