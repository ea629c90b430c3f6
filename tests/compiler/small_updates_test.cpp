// Small parts written over what is computed and stored: borders and sources of fields are set where the field lies.
#include <algorithm>
#include <map>
#include <string>

#include "support.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/indexing.hpp"
#include "telamon/numpy.hpp"

namespace telamon::testing {
namespace {

using Inputs = std::span<const Array>;
constexpr std::int64_t kRows = 90, kColumns = 70;

/// What is dear enough to be stored where several read it.
Array field(const Array& x) { return (x * x + roll(x, 1, 0)) * (x + 3) - roll(x, 2, 1); }

/// How many passes over the whole field a plan has, loops within it included, but for updates of a part.
std::size_t passes(const Compiled& executable) {
  const std::string rows = std::to_string(kRows), columns = std::to_string(kColumns),
                    all = std::to_string(kRows * kColumns);
  const auto goes_through_all = [&](const std::string& step) {
    const bool whole = step.find("(" + rows + ", " + columns + ")") != std::string::npos ||
                       step.find("(" + all + ",)") != std::string::npos;
    return whole && !step.starts_with("kernel dynamic_update_slice") &&
           !step.starts_with("kernel scatter");
  };
  const auto& steps = executable->info().steps;
  return static_cast<std::size_t>(std::count_if(steps.begin(), steps.end(), goes_through_all));
}

Compiled run(const Program& f, DType dtype = DType::f64) {
  const Shape shape{kRows, kColumns};
  const Array x = lax::floor(uniform(shape, DType::f64, 0, 5));
  return check(f, {lax::convert_element_type(x, dtype), Array(7)});
}

TEST(SmallUpdates, AreMadeWhereTheArrayLies) {
  const std::map<std::string, Program> programs = {
      {"source",
       [](Inputs a) {
         const Array x = field(a[0]);
         return Arrays{x.at(3, 5).set(x(3, 5) * x(4, 5))};
       }},
      {"a row that the call says",
       [](Inputs a) {
         const Array x = field(a[0]);
         return Arrays{x.at(a[1]).set(x(a[1]) * 2)};
       }},
      {"borders, one after the other",
       [](Inputs a) {
         Array x = field(a[0]);
         x = x.at(0).set(x(1));
         x = x.at(-1).set(x(-2) * 2);
         x = x.at(slice(), 0).set(x(slice(), 1));
         return Arrays{x.at(slice(), -1).set(-x(slice(), -2))};
       }},
      {"borders of what was before", [](Inputs a) {
         const Array x = field(a[0]);
         return Arrays{x.at(0)
                           .set(x(1))
                           .at(-1)
                           .set(0)
                           .at(slice(), 0)
                           .set(x(slice(), -2))
                           .at(slice(), -1)
                           .set(x(slice(), 1))};
       }}};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (const auto& [name, f] : programs) {
      const Compiled e = run(f, dtype);
      EXPECT_EQ(passes(e), 1u) << name << e->text("plan");
    }
  }
}

TEST(SmallUpdates, AreMadeWhereALoopsCarryLies) {
  const Program f = [](Inputs a) {
    const auto step = [&](const Array& i, const Array& x) {
      const Array y = x - field(x) * 0.1;
      return y.at(i, 5).add(y(i, 5) * 0.5).at(-1).set(y(1));
    };
    return Arrays{fori_loop(0, 9, step, a[0])};
  };
  const Compiled e = run(f);
  EXPECT_LE(passes(e), 2u) << e->text("plan");  // one in the loop, and a copy of the argument
}

// Who reads the array for something else may come later.
TEST(SmallUpdates, KeepWhatOthersRead) {
  const auto set = [](const Array& x) { return x.at(0).set(x(1) * 2); };
  const std::map<std::string, Program> programs = {
      {"returned, too",
       [&](Inputs a) {
         const Array x = field(a[0]);
         return Arrays{set(x), x};
       }},
      {"read later",
       [&](Inputs a) {
         const Array x = field(a[0]), y = set(x);
         return Arrays{y, sum(y) * x(3)};
       }},
      {"in two ways",
       [&](Inputs a) {
         const Array x = field(a[0]);
         return Arrays{set(x), x.at(1).set(x(0))};
       }},
      {"to and fro",
       [&](Inputs a) {
         const Array x = field(a[0]), y = field(a[0] + 1);
         return Arrays{x.at(0).set(y(1)), y.at(0).set(x(1))};
       }},
      {"of what was set",
       [&](Inputs a) {
         const Array x = field(a[0]), y = field(a[0] + 1), z = x.at(0).set(y(1));
         return Arrays{z, y.at(0).set(x(1) + z(2))};
       }},
      {"in the kernel of what was set",
       [&](Inputs a) {
         const Array x = field(a[0]), y = field(a[0] + 1), z = x.at(0).set(y(1));
         return Arrays{z, y.at(0).set(x(1)), cos(z(5))};
       }},
      {"by itself",
       [&](Inputs a) {
         const Array x = field(a[0]), y = set(x);
         return Arrays{y.at(3).set(y(4) + x(1)).at(5).set(x(0)), y(2)};
       }},
      {"through another", [&](Inputs a) {
         const Array x = field(a[0]), row = x(1) * 2;
         return Arrays{x.at(0).set(row), field(a[0] + 1).at(0).set(row)};
       }}};
  for (const auto& [name, f] : programs) {
    SCOPED_TRACE(name);
    run(f);
    run(f, DType::i32);
  }
}

}  // namespace
}  // namespace telamon::testing
