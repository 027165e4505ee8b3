// For tests: what a call was refused with.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "common/result.h"

namespace ddprun {

// Whether it has failed, with these words in its message.
template <class T>
testing::AssertionResult Fails(const Result<T>& result, const std::string& words) {
  if (result) {
    return testing::AssertionFailure() << "it has succeeded";
  }
  return testing::AssertionResult(result.error().message.find(words) != std::string::npos)
         << "its message is: " << result.error().message;
}

template <class T>
testing::AssertionResult Fails(const Result<T>& result, ErrorKind kind,
                               const std::string& words = "") {
  if (!result && result.error().kind != kind) {
    return testing::AssertionFailure() << "it is of another kind: " << result.error().message;
  }
  return Fails(result, words);
}

}  // namespace ddprun
