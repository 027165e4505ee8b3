// Result<T>: the value of a call that the system may refuse; Error names the attempt, its object,
// and the system's answer.
//
// An Error is either retried or reported by its receiver, never both logged and returned. Reading a
// value that a Result does not hold is a programmer's error.
#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "common/check.h"

namespace ddprun {

enum class ErrorKind {
  kInvalid,      // Bad input or configuration: the same call will be refused again.
  kUnavailable,  // No answer, or not now: worth trying again.
  kRefused,      // The other side refused.
  kNotFound,
  kSystem,  // The operating system failed a call.
};

struct Error {
  ErrorKind kind = ErrorKind::kSystem;
  std::string message;
};

template <class T>
using Result = boost::system::result<T, Error>;

// Found by boost::system::result when value() is called on an error.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location& where) {
  CheckFailed(error.message.c_str(), where.file_name(), static_cast<int>(where.line()));
}

// "WHAT: 'ON'", for input that cannot be used.
Error Invalid(std::string_view what, std::string_view on);

// "cannot TRIED 'ON': strerror(error_number)"; for EMFILE also the limit of open files, and advice.
Error SystemError(std::string_view tried, std::string_view on, int error_number);

}  // namespace ddprun

#define DDPRUN_CONCAT_INNER(a, b) a##b
#define DDPRUN_CONCAT(a, b) DDPRUN_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                          \
  do {                                                       \
    if (auto ddprun_result = (expression); !ddprun_result) { \
      return std::move(ddprun_result).error();               \
    }                                                        \
  } while (false)

#define ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                   \
  if (!result) {                                                \
    return std::move(result).error();                           \
  }                                                             \
  declaration = *std::move(result)

#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_INNER(DDPRUN_CONCAT(ddprun_result_, __LINE__), declaration, expression)
