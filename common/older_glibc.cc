// The functions that Debian's static libgcc and libstdc++ take from a glibc newer than 2.34: with
// these inside, ddprun starts on 2.34 too. Linked as an object, never from an archive: the linker
// would find glibc's first. The linker names the image; a loader makes pointers of numbers.
// NOLINTBEGIN(bugprone-reserved-identifier,performance-no-int-to-ptr)
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

namespace {

struct Wanted {
  std::uintptr_t address;
  dl_find_object* result;
};

// Whether the object that is loaded at `base` has the address, and where its table for unwinding
// is.
bool Find(std::uintptr_t base, const ElfW(Phdr) * headers, std::size_t count,
          const Wanted& wanted) {
  const ElfW(Phdr)* frames = nullptr;
  bool inside = false;
  std::uintptr_t begin = UINTPTR_MAX;
  std::uintptr_t end = 0;
  for (const ElfW(Phdr)* header = headers; header != headers + count; ++header) {
    const std::uintptr_t start = base + header->p_vaddr;
    if (header->p_type == PT_GNU_EH_FRAME) frames = header;
    if (header->p_type != PT_LOAD) continue;
    inside = inside || (wanted.address >= start && wanted.address - start < header->p_memsz);
    begin = start < begin ? start : begin;
    end = start + header->p_memsz > end ? start + header->p_memsz : end;
  }
  if (!inside || frames == nullptr) return false;
  *wanted.result = {};
  wanted.result->dlfo_map_start = reinterpret_cast<void*>(begin);
  wanted.result->dlfo_map_end = reinterpret_cast<void*>(end);
  wanted.result->dlfo_eh_frame = reinterpret_cast<void*>(base + frames->p_vaddr);
  return true;
}

int FindInLoaded(dl_phdr_info* info, std::size_t /*size*/, void* wanted) {
  return Find(info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, *static_cast<Wanted*>(wanted))
             ? 1
             : 0;
}

}  // namespace

extern "C" {

// Of glibc 2.35, for exceptions: 0 and where to read how the code at this address is unwound, else
// -1. Nearly all of it is the program's own, which is found without the loader's lock.
__attribute__((visibility("hidden"))) int _dl_find_object(void* address,
                                                          dl_find_object* result) noexcept {
  const Wanted wanted{reinterpret_cast<std::uintptr_t>(address), result};
  const auto image = reinterpret_cast<std::uintptr_t>(&__ehdr_start);
  const auto* const headers = reinterpret_cast<const ElfW(Phdr)*>(image + __ehdr_start.e_phoff);
  // A program that is loaded anywhere has its addresses from 0, another one's are what they are.
  const std::uintptr_t base = __ehdr_start.e_type == ET_DYN ? image : 0;
  if (Find(base, headers, __ehdr_start.e_phnum, wanted)) return 0;
  return dl_iterate_phdr(FindInLoaded, const_cast<Wanted*>(&wanted)) == 1 ? 0 : -1;
}

// Of glibc 2.36, for std::random_device. Never an answer that is not random.
__attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  ssize_t got = 0;
  do {
    got = getrandom(&value, sizeof value, 0);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof value)) std::abort();
  return value;
}
}
// NOLINTEND(bugprone-reserved-identifier,performance-no-int-to-ptr)
