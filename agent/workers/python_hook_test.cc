#include "agent/workers/python_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<PythonProgram> Read(std::vector<std::string> argv, const fs::path& directory = "/srv") {
  return ReadPythonCommand({.file = "/usr/bin/python3", .argv = std::move(argv)}, directory);
}

std::string Refused(std::vector<std::string> argv) {
  const auto read = Read(std::move(argv));
  return read ? "it is taken" : read.error().message;
}

// Python puts the folder of what a link leads to into sys.path.
TEST(ReadPythonCommand, ALinkIsFollowedForThePath) {
  const ScratchDirectory scratch;
  const fs::path folder = scratch.path();
  fs::create_directories(folder / "real");
  std::ofstream(folder / "real/train.py") << "pass\n";
  fs::create_symlink("real/train.py", folder / "train.py");
  const PythonProgram program = Read({"python3", "train.py"}, folder).value();
  EXPECT_EQ(program.name, folder / "train.py");
  EXPECT_EQ(program.path, fs::canonical(folder / "real"));
}

TEST(ReadPythonCommand, AModuleMayStandInTheSameWordAsItsOption) {
  for (const auto& argv : {std::vector<std::string>{"python3.11", "-um", "jobs.train"},
                           std::vector<std::string>{"python3.11", "-umjobs.train", "--flag"}}) {
    const PythonProgram program = Read(argv).value();
    EXPECT_EQ(program.kind, "module");
    EXPECT_EQ(program.name, "jobs.train");
    EXPECT_EQ(program.path, "/srv");
    EXPECT_EQ(program.options, "-u");
    EXPECT_EQ(program.at, 1u);
  }
}

// The value of -X or -W is no script, and what looks like an option in it is none.
TEST(ReadPythonCommand, OptionsWithAValueTakeTheNextWord) {
  EXPECT_EQ(Read({"python", "-X", "-m", "-Werror", "a.py"}).value().name, "/srv/a.py");
  EXPECT_EQ(Read({"python", "-c", "print(1)", "b"}).value().kind, "text");
}

TEST(ReadPythonCommand, AFlagThatMakesTheInterpreterDeafIsNamed) {
  EXPECT_THAT(Refused({"python3", "-I", "a.py"}), HasSubstr("option -I"));
  EXPECT_THAT(Refused({"python3", "-uE", "a.py"}), HasSubstr("option -uE"));
  EXPECT_THAT(Refused({"python3", "--version"}), HasSubstr("option --version"));
  EXPECT_THAT(Refused({"python3", "-"}), HasSubstr("standard input"));
  EXPECT_THAT(Refused({"python3", "-u"}), HasSubstr("there is no script"));
  EXPECT_THAT(Refused({"python3", "/tmp"}), HasSubstr("directories and archives"));
  EXPECT_THAT(Refused({"python3", "app.zip"}), HasSubstr("directories and archives"));
  EXPECT_THAT(Refused({"bash", "a.sh"}), HasSubstr("'bash' is not Python"));
  EXPECT_THAT(Refused({"pythonw", "a.py"}), HasSubstr("is not Python"));
}

PythonProgram OfScript(const std::string& text, const std::vector<std::string>& rest = {}) {
  const fs::path file =
      fs::path(::testing::TempDir()) / ("python_hook_script" + std::to_string(::getpid()));
  std::ofstream(file) << text;
  std::vector<std::string> argv = {"tool"};
  argv.insert(argv.end(), rest.begin(), rest.end());
  const auto read = ReadPythonCommand({.file = file, .argv = argv}, "/srv");
  fs::remove(file);
  PythonProgram program = read ? *read : PythonProgram{.kind = read.error().message};
  std::ranges::replace(program.argv, file.native(), "SCRIPT");
  std::ranges::replace(program.start, file.native(), "SCRIPT");
  return program;
}

TEST(ReadPythonCommand, AScriptNamesItsInterpreterInItsFirstLine) {
  PythonProgram program = OfScript("#!/opt/venv/bin/python3\nimport re\n", {"-m", "x"});
  EXPECT_EQ(program.kind, "file");
  EXPECT_EQ(program.path, fs::canonical(::testing::TempDir()));
  EXPECT_EQ(program.at, 1u);
  EXPECT_THAT(program.argv, ElementsAre("/opt/venv/bin/python3", "SCRIPT", "-m", "x"));
  EXPECT_THAT(program.start, ElementsAre("/opt/venv/bin/python3"));
  program = OfScript("#! /usr/bin/python3.11  -u \n");
  EXPECT_THAT(program.argv, ElementsAre("/usr/bin/python3.11", "-u", "SCRIPT"));
  EXPECT_EQ(program.at, 2u);
  program = OfScript("#!/usr/bin/env python3\n", {"x"});
  EXPECT_THAT(program.argv, ElementsAre("python3", "SCRIPT", "x"));
  EXPECT_THAT(program.start, ElementsAre("/usr/bin/env", "python3"));
  program = OfScript("#!/usr/bin/env -S A=1 python3 -u\n");
  EXPECT_THAT(program.argv, ElementsAre("python3", "-u", "SCRIPT"));
  EXPECT_THAT(program.start, ElementsAre("/usr/bin/env", "A=1", "python3"));
}

