// Labelled images as bytes, and how a batch of them becomes normalised floats: the part that all
// image sets share.
//
// An image may be given more border and channels than its file has (MNIST as 3x32x32): the added
// border is byte 0, and the last plane stands for the channels beyond it. Augmentation is
// torchvision's RandomCrop(size, padding) and RandomHorizontalFlip, drawn for (seed, epoch,
// sample): it does not matter which rank, batch or thread asks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/data/dataset.h"

namespace ddprun {

struct ImageFormat {
  std::uint32_t planes = 1;  // As stored: planes, rows, columns.
  std::uint32_t stored_side = 0;
  std::uint32_t channels = 1;  // As the model sees it; at least as many and as large.
  std::uint32_t side = 0;
  std::array<double, 3> mean{};  // Of each channel: (byte / 255 - mean) / deviation.
  std::array<double, 3> deviation{};
  std::uint32_t crop_padding = 0;  // 0: no random crop.
  bool flip = false;
};

// Where the bytes are: a label and an image every `stride` bytes in pieces of equal length.
struct ImageBytes {
  struct Piece {
    const std::uint8_t* images;
    const std::uint8_t* labels;
  };
  std::uint32_t count = 0;
  std::uint32_t per_piece = 0;
  std::uint32_t image_stride = 0;
  std::uint32_t label_stride = 0;
  std::vector<Piece> pieces;
  std::shared_ptr<const void> owner;
};

Samples MakeImageSamples(const ImageFormat& format, ImageBytes bytes);

Task ImageTask(const ImageFormat& format, std::int64_t classes);

}  // namespace ddprun
