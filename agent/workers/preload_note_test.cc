#include "agent/workers/preload_note.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "proto/preload_protocol.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PreloadNote : public ::testing::Test {
 protected:
  PreloadNote() {
    std::memcpy(head_.e_ident, ELFMAG, SELFMAG);
    head_.e_ident[EI_CLASS] = ELFCLASS64;
    head_.e_phentsize = sizeof(Elf64_Phdr);
    head_.e_phnum = 1;
    head_.e_phoff = sizeof head_;
    segment_.p_type = PT_NOTE;
    segment_.p_offset = sizeof head_ + sizeof segment_;
  }

  static std::string Note(const std::string& name, std::uint32_t type, const std::string& what) {
    const Elf64_Nhdr head{static_cast<Elf64_Word>(name.size() + 1),
                          static_cast<Elf64_Word>(what.size()), type};
    std::string note(reinterpret_cast<const char*>(&head), sizeof head);
    for (const std::string& part : {name + '\0', what}) {
      note += part;
      note.resize((note.size() + 3) / 4 * 4);
    }
    return note;
  }
  static std::string Ours(std::uint32_t version) {
    return Note(kPreloadNoteName, kPreloadNoteType,
                {reinterpret_cast<const char*>(&version), sizeof version});
  }

  // A program that has these notes; "": it is a preload process.
  std::string Check(const std::string& notes) {
    if (segment_.p_filesz == 0) {
      segment_.p_filesz = notes.size();
    }
    const fs::path file = folder_ / "program";
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&head_), sizeof head_);
    out.write(reinterpret_cast<const char*>(&segment_), sizeof segment_);
    out << notes;
    out.close();
    return Check(file);
  }
  static std::string Check(const fs::path& file) {
    const Result<void> checked = CheckPreloadNote(file);
    return checked ? "" : checked.error().message;
  }

  ScratchDirectory scratch_;
  const fs::path folder_ = scratch_.path();
  Elf64_Ehdr head_{};
  Elf64_Phdr segment_{};
};

TEST_F(PreloadNote, IsFoundAmongOthers) {
  EXPECT_EQ(Check(Note("GNU", 3, "0123456789") + Note("ddprun", 1, "abcd") + Ours(kPreloadVersion)),
            "");
}

TEST_F(PreloadNote, OfAnotherVersionIsNamed) {
  EXPECT_THAT(Check(Ours(kPreloadVersion + 5)), HasSubstr("is built for preload protocol 10"));
}

TEST_F(PreloadNote, OfAnotherNameOrSizeIsNone) {
  const std::string none = "is not a preload process by itself";
  EXPECT_THAT(Check(Note("GNU", kPreloadNoteType, "\1\0\0\0")), HasSubstr(none));
  EXPECT_THAT(Check(Note("ddprum", kPreloadNoteType, "abcd")), HasSubstr(none));
  segment_.p_filesz = 0;
  EXPECT_THAT(Check(Note("ddprun", kPreloadNoteType, "abc")), HasSubstr(none));
}

// Sizes that a file claims are the file's: they lead nowhere outside of what was read.
TEST_F(PreloadNote, SizesThatLieLeadNowhere) {
  for (const std::size_t at : {offsetof(Elf64_Nhdr, n_namesz), offsetof(Elf64_Nhdr, n_descsz)}) {
    for (const std::uint32_t size : {0xffffffffu, 0xfffffffdu, 0x7fffffffu, 1000u}) {
      std::string notes = Note("GNU", 3, "0123") + Ours(kPreloadVersion);
      std::memcpy(notes.data() + at, &size, sizeof size);
      EXPECT_THAT(Check(notes), HasSubstr("is not a preload process")) << at << " " << size;
    }
  }
  segment_.p_filesz = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(Check(Ours(kPreloadVersion)), HasSubstr("is not a preload process"));
  segment_.p_filesz = 4096;  // More than there is.
  EXPECT_THAT(Check(Ours(kPreloadVersion)), HasSubstr("is not a preload process"));
  segment_.p_filesz = 20;
  segment_.p_offset = std::numeric_limits<std::uint64_t>::max() - 8;
  EXPECT_THAT(Check(Ours(kPreloadVersion)), HasSubstr("is not a preload process"));
}

TEST_F(PreloadNote, HeadersThatLieLeadNowhere) {
  head_.e_phnum = 0xffff;
  EXPECT_THAT(Check(Ours(kPreloadVersion)), HasSubstr("is not a preload process"));
  head_.e_phnum = 1;
  head_.e_phentsize = 8;
  EXPECT_THAT(Check(Ours(kPreloadVersion)), HasSubstr("is not a preload process"));
  head_.e_phentsize = sizeof(Elf64_Phdr);
  head_.e_phoff = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(Check(Ours(kPreloadVersion)), HasSubstr("is not a preload process"));
}

TEST_F(PreloadNote, AnythingButAnOrdinaryFileIsNotWaitedFor) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_NE(Check(fifo), "");
  EXPECT_NE(Check(fs::path("/dev/zero")), "");
  EXPECT_NE(Check(folder_), "");
  EXPECT_NE(Check(folder_ / "missing"), "");
  std::ofstream(folder_ / "script") << "#!/bin/sh\n";
  EXPECT_THAT(Check(folder_ / "script"), HasSubstr("is not a preload process by itself"));
}

}  // namespace
}  // namespace ddprun
