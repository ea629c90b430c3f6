// Code identity: callables of equal options share traces, and callables of different ones never do.
#include <functional>
#include <utility>

#include "transforms/support.hpp"

namespace telamon_test {
namespace {

const auto kScaled = [](Array x, Array n) { return x * n; };
const auto kTwice = [](Array x) { return x * 2.0; };

template <class F>
std::string identity_of(const F& f) {
  tl::detail::KeyBuilder key;
  EXPECT_TRUE(tl::detail::code_identity(f, key));
  return std::string(key.view());
}

/// make(options) has an identity of its own for each of the options, and for equal ones the same.
template <class Options, class Make>
void expect_identities(const std::vector<Options>& options, const Make& make) {
  std::vector<std::string> identities;
  for (const Options& o : options) identities.push_back(identity_of(make(o)));
  for (std::size_t i = 0; i < options.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(identities[i], identities[j]) << i << ", " << j;
    EXPECT_EQ(identity_of(make(options[i])), identities[i]) << i;
  }
}

TEST(Identity, TellsOptionsOfJitApart) {
  const std::vector<tl::JitOptions> options = {{},
                                               {.donate = {-1}},
                                               {.static_argnums = {-1}},
                                               {.donate = {0}},
                                               {.static_argnums = {0}},
                                               {.donate = {-1}, .static_argnums = {-2}},
                                               {.donate = {-2}, .static_argnums = {-1}},
                                               {.donate = {-1, -1}},
                                               {.donate = {-1, -1, -1}},
                                               {.keep_unused = true},
                                               {.contract = true},
                                               {.name = "interpret"},
                                               {.backend = "interpret"}};
  expect_identities(options, [](const tl::JitOptions& o) { return tl::jit(kScaled, o); });
}

TEST(Identity, TellsOptionsOfVmapApart) {
  const std::vector<tl::VmapOptions> options = {{},
                                                {.in_axes = 1, .out_axes = 11},
                                                {.in_axes = 11, .out_axes = 1},
                                                {.in_axes = {0, 1}},
                                                {.in_axes = {0, 1}, .out_axes = 1},
                                                {.in_axes = tl::none, .axis_size = 3},
                                                {.axis_size = 3},
                                                {.axis_size = 0},
                                                {.out_axes = 10},
                                                {.out_axes = 1, .axis_name = "0"},
                                                {.axis_name = "0"}};
  expect_identities(options, [](const tl::VmapOptions& o) { return tl::vmap(kTwice, o); });
}

TEST(Identity, TellsOptionsOfRulesApart) {
  const std::vector<tl::CustomOptions> options = {{},
                                                  {.symbolic_zeros = true},
                                                  {.name = "fz"},
                                                  {.name = "fz", .symbolic_zeros = true},
                                                  {.name = std::string("f\1", 2)},
                                                  {.name = std::string("f\0", 2)},
                                                  {.name = ""}};
  expect_identities(options, [](const tl::CustomOptions& o) {
    return tl::custom_jvp(kTwice, [](Array x, Array dx) { return std::pair{x, dx}; }, o);
  });
}

TEST(Identity, TellsOptionsOfCheckpointApart) {
  using namespace tl::checkpoint_policies;
  const std::vector<tl::CheckpointOptions> options = {
      {},
      {.policy = everything_saveable()},
      {.policy = save_only_these_names({"a"})},
      {.policy = save_only_these_names({"a"}), .name = "a"},
      {.policy = save_anything_except_these_names({"a"})},
      {.prevent_cse = false},
      {.name = "/f"},
      {.name = "nothing_saveable/f"}};
  expect_identities(options,
                    [](const tl::CheckpointOptions& o) { return tl::checkpoint(kTwice, o); });
}

TEST(Identity, OfAJittedFunctionCountsNegativeArgumentsToo) {
  const Array x(2.0);
  const auto donating = tl::jit(kScaled, {.donate = {-1}, .name = "identity_test"});
  const auto fixed = tl::jit(kScaled, {.name = "identity_test", .static_argnums = {-1}});
  donating(x, tl::sin(x));
  const Array n = tl::sin(x);
  EXPECT_EQ(value(fixed(x, n)), value(x * n));
  EXPECT_EQ(value(n), value(tl::sin(x)));  // it was static, and not donated
  fixed(x, Array(3.0));
  EXPECT_EQ(fixed.cache_size(), 2u);
  donating(x, Array(3.0));
  EXPECT_EQ(donating.cache_size(), 1u);
}

TEST(Identity, OfAMappedFunctionTellsAxesApart) {
  std::vector<std::int64_t> sizes(12, 1);
  sizes[1] = sizes[5] = sizes[11] = 2;
  const Array x = tl::reshape(tl::arange(8.0), tl::Shape(sizes));
  const auto there = tl::vmap(kTwice, {.in_axes = 1, .out_axes = 11});
  const auto back = tl::vmap(kTwice, {.in_axes = 11, .out_axes = 1});
  EXPECT_EQ(values(tl::jit(there)(x)), values(there(x)));
  EXPECT_EQ(values(tl::jit(back)(x)), values(back(x)));
  EXPECT_NE(values(there(x)), values(back(x)));
}

}  // namespace
}  // namespace telamon_test
