#include "trainer/device/gpu_plugin.h"

#include <dlfcn.h>
#include <link.h>

namespace ddprun {
namespace fs = std::filesystem;
namespace {

std::string LoaderError() {
  const char* const text = dlerror();
  return text == nullptr ? "the loader gave no reason" : text;
}

// The loader begins what it says with the file at fault: by its whole path if it was found, or a
// library that it needs.
bool IsAbsent(const fs::path& file, const std::string& said) {
  std::error_code error;
  return file.has_parent_path() ? !fs::exists(file, error) : said.starts_with(file.native() + ":");
}

fs::path PlaceOf(void* handle, const fs::path& otherwise) {
  const link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? fs::path(map->l_name) : otherwise;
}

}  // namespace

Result<const GpuPlugin*> GpuPlugin::Load(const fs::path& file) {
  // Global: the plug-in's libtorch_cuda registers its kernels with the libtorch in here.
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const std::string said = LoaderError();
    if (IsAbsent(file, said)) {
      return Error{ErrorKind::kNotFound, "the GPU plug-in '" + file.native() +
                                             "' is not there; scripts/build.sh --cuda builds it"};
    }
    return Error{ErrorKind::kSystem,
                 "cannot load the GPU plug-in '" + file.native() + "': " + said};
  }
  const fs::path path = PlaceOf(handle, file);
  auto* const make = reinterpret_cast<MakeGpuPlugin*>(dlsym(handle, kMakeGpuPlugin));
  if (make == nullptr) {
    return Error{ErrorKind::kSystem,
                 "'" + path.native() + "' is not a GPU plug-in of this program: " + LoaderError() +
                     ". Build both from the same source"};
  }
  return make(path.c_str());
}

}  // namespace ddprun
