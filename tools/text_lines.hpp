// Lines of a text file, plain or gzipped.
#pragma once

#include <functional>
#include <string>

namespace telamon_tool {

/// Calls f for each line that is not empty, with its number from 1. Throws when the file cannot be read.
void for_each_line(const std::string& path,
                   const std::function<void(const std::string&, std::size_t)>& f);

}  // namespace telamon_tool
