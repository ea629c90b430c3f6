// Files beside what a program computes: traces, dumps, names for perf.
//
// None of them is worth the process: where one cannot be written, who asked for it is told why. What lies
// beyond the limit on the size of files (ulimit -f) is not even tried, since the write would end the process
// with SIGXFSZ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Whether the limit on the size of files allows one of so many bytes.
bool file_may_have(std::uint64_t bytes);

/// The file now holds this text and nothing else. It gets its name when it is whole: of several processes
/// that write it the last one wins, and readers never meet a part. Gives 0, or an errno that says why not.
TELAMON_API int write_file(const std::string& path, std::string_view text);

/// Whether write_file could write there now, as the same errno. Leaves nothing behind.
TELAMON_API int try_file(const std::string& path);

/// The text at the end of the file, which is made if need be; no link is followed.
int append_to_file(const std::string& path, std::string_view text);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
