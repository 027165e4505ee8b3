#include "trainer/data/hdf5_file.h"

namespace ddprun {

struct Hdf5Array::Handle {};

Result<Hdf5Array> Hdf5Array::Open(const std::filesystem::path& path, const std::string&,
                                  const Shape&) {
  return Invalid(
      "this ddprun-train was built without HDF5; install libhdf5-dev, configure and "
      "build again to read",
      path.string());
}

Result<void> Hdf5Array::Read(std::uint64_t, std::uint64_t, float*) const {
  return Invalid("built without HDF5", "");
}

}  // namespace ddprun
