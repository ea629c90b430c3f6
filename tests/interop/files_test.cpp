// Programs and arrays in files: what is written is read back, what is damaged is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/errors.hpp"
#include "telamon/interop.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

using telamon_test::message_of;
using testing::AllOf;
using testing::HasSubstr;

/// A file that goes with the test.
class File {
 public:
  explicit File(const std::string& ending, const std::string& text = "")
      : path_(std::filesystem::temp_directory_path() /
              ("telamon_test_" + std::to_string(getpid()) + ending)) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// x, w -> sin(x) w, as tools/jax_export.py writes it.
const char* const kProgram = R"({"name": "wave", "input_paths": ["[0]", "[1]"], "program": {
  "jaxpr": {
    "invars": [{"id": 0, "aval": {"dtype": "f64", "shape": [3], "weak_type": false}},
               {"id": 1, "aval": {"dtype": "f64", "shape": [], "weak_type": false}}],
    "constvars": [],
    "eqns": [{"primitive": "sin", "inputs": [{"var": 0}],
              "outputs": [{"id": 2, "aval": {"dtype": "f64", "shape": [3], "weak_type": false}}],
              "params": {}},
             {"primitive": "mul", "inputs": [{"var": 2}, {"var": 1}],
              "outputs": [{"id": 3, "aval": {"dtype": "f64", "shape": [3], "weak_type": false}}],
              "params": {}}],
    "outvars": [{"var": 3}]},
  "consts": []}})";

// x, w -> call(sin(x) w), where the call is one of JAX's.
std::string with_call(const std::string& primitive, const char* key) {
  const std::string aval = R"("aval": {"dtype": "f64", "shape": [3], "weak_type": false})";
  const std::string number = R"("aval": {"dtype": "f64", "shape": [], "weak_type": false})";
  const std::string whole = kProgram, marker = R"("program": )";
  std::string body = whole.substr(whole.find(marker) + marker.size());
  body.pop_back();  // of the file
  return R"({"name": "called", "input_paths": ["[0]", "[1]"], "program": {"jaxpr": {"invars": [{"id": 0, )" +
         aval + R"(}, {"id": 1, )" + number + R"(}], "constvars": [], "eqns": [{"primitive": ")" +
         primitive + R"(", "inputs": [{"var": 0}, {"var": 1}], "outputs": [{"id": 2, )" + aval +
         R"(}], "params": {")" + key + R"(": )" + body +
         R"(, "name": "wave"}}], "outvars": [{"var": 2}]}, "consts": []}})";
}

TEST(LoadJaxpr, ReadsEveryKindOfCallAsAJit) {
  const File plain(".plain.json", kProgram);
  const interop::Program want = interop::load_jaxpr(plain.path());
  const Array x({0.5, -1.0, 2.0}), w = full({}, 3.0, f64);
  for (const auto& [primitive, key] : {std::pair{"jit", "jaxpr"},
                                       {"pjit", "jaxpr"},
                                       {"composite", "jaxpr"},
                                       {"closed_call", "call_jaxpr"},
                                       {"core_call", "call_jaxpr"}}) {
    SCOPED_TRACE(primitive);
    const File file(".call.json", with_call(primitive, key));
    const interop::Program called = interop::load_jaxpr(file.path());
    EXPECT_THAT(called.jaxpr().jaxpr.to_string(), HasSubstr("jit ["));
    EXPECT_TRUE(array_equal(called(Arrays{x, w})[0], want(Arrays{x, w})[0]));
    const auto f = [&](Array u) { return sum(called(Arrays{u, w})[0]); };
    EXPECT_TRUE(allclose(jit(grad(f))(x), cos(x) * 3.0));
  }
}

TEST(LoadJaxpr, GivesAFunctionThatTransformsLikeAnyOther) {
  const File file(".json", kProgram);
  const interop::Program wave = interop::load_jaxpr(file.path());
  EXPECT_EQ(wave.name(), "wave");
  ASSERT_EQ(wave.in_avals().size(), 2u);
  EXPECT_EQ(wave.in_avals()[0].to_string(), "f64[3]");
  EXPECT_EQ(wave.input_paths()[1], "[1]");
  const Array x({0.5, -1.0, 2.0}), w(3.0);
  const auto f = [&](Array u, Array v) { return sum(wave(Arrays{u, v})[0]); };
  const Array want = lax::mul(cos(x), full({3}, 3.0, f64));
  for (const Array& slope : {grad(f)(x, w.astype(f64)), jit(grad(f))(x, w.astype(f64))})
    EXPECT_TRUE(allclose(slope, want)) << slope;
}

