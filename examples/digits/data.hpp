// The digits: reading, splitting, drawing.
#pragma once

#include <string>
#include <telamon/array.hpp>
#include <vector>

namespace digits {

/// `images` is f32[n, 64] with values 0 to 1, `labels` i32[n].
struct Dataset {
  telamon::Array images, labels;
};

/// Reads a gzip-compressed table: 64 pixels (0 to 16) and a label (0 to 9) per row. A
/// telamon::ParseError says in which row what is wrong.
Dataset read_digits(const std::string& path);

/// The rows from `begin` to before `end`.
Dataset rows(const Dataset& data, std::int64_t begin, std::int64_t end);

/// Images side by side, with a caption below each.
std::string draw(const telamon::Array& images, const std::vector<std::string>& captions);

}  // namespace digits
