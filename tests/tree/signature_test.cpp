// Signatures: which callables can be read, and what their arguments become.
#include "telamon/signature.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <type_traits>

#include "telamon/tree.hpp"

namespace tl = telamon;
using telamon::Array;
using telamon::Operand;

namespace {

struct Model {
  Array w;
};
Array loss(const Model& m, Array rate, int steps) { return steps > 0 ? m.w : rate; }
[[maybe_unused]] Array sine(const Operand& x) { return x.array; }
[[maybe_unused]] Array quiet(Array x) noexcept { return x; }
struct Functor {
  Array operator()(Array x, double y) { return y > 0 ? x : Array(); }
};
struct Overloaded {
  Array operator()(Array x) const { return x; }
  int operator()(int x) const { return x; }
};
template <class F>
struct Wrapper {  // as a transform's result
  using signature = tl::signature_of<F>;
  F f;
  template <class... A>
  auto operator()(const A&... args) const {
    return std::apply(f, tl::bind_args<F>(args...));
  }
};
template <class A, class B>
constexpr bool same = std::is_same_v<A, B>;

}  // namespace

TEST(Signature, IsReadFromFunctionsLambdasAndFunctors) {
  const auto lambda = [](Array x, int) { return x; };
  auto counting = [n = 0](const Model&) mutable { return ++n; };
  const auto generic = [](auto x) { return x; };
  static_assert(same<tl::signature_of<decltype(loss)>, Array(const Model&, Array, int)>);
  static_assert(same<tl::signature_of<decltype(&loss)>, Array(const Model&, Array, int)>);
  static_assert(same<tl::signature_of<decltype(quiet)>, Array(Array)>);
  static_assert(same<tl::signature_of<decltype(lambda)>, Array(Array, int)>);
  static_assert(same<tl::signature_of<decltype(counting)&>, int(const Model&)>);
  static_assert(same<tl::signature_of<Functor>, Array(Array, double)>);
  static_assert(same<tl::signature_of<std::function<int(Array)>>, int(Array)>);
  static_assert(same<tl::signature_of<std::reference_wrapper<Functor>>, Array(Array, double)>);
  static_assert(same<tl::signature_of<decltype(generic)>, void>);
  static_assert(same<tl::signature_of<Overloaded>, void>);
  static_assert(
      same<tl::signature_of<Wrapper<Wrapper<decltype(&loss)>>>, Array(const Model&, Array, int)>);
  static_assert(same<tl::signature_of<Wrapper<Overloaded>>, void>);
  static_assert(same<tl::with_result<Model, Array(Array, int)>, Model(Array, int)>);
  static_assert(same<tl::with_result<Model, void>, void>);
  EXPECT_EQ(counting(Model{}), 1);
}

TEST(Signature, DecidesWhatIsTraced) {
  const auto bound = tl::bind_args<decltype(loss)>(Model{1.0}, 0.1, 3);
  static_assert(same<decltype(bound), const std::tuple<Model, Array, int>>);
  EXPECT_EQ(tl::tree_structure(bound).to_string(), "(Model{w=*}, *, 3)");
  EXPECT_TRUE(std::get<1>(bound).weak_type());
  EXPECT_EQ(std::get<1>(bound).item<double>(), 0.1);

  const auto sine_args = tl::bind_args<decltype(sine)>(2);
  static_assert(same<decltype(sine_args), const std::tuple<Array>>);
  const auto from_operand = tl::bind_args<decltype(sine)>(Operand(2.0));
  EXPECT_EQ(std::get<0>(from_operand).item<double>(), 2.0);
}

TEST(Signature, OfGenericCallablesMakesNumbersTracedUnlessStatic) {
  const auto generic = [](auto x, auto y) { return y > 0 ? x : x; };
  using F = decltype(generic);
  const auto bound = tl::bind_args<F>(Array(1.0), 3);
  static_assert(same<decltype(bound), const std::tuple<Array, Array>>);
  const auto fixed = tl::bind_args<F>(2.0, tl::static_(3));
  static_assert(same<decltype(fixed), const std::tuple<Array, int>>);
  EXPECT_EQ(tl::tree_structure(fixed).to_string(), "(*, 3)");
  static_assert(
      same<tl::bound_arguments<F, Model, const char(&)[4]>, std::tuple<Model, std::string>>);
  EXPECT_EQ(std::get<1>(tl::bind_args<F>(Model{1}, "abc")), "abc");
}

TEST(Signature, SurvivesComposition) {
  const Wrapper<Wrapper<decltype(&loss)>> twice{{&loss}};
  const Array y = twice(Model{1.0}, 0.5, 0);
  EXPECT_EQ(y.item<double>(), 0.5);
  static_assert(same<tl::result_of<decltype(loss), Model, double, int>, Array>);
}

TEST(Signature, ReferencesAvoidCopiesOfMatchingArguments) {
  const Model model{1.0};
  const auto bound = tl::bind_references<decltype(loss)>(model, 0.1, 3);
  static_assert(same<decltype(bound), const std::tuple<const Model&, Array, int>>);
  EXPECT_EQ(&std::get<0>(bound), &model);
  telamon::Arrays leaves;
  tl::detail::flatten_into(bound, leaves);
  EXPECT_EQ(leaves.size(), 2u);
  tl::detail::KeyBuilder by_reference, by_value;
  tl::detail::hash_static(bound, by_reference);
  tl::detail::hash_static(tl::bind_args<decltype(loss)>(model, 0.1, 3), by_value);
  EXPECT_EQ(by_reference, by_value);
}

TEST(Signature, KeepsStaticParametersThatWrapAValue) {
  const auto f = [](Array x, tl::Static<int> n) { return n > 1 ? x : Array(0.0); };
  const auto bound = tl::bind_args<decltype(f)>(5.0, 2);
  EXPECT_EQ(tl::tree_structure(bound).to_string(), "(*, 2)");
  EXPECT_EQ(std::apply(f, bound).item<double>(), 5.0);
}