/// Two places of three elements, the second of them out of bounds.
std::string with_fill(const std::string& dtype, const std::string& fill_value) {
  const std::string aval = R"({"dtype": ")" + dtype + R"(", "weak_type": false, "shape": )";
  return R"({"format": "telamon-jaxpr/1", "name": "filled", "program": {"consts": [], "jaxpr": {
    "constvars": [], "invars": [{"id": 0, "aval": )" +
         aval + R"([3]}},
      {"id": 1, "aval": {"dtype": "i32", "weak_type": false, "shape": [2, 1]}}],
    "eqns": [{"primitive": "gather", "inputs": [{"var": 0}, {"var": 1}],
      "outputs": [{"id": 2, "aval": )" +
         aval + R"([2]}}],
      "params": {"dimension_numbers": {"offset_dims": [], "collapsed_slice_dims": [0],
          "start_index_map": [0], "operand_batching_dims": [], "start_indices_batching_dims": []},
        "slice_sizes": [1], "mode": "fill_or_drop", "unique_indices": false,
        "indices_are_sorted": false, "fill_value": )" +
         fill_value + R"(}}],
    "outvars": [{"var": 2}]}}})";
}

TEST(LoadJaxpr, ReadsWhatAGatherFillsWith) {
  const Array places = reshape(Array({0, 7}).astype(i32), {2, 1});
  for (const auto& [dtype, fill_value, want] :
       {std::tuple{boolean, "true", 1.0},
        {boolean, "false", 0.0},
        {boolean, "null", 1.0},
        {i32, "-7", -7.0},
        {i64, "9007199254740992", 9007199254740992.0},
        {u8, "300", 44.0},
        {u8, "\"-1\"", 255.0},
        {u64, "18446744073709551615", 18446744073709551615.0},
        {u64, "\"18446744073709551615\"", 18446744073709551615.0},
        {i64, "\"-9223372036854775808\"", -9223372036854775808.0},
        {f64, "0.5", 0.5},
        {f64, "\"-inf\"", -std::numeric_limits<double>::infinity()}}) {
    const File file(".fill.json", with_fill(std::string(short_name(dtype)), fill_value));
    const interop::Program filled = interop::load_jaxpr(file.path());
    const Array x = zeros({3}, dtype);
    for (const Array& got : {filled(Arrays{x, places})[0],
                             jit([&](Array u) { return filled(Arrays{u, places})[0]; })(x)}) {
      EXPECT_EQ(got.to_vector<double>(), (std::vector{0.0, want})) << fill_value;
    }
  }
  for (const char* fill_value :
       {"9007199254740993", "-9007199254740993", "18446744073709551615", "1152921504606846977"}) {
    for (const bool as_text : {false, true}) {
      const File file(".fill.json",
                      with_fill("i64", as_text ? '"' + std::string(fill_value) + '"' : fill_value));
      EXPECT_THAT(message_of<NotImplementedError>([&] { (void)interop::load_jaxpr(file.path()); }),
                  AllOf(HasSubstr(std::string("fill_value ") + fill_value), HasSubstr("2^53")));
    }
  }
}

// NaNs are ends of this order, by their signs, and zeros are two.
TEST(LoadJaxpr, ReadsComparisonsInTheTotalOrder) {
  const auto compared = [](DType dtype, const std::string& primitive) {
    const std::string type =
        R"({"dtype": ")" + std::string(short_name(dtype)) + R"(", "weak_type": false, "shape": )";
    return R"({"format": "telamon-jaxpr/1", "name": "ordered", "program": {"consts": [], "jaxpr": {
      "constvars": [], "invars": [{"id": 0, "aval": )" +
           type + R"([7]}}, {"id": 1, "aval": )" + type + R"([]}}],
      "eqns": [{"primitive": ")" +
           primitive + R"(", "inputs": [{"var": 0}, {"var": 1}], "outputs": [{"id": 2,
        "aval": {"dtype": "bool", "weak_type": false, "shape": [7]}}], "params": {}}],
      "outvars": [{"var": 2}]}}})";
  };
  const double inf = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> ordered = {-nan, -inf, -1.5, -0.0, 0.0, 2.5, nan};
  for (const DType dtype : {f16, bf16, f32, f64}) {
    // The sign of a NaN may go where it is converted: here it is set.
    Array x = Array(ordered).astype(dtype);
    x = where(arange(7) < 4, -lax::abs(x), lax::abs(x));
    const File less(".less.json", compared(dtype, "lt_to")),
        at_most(".most.json", compared(dtype, "le_to"));
    for (std::int64_t i = 0; i < 7; ++i) {
      const Array lt = interop::load_jaxpr(less.path())(Arrays{x, x(i)})[0],
                  le = interop::load_jaxpr(at_most.path())(Arrays{x, x(i)})[0];
      EXPECT_TRUE(array_equal(lt, arange(7) < i)) << dtype << " " << i << " " << lt;
      EXPECT_TRUE(array_equal(le, arange(7) <= i)) << dtype << " " << i << " " << le;
    }
  }
  const File less(".less.json", compared(i32, "lt_to"));
  EXPECT_TRUE(array_equal(interop::load_jaxpr(less.path())(Arrays{arange(7, i32), Array(3)})[0],
                          arange(7) < 3));
}

