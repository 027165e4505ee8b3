// Prints the table of ddprun's flags as the manual page's OPTIONS ("man") or as Markdown
// ("markdown"), that of its metrics ("metrics") or of exit codes ("codes", "codes-man",
// "trainer-codes-man"), so that documents are what the binary knows.
#include <cstdio>
#include <string>

#include "launcher/command_line/exit_codes.h"
#include "launcher/command_line/raw_flags.h"
#include "launcher/watching/metrics.h"

namespace ddprun {
namespace {

std::string Replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

std::string Roff(const std::string& text) {
  return Replaced(Replaced(text, "\\", "\\e"), "-", "\\-");
}

void PrintMan() {
  std::string group;
  for (const FlagRow& row : FlagTable()) {
    if (row.group != group) {
      group = row.group;
      std::printf(".SS %s\n", group.c_str());
    }
    const std::string dashed = row.name.empty() ? "" : "--" + row.name;
    const std::string letter = row.short_name.empty() ? "" : "-" + row.short_name;
    const std::string names = letter + (letter.empty() || dashed.empty() ? "" : ", ") + dashed;
    std::printf(".TP\n\\fB%s\\fR", Roff(names).c_str());
    if (!row.form.empty()) {
      std::printf(" \\fI%s\\fR", Roff(row.form).c_str());
    }
    std::printf("\n%s.\n", Roff(row.help).c_str());
    if (!row.fallback.empty()) {
      std::printf("Default: %s.\n", Roff(row.fallback).c_str());
    }
  }
}

void PrintMarkdown() {
  std::string group;
  for (const FlagRow& row : FlagTable()) {
    if (row.group != group) {
      group = row.group;
      std::printf("\n### %s\n\n| flag | value | default | |\n|---|---|---|---|\n", group.c_str());
    }
    const std::string form = Replaced(row.form, "|", "\\|");
    const std::string value = form.empty() ? "" : "`" + form + "`";
    const std::string names = row.name.empty() ? "`-" + row.short_name + "`"
                              : row.short_name.empty()
                                  ? "`--" + row.name + "`"
                                  : "`--" + row.name + "`, `-" + row.short_name + "`";
    const std::string fallback = row.fallback.empty() ? "" : "`" + row.fallback + "`";
    std::printf("| %s | %s | %s | %s |\n", names.c_str(), value.c_str(), fallback.c_str(),
                Replaced(Replaced(row.help, "|", "\\|"), "<", "&lt;").c_str());
  }
}

// First what every node tells, then what only the server's node does.
void PrintMetrics() {
  for (const bool of_run : {false, true}) {
    std::printf("\n%s:\n\n| metric | type | labels | |\n|---|---|---|---|\n",
                of_run ? "Of the run, on the node that hosts the server" : "Of each node");
    for (const Metric& row : MetricTable(of_run)) {
      std::printf("| `%s` | %s | %s | %s |\n", row.name.data(), row.type.data(), row.labels.data(),
                  row.help.data());
    }
  }
}

void PrintCodes() {
  std::printf(
      "\n| | `ddprun PROGRAM` | another command of ddprun | `ddprun-train` |\n|---|---|---|---|\n");
  for (const ExitCodeRow& row : ExitCodeTable()) {
    std::printf("| %s | %s | %s | %s |\n", row.code.c_str(), row.launch.c_str(),
                row.command.c_str(), row.trainer.c_str());
  }
}

// `column`: whose codes.
void PrintCodesMan(std::string ExitCodeRow::*column) {
  for (const ExitCodeRow& row : ExitCodeTable()) {
    if (!(row.*column).empty()) {
      std::printf(".TP\n.B %s\n%s.\n", Roff(row.code).c_str(),
                  Roff(Replaced(row.*column, "`", "")).c_str());
    }
  }
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::string form = argc == 2 ? argv[1] : "";
  if (form == "man") {
    ddprun::PrintMan();
  } else if (form == "markdown") {
    ddprun::PrintMarkdown();
  } else if (form == "metrics") {
    ddprun::PrintMetrics();
  } else if (form == "codes") {
    ddprun::PrintCodes();
  } else if (form == "codes-man") {
    ddprun::PrintCodesMan(&ddprun::ExitCodeRow::launch);
    std::printf(".PP\nOf another command:\n");
    ddprun::PrintCodesMan(&ddprun::ExitCodeRow::command);
  } else if (form == "trainer-codes-man") {
    ddprun::PrintCodesMan(&ddprun::ExitCodeRow::trainer);
  } else {
    std::fprintf(stderr,
                 "usage: flag_reference man|markdown|metrics|codes|codes-man|trainer-codes-man\n");
    return 2;
  }
  return 0;
}
