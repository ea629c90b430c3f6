// NumPy's .npy format, versions 1 to 3: a magic string, a header that is a Python dict, raw data.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "core/concrete.hpp"
#include "core/trace.hpp"
#include "interop/json_program.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

constexpr char kMagic[] = "\x93NUMPY";

struct DescriptorEntry {
  const char* text;
  DType dtype;
};
// Little-endian only; '|' where bytes have no order.
constexpr DescriptorEntry kDescriptors[] = {
    {"|b1", DType::bool_}, {"|i1", DType::i8},    {"<i2", DType::i16}, {"<i4", DType::i32},
    {"<i8", DType::i64},   {"|u1", DType::u8},    {"<u2", DType::u16}, {"<u4", DType::u32},
    {"<u8", DType::u64},   {"<f2", DType::f16},   {"<f4", DType::f32}, {"<f8", DType::f64},
    {"<c8", DType::c64},   {"<c16", DType::c128}, {"<V2", DType::bf16}};

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw ParseError("'" + path + "' is not a .npy file that can be read: " + why);
}

struct Header {
  DType dtype;
  bool column_major;
  Shape shape;
};

/// Reads the header, a Python dict of three keys in any order: what NumPy writes, and nothing else.
class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  Header read() {
    std::optional<DType> dtype;
    std::optional<bool> column_major;
    std::optional<Shape> shape;
    expect('{', "a dict");
    while (!take('}')) {
      const std::string_view key = quoted("a key");
      expect(':', "':'");
      if (key == "descr" && !dtype) dtype = read_dtype();
      else if (key == "fortran_order" && !column_major) column_major = read_bool();
      else if (key == "shape" && !shape) shape = read_shape();
      else damaged(path_, "the header has '" + std::string(key) + "' twice, or should not have it");
      if (take(',')) continue;
      expect('}', "',' or '}'");
      break;
    }
    skip_space();
    if (at_ != text_.size()) unexpected("the end");
    const auto need = [&](bool there, const char* key) {
      if (!there) damaged(path_, "the header has no '" + std::string(key) + "'");
    };
    need(dtype.has_value(), "descr");
    need(column_major.has_value(), "fortran_order");
    need(shape.has_value(), "shape");
    return {*dtype, *column_major, *std::move(shape)};
  }

 private:
  [[noreturn]] void unexpected(const std::string& wanted) const {
    damaged(path_, "damaged header: expected " + wanted + " at its byte " + std::to_string(at_));
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n\f", at_), text_.size()); }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c, const char* wanted) {
    if (!take(c)) unexpected(wanted);
  }
  /// The text behind the place up to this character, which must be there.
  std::string_view until(char c, const char* wanted) {
    const auto end = text_.find(c, at_);
    if (end == std::string_view::npos) unexpected(wanted);
    const std::string_view inside = text_.substr(at_, end - at_);
    at_ = end + 1;
    return inside;
  }
  std::string_view quoted(const char* wanted) {
    if (take('\'')) return until('\'', wanted);
    expect('"', wanted);
    return until('"', wanted);
  }

  DType read_dtype() {
    if (take('[')) {
      damaged(path_, "it holds records of a structured dtype, [" + std::string(until(']', "']'")) +
                         "]; save one array for each of their fields");
    }
    const std::string name(quoted("a dtype"));
    if (name.starts_with('>')) {
      damaged(path_, "its numbers are big-endian, dtype '" + name +
                         "'; save a copy in the processor's own order: "
                         "x.astype(x.dtype.newbyteorder('=')) in NumPy");
    }
    for (const DescriptorEntry& d : kDescriptors) {
      if (name == d.text) return d.dtype;
    }
    damaged(path_, "dtype '" + name + "' does not exist here");
  }

  bool read_bool() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();  // what follows must be ',' or '}'
      return word == "True";
    }
    unexpected("True or False");
  }

  Shape read_shape() {
    Shape shape;
    expect('(', "a tuple of sizes");
    while (!take(')')) {
      shape.push_back(read_size());
      if (take(',')) continue;
      if (shape.size() == 1) unexpected("','");
      expect(')', "',' or ')'");
      break;
    }
    return shape;
  }
  std::int64_t read_size() {
    if (take('-')) damaged(path_, "negative size");
    skip_space();
    const char* const begin = text_.data() + at_;
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
    const bool octal = end - begin > 1 && *begin == '0';
    if (error != std::errc() || octal || size < 0) unexpected("a size");
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // a long of Python 2
    return size;
  }

  const std::string& path_;
  std::string_view text_;
  std::size_t at_ = 0;
};