// As pip and uv write it.
TEST(ReadPythonCommand, APathTooLongForAFirstLineComesByTheShell) {
  PythonProgram program =
      OfScript("#!/bin/sh\n'''exec' \"/a b/python3\" \"$0\" \"$@\"\n' '''\n", {"x"});
  EXPECT_THAT(program.argv, ElementsAre("/a b/python3", "SCRIPT", "x"));
  EXPECT_THAT(program.start,
              ElementsAre("/bin/sh", "-c", "exec \"/a b/python3\" \"$@\"", "SCRIPT"));
  program =
      OfScript("#!/bin/sh\n'''exec' \"$(dirname -- \"$0\")\"/'python' \"$0\" \"$@\"\n' '''\n");
  EXPECT_EQ(program.kind, "file");
}

TEST(ReadPythonCommand, OtherScriptsAreNotPython) {
  for (const char* text : {"#!/bin/bash\n", "#!/bin/sh\nexec python3 \"$0\" \"$@\"\n", "#!\n", "",
                           "#!/bin/sh", "#!/usr/bin/env\n", "#!/usr/bin/env bash\n",
                           "\x7f"
                           "ELF"}) {
    EXPECT_THAT(OfScript(text).kind, HasSubstr("'tool' is not Python")) << text;
  }
  EXPECT_THAT(OfScript("#!/usr/bin/python3 -sP\n").kind, HasSubstr("option -sP"));
  EXPECT_THAT(Refused({"env"}), HasSubstr("is not Python"));
  EXPECT_EQ(Read({"env", "A=1", "python3", "a.py"}).value().name, "/srv/a.py");
}

// An option that ends the command has no value: nothing beyond the arguments is read.
TEST(ReadPythonCommand, AnOptionAtTheEndHasAnEmptyValue) {
  EXPECT_EQ(Read({"python3", "-m"}).value().name, "");
  EXPECT_EQ(Read({"python3", "-c"}).value().name, "");
  EXPECT_THAT(Refused({"python3", "-X"}), HasSubstr("there is no script"));
}

WorkerSpec Worker(std::vector<std::string> argv) {
  WorkerSpec spec;
  spec.command = {.file = "/usr/bin/python3", .argv = std::move(argv)};
  spec.directory = "/srv";
  return spec;
}

TEST(AddPythonHook, TheHookComesBeforeThePathThatWasThere) {
  WorkerSpec worker = Worker({"python3", "a.py"});
  worker.environment["PYTHONPATH"] = "/mine:/yours";
  const PythonHook hook = AddPythonHook({.preload = "torch"}, worker).value();
  EXPECT_THAT(hook.spec.environment.at("PYTHONPATH"), StartsWith("/proc/self/fd/"));
  EXPECT_THAT(hook.spec.environment.at("PYTHONPATH"), HasSubstr(":/mine:/yours"));
  EXPECT_THAT(hook.spec.kept, ElementsAre(hook.file.get()));
  const auto told = nlohmann::json::parse(hook.spec.environment.at("DDPRUN_PRELOAD_HOOK"));
  EXPECT_EQ(told["pythonpath"], "/mine:/yours");
  EXPECT_EQ(told["preload"], "torch");
  EXPECT_FALSE(told["probe"]);
}

// An empty entry in PYTHONPATH is the working directory, which the user did not ask for.
TEST(AddPythonHook, AnEmptyPathAddsNoEntry) {
  WorkerSpec worker = Worker({"python3", "a.py"});
  worker.environment["PYTHONPATH"] = "";
  const PythonHook hook = AddPythonHook({.preload = "torch"}, worker).value();
  EXPECT_EQ(hook.spec.environment.at("PYTHONPATH").find(':'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(hook.spec.environment.at("DDPRUN_PRELOAD_HOOK"))["pythonpath"],
            "");
}

// An interpreter that does not load the hook runs what stands there: nothing, with its options.
TEST(AddPythonHook, TheProbeHasAnEmptyProgramInTheScriptsPlace) {
  const auto probe = [](std::vector<std::string> argv) {
    return AddPythonHook({.preload = "torch"}, Worker(std::move(argv))).value().probe.command.argv;
  };
  EXPECT_THAT(probe({"python3", "-u", "a.py", "x"}), ElementsAre("python3", "-u", "-c", ""));
  EXPECT_THAT(probe({"python3", "-X", "dev", "-um", "a.b"}),
              ElementsAre("python3", "-X", "dev", "-uc", ""));
  EXPECT_THAT(probe({"python3", "-c", "pass"}), ElementsAre("python3", "-c", ""));
}

// Arguments are bytes; the hook compares those that it gets with those that Python shows.
TEST(AddPythonHook, ArgumentsThatAreNoTextAreReplaced) {
  const PythonHook hook =
      AddPythonHook({.preload = "torch"}, Worker({"python3", "a.py", "\xff\n\""})).value();
  const auto told = nlohmann::json::parse(hook.spec.environment.at("DDPRUN_PRELOAD_HOOK"));
  EXPECT_EQ(told["arguments"][1], "\xef\xbf\xbd\n\"");
}

TEST(AddPythonHook, ASafePathIsInTheWay) {
  WorkerSpec worker = Worker({"python3", "a.py"});
  worker.environment["PYTHONSAFEPATH"] = "1";
  EXPECT_FALSE(AddPythonHook({.preload = "torch"}, worker));
  worker.environment["PYTHONSAFEPATH"] = "";  // As good as not set.
  EXPECT_TRUE(AddPythonHook({.preload = "torch"}, worker));
}

}  // namespace
}  // namespace ddprun
