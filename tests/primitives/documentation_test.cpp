// docs/primitives tells of every primitive, with its parameters and what rules it has.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "runtime/math/vector_math.hpp"
#include "support.hpp"

namespace telamon_test {
namespace {

using Row = std::map<std::string, std::string>;  // heading of a column -> cell

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> found{""};
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '|' && line[i - 1] != '\\') found.emplace_back();
    else found.back() += line[i];
  }
  found.pop_back();
  for (std::string& cell : found) {
    const std::size_t first = cell.find_first_not_of(' ');
    cell = first == std::string::npos ? ""
                                      : cell.substr(first, cell.find_last_not_of(' ') - first + 1);
  }
  return found;
}

/// The rows of all tables whose first column has this heading, by the name in it.
std::multimap<std::string, Row> documented(const std::string& first = "primitive") {
  std::multimap<std::string, Row> rows;
  const std::filesystem::path folder = std::string(TELAMON_SOURCE_DIR) + "/docs/primitives";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::vector<std::string> heading;
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("| ")) {
        heading.clear();
        continue;
      }
      const std::vector<std::string> row = cells(line);
      if (heading.empty()) {
        heading = row;
      } else if (heading[0] == first && row[0].starts_with('`')) {
        Row named;
        for (std::size_t i = 0; i < row.size(); ++i) named[heading.at(i)] = row[i];
        rows.emplace(row[0].substr(1, row[0].size() - 2), std::move(named));
      }
    }
  }
  return rows;
}

/// `name: type = default`, between backquotes -> name, default.
std::map<std::string, std::string> parameters(const std::string& cell) {
  static const std::regex kParameter("`(\\w+):[^`=]*(= ([^`]*))?`");
  std::map<std::string, std::string> found;
  for (std::sregex_iterator m(cell.begin(), cell.end(), kParameter), end; m != end; ++m)
    found[(*m)[1]] = (*m)[3];
  return found;
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

TEST(Documentation, HasOneRowForEveryPrimitiveAndNoOthers) {
  std::set<std::string> names;
  for (const auto& [name, row] : documented()) {
    EXPECT_TRUE(names.insert(name).second) << name << " is documented twice";
    EXPECT_NE(PrimitiveBase::find(name), nullptr) << name << " does not exist";
  }
  for (const PrimitiveBase* p : PrimitiveBase::all()) {
    if (p->name().starts_with("test_")) continue;
    EXPECT_TRUE(names.contains(std::string(p->name())))
        << p->name() << " has no row in docs/primitives";
  }
}

TEST(Documentation, NamesTheParametersAndTheirDefaults) {
  int defaults = 0;
  for (const auto& [name, row] : documented()) {
    const PrimitiveBase* p = PrimitiveBase::find(name);
    if (p == nullptr) continue;  // the test above says so
    const auto told = parameters(row.at("parameters"));
    std::set<std::string> real;
    for (const auto& [field, value] : p->rules().parse_params({}).fields()) {
      real.insert(field);
      const auto t = told.find(field);
      EXPECT_NE(t, told.end()) << name << ": parameter " << field << " is not documented";
      if (t == told.end() || t->second.empty()) continue;
      EXPECT_EQ(t->second, lower_case(value)) << name << ": default of " << field;
      ++defaults;
    }
    for (const auto& [field, value] : told)
      EXPECT_TRUE(real.contains(field)) << name << " has no parameter " << field;
  }
  EXPECT_GT(defaults, 20);
}

TEST(Documentation, SaysWhichRulesThereAre) {
  for (const auto& [name, row] : documented()) {
    const PrimitiveBase* p = PrimitiveBase::find(name);
    if (p == nullptr) continue;
    EXPECT_NE(row.at("value"), "") << name;
    EXPECT_NE(row.at("derivative"), "") << name;
    EXPECT_EQ(row.at("derivative") != "none", p->has_rule("jvp")) << name;
    EXPECT_EQ(!row.at("linear in").empty(), p->has_rule("transpose")) << name;
  }
}

TEST(Documentation, StatesTheErrorBoundsOfTheMathFunctions) {
  const auto rows = documented("function");
  for (const math::MathFunction& function : math::math_functions()) {
    const auto row = rows.find(function.name);
    ASSERT_NE(row, rows.end()) << function.name << " has no row in the table of accuracy";
    EXPECT_EQ(std::stof(row->second.at("f32")), function.ulp_f32) << function.name;
    EXPECT_EQ(std::stof(row->second.at("f64")), function.ulp_f64) << function.name;
  }
  EXPECT_EQ(rows.size(), math::math_functions().size());
}

}  // namespace
}  // namespace telamon_test
