// Printing of arrays and avals. numpy_print.jsonl holds what NumPy prints (make_numpy_print.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/grad.hpp"
#include "telamon/jit.hpp"
#include "telamon/lax.hpp"
#include "telamon/numpy.hpp"
#include "telamon/vmap.hpp"

namespace tl = telamon;
using tl::Array;
using tl::DType;

namespace {

std::string unhex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::vector<double> count_up(std::int64_t n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return values;
}

Array arange(DType dtype, const tl::Shape& shape) {
  const std::vector<double> values = count_up(shape.num_elements());
  switch (dtype) {
    case DType::f64: return Array(values, shape);
    case DType::f32: return Array(std::vector<float>(values.begin(), values.end()), shape);
    case DType::i32: return Array(std::vector<std::int32_t>(values.begin(), values.end()), shape);
    default: {
      std::vector<std::uint8_t> bytes;
      for (const double v : values)
        bytes.push_back(static_cast<std::uint8_t>(static_cast<std::int64_t>(v)));
      return Array(bytes, shape);
    }
  }
}

Array array_of(const nlohmann::json& line) {
  const DType dtype = tl::dtype_from_name(line["dtype"].get<std::string>()).value();
  const tl::Shape shape(line["shape"].get<std::vector<std::int64_t>>());
  const auto data = line["data"].get<std::string>();
  if (data == "arange") return arange(dtype, shape);
  return Array::from_data(unhex(data).data(), dtype, shape);
}

}  // namespace

TEST(ArrayText, IsThatOfNumPy) {
  std::ifstream file(TELAMON_SOURCE_DIR "/tests/core/numpy_print.jsonl");
  ASSERT_TRUE(file) << "numpy_print.jsonl is missing";
  int count = 0;
  for (std::string text; std::getline(file, text); ++count) {
    const auto line = nlohmann::json::parse(text);
    EXPECT_EQ(array_of(line).to_string(), line["text"].get<std::string>())
        << "case " << count + 1 << ": " << text.substr(0, 200);
  }
  EXPECT_GT(count, 1000);
}

TEST(ArrayText, OfScalarsIsThatOfPython) {
  EXPECT_EQ(Array(0.1411200080598672).to_string(), "0.1411200080598672");
  EXPECT_EQ(Array(6.0).to_string(), "6.0");
  EXPECT_EQ(Array(0.1f).to_string(), "0.1");
  EXPECT_EQ(Array(true).to_string(), "True");
  EXPECT_EQ(Array(-7).to_string(), "-7");
}

TEST(ArrayText, GoesToStreams) {
  std::ostringstream out;
  out << Array({1.0, 2.0, 3.0});
  EXPECT_EQ(out.str(), "[1. 2. 3.]");
}

TEST(ArrayText, OfBFloat16HasTheDigitsThatTellValuesApart) {
  const std::vector<std::uint16_t> bits = {0x3f80, 0x3dcd, 0x4049};
  const Array x = Array::from_data(bits.data(), DType::bf16, {3});
  EXPECT_EQ(x.to_string(), "[1.   0.1  3.14]");
}

TEST(ArrayText, OfViewsFollowsTheirStrides) {
  EXPECT_EQ(tl::lax::broadcast(1.5f, {2, 3}).to_string(), "[[1.5 1.5 1.5]\n [1.5 1.5 1.5]]");
  EXPECT_EQ(tl::lax::transpose(Array({{1, 2, 3}, {4, 5, 6}}), {1, 0}).to_string(),
            "[[1 4]\n [2 5]\n [3 6]]");
  EXPECT_EQ(tl::ones({std::int64_t{1} << 40}).to_string(), "[1. 1. 1. ... 1. 1. 1.]");
}

TEST(ArrayText, OfTracersShowsTheirValueWhereItIsKnown) {
  std::string seen;
  const auto look = [&](Array x) {
    seen = x.to_string();
    return x * x;
  };
  tl::grad(look)(tl::asarray(3.0));
  EXPECT_EQ(seen, "Traced<ConcreteArray(3.0, dtype=float64)>");
  tl::grad(look)(3.0);
  EXPECT_EQ(seen, "Traced<ConcreteArray(3.0, dtype=float64, weak_type=True)>");
  tl::grad(tl::grad(look))(tl::asarray(3.0));
  EXPECT_EQ(seen, "Traced<ConcreteArray(3.0, dtype=float64)>");
  tl::vmap(look)(Array({1.0, 2.0}));
  EXPECT_EQ(seen, "Traced<ShapedArray(float64[])>");
  tl::jit(look)(tl::asarray(3.0));
  EXPECT_EQ(seen, "Traced<ShapedArray(float64[])>");
}

TEST(AvalText, IsShortOrLong) {
  const tl::Aval aval{{2, 3}, DType::f32, false};
  EXPECT_EQ(aval.to_string(), "f32[2,3]");
  EXPECT_EQ(aval.to_long_string(), "ShapedArray(float32[2,3])");
  const tl::Aval weak{{}, DType::f64, true};
  EXPECT_EQ(weak.to_string(), "~f64[]");
  EXPECT_EQ(weak.to_long_string(), "ShapedArray(float64[], weak_type=True)");
}

TEST(AvalHash, TellsShapesDtypesAndWeaknessApart) {
  const tl::Aval a{{2, 3}, DType::f32, false};
  EXPECT_EQ(a.hash(), (tl::Aval{{2, 3}, DType::f32, false}.hash()));
  EXPECT_NE(a.hash(), (tl::Aval{{3, 2}, DType::f32, false}.hash()));
  EXPECT_NE(a.hash(), (tl::Aval{{2, 3}, DType::f64, false}.hash()));
  EXPECT_NE(a.hash(), (tl::Aval{{2, 3}, DType::f32, true}.hash()));
}
