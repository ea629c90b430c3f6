// NumPy files: what is refused and why, order of elements, bools; arrays from memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "telamon/interop.hpp"
#include "telamon/telamon.hpp"

namespace telamon {
namespace {

using telamon_test::message_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A .npy file of this header and data, which goes with the test.
class NpyFile {
 public:
  NpyFile(const std::string& header, const std::string& data, char version = 1, char minor = 0)
      : path_(std::filesystem::temp_directory_path() /
              ("telamon_npy_" + std::to_string(getpid()) + ".npy")) {
    const char start[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', version, minor};
    std::ofstream out(path_, std::ios::binary);
    out.write(start, sizeof start);
    const auto n = static_cast<char>(header.size());
    const char length[] = {n, 0, 0, 0};
    out.write(length, version == 1 ? 2 : 4) << header;
    out << data;
  }
  ~NpyFile() { std::filesystem::remove(path_); }
  Array load() const { return interop::load_npy(path_.string()); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string header_of(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': " + descr + ", 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Npy, InColumnMajorOrderHasTheSameElements) {
  const std::vector<std::int32_t> columns{1, 4, 2, 5, 3, 6};
  const NpyFile file(header_of("'<i4'", "(2, 3)", true), bytes_of(columns));
  const Array x = file.load();
  EXPECT_EQ(x.shape(), Shape({2, 3}));
  EXPECT_THAT(x.to_vector<std::int32_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(NpyFile(header_of("'<i4'", "(0, 3)", true), "").load().shape(), Shape({0, 3}));
}

TEST(Npy, OfVersionsTwoAndThreeIsRead) {
  for (const char version : {1, 2, 3}) {
    const NpyFile file(header_of("'<f8'", "(2,)"), bytes_of<double>({1, 2}), version);
    EXPECT_THAT(file.load().to_vector<double>(), ElementsAre(1, 2)) << int{version};
  }
}

TEST(Npy, OfAnUnknownVersionIsRefused) {
  for (const char version : {0, 4, 9}) {
    const NpyFile file(header_of("'<f8'", "(1,)"), bytes_of<double>({1}), version);
    EXPECT_THAT(
        message_of<ParseError>([&] { (void)file.load(); }),
        AllOf(HasSubstr("version " + std::to_string(version) + ".0"), HasSubstr(file.path())));
  }
}

TEST(Npy, OfAnUnknownMinorVersionIsRefused) {
  const NpyFile file(header_of("'<f8'", "(1,)"), bytes_of<double>({1}), 1, 1);
  EXPECT_THAT(message_of<ParseError>([&] { (void)file.load(); }),
              HasSubstr("version 1.1 of the format is not known"));
}

// What NumPy wrote in one version or another, and other forms of the same dict.
TEST(Npy, HeaderMayHaveAnyOrderQuotesAndSpaces) {
  for (const char* header :
       {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }        \n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr':'<f8','fortran_order':False,'shape':(2,3,)}",
        "  {'shape': (2, 3), 'fortran_order': False, 'descr': '<f8'} \n",
        "{\"descr\": \"<f8\",\n \"fortran_order\" : False,\t\"shape\": ( 2 , 3 ) , }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2L, 3L), }  \n"}) {
    const NpyFile file(header, bytes_of<double>({1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(file.load().shape(), Shape({2, 3})) << header;
  }
  const std::string one = bytes_of<double>({1});
  EXPECT_EQ(NpyFile(header_of("'<f8'", "()"), one).load().shape(), Shape());
  EXPECT_EQ(NpyFile(header_of("'<f8'", "(1,)"), one).load().shape(), Shape({1}));
  EXPECT_EQ(NpyFile(header_of("'<f8'", "(1L,)"), one).load().shape(), Shape({1}));
}

TEST(Npy, OfAShapeThatIsNoTupleOfIntegersIsRefused) {
  const std::string data(400, '\0');
  for (const char* shape : {"(2, 3x 4)", "(2e1, 1)", "(2.9,)", "(1_0,)", "(,)", "(2,,3)", "(6)",
                            "6", "[6]", "(6", "(06,)", "(0x6,)", "('6',)", "(True, 6)", "(2 3)",
                            "(2, 3))", "(- 1,)", "(9223372036854775808,)"}) {
    const NpyFile file(header_of("'<f4'", shape), data);
    EXPECT_THAT(message_of<ParseError>([&] { (void)file.load(); }), HasSubstr(file.path()))
        << shape;
  }
  const NpyFile file(header_of("'<f4'", "(2, 3x 4)"), data);
  EXPECT_THAT(message_of<ParseError>([&] { (void)file.load(); }),
              HasSubstr("damaged header: expected ',' or ')' at its byte 55"));
}

TEST(Npy, OfADamagedHeaderIsRefused) {
  const std::string data(400, '\0');
  const std::string whole = "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}";
  EXPECT_EQ(NpyFile(whole, data).load().shape(), Shape({6}));
  for (const char* header : {"{'descr': '<f4', 'fortran_order': Trua, 'shape': (6,)}",
                             "{'descr': '<f4', 'fortran_order': Truely, 'shape': (6,)}",
                             "{'descr': '<f4', 'fortran_order': FALSE, 'shape': (6,)}",
                             "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}",
                             "{'descr': '<f4', 'fortran_order': None, 'shape': (6,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x",
                             "x {'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}",
                             "{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}",
                             "{'descr': '<f4', , 'fortran_order': False, 'shape': (6,)}",
                             "{'descr': <f4, 'fortran_order': False, 'shape': (6,)}",
                             "{'descr' '<f4', 'fortran_order': False, 'shape': (6,)}",
                             "{'descr': '<f4', 'fortran_order': False}",
                             "['descr', 'fortran_order', 'shape']", "{}", ""}) {
    const NpyFile file(header, data);
    EXPECT_THAT(message_of<ParseError>([&] { (void)file.load(); }), HasSubstr(file.path()))
        << header;
  }
}

TEST(Npy, OfRecordsOrBigEndianNumbersIsRefusedByName) {
  const NpyFile records(header_of("[('a', '<f4'), ('b', '<i4')]", "(1,)"), "12345678");
  EXPECT_THAT(message_of<ParseError>([&] { (void)records.load(); }),
              AllOf(HasSubstr("structured dtype, [('a', '<f4'), ('b', '<i4')]"),
                    HasSubstr(records.path())));
  const NpyFile big(header_of("'>f4'", "(1,)"), "1234");
  EXPECT_THAT(message_of<ParseError>([&] { (void)big.load(); }),
              AllOf(HasSubstr("big-endian, dtype '>f4'"), HasSubstr(big.path())));
}

TEST(Npy, OfAShapeThatNoArrayHasIsRefusedByName) {
  std::string ones;
  for (int i = 0; i < 40; ++i) ones += "1,";
  const NpyFile deep(header_of("'<f8'", "(" + ones + ")"), bytes_of<double>({1}));
  EXPECT_THAT(message_of<ParseError>([&] { (void)deep.load(); }),
              AllOf(HasSubstr("32 dimensions"), HasSubstr(deep.path())));
}

TEST(Npy, ThatIsNoArrayIsNotWritten) {
  EXPECT_THAT(message_of<TypeError>([] { interop::save_npy("unused.npy", Array()); }),
              HasSubstr("save_npy of 'unused.npy': operand 0 is an empty Array"));
  EXPECT_FALSE(std::filesystem::exists("unused.npy"));
}

TEST(Npy, ThatCannotBeWrittenSaysWhy) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  EXPECT_THAT(message_of<ValueError>([] { interop::save_npy("/dev/full", zeros({3})); }),
              AllOf(HasSubstr("save_npy: cannot write '/dev/full'"), HasSubstr("No space left")));
  EXPECT_THAT(message_of<ValueError>([] { interop::save_npy("/dev/full", zeros({100000})); }),
              HasSubstr("No space left"));
  EXPECT_THAT(
      message_of<ValueError>([] { interop::save_npy("/no/such/folder/x.npy", Array(1.0)); }),
      HasSubstr("No such file or directory"));
}

TEST(Npy, OfATracerNamesTheFunctionThatAsked) {
  const auto f = [](Array x) {
    interop::save_npy("unused.npy", x);
    return x;
  };
  EXPECT_THAT(message_of<ConcretizationError>([&] { (void)jit(f)(Array(1.0)); }),
              HasSubstr("save_npy needs the value of a tracer"));
}

TEST(Npy, ErrorsTellTheCallersLine) {
  try {
    (void)interop::load_npy("/no/such/file.npy");
    FAIL() << "no error";
  } catch (const Error& e) { EXPECT_THAT(e.what(), HasSubstr("at npy_test.cpp:")); }
}

TEST(Bools, FromMemoryAreTrueWhereAByteIsNotZero) {
  const std::uint8_t bytes[] = {0, 1, 2, 255, 0};
  const NpyFile file(header_of("'|b1'", "(5,)"), std::string(bytes, bytes + 5));
  for (const Array& x : {Array::from_data(bytes, bool_, {5}), file.load()}) {
    EXPECT_THAT(x.to_vector<bool>(), ElementsAre(false, true, true, true, false));
    EXPECT_EQ(sum(x).item<int>(), 3);
    EXPECT_EQ(sum(lax::eq(x, Array::from_data("\1\1\1\1\1", bool_, {5}))).item<int>(), 3);
    EXPECT_EQ(sum(jit([](Array y) { return logical_not(y); })(x)).item<int>(), 2);
  }
}

}  // namespace
}  // namespace telamon
