// Writing of files that appear whole or not at all.
#include "core/side_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

/// Writes, and closes in any case.
int write_and_close(int fd, std::string_view text) {
  int error = 0;
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      error = n < 0 ? errno : EIO;
      break;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  // Some file systems say only now that there was no room.
  if (::close(fd) != 0 && error == 0) error = errno;
  return error;
}

/// What is at the end of links; the path itself where there is nothing yet.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? real.get() : path;
}

/// The place of a file that is to hold a new text: a temporary file beside it, or where there can be none
/// the file itself.
class Replacement {
 public:
  explicit Replacement(const std::string& path) : path_(resolved(path)) {
    struct stat s{};
    const bool exists = ::stat(path_.c_str(), &s) == 0;
    // Pipes and devices are written to, not replaced.
    if (exists && !S_ISREG(s.st_mode)) {
      regular_ = false;
      open_itself();
      return;
    }
    static std::atomic<unsigned> serial{0};
    temporary_ = path_ + "." + std::to_string(::getpid()) + "-" +
                 std::to_string(serial.fetch_add(1)) + ".tmp";
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd_ >= 0) {
      if (exists) ::fchmod(fd_, s.st_mode & 07777);
      return;
    }
    error_ = errno;
    temporary_.clear();
    if (exists) open_itself();  // in a folder that lets nobody make files
  }
  ~Replacement() {
    if (fd_ >= 0) ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  int error() const { return error_; }

  int finish(std::string_view text) {
    if (error_ != 0) return error_;
    if (regular_ && !file_may_have(text.size())) return EFBIG;
    if (temporary_.empty()) (void)!::ftruncate(fd_, 0);  // pipes have nothing to cut off
    if (const int error = write_and_close(std::exchange(fd_, -1), text)) return error;
    if (temporary_.empty()) return 0;
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return errno;
    temporary_.clear();
    return 0;
  }

 private:
  void open_itself() {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    error_ = fd_ < 0 ? errno : 0;
  }
  std::string path_, temporary_;
  int fd_ = -1, error_ = 0;
  bool regular_ = true;
};

}  // namespace

bool file_may_have(std::uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

int write_file(const std::string& path, std::string_view text) {
  return Replacement(path).finish(text);
}

int try_file(const std::string& path) { return Replacement(path).error(); }

int append_to_file(const std::string& path, std::string_view text) {
  struct stat s{};
  const bool exists = ::stat(path.c_str(), &s) == 0;
  if (!exists || S_ISREG(s.st_mode)) {
    const auto size = static_cast<std::uint64_t>(exists ? s.st_size : 0);
    if (!file_may_have(size + text.size())) return EFBIG;
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return fd < 0 ? errno : write_and_close(fd, text);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
