// Reads the members of a JSON object strictly, remembering the first that is missing or of the
// wrong type, so that a reader is a plain list of fields with one check at its end.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/result.h"
#include "trainer/checkpoint/digest.h"

namespace ddprun {

class JsonFields {
 public:
  // `name` is what the messages call the object. Must outlive this, like `object`.
  JsonFields(const nlohmann::json& object, std::string_view name) : object_(object), name_(name) {}

  std::uint64_t Unsigned(const char* key) {
    const nlohmann::json* value = Find(key, &nlohmann::json::is_number_unsigned, "a whole number");
    return value == nullptr ? 0 : value->get<std::uint64_t>();
  }
  std::uint32_t Unsigned32(const char* key) {
    const std::uint64_t value = Unsigned(key);
    if (value > UINT32_MAX) {
      Fail(key, "a number below 2^32");
    }
    return static_cast<std::uint32_t>(value);
  }
  std::string Text(const char* key) {
    const nlohmann::json* value = Find(key, &nlohmann::json::is_string, "a string");
    return value == nullptr ? std::string() : value->get<std::string>();
  }
  bool Flag(const char* key) {
    const nlohmann::json* value = Find(key, &nlohmann::json::is_boolean, "true or false");
    return value != nullptr && value->get<bool>();
  }
  std::uint64_t HexText(const char* key) {
    const std::optional<std::uint64_t> value = ParseHex(Text(key));
    if (!value) {
      Fail(key, "sixteen hexadecimal digits");
    }
    return value.value_or(0);
  }
  const nlohmann::json& Object(const char* key) {
    const nlohmann::json* value = Find(key, &nlohmann::json::is_object, "an object");
    return value == nullptr ? Nothing() : *value;
  }
  const nlohmann::json& Array(const char* key) {
    const nlohmann::json* value = Find(key, &nlohmann::json::is_array, "an array");
    return value == nullptr ? Nothing() : *value;
  }

  void Fail(std::string_view key, std::string_view wanted) {
    if (!problem_) {
      problem_ = Invalid("'" + std::string(key) + "' is not " + std::string(wanted) + " in", name_);
    }
  }
  const std::optional<Error>& problem() const { return problem_; }

 private:
  static const nlohmann::json& Nothing() {
    static const nlohmann::json nothing;  // Null: iterating over it does nothing.
    return nothing;
  }
  const nlohmann::json* Find(const char* key, bool (nlohmann::json::*is_type)() const noexcept,
                             const char* wanted) {
    const auto found = object_.is_object() ? object_.find(key) : object_.end();
    if (!object_.is_object() || found == object_.end() || !((*found).*is_type)()) {
      Fail(key, wanted);
      return nullptr;
    }
    return &*found;
  }

  const nlohmann::json& object_;
  std::string name_;
  std::optional<Error> problem_;
};

}  // namespace ddprun
