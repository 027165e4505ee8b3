#include "trainer/learning/matmul.h"

#include <ATen/CPUFunctions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace ddprun {
namespace {

// Multiplications below which finding oneDNN's kernel takes longer than it saves.
constexpr std::int64_t kLeast = 1'000'000;
constexpr std::int64_t kLeastSide = 8;  // MKL is faster with a few rows or columns.

constexpr const char* kLinearOperator = "mkldnn::_linear_pointwise";
using LinearOperator = at::Tensor(const at::Tensor&, const at::Tensor&,
                                  const std::optional<at::Tensor>&, std::string_view,
                                  c10::List<std::optional<at::Scalar>>,
                                  std::optional<std::string_view>);

// left * right + bias, by the operator that torch.compile uses for linear layers.
at::Tensor Product(const at::Tensor& left, const at::Tensor& right,
                   const std::optional<at::Tensor>& bias) {
  static const auto linear =
      c10::Dispatcher::singleton().findSchemaOrThrow(kLinearOperator, "").typed<LinearOperator>();
  static const c10::List<std::optional<at::Scalar>> none;
  return linear.call(left, right.t(), bias, "none", none, "");
}

bool IsDense(const at::Tensor& matrix) {
  return matrix.is_cpu() && matrix.scalar_type() == at::kFloat &&
         (matrix.is_contiguous() || matrix.t().is_contiguous());
}

// Whatever is wrong with them is left to libtorch, which has the message.
bool Pays(const at::Tensor& left, const at::Tensor& right) {
  if (left.dim() != 2 || right.dim() != 2 || left.size(1) != right.size(0)) {
    return false;
  }
  const auto [rows, inner, columns] = std::tuple(left.size(0), left.size(1), right.size(1));
  return rows * inner * columns >= kLeast && std::min({rows, inner, columns}) >= kLeastSide &&
         IsDense(left) && IsDense(right);
}

bool Pays(const at::Tensor& bias, const at::Tensor& left, const at::Tensor& right,
          const at::Scalar& beta, const at::Scalar& alpha) {
  return Pays(left, right) && bias.is_cpu() && bias.scalar_type() == at::kFloat &&
         bias.dim() == 1 && bias.is_contiguous() && bias.size(0) == right.size(1) &&
         beta.equal(1) && alpha.equal(1);
}

bool Fits(const at::Tensor& out, const at::Tensor& left, const at::Tensor& right) {
  return out.is_cpu() && out.scalar_type() == at::kFloat && out.dim() == 2 &&
         out.size(0) == left.size(0) && out.size(1) == right.size(1);
}

at::Tensor Mm(const at::Tensor& left, const at::Tensor& right) {
  return Pays(left, right) ? Product(left, right, {}) : at::cpu::mm(left, right);
}

at::Tensor& MmOut(const at::Tensor& left, const at::Tensor& right, at::Tensor& out) {
  return Pays(left, right) && Fits(out, left, right) ? out.copy_(Product(left, right, {}))
                                                     : at::cpu::mm_out(out, left, right);
}

at::Tensor Addmm(const at::Tensor& bias, const at::Tensor& left, const at::Tensor& right,
                 const at::Scalar& beta, const at::Scalar& alpha) {
  return Pays(bias, left, right, beta, alpha) ? Product(left, right, bias)
                                              : at::cpu::addmm(bias, left, right, beta, alpha);
}

at::Tensor& AddmmOut(const at::Tensor& bias, const at::Tensor& left, const at::Tensor& right,
                     const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  return Pays(bias, left, right, beta, alpha) && Fits(out, left, right)
             ? out.copy_(Product(left, right, bias))
             : at::cpu::addmm_out(out, bias, left, right, beta, alpha);
}

// libtorch warns of each operator that is replaced.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

bool OneDnnIsFaster() {
#ifdef __x86_64__
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f") &&
         c10::Dispatcher::singleton().findSchema({kLinearOperator, ""}).has_value();
#else
  return false;
#endif
}

void MultiplyWithOneDnn() {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  static const auto library = [] {
    torch::Library made(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
    made.impl("mm", Mm);
    made.impl("mm.out", MmOut);
    made.impl("addmm", Addmm);
    made.impl("addmm.out", AddmmOut);
    return made;
  }();
}

}  // namespace ddprun
