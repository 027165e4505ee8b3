// The data sets that the trainer knows, each from a file of its own.
//
// To add one: a file beside toy.cc that defines its entry, and a line in the table in entries.cc.
#pragma once

#include <span>
#include <string_view>

#include "trainer/data/dataset.h"

namespace ddprun {

// MNIST (Y. LeCun, C. Cortes, C. Burges): four IDX files under one directory, each plain or .gz.
// mnist32: the same, padded to 32x32 and three channels. (mnist.cc)
extern const DatasetEntry kMnist;
extern const DatasetEntry kMnist32;

// CIFAR-10 (A. Krizhevsky), the binary version: data_batch_1.bin to data_batch_5.bin and
// test_batch.bin, each 10,000 records of a label and 3x32x32 bytes. Not shipped. (cifar10.cc)
extern const DatasetEntry kCifar10;

// Made up, the same in every process. synthetic: 3x32x32 images, a pattern per class under noise.
// toy: 10 random numbers, and 5 that depend on them linearly. seq2seq: random vectors. circle:
// points in two classes.
extern const DatasetEntry kSynthetic;
extern const DatasetEntry kToyData;
extern const DatasetEntry kSeq2Seq;
extern const DatasetEntry kCircle;
Task SequenceTask(const Arguments& arguments);  // Of seq2seq.

// seq2seq's kind of sequences from an HDF5 file. (hdf5.cc)
extern const DatasetEntry kHdf5;

std::span<const DatasetEntry* const> KnownDatasets();
const DatasetEntry* FindDataset(std::string_view name);

}  // namespace ddprun
