#include "trainer/learning/matmul.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string_view>

namespace ddprun {
namespace {

int g_products = 0;  // By oneDNN.

std::unique_ptr<at::ObserverContext> Count(const at::RecordFunction& function) {
  g_products += std::string_view(function.name()) == "mkldnn::_linear_pointwise" ? 1 : 0;
  return nullptr;
}

class Matmul : public testing::Test {
 protected:
  static void SetUpTestSuite() { MultiplyWithOneDnn(); }

  // Of `product`, which must be `wanted` up to rounding.
  static int Products(const std::function<at::Tensor()>& product, const at::Tensor& wanted) {
    g_products = 0;
    const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(Count));
    const at::Tensor given = product();
    at::removeCallback(handle);
    EXPECT_EQ(given.sizes(), wanted.sizes());
    EXPECT_TRUE(at::allclose(given.to(at::kDouble), wanted, 1e-4, 1e-4));
    return g_products;
  }

  static at::Tensor Exactly(const at::Tensor& left, const at::Tensor& right) {
    return at::mm(left.to(at::kDouble), right.to(at::kDouble));
  }

  const at::Tensor left_ = at::randn({100, 200});
  const at::Tensor right_ = at::randn({200, 150});
  const at::Tensor bias_ = at::randn({150});
};

TEST_F(Matmul, OneDnnTakesLargeProductsHoweverTheyLie) {
  const at::Tensor wanted = Exactly(left_, right_);
  const at::Tensor columns = left_.t().contiguous().t();  // The same numbers, by columns.
  const at::Tensor rows = right_.t().contiguous().t();
  for (const at::Tensor& left : {left_, columns}) {
    for (const at::Tensor& right : {right_, rows}) {
      EXPECT_EQ(Products([&] { return at::mm(left, right); }, wanted), 1);
      EXPECT_EQ(Products([&] { return at::addmm(bias_, left, right); }, wanted + bias_), 1);
      at::Tensor out = at::empty({100, 150});
      EXPECT_EQ(Products([&] { return at::mm_out(out, left, right); }, wanted), 1);
      at::Tensor out_by_columns = at::empty({150, 100}).t();
      EXPECT_EQ(Products([&] { return at::addmm_out(out_by_columns, bias_, left, right); },
                         wanted + bias_),
                1);
    }
  }
}

TEST_F(Matmul, OtherProductsStayWithLibtorch) {
  const at::Tensor every_second = at::randn({200, 200}).slice(0, 0, 200, 2);
  EXPECT_EQ(Products([&] { return at::mm(every_second, right_); }, Exactly(every_second, right_)),
            0);
  const at::Tensor same_rows = at::randn({1, 200}).expand({100, 200});
  EXPECT_EQ(Products([&] { return at::mm(same_rows, right_); }, Exactly(same_rows, right_)), 0);
  const at::Tensor few = left_.narrow(0, 0, 3);
  EXPECT_EQ(Products([&] { return at::mm(few, right_); }, Exactly(few, right_)), 0);
  const at::Tensor wanted = Exactly(left_, right_);
  EXPECT_EQ(
      Products([&] { return at::addmm(bias_, left_, right_, 0.5, 2); }, 2 * wanted + 0.5 * bias_),
      0);
  const at::Tensor table = at::randn({100, 150});
  EXPECT_EQ(Products([&] { return at::addmm(table, left_, right_); }, wanted + table), 0);
  at::Tensor none = at::empty({0});
  EXPECT_EQ(Products([&] { return at::mm_out(none, left_, right_); }, wanted), 0);
  const at::Tensor doubles = left_.to(at::kDouble);
  EXPECT_EQ(Products([&] { return at::mm(doubles, right_.to(at::kDouble)); }, wanted), 0);
  EXPECT_THROW(at::mm(left_, left_), c10::Error);
  EXPECT_THROW(at::mm(left_, right_.to(at::kDouble)), c10::Error);
}

TEST_F(Matmul, GradientsAreOfTheSameProducts) {
  at::Tensor weight = at::randn({150, 200});
  at::Tensor input = left_.clone();
  weight.set_requires_grad(true);
  input.set_requires_grad(true);
  const at::Tensor up = at::randn({100, 150});
  const int products = Products(
      [&] {
        at::linear(input, weight, bias_).backward(up);
        return weight.grad();
      },
      Exactly(up.t(), left_));
  EXPECT_EQ(products, 3);
  EXPECT_TRUE(at::allclose(input.grad().to(at::kDouble), Exactly(up, weight.detach()), 1e-4, 1e-4));
}

}  // namespace
}  // namespace ddprun
