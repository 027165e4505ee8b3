#include "agent/workers/preload_note.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "common/files.h"
#include "proto/preload_protocol.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostNotes = 64 * 1024;
constexpr int kMostSegments = 64;

bool ReadAt(int fd, std::uint64_t offset, void* to, std::size_t size) {
  return ::pread(fd, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

std::size_t Aligned(std::size_t size) {
  return (size + 3) / 4 * 4;
}

// The version in the note; 0: there is none.
std::uint32_t VersionIn(const std::string& notes) {
  std::size_t at = 0;
  Elf64_Nhdr head;
  while (notes.size() - at >= sizeof head) {
    std::memcpy(&head, notes.data() + at, sizeof head);
    at += sizeof head;
    const std::size_t name = Aligned(head.n_namesz);
    const std::size_t size = Aligned(head.n_descsz);
    if (name > notes.size() - at || size > notes.size() - at - name) {
      return 0;
    }
    const bool ours = head.n_namesz == sizeof kPreloadNoteName &&
                      std::memcmp(notes.data() + at, kPreloadNoteName, head.n_namesz) == 0 &&
                      head.n_type == kPreloadNoteType;
    std::uint32_t version = 0;
    if (ours && head.n_descsz == sizeof version) {
      std::memcpy(&version, notes.data() + at + name, sizeof version);
      return version;
    }
    at += name + size;
  }
  return 0;
}

}  // namespace

Result<void> CheckPreloadNote(const std::filesystem::path& program) {
  std::error_code ignored;  // A link that leads nowhere is no ordinary file.
  ASSIGN_OR_RETURN(const UniqueFd fd,
                   OpenOrdinary(std::filesystem::canonical(program, ignored), O_RDONLY, 0));
  const Error none{ErrorKind::kNotFound,
                   "'" + program.native() + "' is not a preload process by itself"};
  Elf64_Ehdr head;
  if (!ReadAt(fd.get(), 0, &head, sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr) ||
      head.e_phnum > kMostSegments) {
    return none;
  }
  for (int i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadAt(fd.get(), head.e_phoff + i * sizeof segment, &segment, sizeof segment)) {
      return none;
    }
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostNotes) {
      continue;
    }
    std::string notes(segment.p_filesz, '\0');
    if (!ReadAt(fd.get(), segment.p_offset, notes.data(), notes.size())) {
      continue;
    }
    if (const std::uint32_t version = VersionIn(notes); version == kPreloadVersion) {
      return {};
    } else if (version != 0) {
      return Error{ErrorKind::kRefused, "'" + program.native() +
                                            "' is built for preload protocol " +
                                            std::to_string(version) + "; this ddprun has " +
                                            std::to_string(kPreloadVersion)};
    }
  }
  return none;
}

}  // namespace ddprun
