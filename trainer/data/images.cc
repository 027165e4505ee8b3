#include "trainer/data/images.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "trainer/random.h"

namespace ddprun {
namespace {

using Table = std::array<float, 256>;

// A pixel's number is the same whether it is looked up or computed, several at a time.
struct Normalisation {
  float scale;
  float shift;

  Normalisation(double mean, double deviation)
      : scale(static_cast<float>(1.0 / (255.0 * deviation))),
        shift(static_cast<float>(-mean / deviation)) {}
  float operator()(std::uint8_t byte) const { return static_cast<float>(byte) * scale + shift; }
};

Table TableOf(const Normalisation& normalisation) {
  Table table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = normalisation(static_cast<std::uint8_t>(byte));
  }
  return table;
}

// In blocks of a fixed size, which compilers turn into vector instructions.
[[gnu::always_inline]] inline void CopyPlain(const Normalisation& given,
                                             const std::uint8_t* __restrict image,
                                             std::size_t numbers, float* __restrict out) {
  constexpr std::size_t kBlock = 16;
  const Normalisation normalisation = given;
  std::size_t done = 0;
  for (; done + kBlock <= numbers; done += kBlock) {
    for (std::size_t i = 0; i < kBlock; ++i) {
      out[done + i] = normalisation(image[done + i]);
    }
  }
  for (; done < numbers; ++done) {
    out[done] = normalisation(image[done]);
  }
}

using CopyFunction = void (*)(const Normalisation&, const std::uint8_t*, std::size_t, float*);

#if defined(__x86_64__)
// Not FMA, which would give other numbers than a table's.
[[gnu::target("avx2")]] void CopyWide(const Normalisation& given, const std::uint8_t* image,
                                      std::size_t numbers, float* out) {
  CopyPlain(given, image, numbers, out);
}
#endif

void CopyNarrow(const Normalisation& given, const std::uint8_t* image, std::size_t numbers,
                float* out) {
  CopyPlain(given, image, numbers, out);
}

CopyFunction BestCopy() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    return CopyWide;
  }
#endif
  return CopyNarrow;
}

// The samples of a batch lie anywhere, so the processor cannot guess which come next.
constexpr std::size_t kSamplesAhead = 4;
constexpr std::size_t kMostAhead = 4096;  // Bytes of each: a large one is read in order anyway.
constexpr std::size_t kCacheLine = 64;

// Where the model's image begins in the stored one: row and column, negative in the border.
struct Placement {
  std::int64_t row = 0;
  std::int64_t column = 0;
  bool flip = false;
};

class ImageSamples {
 public:
  ImageSamples(const ImageFormat& format, ImageBytes bytes)
      : format_(format), bytes_(std::move(bytes)) {
    CHECK(format.side >= format.stored_side && format.channels >= format.planes &&
          format.channels <= tables_.size());
    for (std::size_t channel = 0; channel < format.channels; ++channel) {
      const Normalisation normalisation(format.mean[channel], format.deviation[channel]);
      tables_[channel] = TableOf(normalisation);
      first_ = channel == 0 ? normalisation : first_;
    }
  }

