#include "trainer/learning/transfer.h"

#include <map>
#include <set>

namespace ddprun {
namespace {

std::string Kind(const Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.shape) {
    text += (text.empty() ? "" : ",") + std::to_string(size);
  }
  return std::string(NameOf(tensor.dtype)) + "[" + text + "]";
}

void AddList(std::string& text, const char* what, const std::vector<std::string>& names) {
  if (names.empty()) {
    return;
  }
  text += (text.empty() ? "" : "\n") + std::string(what) + " " + std::to_string(names.size()) + ":";
  for (const std::string& name : names) {
    text += " " + name;
  }
}

}  // namespace

Result<TransferReport> Transfer(const std::vector<Tensor>& given, bool strict,
                                std::vector<Tensor>& model) {
  std::map<std::string, const Tensor*> there;
  for (const Tensor& tensor : given) {
    there[tensor.name] = &tensor;
  }
  TransferReport report;
  std::vector<Tensor> filled = model;
  std::set<std::string> mine;
  for (Tensor& tensor : filled) {
    mine.insert(tensor.name);
    const auto found = there.find(tensor.name);
    if (found == there.end()) {
      report.missing.push_back(tensor.name);
    } else if (found->second->dtype != tensor.dtype || found->second->shape != tensor.shape) {
      report.misfits.push_back(tensor.name + " (" + Kind(*found->second) + " there, " +
                               Kind(tensor) + " here)");
    } else {
      tensor.bytes = found->second->bytes;
      report.loaded.push_back(tensor.name);
    }
  }
  for (const Tensor& tensor : given) {
    if (mine.count(tensor.name) == 0) {
      report.unused.push_back(tensor.name);
    }
  }
  const bool exact = report.missing.empty() && report.unused.empty() && report.misfits.empty();
  if (report.loaded.empty() || (strict && !exact)) {
    return Error{ErrorKind::kInvalid,
                 "the parameters do not fit this model" +
                     std::string(strict ? " (--init-strict=no loads only those that do)"
                                        : ", none of them") +
                     ":\n" + Describe(report)};
  }
  model = std::move(filled);
  return report;
}

std::string Describe(const TransferReport& report) {
  std::string text;
  AddList(text, "loaded", report.loaded);
  AddList(text, "missing, left as initialised,", report.missing);
  AddList(text, "of another shape, left as initialised,", report.misfits);
  AddList(text, "not of this model, skipped,", report.unused);
  return text;
}

}  // namespace ddprun
