// Lines of a text file, plain or gzipped.
#pragma once

#include <functional>
#include <string>

namespace telamon_tool {

/// Calls f for each non-empty line. Throws std::runtime_error when the file cannot be read.
void for_each_line(const std::string& path, const std::function<void(const std::string&)>& f);

}  // namespace telamon_tool
