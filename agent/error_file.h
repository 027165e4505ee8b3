// What a worker wrote into its TORCHELASTIC_ERROR_FILE before it died: who uses @record of
// torch.distributed.elastic leaves one.
//
// Both forms of torchrun are read:
//   {"message": {"message": "<Type>: <text>", "extraInfo": {"py_callstack": ..., "timestamp":
//   ...}}}
//   {"message": "<text>", "timestamp": ...}
// Anything else is no error of ours: a worker that dies may leave half a file. Pure but for Read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ddprun {

struct WorkerError {
  std::string message;    // "ValueError: boom"
  std::string traceback;  // The whole call stack; may be empty.
  std::optional<std::int64_t> timestamp;
  bool operator==(const WorkerError&) const = default;
};

// Nothing where the text is neither form.
std::optional<WorkerError> ParseErrorFile(const std::string& text);

// The same JSON with message.errorCode added, as torchrun's agent writes it for its own parent.
// The flat form stays as it is. Nothing where the text is no JSON object.
std::optional<std::string> WithErrorCode(const std::string& text, int exit_code);

// The file's text; empty: none, or larger than an error can be.
std::string ReadErrorFile(const std::filesystem::path& path);

}  // namespace ddprun
