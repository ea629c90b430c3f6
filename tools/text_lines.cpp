// zlib reads plain files as they are, so one loop serves both.
#include "text_lines.hpp"

#include <zlib.h>

#include <stdexcept>

namespace telamon_tool {

void for_each_line(const std::string& path, const std::function<void(const std::string&)>& f) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw std::runtime_error("cannot open '" + path + "'");
  std::string line;
  char buffer[1 << 16];
  int n = 0;
  while ((n = gzread(file, buffer, sizeof buffer)) > 0) {
    const char* begin = buffer;
    for (const char* p = buffer; p != buffer + n; ++p) {
      if (*p != '\n') continue;
      line.append(begin, p);
      begin = p + 1;
      if (!line.empty()) f(line);
      line.clear();
    }
    line.append(begin, static_cast<const char*>(buffer + n));
  }
  const bool damaged = n < 0;
  gzclose(file);
  if (damaged) throw std::runtime_error("'" + path + "' is damaged");
  if (!line.empty()) f(line);
}

}  // namespace telamon_tool
