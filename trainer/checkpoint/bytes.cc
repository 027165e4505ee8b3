#include "trainer/checkpoint/bytes.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include "common/check.h"

namespace ddprun {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Bytes::Bytes(std::string text) {
  auto owner = std::make_shared<std::string>(std::move(text));
  data_ = owner->data();
  size_ = owner->size();
  block_ = std::move(owner);
}

Bytes Bytes::Uninitialized(std::size_t size) {
  Bytes bytes;
  bytes.size_ = size;
  if (size < kHugePage) {
    auto owner = std::make_shared_for_overwrite<char[]>(size);
    bytes.data_ = owner.get();
    bytes.block_ = std::move(owner);
    return bytes;
  }
  // One page more, since a huge page must begin at a multiple of its size.
  const std::size_t mapped = (size / kHugePage + 2) * kHugePage;
  void* const map =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    throw std::bad_alloc();  // As operator new does.
  }
  bytes.block_ = std::shared_ptr<void>(map, [mapped](void* block) { ::munmap(block, mapped); });
  void* aligned = map;
  std::size_t space = mapped;
  CHECK(std::align(kHugePage, size, aligned, space) != nullptr);
  ::madvise(aligned, space / kHugePage * kHugePage, MADV_HUGEPAGE);  // Or else small ones.
  bytes.data_ = static_cast<char*>(aligned);
  return bytes;
}

Bytes Bytes::Shared(int file, std::size_t size) {
  Bytes bytes;
  void* const map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (map != MAP_FAILED) {
    bytes.block_ = std::shared_ptr<void>(map, [size](void* block) { ::munmap(block, size); });
    bytes.data_ = static_cast<char*>(map);
    bytes.size_ = size;
  }
  return bytes;
}

Bytes Bytes::Slice(std::size_t begin, std::size_t size) const {
  CHECK(begin <= size_ && size <= size_ - begin);
  Bytes slice;
  slice.block_ = block_;
  slice.data_ = data_ + begin;
  slice.size_ = size;
  return slice;
}

}  // namespace ddprun
