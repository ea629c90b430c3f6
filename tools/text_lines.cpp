// zlib reads plain files as they are, so one loop serves both.
#include "text_lines.hpp"

#include <zlib.h>

#include <stdexcept>

#include "interop/json_program.hpp"

namespace telamon_tool {

void for_each_line(const std::string& path,
                   const std::function<void(const std::string&, std::size_t)>& f) {
  telamon::interop::check_is_file(path);
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw std::runtime_error("cannot open '" + path + "'");
  std::string line;
  char buffer[1 << 16];
  std::size_t number = 0;
  int n = 0;
  while ((n = gzread(file, buffer, sizeof buffer)) > 0) {
    const char* begin = buffer;
    for (const char* p = buffer; p != buffer + n; ++p) {
      if (*p != '\n') continue;
      line.append(begin, p);
      begin = p + 1;
      ++number;
      if (!line.empty()) f(line, number);
      line.clear();
    }
    line.append(begin, static_cast<const char*>(buffer + n));
  }
  const bool damaged = n < 0;
  const bool cut_off = gzclose(file) == Z_BUF_ERROR;
  if (damaged || cut_off)
    throw std::runtime_error("'" + path +
                             "' is damaged: its compressed data cannot be read to its end");
  if (!line.empty()) f(line, number + 1);
}

}  // namespace telamon_tool
