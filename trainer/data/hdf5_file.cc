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
  struct Symbol {
    void* address;
    template <class T>
    operator T*() const {
      return reinterpret_cast<T*>(address);
    }
  };

  explicit Library(void* opened) : handle(opened), whole(opened != nullptr) {}
  Symbol Find(const char* name) {
    void* const address = dlsym(handle, name);
    whole = whole && address != nullptr;
    return {address};
  }

  void* const handle;
  bool whole;  // It has all of these.
  decltype(&::H5open) open = Find("H5open");
  decltype(&::H5Eset_auto2) on_error = Find("H5Eset_auto2");
  decltype(&::H5Fopen) open_file = Find("H5Fopen");
  decltype(&::H5Dopen2) open_array = Find("H5Dopen2");
  decltype(&::H5Dget_space) space_of = Find("H5Dget_space");
  decltype(&::H5Dget_type) type_of = Find("H5Dget_type");
  decltype(&::H5Tget_class) class_of = Find("H5Tget_class");
  decltype(&::H5Sget_simple_extent_ndims) dimensions_of = Find("H5Sget_simple_extent_ndims");
  decltype(&::H5Sget_simple_extent_dims) extent_of = Find("H5Sget_simple_extent_dims");
  decltype(&::H5Sselect_hyperslab) select = Find("H5Sselect_hyperslab");
  decltype(&::H5Screate_simple) make_space = Find("H5Screate_simple");
  decltype(&::H5Idec_ref) close = Find("H5Idec_ref");  // A file, array, type or space.
  decltype(&::H5Dread) read = Find("H5Dread");
  const hid_t* native_float = Find("H5T_NATIVE_FLOAT_g");
};

Result<Library> Load() {
  const Library found(dlopen(DDPRUN_HDF5_LIBRARY, RTLD_NOW | RTLD_LOCAL));
  if (!found.whole || found.open() < 0) {
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
