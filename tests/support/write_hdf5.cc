// write_hdf5 FILE [ARGUMENTS] [double]: the data set seq2seq with these arguments (train=64,test=8)
// as an HDF5 file, which --dataset=hdf5 reads; as float32, or else as float64.
#include <hdf5.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "trainer/data/entries.h"

namespace ddprun {
namespace {

constexpr std::uint32_t kAtATime = 64;  // Samples in memory.
constexpr hsize_t kChunk = 16;          // Samples.

void Must(bool done, const char* what) {
  if (!done) {
    std::fprintf(stderr, "write_hdf5: cannot %s\n", what);
    std::exit(1);
  }
}

hid_t MakeArray(hid_t group, const char* name, std::uint32_t count, const Shape& sample,
                hid_t type) {
  std::vector<hsize_t> shape = {count};
  shape.insert(shape.end(), sample.begin(), sample.end());
  const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  hid_t layout = H5P_DEFAULT;
  if (type == H5T_NATIVE_DOUBLE) {  // In chunks too, so that both layouts are read.
    layout = H5Pcreate(H5P_DATASET_CREATE);
    shape[0] = std::min<hsize_t>(shape[0], kChunk);
    Must(H5Pset_chunk(layout, static_cast<int>(shape.size()), shape.data()) >= 0, "set chunks");
  }
  const hid_t array = H5Dcreate2(group, name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT);
  Must(array >= 0, "make an array");
  H5Sclose(space);
  return array;
}

void Append(hid_t array, std::uint32_t first, std::uint32_t count, const Shape& sample,
            const float* numbers) {
  std::vector<hsize_t> begin(sample.size() + 1, 0);
  std::vector<hsize_t> size = {count};
  size.insert(size.end(), sample.begin(), sample.end());
  begin[0] = first;
  const hid_t file = H5Dget_space(array);
  const hid_t memory = H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr);
  H5Sselect_hyperslab(file, H5S_SELECT_SET, begin.data(), nullptr, size.data(), nullptr);
  Must(H5Dwrite(array, H5T_NATIVE_FLOAT, memory, file, H5P_DEFAULT, numbers) >= 0, "write");
  H5Sclose(memory);
  H5Sclose(file);
}

void Write(hid_t file, const char* part, const Task& task, const Samples& samples, hid_t type) {
  const hid_t group = H5Gcreate2(file, part, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  Must(group >= 0, "make a group");
  const hid_t source = MakeArray(group, "source", samples.count, task.inputs[0], type);
  const hid_t target = MakeArray(group, "target", samples.count, task.inputs[1], type);
  std::vector<float> sources(kAtATime * static_cast<std::size_t>(NumbersIn(task.inputs[0])));
  std::vector<float> targets(kAtATime * static_cast<std::size_t>(NumbersIn(task.inputs[1])));
  std::vector<float> told(targets.size());
  const BatchRoom room{.inputs = {sources.data(), targets.data()}, .targets = told.data()};
  for (std::uint32_t first = 0; first < samples.count; first += kAtATime) {
    std::vector<std::uint32_t> indices(std::min(kAtATime, samples.count - first));
    std::iota(indices.begin(), indices.end(), first);
    Must(samples.gather(indices, std::nullopt, room).has_value(), "gather");
    const auto count = static_cast<std::uint32_t>(indices.size());
    Append(source, first, count, task.inputs[0], sources.data());
    Append(target, first, count, task.inputs[1], targets.data());
  }
  H5Dclose(source);
  H5Dclose(target);
  H5Gclose(group);
}

int Main(int argc, char** argv) {
  Must(argc >= 2, "begin: write_hdf5 FILE [ARGUMENTS] [double]");
  const DatasetEntry& entry = *FindDataset("seq2seq");
  const Result<Arguments> arguments = Arguments::Parse(argc > 2 ? argv[2] : "", entry.arguments);
  Must(arguments.has_value(), "read the arguments");
  const Result<Dataset> dataset = entry.load("", *arguments);
  const bool wide = argc > 3 && std::strcmp(argv[3], "double") == 0;
  const hid_t type = wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
  const hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  Must(file >= 0, "make the file");
  Write(file, "train", dataset->task, dataset->train, type);
  Write(file, "test", dataset->task, dataset->test, type);
  Must(H5Fclose(file) >= 0, "close the file");
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  return ddprun::Main(argc, argv);
}