TEST(LoadJaxpr, ReadsTiles) {
  const auto tiled = [](const std::string& shape) {
    return R"({"format": "telamon-jaxpr/1", "name": "tiled", "program": {"consts": [], "jaxpr": {
      "constvars": [], "invars": [{"id": 0, "aval": {"dtype": "i32", "weak_type": false, "shape": [2, 3]}}],
      "eqns": [{"primitive": "tile", "inputs": [{"var": 0}], "outputs": [{"id": 1,
        "aval": {"dtype": "i32", "weak_type": false, "shape": )" +
           shape + R"(}}], "params": {"reps": [2, 3]}}], "outvars": [{"var": 1}]}}})";
  };
  const File file(".tile.json", tiled("[4, 9]")), wrong(".flat.json", tiled("[36]"));
  const Array x = reshape(arange(6, i32), {2, 3});
  const interop::Program program = interop::load_jaxpr(file.path());
  EXPECT_TRUE(array_equal(program(Arrays{x})[0], tile(x, {2, 3})));
  EXPECT_THAT(message_of<ParseError>([&] { (void)interop::load_jaxpr(wrong.path()); }),
              HasSubstr("as many axes"));
}

TEST(LoadJaxpr, NamesWhatIsWrongWithAFile) {
  EXPECT_THAT(message_of<ValueError>([] { (void)interop::load_jaxpr("/no/such/file.json"); }),
              HasSubstr("/no/such/file.json"));
  const File damaged(".json", std::string(kProgram).substr(0, 300));
  EXPECT_THAT(message_of<ParseError>([&] { (void)interop::load_jaxpr(damaged.path()); }),
              HasSubstr(damaged.path()));
  std::string text = kProgram;
  text.replace(text.find("\"sin\""), 5, "\"sun\"");
  const File unknown(".json", text);
  try {
    (void)interop::load_jaxpr(unknown.path());
    FAIL() << "no error";
  } catch (const interop::MissingPrimitiveError& e) {
    EXPECT_EQ(e.names(), std::vector<std::string>{"sun"});
    EXPECT_THAT(e.message(), HasSubstr(unknown.path()));
  }
  // What is wrong with a type comes from far below.
  std::string deep = kProgram, ones;
  for (int i = 0; i < 40; ++i) ones += "1, ";
  const std::string type = R"("dtype": "f64", "shape": [)" + ones + "1]";
  deep.replace(deep.find(R"("constvars": [])"), 15,
               R"("constvars": [{"id": 7, "aval": {)" + type + R"(, "weak_type": false}}])");
  deep.replace(deep.find(R"("consts": [])"), 12, R"("consts": [{)" + type + R"(, "data": [1.0]}])");
  const File dimensions(".json", deep);
  EXPECT_THAT(message_of<ParseError>([&] { (void)interop::load_jaxpr(dimensions.path()); }),
              AllOf(HasSubstr(dimensions.path()), HasSubstr("32 dimensions")));
}

TEST(Npy, KeepsShapeDtypeAndValues) {
  const File file(".npy");
  for (const DType dtype : {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64}) {
    for (const Shape& shape : {Shape{2, 3}, Shape{6}, Shape{0, 2}, Shape{}}) {
      const Array x = reshape(arange(shape.num_elements()), shape).astype(dtype);
      interop::save_npy(file.path(), x);
      const Array y = interop::load_npy(file.path());
      EXPECT_EQ(y.aval().to_string(), x.aval().strong().to_string());
      EXPECT_EQ(y.to_vector<double>(), x.to_vector<double>()) << short_name(dtype);
    }
  }
}

TEST(Npy, NamesTheFileThatIsDamaged) {
  const File file(".npy", "no array");
  EXPECT_THAT(message_of<Error>([&] { (void)interop::load_npy(file.path()); }),
              HasSubstr(file.path()));
  EXPECT_THAT(message_of<Error>([] { (void)interop::load_npy("/no/such/file.npy"); }),
              HasSubstr("/no/such/file.npy"));
}

}  // namespace
}  // namespace telamon