  void Gather(std::span<const std::uint32_t> indices, const std::optional<AugmentKey>& key,
              const BatchRoom& room) const {
    const std::size_t numbers = std::size_t{format_.channels} * format_.side * format_.side;
    const bool as_stored = format_.side == format_.stored_side &&
                           format_.channels == format_.planes && format_.channels == 1;
    float* out = room.inputs[0];
    std::int64_t* label = room.labels;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (i + kSamplesAhead < indices.size()) {
        Prefetch(indices[i + kSamplesAhead]);
      }
      const std::uint32_t index = indices[i];
      CHECK(index < bytes_.count);
      const std::uint8_t* const image = ImageAt(index);
      if (as_stored && !(key && Augments())) {
        copy_all_(first_, image, numbers, out);
      } else {
        Place(image, PlacementFor(index, key), out);
      }
      *label++ = *LabelAt(index);
      out += numbers;
    }
  }

 private:
  const std::uint8_t* ImageAt(std::uint32_t index) const {
    return bytes_.pieces[index / bytes_.per_piece].images +
           std::size_t{index % bytes_.per_piece} * bytes_.image_stride;
  }

  const std::uint8_t* LabelAt(std::uint32_t index) const {
    return bytes_.pieces[index / bytes_.per_piece].labels +
           std::size_t{index % bytes_.per_piece} * bytes_.label_stride;
  }

  // Inlined: GCC 12 takes a function that only prefetches for one without effects, and drops it.
  [[gnu::always_inline]] inline void Prefetch(std::uint32_t index) const {
    if (index >= bytes_.count) {
      return;  // Its turn will tell.
    }
    const std::size_t size =
        std::size_t{format_.planes} * format_.stored_side * format_.stored_side;
    const std::uint8_t* const image = ImageAt(index);
    for (std::size_t at = 0; at < std::min(size, kMostAhead); at += kCacheLine) {
      __builtin_prefetch(image + at);
    }
  }

  bool Augments() const { return format_.crop_padding > 0 || format_.flip; }

  Placement PlacementFor(std::uint32_t index, const std::optional<AugmentKey>& key) const {
    const std::int64_t border = (format_.side - format_.stored_side) / 2;
    Placement placement{-border, -border, false};
    if (!key || !Augments()) {
      return placement;
    }
    const std::uint64_t draw = Mix(Mix(Mix(key->seed) ^ key->epoch) ^ index);
    const std::uint64_t places = 2 * std::uint64_t{format_.crop_padding} + 1;
    const auto padding = static_cast<std::int64_t>(format_.crop_padding);
    placement.row += static_cast<std::int64_t>((draw & 0xffffff) % places) - padding;
    placement.column += static_cast<std::int64_t>((draw >> 24 & 0xffffff) % places) - padding;
    placement.flip = format_.flip && (draw >> 63) != 0;
    return placement;
  }

  void Place(const std::uint8_t* image, const Placement& placement, float* out) const {
    const auto side = static_cast<std::int64_t>(format_.side);
    const auto stored = static_cast<std::int64_t>(format_.stored_side);
    const std::int64_t first = std::clamp<std::int64_t>(-placement.column, 0, side);
    const std::int64_t last = std::clamp<std::int64_t>(stored - placement.column, first, side);
    for (std::uint32_t channel = 0; channel < format_.channels; ++channel) {
      const std::uint32_t plane = std::min(channel, format_.planes - 1);
      const float* const table = tables_[channel].data();
      for (std::int64_t row = 0; row < side; ++row, out += side) {
        const std::int64_t from = row + placement.row;
        if (from < 0 || from >= stored) {
          std::fill_n(out, side, table[0]);
          continue;
        }
        const std::uint8_t* const line =
            image + (plane * stored + from) * stored + placement.column;
        std::fill_n(out, first, table[0]);
        for (std::int64_t column = first; column < last; ++column) {
          out[column] = table[line[column]];
        }
        std::fill_n(out + last, side - last, table[0]);
        if (placement.flip) {
          std::reverse(out, out + side);
        }
      }
    }
  }

  ImageFormat format_;
  ImageBytes bytes_;
  std::array<Table, 3> tables_{};
  Normalisation first_{0, 1};  // Of the first channel.
  const CopyFunction copy_all_ = BestCopy();
};

}  // namespace

Samples MakeImageSamples(const ImageFormat& format, ImageBytes bytes) {
  const std::uint32_t count = bytes.count;
  auto images = std::make_shared<const ImageSamples>(format, std::move(bytes));
  return {count,
          [images](std::span<const std::uint32_t> indices, const std::optional<AugmentKey>& key,
                   const BatchRoom& room) -> Result<void> {
            images->Gather(indices, key, room);
            return {};
          }};
}

Task ImageTask(const ImageFormat& format, std::int64_t classes) {
  return {
      .inputs = {{format.channels, format.side, format.side}}, .classes = classes, .target = {}};
}

}  // namespace ddprun
