// Arrays of floats in an HDF5 file, read sample by sample, and trusts none of it.
//
// The HDF5 library is loaded when the first file is opened, since it brings twenty more along, and
// only then missed. It is not safe to call from two threads: one call at a time, for all files.
// Numbers of other types are converted by the library. Built without HDF5's headers, Open says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "common/result.h"
#include "trainer/task.h"

namespace ddprun {

class Hdf5Array {
 public:
  // Of the array `name`, [samples] + `sample` in shape. kNotFound, kInvalid: no such file or array,
  // or another shape.
  static Result<Hdf5Array> Open(const std::filesystem::path& path, const std::string& name,
                                const Shape& sample);

  std::uint64_t count() const { return count_; }

  // `samples` of them from `first` on, to `out`: [samples] + sample in shape.
  Result<void> Read(std::uint64_t first, std::uint64_t samples, float* out) const;

 private:
  struct Handle;
  std::shared_ptr<const Handle> handle_;
  std::uint64_t count_ = 0;
};

}  // namespace ddprun
