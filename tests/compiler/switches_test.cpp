// Optimisations can be left out, one by one: programs then do the same with more equations, kernels,
// memory or instructions.
#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "compiler/support.hpp"
#include "core/environment.hpp"
#include "runtime/cpu.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/grad.hpp"
#include "telamon/jacobian.hpp"
#include "telamon/numpy.hpp"
#include "telamon/vmap.hpp"

namespace telamon::testing {
namespace {

using runtime::Executable;

std::int64_t occurrences(const std::string& text, const std::string& word) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    ++count;
  return count;
}
// What a measure counts: a word in the text of a stage; `sign` -1 where the optimisation makes more.
std::function<double(const Executable&)> words(const char* stage, const char* word, int sign = 1) {
  return [=](const Executable& e) {
    return sign * static_cast<double>(occurrences(e.text(stage), word));
  };
}
double kernels(const Executable& e) { return e.info().kernels; }
double arena(const Executable& e) { return static_cast<double>(e.info().arena_bytes); }

struct Example {
  Program f;
  Arrays inputs;
  std::function<double(const Executable&)> measure;  ///< larger without the optimisation
  std::optional<std::vector<bool>> donated = {};     ///< if its callers say so
};

Array product(const Array& a, const Array& b) {
  DotDimensionNumbers dn;
  dn.lhs_contracting = {1};
  dn.rhs_contracting = {0};
  return lax::dot_general(a, b, dn);
}

std::map<std::string_view, Example> examples() {
  const Array small = uniform({20, 40}, DType::f64), square = uniform({8, 8}, DType::f64, -1, 1),
              large = uniform({1 << 20}, DType::f32, 0, 1);
  const auto lanes = static_cast<std::int64_t>(runtime::vector_bytes() / sizeof(double));
  std::map<std::string_view, Example> all;
  all["fold_constants"] = {
      [](std::span<const Array> x) {
        const Array row = lax::exp(lax::iota(DType::f64, {40}, 0));
        return Arrays{lax::mul(x[0], lax::broadcast_in_dim(row, {20, 40}, {1}))};
      },
      {small},
      words("jaxpr", "= exp")};
  all["simplify"] = {[](std::span<const Array> x) { return Arrays{lax::neg(lax::neg(x[0]))}; },
                     {small},
                     words("jaxpr", "= neg")};
  all["cse"] = {
      [](std::span<const Array> x) { return Arrays{lax::exp(x[0]), lax::sin(lax::exp(x[0]))}; },
      {small},
      words("jaxpr", "= exp")};
  // -(-x) is x: the minus inside is superfluous then.
  all["dce"] = {[](std::span<const Array> x) { return Arrays{lax::neg(lax::neg(x[0]))}; },
                {small},
                words("jaxpr", "= neg")};
  // What does not change from trip to trip stays in the loop: exp comes after the word scan.
  all["loops"] = {
      [](std::span<const Array> x) {
        return Arrays{
            fori_loop(0, 5, [k = x[0]](const Array&, const Array& c) { return c * exp(k); }, x[1])};
      },
      {square, square},
      [](const Executable& e) {
        const std::string text = e.text("jaxpr");
        return text.find("= exp") > text.find("while") || text.find("= exp") > text.find("scan")
                   ? 1.0
                   : 0.0;
      }};
  // The state of a loop over single numbers stays in registers: the loop is one kernel.
  all["cells"] = {
      [](std::span<const Array> x) {
        return Arrays{fori_loop(
            0, 50, [](const Array&, const Array& c) { return 3.5 * c * (1.0 - c); }, x[0])};
      },
      {uniform({}, DType::f64, 0, 1)},
      words("plan", "cells", -1)};
  // What each member of a batch of loops writes down lies by members at once.
  all["turned_rows"] = {[](std::span<const Array> x) {
                          const auto member = [](const Array& start) {
                            const auto step = [](const Array& c) {
                              const Array next = 0.5 * lax::rev(c, {0});
                              return std::pair{next, next};
                            };
                            return scan(step, start, none, {.length = 9}).second;
                          };
                          return Arrays{vmap(member)(x[0])};
                        },
                        {uniform({40, 3}, DType::f32)},
                        words("plan", "kernel loop transpose")};
  all["update_chains"] = {[](std::span<const Array> x) {
                            Array m = x[0];
                            for (int j = 0; j < 8; ++j) m = m.at(slice(), j).set(x[0](j));
                            return Arrays{m};
                          },
                          {square},
                          words("jaxpr", "dynamic_update_slice")};
  // Columns that are rows of another matrix are its transpose.
  all["update_loops"] = {
      [](std::span<const Array> x) {
        return Arrays{fori_loop(
            0, 40, [&](const Array& j, const Array& m) { return m.at(slice(), j).set(x[0](j)); },
            x[0])};
      },
      {uniform({40, 40}, DType::f32)},
      words("jaxpr", "scan")};
  // Of c <- r c (1 - c) two numbers per trip would be written down for the way back, one is enough.
  all["residuals"] = {
      [](std::span<const Array> x) {
        const auto last = [](const Array& r, const Array& c0) {
          return scan([&](const Array& c) { return std::pair{r * c * (1 - c), none}; }, c0, none,
                      {.length = 20'000})
              .first;
        };
        const auto [r, c0] = grad<0, 1>(last)(x[0], x[1]);
        return Arrays{r, c0};
      },
      {uniform({}, DType::f64, 1.2, 1.5), uniform({}, DType::f64, 0.4, 0.5)},
      arena};
  // Of the derivative along one number nothing has to be written down: both loops run forwards.
  all["join_loops"] = {
      [](std::span<const Array> x) {
        const auto last = [](const Array& r) {
          return scan([&](const Array& c) { return std::pair{r * c * (1 - c), none}; },
                      lax::full({}, DType::f64, 0.5), none, {.length = 20'000})
              .first;
        };
        return Arrays{grad(last)(x[0])};
      },
      {uniform({}, DType::f64, 1.2, 1.5)},
      arena};
  all["fuse"] = {
      [](std::span<const Array> x) { return Arrays{lax::exp(lax::neg(x[0]))}; }, {small}, kernels};
  all["merge_siblings"] = {[](std::span<const Array> x) {
                             return Arrays{lax::reduce_sum(x[0], {1}), lax::reduce_max(x[0], {1})};
                           },
                           {small},
                           kernels};
  // exp may write where its operand lies; the products are kernels of their own.
  all["in_place"] = {
      [](std::span<const Array> x) { return Arrays{product(lax::exp(product(x[0], x[0])), x[0])}; },
      {square},
      arena};
  // One element changes on each trip: the rest stays where it is.
  all["update_in_place"] = {
      [](std::span<const Array> x) {
        return Arrays{fori_loop(
            0, 9, [](const Array& i, const Array& y) { return y.at(i).set(y(i) * y(0)); }, x[0])};
      },
      {uniform({2000}, DType::f64)},
      arena};
  all["reuse_memory"] = {[](std::span<const Array> x) {
                           Array y = x[0];
                           for (int i = 0; i < 6; ++i) y = product(y, x[0]);
                           return Arrays{y};
                         },
                         {square},
                         arena};
  // The exponentials lie in the memory of the result that is written over them.
  all["place_in_results"] = {
      [](std::span<const Array> x) { return Arrays{lax::exp(x[0]) * sum(lax::exp(x[0]))}; },
      {small},
      arena};
  all["matmul"] = {[](std::span<const Array> x) { return Arrays{product(x[0], x[0])}; },
                   {uniform({128, 128}, DType::f32, 0, 1)},
                   kernels};
  all["input_tables"] = {[](std::span<const Array> x) {
                           Array y = x[0];
                           for (std::size_t i = 1; i < x.size(); ++i) y = lax::add(y, x[i]);
                           return Arrays{y};
                         },
                         Arrays(150, small), words("ir", "load <")};
  all["join_parts"] = {
      [](std::span<const Array> x) { return Arrays{lax::concatenate(Arrays(40, x[0]), 0)}; },
      {uniform({3}, DType::f32)},
      words("ir", "select")};
  all["small_floats"] = {
      [](std::span<const Array> x) { return Arrays{lax::add(lax::mul(x[0], x[0]), x[0])}; },
      {uniform({200}, DType::bf16)},
      words("plan", "call ")};
  all["wraps"] = {
      [](std::span<const Array> x) { return Arrays{x[0].at(x[1]).add(x[2])}; },
      {uniform({50}, DType::f32), lax::iota(DType::i32, {90}), uniform({90}, DType::f32)},
      words("jaxpr", "select_n")};
  // Rows of two numbers, by two indices each; numbers of the same rows.
  all["flat_lookups"] = {[](std::span<const Array> x) { return Arrays{x[0](x[1], x[1])}; },
                         {uniform({50, 60, 2}, DType::f32), lax::iota(DType::i32, {90})},
                         words("jaxpr", "slice_sizes=(1, 1, 2)")};
  all["row_lookups"] = {
      [](std::span<const Array> x) { return Arrays{x[0](x[1], 0) * x[0](x[1], 1)}; },
      {uniform({50, 2}, DType::f32), lax::iota(DType::i32, {90})},
      words("jaxpr", "= gather")};
  // What is added to a part of a donated argument needs no pass over all of it.
  all["padded_sums"] = {[](std::span<const Array> x) { return Arrays{x[0].at(3).add(1.0f)}; },
                        {uniform({2000}, DType::f32)},
                        words("jaxpr", "= pad"),
                        std::vector{true}};
  all["fold_places"] = {
      [](std::span<const Array> x) { return Arrays{lax::argmax(x[0], 1, DType::i32)}; },
      {uniform({16, 256}, DType::f32)},
      words("jaxpr", "= reduce_max")};
  all["parallel"] = {[](std::span<const Array> x) { return Arrays{lax::exp(x[0])}; },
                     {large},
                     words("ir", "telamon_jit_parallel", -1)};
  all["partial_reductions"] = {
      [](std::span<const Array> x) { return Arrays{lax::reduce_max(x[0], {0})}; },
      {large},
      [](const Executable& e) { return -arena(e); }};
  all["row_blocks"] = {[](std::span<const Array> x) { return Arrays{lax::reduce_sum(x[0], {1})}; },
                       {uniform({64, 8}, DType::f32)},
                       words("ir", "shufflevector", -1)};
  all["load_columns"] = {
      [](std::span<const Array> x) { return Arrays{lax::neg(lax::slice(x[0], {0, 1}, {64, 2}))}; },
      {uniform({64, 3}, DType::f32)},
      words("ir", "shufflevector", -1)};
  all["short_rows"] = {[](std::span<const Array> x) {
                         return Arrays{lax::add(x[0], lax::broadcast_in_dim(x[1], {64, 3}, {1}))};
                       },
                       {uniform({64, 3}, DType::f32), uniform({3}, DType::f32)},
                       words("ir", "insertelement", -1)};
  all["transpose_tiles"] = {
      [](std::span<const Array> x) { return Arrays{lax::neg(lax::transpose(x[0], {1, 0}))}; },
      {uniform({64, 48}, DType::f32)},
      words("ir", "shufflevector", -1)};
  // How many loops are open where the first vector is read.
  all["columns_first"] = {
      [](std::span<const Array> x) {
        const Shape shape{40, 40};
        const auto rows = [&](const Array& a) { return lax::broadcast_in_dim(a, shape, {1}); };
        return Arrays{lax::add(lax::mul(x[2], rows(x[0])), rows(x[1]))};
      },
      {uniform({40}, DType::f64), uniform({40}, DType::f64), uniform({40, 40}, DType::f64)},
      [](const Executable& e) {
        const std::string text = e.text("ir");
        return static_cast<double>(occurrences(text.substr(0, text.find("load <")), " phi "));
      }};
  all["batch_members"] = {[](std::span<const Array> x) {
                            return Arrays{vmap(jacfwd([](const Array& p) {
                              return p(0) * stack(std::vector{lax::cos(p(1)), lax::sin(p(1))});
                            }))(x[0])};
                          },
                          {uniform({100, 2}, DType::f32)},
                          words("jaxpr", ",100]")};
  all["short_axes"] = {[](std::span<const Array> x) {
                         const Array r = x[0](slice(), newaxis) - x[0](newaxis);
                         return Arrays{lax::reduce_sum(r * r, {2})};
                       },
                       {uniform({64, 3}, DType::f64)},
                       words("jaxpr", "[64,64,3]")};
  all["merge_axes"] = {
      [](std::span<const Array> x) { return Arrays{x[0](slice(1, {})) - x[0](slice({}, -1))}; },
      {uniform({40, 40, 3}, DType::f64)},
      words("jaxpr", ",40,3] = s")};
  all["moves"] = {[](std::span<const Array> x) {
                    const auto turned = [](const Array& y) {
                      return lax::transpose(lax::reshape(y, {40, 8}), {1, 0});
                    };
                    const auto back = [](const Array& y) {
                      return lax::reshape(lax::transpose(y, {1, 0}), {8, 40});
                    };
                    return Arrays{back(back(lax::exp(turned(turned(x[0])))))};
                  },
                  {uniform({8, 40}, DType::f32)},
                  words("jaxpr", "transpose")};
  // What each member of a batch multiplies by a matrix that all share.
  all["carried_moves"] = {
      [](std::span<const Array> x) {
        const auto step = [&](const Array& c) { return std::pair{tanh(matmul(x[0], c)), none}; };
        return Arrays{vmap([&](const Array& start) {
          return scan(step, start, none, {.length = 9}).first;
        })(x[1])};
      },
      {uniform({24, 24}, DType::f64, 0, .1), uniform({40, 24}, DType::f64, 0, 1)},
      words("plan", "tanh_transpose")};
  all["reorder"] = {[](std::span<const Array> x) {
                      return Arrays{lax::transpose(lax::exp(broadcast_to(x[0], {40, 8})), {1, 0})};
                    },
                    {uniform({8}, DType::f32)},
                    words("jaxpr", "transpose")};
  all["both_ways"] = {[](std::span<const Array> x) {
                        return Arrays{lax::reduce_sum(x[0], {0}), lax::reduce_sum(x[0], {1})};
                      },
                      {uniform({100, 90}, DType::f64)},
                      kernels};
  // Forces of pairs are folded for one of both.
  all["mirrored_sums"] = {[](std::span<const Array> x) {
                            const Array r = expand_dims(x[0], 1) - expand_dims(x[0], 0);
                            return Arrays{sum(r, 0), sum(r, 1)};
                          },
                          {uniform({100}, DType::f64)},
                          arena};
  // What is made of two rows of numbers is not kept for the second fold, which needs the first.
  all["recompute"] = {[](std::span<const Array> x) {
                        const Array r = lax::rsqrt(lax::square(expand_dims(x[0], 1) - x[1]) + 1.0);
                        return Arrays{sum(r / sum(r, {.axes = 1, .keepdims = true}), 0)};
                      },
                      {uniform({1024}, DType::f32), uniform({1024}, DType::f32)},
                      arena};
  all["epilogues"] = {
      [](std::span<const Array> x) { return Arrays{lax::abs(product(x[0], x[1]))}; },
      {square, square},
      kernels};
  all["streaming"] = {[](std::span<const Array> x) { return Arrays{lax::neg(x[0])}; },
                      {uniform({1 << 22}, DType::f32)},
                      words("ir", "!nontemporal", -1)};
  // The products of a batch need not all be in memory.
  all["row_groups"] = {
      [](std::span<const Array> x) {
        DotDimensionNumbers dn;
        dn.lhs_contracting = {2};
        dn.rhs_contracting = {1};
        dn.lhs_batch = dn.rhs_batch = {0};
        return Arrays{lax::reduce_sum(lax::square(lax::dot_general(x[0], x[1], dn)), {1})};
      },
      {uniform({32, 8, 16}, DType::f64), uniform({32, 16, 1000}, DType::f64)},
      arena};
  // What the places of a scatter are computed from is never more than a block.
  all["row_updates"] = {
      [](std::span<const Array> x) {
        ScatterParams params;
        params.dimension_numbers = {.inserted_window_dims = {0},
                                    .scatter_dims_to_operand_dims = {0}};
        const Array places = lax::convert_element_type(lax::mul(x[1], x[1]), DType::i32);
        return Arrays{lax::scatter_add(x[0], lax::reshape(places, {places.size(), 1}),
                                       lax::add(x[1], x[1]), params)};
      },
      {uniform({100}, DType::f32), uniform({400'000}, DType::f32, 0, 10)},
      arena};
  all["chosen_sums"] = {[](std::span<const Array> x) {
                          const auto reach = [&](const Array& w) {
                            return sum(max(matmul(x[0], w), 1));
                          };
                          return Arrays{grad(reach)(x[1])};
                        },
                        {uniform({200, 4}, DType::f32), uniform({4, 40}, DType::f32)},
                        words("plan", "scatter_add", -1)};
  all["tiles"] = {[](std::span<const Array> x) {
                    return Arrays{x[0] - expand_dims(lax::reduce_max(x[0], {0}), 0)};
                  },
                  {uniform({32, 1 << 14}, DType::f32)},
                  words("plan", "tiles ", -1)};
  // Each of 400 functions would be a kernel's, and what one computes for another would be an array.
  all["segments"] = {[](std::span<const Array> x) {
                       Array y = x[0];
                       for (int i = 0; i < 200; ++i) y = lax::sub(lax::sin(y), x[0]);
                       return Arrays{y};
                     },
                     {small},
                     words("ir", "define ", -1)};
  all["loop_stages"] = {
      [](std::span<const Array> x) { return Arrays{lax::log(lax::tanh(lax::exp(x[0])))}; },
      {large},
      words("ir", "last_stage", -1)};
  all["interleave"] = {[](std::span<const Array> x) {
                         Array y = x[0];
                         for (int i = 0; i < 12; ++i) y = lax::add(lax::mul(y, x[0]), x[0]);
                         return Arrays{y};
                       },
                       {large},
                       words("ir", "several", -1)};
  // Room on the tape for several vectors.
  all["overlap_segments"] = {[](std::span<const Array> x) {
                               Array y = x[0];
                               for (int i = 0; i < 200; ++i) y = lax::sub(lax::sin(y), x[0]);
                               return Arrays{y};
                             },
                             {small},
                             [](const Executable& e) { return -arena(e); }};
  // Quickly allocated registers are stored and loaded more often.
  all["quick_segments"] = {[](std::span<const Array> x) {
                             Array y = x[0];
                             for (int i = 0; i < 200; ++i) y = lax::sub(lax::sin(y), x[0]);
                             return Arrays{y};
                           },
                           {small},
                           words("asm", "\n", -1)};
  all["divide_ahead"] = {
      [](std::span<const Array> x) {
        Array y = x[0] / x[1];
        for (int i = 0; i < 12; ++i) y = y * x[0] + x[1];
        return Arrays{lax::reduce_sum(y, {1})};
      },
      {uniform({40, 1000}, DType::f64, 1, 2), uniform({40, 1000}, DType::f64, 1, 2)},
      words("ir", "%ahead", -1)};
  // The derivative by what a batch shares is summed over the batch once the loop has ended.
  all["defer_sums"] = {[](std::span<const Array> x) {
                         const auto loss = [](const Array& p, const Array& ys) {
                           const auto step = [&](const Array& y) {
                             return std::pair{y * p - sin(y), none};
                           };
                           return sum(scan(step, ys, none, {.length = 12}).first);
                         };
                         return Arrays{grad(loss)(x[0], x[1])};
                       },
                       {uniform({}, DType::f64, 0, 1), uniform({50}, DType::f64)},
                       words("plan", "kernel cells", -1)};
  // exp cannot tell whether a sum of products begins with 0.
  all["zero_signs"] = {[](std::span<const Array> x) {
                         const Array products = x[0](slice(), newaxis) * x[0](newaxis);
                         return Arrays{lax::exp(lax::reduce_sum(products, {2}))};
                       },
                       {uniform({64, 3}, DType::f64)},
                       words("jaxpr", "= add")};
  // Places that are read off arrays in rows, which blocks of rows do not go through.
  all["compute_places"] = {
      [](std::span<const Array> x) {
        const Array row = lax::iota(DType::f32, x[0].shape(), 0);
        const Array i = lax::convert_element_type(lax::floor(lax::exp(row * 0.01f)), DType::i32);
        const Array j = lax::convert_element_type(lax::floor(lax::exp(x[0] * 4)), DType::i32);
        return Arrays{x[0](i, j) + x[0](i, j + 1) + x[0](i + 1, j) + x[0](i + 1, j + 1)};
      },
      {uniform({600, 1024}, DType::f32)},
      kernels};
  all["weave_columns"] = {
      [](std::span<const Array> x) {
        const auto column = [](const Array& a) { return expand_dims(a, 1); };
        return Arrays{lax::concatenate(Arrays{column(lax::exp(x[0])), column(lax::neg(x[0]))}, 1)};
      },
      {uniform({640}, DType::f32)},
      kernels};
  // As written, all of the larger products come first.
  all["schedule"] = {[](std::span<const Array> x) {
                       Arrays products, outs;
                       for (int i = 1; i <= 8; ++i)
                         products.push_back(product(x[0], x[0] * static_cast<float>(i)));
                       for (const Array& p : products) outs.push_back(product(p, x[1]));
                       return outs;
                     },
                     {uniform({256, 256}, DType::f32, 0, 1), uniform({256, 8}, DType::f32, 0, 1)},
                     arena};
  // Both loops between the sorts do the same.
  all["share_kernels"] = {[](std::span<const Array> x) {
                            Array y = lax::sort(x[0], 0);
                            for (int i = 0; i < 2; ++i) y = lax::sort(lax::exp(lax::neg(y)), 0);
                            return Arrays{y};
                          },
                          {uniform({1 << 15}, DType::f32, 0, 1)},
                          words("ir", "define ")};
  // There are more functions, of no more steps than that each.
  all["entry_parts"] = {[](std::span<const Array> x) {
                          Array y = x[0];
                          for (int i = 0; i < 300; ++i) y = lax::sort(y, 0);
                          return Arrays{y};
                        },
                        {uniform({20}, DType::f32)},
                        words("ir", "define ", -1)};
  // What is done for each carry is written out.
  all["carry_tables"] = {[](std::span<const Array> x) {
                           return fori_loop(
                               0, x[0](0).astype(DType::i32),
                               [](const Array&, const Arrays& all) {
                                 Arrays next;
                                 for (const Array& a : all) next.push_back(lax::sort(a, 0));
                                 return next;
                               },
                               Arrays(100, x[0]));
                         },
                         {uniform({20}, DType::f32, 1, 4)},
                         words("ir", "getelementptr")};
  all["native_kernels"] = {[](std::span<const Array> x) { return Arrays{lax::cumsum(x[0], 0)}; },
                           {uniform({1000}, DType::f64)},
                           words("ir", "@telamon_native", -1)};
  // Of a few vectors there is no loop.
  all["write_out_rows"] = {[](std::span<const Array> x) { return Arrays{lax::neg(x[0])}; },
                           {uniform({2 * lanes}, DType::f64)},
                           words("ir", " phi ")};
  // Where one array ends and the next begins is known outside of the loops.
  all["seams"] = {[](std::span<const Array> x) {
                    return Arrays{lax::exp(lax::concatenate(Arrays{x[0], x[1]}, 0))};
                  },
                  {uniform({1000}, DType::f64), uniform({1000}, DType::f64)},
                  words("ir", "select")};
  // How many vectors a loop carries.
  all["column_tiles"] = {
      [](std::span<const Array> x) { return Arrays{lax::reduce_sum(x[0], {0})}; },
      {uniform({100, 3 * lanes}, DType::f64)},
      words("ir", "phi <", -1)};
  all["accumulators"] = {
      [](std::span<const Array> x) { return Arrays{lax::reduce_sum(x[0], {1})}; },
      {uniform({16, 256}, DType::f64)},
      words("ir", "phi <", -1)};
  all["count_trips"] = {
      [](std::span<const Array> x) { return Arrays{lax::argmax(x[0], 1, DType::i32)}; },
      {uniform({16, 512}, DType::f32)},
      words("ir", "phi <", -1)};
  all["next_tiles"] = {
      [](std::span<const Array> x) {
        const Array sums = lax::reduce_sum(x[0], {1});
        return Arrays{lax::div(x[0], lax::broadcast_in_dim(sums, {600, 4096}, {0}))};
      },
      {uniform({600, 4096}, DType::f32, 1, 2)},
      words("ir", "llvm.prefetch", -1)};
  all["inline_kernels"] = {[](std::span<const Array> x) { return Arrays{lax::exp(x[0])}; },
                           {small},
                           words("ir", "define ")};
  // What the second derivatives have between their kernels, whose rows of two vectors are written out: around
  // loops the arena stays in memory. It is the context's field of number 2.
  all["keep_in_registers"] = {[](std::span<const Array> x) {
                                const auto rosenbrock = [](const Array& y) {
                                  const Array next = y(slice(2, none)), here = y(slice(none, -2));
                                  using telamon::square;
                                  return sum(100 * square(next - square(here)) + square(1 - here));
                                };
                                return Arrays{hessian(rosenbrock)(x[0])};
                              },
                              {uniform({lanes + 2}, DType::f64)},
                              words("ir", "ptr %0, i64 2")};
  return all;
}

TEST(Switches, EveryWordOfTelamonDisableLeavesOutItsOptimisation) {
  const auto all = examples();
  for (const std::string_view word : detail::environment_words("TELAMON_DISABLE")) {
    SCOPED_TRACE(word);
    const auto found = all.find(word);
    ASSERT_NE(found, all.end()) << "no program shows what is left out";
    const auto& [f, inputs, measure, donated] = found->second;
    const Compiled with = check(f, inputs, -1, 1e3, {.donated = donated});
    const Compiled without =
        check(f, inputs, -1, 1e3,
              {.name = std::string(word), .disabled = {std::string(word)}, .donated = donated});
    EXPECT_LT(measure(*with), measure(*without));
    const bool is_pass = word == "fold_constants" || word == "simplify" || word == "cse" ||
                         word == "dce" || word == "loops" || word == "join_loops" ||
                         word == "update_loops" || word == "residuals" || word == "moves" ||
                         word == "carried_moves" || word == "reorder" || word == "batch_members" ||
                         word == "short_axes" || word == "merge_axes" || word == "small_floats" ||
                         word == "mirrored_sums" || word == "row_lookups" ||
                         word == "flat_lookups" || word == "wraps" || word == "padded_sums" ||
                         word == "row_updates" || word == "row_groups" || word == "chosen_sums" ||
                         word == "tiles" || word == "update_chains";
    const auto passes = [&](const Executable& e) {
      return std::count_if(e.info().passes.begin(), e.info().passes.end(),
                           [&](const PassTime& p) { return p.name == word; });
    };
    EXPECT_EQ(passes(*without), word == "fuse" ? 1 : 0);  // planning itself is always done
    EXPECT_EQ(passes(*with), is_pass || word == "fuse" ? 1 : 0);
  }
}

// What one pass does away with, another one must be able to meet.
TEST(Switches, LONG_LeaveOutAnyOneOfWhatOthersShow) {
  for (const std::string_view word : detail::environment_words("TELAMON_DISABLE")) {
    for (const auto& [other, example] : examples()) {
      SCOPED_TRACE(std::string(other) + " without " + std::string(word));
      check(example.f, example.inputs, -1, 1e3,
            {.name = "left_out", .disabled = {std::string(word)}, .donated = example.donated});
    }
  }
}

// As products of batches make them.
TEST(Switches, LeaveTransposesThatMoveNothing) {
  const Program f = [](std::span<const Array> x) {
    DotDimensionNumbers dn;
    dn.lhs_contracting = {3};
    dn.rhs_contracting = {2};
    dn.lhs_batch = {0, 1};
    dn.rhs_batch = {1, 0};
    return Arrays{lax::dot_general(x[0], x[1], dn)};
  };
  check(f, {uniform({2, 3, 4, 5}, DType::f32), uniform({3, 2, 5}, DType::f32)}, -1, 1e3,
        {.contract = false, .name = "left_out", .disabled = {"simplify"}});
}

TEST(Switches, AreExplainedInTheDocumentation) {
  std::ifstream file(std::string(TELAMON_SOURCE_DIR) + "/docs/how-to/environment.md");
  std::vector<std::string> explained;  // | `name` | what it does |
  bool here = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) here = line == "## What `TELAMON_DISABLE` leaves out";
    if (here && line.starts_with("| `")) explained.push_back(line.substr(3, line.find("` | ") - 3));
  }
  const auto words = detail::environment_words("TELAMON_DISABLE");
  EXPECT_THAT(explained, ::testing::UnorderedElementsAreArray(words.begin(), words.end()));
}

}  // namespace
}  // namespace telamon::testing
