// Reads the file that a worker wrote into its TORCHELASTIC_ERROR_FILE before it died: programs that
// use @record of torch.distributed.elastic leave one.
//
// Both forms of torchrun are read:
//   {"message": {"message": "<Type>: <text>", "extraInfo": {"py_callstack": ..., "timestamp":
//   ...}}}
//   {"message": "<text>", "timestamp": ...}
// Anything else is no error of ours: a worker that dies may leave half a file. Pure but for what
// reads a path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "rendezvous/messages/messages.h"

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
// The flat form stays as it is, and all of it without a code: the worker had none of its own.
// Nothing where the text is no JSON object.
std::optional<std::string> WithErrorCode(const std::string& text, std::optional<int> exit_code);

// The same for a node that has only the details of a worker of another node: @record's form, from
// what is known. nullopt: the worker left neither message nor traceback.
std::optional<std::string> MakeErrorFile(const FailureDetails& details,
                                         std::optional<int> exit_code);

// The file's text; empty: none, no ordinary file, or larger than an error can be.
std::string ReadErrorFile(const std::filesystem::path& path);

// Returns the file's contents, within the bounds of messages.h. `stays`: the file outlives the run,
// so that its path tells people something. The time is the last moment that the file can mean:
// torch writes whole seconds, and nothing is recorded after the file was last written. An end that
// is seen in that very moment came later: as with torchrun, the error file decides.
FailureDetails ReadDetails(const std::filesystem::path& path, bool stays);

}  // namespace ddprun
