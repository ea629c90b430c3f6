// Reads the digits with zlib, and draws them with characters.
#include "data.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <telamon/telamon.hpp>

namespace tl = telamon;

namespace digits {
namespace {

constexpr int kPixels = 64;
constexpr int kSide = 8;
constexpr int kBrightest = 16;

/// The whole file, decompressed.
std::string read_gzip(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw tl::ParseError("digits: cannot open '" + path + "'");
  if (gzdirect(file.get()) != 0)
    throw tl::ParseError("digits: '" + path + "' is not a gzip file, or it is empty");
  std::string text;
  std::array<char, 1 << 16> chunk;
  int n = 0;
  while ((n = gzread(file.get(), chunk.data(), chunk.size())) > 0)
    text.append(chunk.data(), static_cast<std::size_t>(n));
  int code = Z_OK;
  const char* reason = gzerror(file.get(), &code);
  if (code != Z_OK)
    throw tl::ParseError("digits: '" + path + "' is damaged (" + std::string(reason) + ")");
  return text;
}

/// The numbers of one row.
std::array<int, kPixels + 1> parse_row(std::string_view row, const std::string& place) {
  std::array<int, kPixels + 1> numbers;
  for (int i = 0; i <= kPixels; ++i) {
    const std::size_t comma = row.find(',');
    if ((comma == std::string_view::npos) != (i == kPixels)) {
      throw tl::ParseError(place + ": a row is 65 numbers, 64 pixels and the label");
    }
    const std::string_view field = row.substr(0, comma);
    int& number = numbers[static_cast<std::size_t>(i)];
    const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), number);
    const int largest = i < kPixels ? kBrightest : 9;
    if (failure != std::errc() || end != field.data() + field.size() || number < 0 ||
        number > largest) {
      throw tl::ParseError(place + ", column " + std::to_string(i + 1) + ": '" +
                           std::string(field) + "' is no whole number from 0 to " +
                           std::to_string(largest));
    }
    row.remove_prefix(i < kPixels ? comma + 1 : row.size());
  }
  return numbers;
}

}  // namespace

Dataset read_digits(const std::string& path) {
  const std::string text = read_gzip(path);
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string place = "digits: '" + path + "', row " + std::to_string(labels.size() + 1);
    const auto numbers = parse_row(rest.substr(0, end), place);
    for (int i = 0; i < kPixels; ++i)
      images.push_back(static_cast<float>(numbers[static_cast<std::size_t>(i)]) / kBrightest);
    labels.push_back(numbers[kPixels]);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const auto n = static_cast<std::int64_t>(labels.size());
  if (n < 10)
    throw tl::ParseError("digits: '" + path + "' has only " + std::to_string(n) + " rows");
  return {tl::Array(images, {n, kPixels}), tl::Array(labels)};
}

Dataset rows(const Dataset& data, std::int64_t begin, std::int64_t end) {
  const auto cut = [&](const tl::Array& x) { return x(tl::slice(begin, end)); };
  return tl::tree_map(cut, data);
}

std::string draw(const tl::Array& images, const std::vector<std::string>& captions) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  constexpr std::size_t kGap = 4;
  const std::vector<float> pixels = images.to_vector<float>();
  std::string text;
  for (int row = 0; row < kSide; ++row) {
    for (std::size_t image = 0; image < captions.size(); ++image) {
      const float* p = &pixels[image * kPixels + static_cast<std::size_t>(row * kSide)];
      for (int column = 0; column < kSide; ++column) {
        const auto shade = static_cast<std::size_t>(p[column] * (kShades.size() - 1) + 0.5f);
        text.append(2, kShades[std::min(shade, kShades.size() - 1)]);
      }
      text.append(kGap, ' ');
    }
    text += '\n';
  }
  for (const std::string& caption : captions) {
    const std::string cut = caption.substr(0, 2 * kSide);
    text += cut + std::string(2 * kSide + kGap - cut.size(), ' ');
  }
  return text + '\n';
}

}  // namespace digits
