// Writing of files that appear whole or not at all.
#include "core/side_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
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

/// Opens what is there already.
int open_itself(const std::string& path) { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC); }

/// Pipes and devices are written to, not replaced.
bool is_written_to(const struct stat& s) { return !S_ISREG(s.st_mode); }

/// With the slash; empty where the path has no folder.
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

/// What is at the end of links, which may lead to what is not there yet.
std::string resolved(std::string path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (real) return real.get();
  char target[PATH_MAX];
  constexpr int kMostLinks = 40;  // Linux follows no more
  for (int links = 0; links < kMostLinks; ++links) {
    const ssize_t n = ::readlink(path.c_str(), target, sizeof target);
    if (n <= 0 || n == sizeof target) break;
    const std::string to(target, static_cast<std::size_t>(n));
    path = to.front() == '/' ? to : folder_of(path) + to;
  }
  return path;
}

/// Whether the file may be taken away: in a folder as /tmp is, only by its owner and the folder's.
bool may_replace(const std::string& path, const struct stat& file) {
  struct stat folder{};
  const std::string name = folder_of(path);
  if (::stat(name.empty() ? "." : name.c_str(), &folder) != 0) return false;
  const uid_t me = ::geteuid();
  return (folder.st_mode & S_ISVTX) == 0 || me == file.st_uid || me == folder.st_uid;
}

/// Of a file that is there, to be written; as an errno.
int error_of_opening(const std::string& path) {
  const int fd = open_itself(path);
  const int error = fd < 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  return error;
}

/// A name beside the file's that no other file has, and that is short enough where the file's is.
std::string temporary_name(const std::string& path) {
  constexpr std::size_t kMostLetters = 100;  // of the file's own name, to tell whose file it was
  static std::atomic<unsigned> serial{0};
  const std::string folder = folder_of(path);
  return path.substr(0, folder.size() + kMostLetters) + "." + std::to_string(::getpid()) + "-" +
         std::to_string(serial.fetch_add(1)) + ".tmp";
}

/// The place of a file that is to hold a new text: a temporary file beside it, or where there can be none
/// the file itself.
class Replacement {
 public:
  explicit Replacement(const std::string& path) {
    struct stat s{};
    const bool exists = ::stat(path.c_str(), &s) == 0;
    // Loops of links, and links that the system does not follow.
    if (!exists && errno != ENOENT) {
      error_ = errno;
      return;
    }
    path_ = resolved(path);
    temporary_ = temporary_name(path_);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd_ >= 0) {
      if (exists) ::fchmod(fd_, s.st_mode & 07777);
      return;
    }
    error_ = errno;
    temporary_.clear();
    if (exists) use_itself();  // in a folder that lets nobody make files
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
    if (!file_may_have(text.size())) return EFBIG;
    if (temporary_.empty()) return overwrite(text);
    if (const int error = write_and_close(std::exchange(fd_, -1), text)) return error;
    if (::rename(temporary_.c_str(), path_.c_str()) == 0) {
      temporary_.clear();
      return 0;
    }
    if (errno != EPERM && errno != EACCES) return errno;
    use_itself();  // another user's, in a folder where only they may take it away, as in /tmp
    return error_ != 0 ? error_ : overwrite(text);
  }

 private:
  void use_itself() {
    fd_ = open_itself(path_);
    error_ = fd_ < 0 ? errno : 0;
  }
  int overwrite(std::string_view text) {
    if (::ftruncate(fd_, 0) != 0) return errno;
    return write_and_close(std::exchange(fd_, -1), text);
  }
  std::string path_, temporary_;
  int fd_ = -1, error_ = 0;
};

}  // namespace

bool file_may_have(std::uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

int write_file(const std::string& path, std::string_view text) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0 || !is_written_to(s)) return Replacement(path).finish(text);
  const int fd = open_itself(path);
  return fd < 0 ? errno : write_and_close(fd, text);
}

int try_file(const std::string& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0) return Replacement(path).error();
  if (!is_written_to(s)) {
    const int error = Replacement(path).error();
    return error != 0 || may_replace(resolved(path), s) ? error : error_of_opening(path);
  }
  // Not by opening it: who reads a pipe would be at its end.
  if (S_ISDIR(s.st_mode)) return EISDIR;
  return ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
}

int append_to_file(const std::string& path, std::string_view text) {
  struct stat s{};
  const bool exists = ::lstat(path.c_str(), &s) == 0;
  const auto size = static_cast<std::uint64_t>(exists ? s.st_size : 0);
  if (!file_may_have(size + text.size())) return EFBIG;
  // Not to be made where it is there: in folders as /tmp is, Linux may refuse that for a file of another user.
  const int make = exists ? 0 : O_CREAT | O_EXCL;
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | make, 0666);
  return fd < 0 ? errno : write_and_close(fd, text);
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
