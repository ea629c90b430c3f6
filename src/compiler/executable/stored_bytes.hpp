// How the disk cache's files are written and read: numbers, and texts after their lengths.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {

class ByteWriter {
 public:
  void number(std::int64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void text(std::string_view s) {
    number(static_cast<std::int64_t>(s.size()));
    bytes_ += s;
  }
  template <class List, class Each>
  void list(const List& items, Each&& each) {
    number(static_cast<std::int64_t>(items.size()));
    for (const auto& item : items) each(item);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Never reads beyond the end: `good` tells whether everything was there.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  bool good() const { return good_; }
  bool at_end() const { return good_ && rest_.empty(); }
  std::int64_t number() {
    std::int64_t n = 0;
    const std::string_view bytes = take(sizeof n);
    if (good_) std::memcpy(&n, bytes.data(), sizeof n);
    return n;
  }
  std::string_view text() { return take(static_cast<std::size_t>(number())); }
  template <class T, class Each>
  void list(std::vector<T>& items, Each&& each) {
    const std::int64_t size = number();
    for (std::int64_t i = 0; i < size && good_; ++i) items.push_back(each());
  }

 private:
  std::string_view take(std::size_t size) {
    good_ = good_ && size <= rest_.size();
    if (!good_) return {};
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  std::string_view rest_;
  bool good_ = true;
};

/// The front lies where the whole begins, so that code can be run where it was read; what describes it
/// comes after.
inline std::string with_tail(std::string_view front, std::string_view tail) {
  ByteWriter length;
  length.number(static_cast<std::int64_t>(tail.size()));
  return std::string(front).append(tail).append(length.take());
}
struct FrontAndTail {
  std::string_view front, tail;
};
/// Two empty texts when the bytes are none that with_tail has made.
inline FrontAndTail split_tail(std::string_view bytes) {
  constexpr std::size_t kLength = sizeof(std::int64_t);
  if (bytes.size() < kLength) return {};
  const std::size_t rest = bytes.size() - kLength;
  const auto tail = static_cast<std::size_t>(ByteReader(bytes.substr(rest)).number());
  if (tail > rest) return {};
  return {bytes.substr(0, rest - tail), bytes.substr(rest - tail, tail)};
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
