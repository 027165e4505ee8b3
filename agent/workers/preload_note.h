// Whether a program is a preload process by itself: its file carries the note of
// proto/preload_protocol.h.
//
// Reads the file's headers, bounded, and nothing else of it. Waits for its disk.
#pragma once

#include <filesystem>

#include "common/result.h"

namespace ddprun {

// An error: it is none, of another version, or cannot be read; the message is for people.
Result<void> CheckPreloadNote(const std::filesystem::path& program);

}  // namespace ddprun