/// The array behind column-major data of this shape.
Array from_column_major(const Array& data, const Shape& shape) {
  Shape strides(shape.size(), 0);
  auto step = static_cast<std::int64_t>(size_of(data.dtype()));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    strides[d] = step;
    step *= shape[d];
  }
  return detail::contiguous(detail::broadcast_view(data, data.aval().with_shape(shape), strides));
}

[[noreturn]] void cannot_write(const std::string& path) {
  throw ValueError("save_npy: cannot write '" + path + "': " + std::strerror(errno));
}

Array read_npy(const std::string& path) {
  check_is_file(path);
  std::ifstream in(path, std::ios::binary);
  char start[10];
  if (!in.read(start, sizeof start) || std::memcmp(start, kMagic, 6) != 0)
    damaged(path, "no magic string");
  const auto byte = [&](int i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(start[i]));
  };
  if (byte(6) < 1 || byte(6) > 3 || byte(7) != 0) {
    damaged(path, "version " + std::to_string(byte(6)) + "." + std::to_string(byte(7)) +
                      " of the format is not known, only 1.0, 2.0 and 3.0 are");
  }
  std::size_t length = byte(8) | byte(9) << 8;
  if (start[6] > 1) {  // versions 2 and 3 have a length of four bytes
    char more[2];
    if (!in.read(more, 2)) damaged(path, "no header");
    length |= static_cast<std::size_t>(static_cast<unsigned char>(more[0])) << 16 |
              static_cast<std::size_t>(static_cast<unsigned char>(more[1])) << 24;
  }
  if (length > (std::size_t{1} << 20)) damaged(path, "the header is too long");
  std::string header(length, '\0');
  if (!in.read(header.data(), static_cast<std::streamsize>(length)))
    damaged(path, "the header is cut off");
  const auto [dtype, column_major, shape] = HeaderReader(path, header).read();
  // Compare with what is there before allocating what the header claims.
  const auto data_start = in.tellg();
  in.seekg(0, std::ios::end);
  const auto available = static_cast<std::uint64_t>(in.tellg() - data_start);
  in.seekg(data_start);
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t d : shape) {
    if (d > 0 && bytes > available / static_cast<std::uint64_t>(d) && shape.num_elements() != 0)
      damaged(path, "the data is cut off");
    bytes *= static_cast<std::uint64_t>(d);
  }
  if (bytes > available) damaged(path, "the data is cut off");
  Array x = detail::make_uninitialized({shape, dtype, false});
  char* data = detail::mutable_data_of<char>(x);
  if (!in.read(data, static_cast<std::streamsize>(bytes))) damaged(path, "the data is cut off");
  if (dtype == DType::bool_) detail::make_bools(data, static_cast<std::size_t>(bytes));
  return column_major && bytes ? from_column_major(x, shape) : x;
}

void write_npy(const std::string& path, const Array& x) {
  if (!x.has_value()) detail::empty_operand_error("save_npy of '" + path + "'", 0);
  const Array dense = detail::contiguous(detail::concrete_value(x, "save_npy"));
  std::string descriptor;
  for (const DescriptorEntry& d : kDescriptors) {
    if (d.dtype == x.dtype()) descriptor = d.text;
  }
  if (descriptor.empty())
    throw TypeError("save_npy: dtype " + std::string(short_name(x.dtype())) +
                    " has no .npy form, '" + path + "' is not written");
  std::string header = "{'descr': '" + descriptor +
                       "', 'fortran_order': False, 'shape': " + x.shape().to_string() + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // data starts at a multiple of 64
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  if (!out) cannot_write(path);
  out.write(kMagic, 6);
  const char rest[] = {1, 0, static_cast<char>(header.size() & 0xff),
                       static_cast<char>(header.size() >> 8)};
  out.write(rest, 4);
  out << header;
  out.write(detail::data_of<char>(dense),
            static_cast<std::streamsize>(static_cast<std::size_t>(x.size()) * size_of(x.dtype())));
  out.close();  // a full disk is noticed when the last bytes leave the buffer
  if (!out) cannot_write(path);
}

/// f() for this file: where memory runs out, "load_npy of 'x.npy': out of memory".
template <class F>
auto with_file(const char* function, const std::string& path, SourceLocation where, const F& f) {
  return detail::in_call(function, where, [&] {
    const std::string name = std::string(function) + " of '" + path + "'";
    return detail::naming_lack_of_memory(name.c_str(), f);
  });
}

}  // namespace

Array load_npy(const std::string& path, SourceLocation where) {
  return with_file("load_npy", path, where, [&] {
    try {
      return read_npy(path);
    } catch (const ShapeError& e) { damaged(path, e.message()); }
  });
}

void save_npy(const std::string& path, const Array& x, SourceLocation where) {
  with_file("save_npy", path, where, [&] { write_npy(path, x); });
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
