#include "trainer/data/hdf5_file.h"

#include <dlfcn.h>
#include <hdf5.h>

#include <mutex>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

std::mutex one_at_a_time;

constexpr unsigned kReadOnly = 0;  // H5F_ACC_RDONLY without its calls into the library.

// The functions used of the library. A call that fails gives less than 0.
struct Library {
  decltype(&::H5open) open = nullptr;
  decltype(&::H5Eset_auto2) on_error = nullptr;
  decltype(&::H5Fopen) open_file = nullptr;
  decltype(&::H5Dopen2) open_array = nullptr;
  decltype(&::H5Dget_space) space_of = nullptr;
  decltype(&::H5Dget_type) type_of = nullptr;
  decltype(&::H5Tget_class) class_of = nullptr;
  decltype(&::H5Sget_simple_extent_ndims) dimensions_of = nullptr;
  decltype(&::H5Sget_simple_extent_dims) extent_of = nullptr;
  decltype(&::H5Sselect_hyperslab) select = nullptr;
  decltype(&::H5Screate_simple) make_space = nullptr;
  decltype(&::H5Idec_ref) close = nullptr;  // A file, array, type or space.
  decltype(&::H5Dread) read = nullptr;
  const hid_t* native_float = nullptr;
};

template <class Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<Library> Load() {
  void* const handle = dlopen(DDPRUN_HDF5_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  Library found;
  const bool whole =
      handle != nullptr && Find(handle, "H5open", found.open) &&
      Find(handle, "H5Eset_auto2", found.on_error) && Find(handle, "H5Fopen", found.open_file) &&
      Find(handle, "H5Dopen2", found.open_array) && Find(handle, "H5Dget_space", found.space_of) &&
      Find(handle, "H5Dget_type", found.type_of) && Find(handle, "H5Tget_class", found.class_of) &&
      Find(handle, "H5Sget_simple_extent_ndims", found.dimensions_of) &&
      Find(handle, "H5Sget_simple_extent_dims", found.extent_of) &&
      Find(handle, "H5Sselect_hyperslab", found.select) &&
      Find(handle, "H5Screate_simple", found.make_space) &&
      Find(handle, "H5Idec_ref", found.close) && Find(handle, "H5Dread", found.read) &&
      Find(handle, "H5T_NATIVE_FLOAT_g", found.native_float);
  if (!whole || found.open() < 0) {
    const char* const why = dlerror();
    return Error{ErrorKind::kNotFound,
                 std::string("cannot load the HDF5 library '" DDPRUN_HDF5_LIBRARY "': ") +
                     (why == nullptr ? "it cannot be initialised" : why) +
                     " (Debian's package libhdf5-103-1)"};
  }
  found.on_error(H5E_DEFAULT, nullptr, nullptr);  // We say it ourselves.
  return found;
}

// Once; under the lock.
const Result<Library>& TheLibrary() {
  static const Result<Library> library = Load();
  return library;
}

}  // namespace

struct Hdf5Array::Handle {
  Handle(const Library& used, std::string where) : library(used), path(std::move(where)) {}
  ~Handle() {
    const std::lock_guard lock(one_at_a_time);
    for (const hid_t id : {space, type, array, file}) {
      if (id >= 0) {
        library.close(id);
      }
    }
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const Library& library;
  const std::string path;  // "FILE: ARRAY"
  hid_t file = -1;
  hid_t array = -1;
  hid_t type = -1;
  hid_t space = -1;
  std::vector<hsize_t> shape;
};

Result<Hdf5Array> Hdf5Array::Open(const std::filesystem::path& path, const std::string& name,
                                  const Shape& sample) {
  std::unique_lock lock(one_at_a_time);
  const Result<Library>& library = TheLibrary();
  if (!library) {
    return library.error();
  }
  const auto handle = std::make_shared<Handle>(*library, path.string() + ": " + name);
  handle->file = library->open_file(path.c_str(), kReadOnly, H5P_DEFAULT);
  if (handle->file >= 0) {
    handle->array = library->open_array(handle->file, name.c_str(), H5P_DEFAULT);
  }
  if (handle->array >= 0) {
    handle->type = library->type_of(handle->array);
    handle->space = library->space_of(handle->array);
  }
  const bool is_float = handle->type >= 0 && library->class_of(handle->type) == H5T_FLOAT;
  const int dimensions = handle->space >= 0 ? library->dimensions_of(handle->space) : -1;
  if (dimensions >= 0) {
    handle->shape.resize(static_cast<std::size_t>(dimensions));
    library->extent_of(handle->space, handle->shape.data(), nullptr);
  }
  lock.unlock();  // On any error, the handle's end needs it.
  if (handle->file < 0) {
    return Error{ErrorKind::kNotFound,
                 "cannot open '" + path.string() + "': it does not exist, or is not an HDF5 file"};
  }
  if (handle->array < 0) {
    return Error{ErrorKind::kNotFound, "no array '" + name + "' in '" + path.string() + "'"};
  }
  const Shape shape(handle->shape.begin(), handle->shape.end());
  const bool fits = dimensions == static_cast<int>(sample.size()) + 1 && shape[0] > 0 &&
                    std::equal(sample.begin(), sample.end(), shape.begin() + 1);
  if (!fits || !is_float) {
    return Invalid("the array has " + std::string(is_float ? "floats" : "no floats") +
                       " of shape " + ToText(shape) + " instead of floats of shape SAMPLESx" +
                       ToText(sample),
                   handle->path);
  }
  Hdf5Array opened;
  opened.count_ = handle->shape[0];
  opened.handle_ = handle;
  return opened;
}

Result<void> Hdf5Array::Read(std::uint64_t first, std::uint64_t samples, float* out) const {
  CHECK(samples > 0 && first + samples <= count_);
  const std::lock_guard lock(one_at_a_time);
  const Library& library = handle_->library;
  std::vector<hsize_t> begin(handle_->shape.size(), 0);
  std::vector<hsize_t> size = handle_->shape;
  begin[0] = first;
  size[0] = samples;
  const hid_t memory =
      library.make_space(static_cast<int>(size.size()), size.data(), /*maxdims=*/nullptr);
  const bool done = memory >= 0 &&
                    library.select(handle_->space, H5S_SELECT_SET, begin.data(), nullptr,
                                   size.data(), nullptr) >= 0 &&
                    library.read(handle_->array, *library.native_float, memory, handle_->space,
                                 H5P_DEFAULT, out) >= 0;
  if (memory >= 0) {
    library.close(memory);
  }
  if (!done) {
    return Error{ErrorKind::kSystem, "cannot read " + std::to_string(samples) +
                                         " samples from number " + std::to_string(first) + " of '" +
                                         handle_->path + "': the file is damaged or gone"};
  }
  return {};
}

}  // namespace ddprun
