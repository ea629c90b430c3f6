// The folder of the disk cache.
#include "runtime/disk_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>
#include <vector>

#include "core/counted.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/side_file.hpp"
#include "runtime/history.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {
namespace disk_cache {
namespace {

constexpr std::int64_t kDefaultBound = 512;         // megabytes
constexpr std::uint64_t kLargestFile = 1ull << 30;  // what claims to be more is damaged
constexpr std::time_t kAbandoned = 600;             // seconds until a temporary file is nobody's
constexpr std::string_view kSuffix = ".tlc", kTemporary = "tmp-";

struct Header {
  char magic[8];           // with the version of this format: others are as good as absent
  std::uint64_t checksum;  // of key, size and bytes
  Key key;
  std::uint64_t size;
};
constexpr char kMagic[8] = {'T', 'L', 'M', 'C', 'O', 'D', 'E', '3'};

struct Live {
  std::atomic<std::int64_t> hits{0}, misses{0}, stores{0}, evictions{0}, errors{0};
  std::atomic<std::int64_t> written{0};  // bytes since the folder was last looked through
};
constinit Live live;

void log(const std::string& text, detail::LogLevel level = detail::LogLevel::info) {
  detail::log(detail::Subsystem::cache, level, [&] { return text; });
}

std::string with_error(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}

/// Counted and logged; the cache goes on without.
void fail(const std::string& what) {
  count(live.errors);
  log(what, detail::LogLevel::error);
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

std::int64_t bound() {
  return std::int64_t{1 << 20} *
         detail::environment_number("TELAMON_CACHE_SIZE").value_or(kDefaultBound);
}

/// Of hundreds of kilobytes in some microseconds: a program that is found is wanted at once. Every step
/// is a bijection of its lane, so that no change within one word goes unseen.
class Checksum {
 public:
  void add(const void* from, std::size_t size) {
    const auto* bytes = static_cast<const char*>(from);
    Lanes lanes = lanes_;  // in registers: a lane waits for nothing but its multiplications
    for (; size >= sizeof lanes; size -= sizeof lanes, bytes += sizeof lanes) block(lanes, bytes);
    char last[sizeof lanes] = {};
    if (size > 0) std::memcpy(last, bytes, size);
    block(lanes, last);
    lanes_ = lanes;
  }
  std::uint64_t value() const {
    std::uint64_t h = 0;
    for (const std::uint64_t lane : lanes_) h = mix(h ^ lane);
    return h;
  }

 private:
  using Lanes = std::array<std::uint64_t, 8>;
  static std::uint64_t mix(std::uint64_t h) {
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
  }
  static void block(Lanes& lanes, const char* bytes) {
    Lanes words;
    std::memcpy(words.data(), bytes, sizeof words);
#pragma GCC unroll 8  // or they are not in registers
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = mix(lanes[i] ^ words[i]);
  }
  Lanes lanes_ = {1, 2, 3, 4, 5, 6, 7, 8};
};

std::uint64_t checksum(const Header& header, std::string_view bytes) {
  Checksum sum;
  sum.add(header.key.data(), header.key.size());
  sum.add(&header.size, sizeof header.size);
  sum.add(bytes.data(), bytes.size());
  return sum.value();
}

std::string name_of(const Key& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (const std::uint8_t byte : key) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name.append(kSuffix);
}

/// Ours, and nobody else may write to it.
bool is_safe(const struct stat& s) {
  return s.st_uid == ::geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void make_folders(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    ::mkdir(path.substr(0, at).c_str(), 0700);
  ::mkdir(path.c_str(), 0700);
}

/// The folder, or why it is not used.
struct Opened {
  Descriptor folder;
  std::string refused = {};
};

/// The folder, made if need be. Code is run that comes from there: it must be the user's own, also
/// where a link leads to it. A missing folder is no error for those who only read.
Opened opened_folder(bool make) {
  const std::string path = folder();
  if (path.empty()) return {Descriptor(-1)};
  struct stat link{};
  if (::lstat(path.c_str(), &link) != 0) {
    if (!make && errno == ENOENT) return {Descriptor(-1)};
    if (make) make_folders(path);
  } else if (S_ISLNK(link.st_mode) && link.st_uid != ::geteuid() && link.st_uid != 0) {
    return {Descriptor(-1), path + " is a link of another user's"};
  }
  Descriptor opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return {Descriptor(-1), with_error("cannot open " + path, errno)};
  struct stat s{};
  if (::fstat(opened.get(), &s) == 0 && is_safe(s)) return {std::move(opened)};
  return {Descriptor(-1), path + " belongs to another user, or others may write to it"};
}

Descriptor open_folder(bool make) {
  Opened opened = opened_folder(make);
  if (!opened.refused.empty()) fail(opened.refused);
  return std::move(opened.folder);
}

bool read_all(int fd, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(fd, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

enum class Found { whole, absent, damaged };

Found read_file(int fd, const Key& key, std::optional<Pages>& bytes) {
  struct stat s{};
  if (::fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || !is_safe(s)) return Found::damaged;
  Header header{};
  const auto size = static_cast<std::uint64_t>(s.st_size);
  if (size < sizeof header || size > kLargestFile ||
      !read_all(fd, reinterpret_cast<char*>(&header), sizeof header))
    return Found::damaged;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return std::memcmp(header.magic, kMagic, sizeof kMagic - 1) == 0 ? Found::absent
                                                                     : Found::damaged;
  if (header.key != key || header.size != size - sizeof header) return Found::damaged;
  bytes = Pages::take(static_cast<std::size_t>(header.size));
  if (!bytes) return Found::absent;
  if (!read_all(fd, bytes->begin(), header.size) ||
      checksum(header, bytes->bytes()) != header.checksum)
    return Found::damaged;
  ::futimens(fd, nullptr);  // used now: the last to be evicted
  return Found::whole;
}

/// The file of that name, if it can be opened.
Found find_file(const Descriptor& folder, const std::string& name, const Key& key,
                std::optional<Pages>& bytes) {
  int fd = -1;
  do {
    fd = ::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  if (const Descriptor file(fd); file) return read_file(fd, key, bytes);
  if (errno == ENOENT) return Found::absent;
  if (errno == ELOOP || errno == ENXIO) return Found::damaged;  // a link, a socket
  // As for lack of descriptors: later it can be opened, perhaps.
  fail(with_error("cannot open " + name, errno));
  return Found::absent;
}

/// What a file takes of the disk. Blocks may be counted late, and compressed ones are fewer: the bound
/// holds for what was written all the same.
std::int64_t occupied(const struct stat& s) {
  constexpr std::int64_t kBlock = 512;  // of st_blocks, whatever those of the file system are
  return kBlock * std::max<std::int64_t>(s.st_blocks, (s.st_size + kBlock - 1) / kBlock);
}

struct File {
  std::string name;
  std::int64_t size;
  timespec used;
};

/// Calls f(name, stat) for the cache's own files.
template <class F>
void for_each_file(const Descriptor& folder, F&& f) {
  const int again = ::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* entries = again < 0 ? nullptr : ::fdopendir(again);
  if (entries == nullptr) {
    if (again >= 0) ::close(again);
    return;
  }
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    struct stat s{};
    if ((name.ends_with(kSuffix) || name.starts_with(kTemporary)) &&
        ::fstatat(folder.get(), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0)
      f(name, s);
  }
  ::closedir(entries);
}

bool remove(const Descriptor& folder, const std::string& name) {
  return ::unlinkat(folder.get(), name.c_str(), 0) == 0;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// A file on its way into the folder. It has no name before it is whole where that can be: a process that
/// is killed leaves nothing then. Else, and where that is asked for, it has a temporary one.
class Writing {
 public:
  enum class Name : std::uint8_t { at_the_end, at_once };
  Writing(const Descriptor& folder, Name given)
      : folder_(folder), file_(given == Name::at_the_end ? unnamed(folder) : Descriptor(-1)) {
    if (file_) return;
    file_ = Descriptor(::openat(folder.get(), temporary_.c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    named_ = static_cast<bool>(file_);
  }
  ~Writing() {
    if (named_) remove(folder_, temporary_);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  explicit operator bool() const { return static_cast<bool>(file_); }

  bool add(std::string_view bytes) { return write_all(file_.get(), bytes); }
  /// From now on it is in the folder, in place of another of this name.
  bool finish(const std::string& name) {
    if (!named_) {
      if (link_as(name)) return close();
      if (errno != EEXIST || !link_as(temporary_)) return false;
      named_ = true;
    }
    // Some file systems say only when it is closed that there was no room.
    if (!close() || ::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name.c_str()) != 0)
      return false;
    named_ = false;
    return true;
  }

 private:
  static Descriptor unnamed(const Descriptor& folder) {
#if defined(O_TMPFILE)
    // What has no name gets one by way of /proc.
    if (::access("/proc/self/fd", X_OK) == 0)
      return Descriptor(::openat(folder.get(), ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600));
#endif
    return Descriptor(-1);
  }
  static std::string temporary_name() {
    static std::atomic<unsigned> serial{0};
    return std::string(kTemporary) + std::to_string(::getpid()) + "-" +
           std::to_string(serial.fetch_add(1)) + "-" + std::to_string(std::clock());
  }
  bool link_as(const std::string& name) {
    const std::string path = "/proc/self/fd/" + std::to_string(file_.get());
    return ::linkat(AT_FDCWD, path.c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  }
  bool close() { return ::close(file_.release()) == 0; }

  const Descriptor& folder_;
  Descriptor file_;
  const std::string temporary_ = temporary_name();
  bool named_ = false;  // there is a file under the temporary name
};

// How the bound holds while many processes store. Looking through the folder takes as long as a small
// compilation, so a process does it when it has stored a small part of the bound that nobody has counted
// (kUnseen). Whoever looks makes room for what it is about to store, and leaves kReserve of the bound
// free for what others store unseen. One looks at a time and stores before the next one looks; the lock
// is of the system, which opens it when its holder is killed. A file that is on its way while another
// thread looks may be unseen twice: so the bound holds for kUnseen / kReserve / 2 = 8 processes that
// store at once, and each further one may exceed it by 2 / kUnseen, a 128th.
constexpr std::int64_t kUnseen = 256, kReserve = 16;

/// What a file that is written takes of most file systems.
std::int64_t in_blocks(std::int64_t size) {
  constexpr std::int64_t kBlock = 4096;
  return (size + kBlock - 1) / kBlock * kBlock;
}

/// Processes that store little look, too, by the luck of the key: one for every kUnseen-th of the bound that
/// they store in all, however many they are. More often would cost more than compiling where programs are many.
bool has_luck(const Key& key, std::int64_t room, std::int64_t most) {
  std::uint32_t luck;
  std::memcpy(&luck, key.data(), sizeof luck);
  return luck * 0x1p-32 * static_cast<double>(most) < static_cast<double>(room * kUnseen);
}

/// Removes what was not used for longest where `room` more bytes would not leave the reserve.
void trim(const Descriptor& folder, std::int64_t room) {
  live.written = 0;
  std::vector<File> files;
  std::int64_t total = room;
  const std::time_t now = std::time(nullptr);
  for_each_file(folder, [&](std::string_view name, const struct stat& s) {
    if (name.starts_with(kTemporary)) {
      if (s.st_mtim.tv_sec + kAbandoned < now) remove(folder, std::string(name));
      return;
    }
    files.push_back({std::string(name), occupied(s), s.st_mtim});
    total += files.back().size;
  });
  const std::int64_t most = bound();
  if (total <= most - most / kReserve) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  // Somewhat below that, so that the next store need not look through the folder again.
  for (const File& file : files) {
    if (total <= most - most / 8) break;
    const bool removed = remove(folder, file.name);
    if (!removed && errno != ENOENT) continue;
    total -= file.size;
    if (!removed) continue;  // another process was faster
    count(live.evictions);
    log("evicted " + file.name);
  }
}

/// While it is in scope no other process, and no other thread, looks through the folder.
class LookLock {
 public:
  explicit LookLock(const Descriptor& folder)
      : folder_(::openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (folder_ && ::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return;  // a file system without locks: the bound is kept less well
      if (std::chrono::steady_clock::now() >= end) {
        folder_ = Descriptor(-1);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// Said to the system: a child that was forked meanwhile has the descriptor, too, and the lock with it.
  ~LookLock() {
    if (folder_) ::flock(folder_.get(), LOCK_UN);
  }
  LookLock(const LookLock&) = delete;
  LookLock& operator=(const LookLock&) = delete;
  /// False where another has it for long: it was stopped perhaps, and nobody shall wait for that.
  explicit operator bool() const { return static_cast<bool>(folder_); }

 private:
  static constexpr auto kPatience = std::chrono::milliseconds(20);
  Descriptor folder_;
};

bool write_file(const Descriptor& folder, const std::string& name, std::string_view head,
                std::string_view bytes) {
  const auto write = [&](Writing::Name given) {
    Writing writing(folder, given);
    return writing && writing.add(head) && writing.add(bytes) && writing.finish(name);
  };
  // Some systems make files without a name, and do not let them get one.
  if (write(Writing::Name::at_the_end) || write(Writing::Name::at_once)) return true;
  fail(with_error("cannot write " + name, errno != 0 ? errno : EIO));
  return false;
}

}  // namespace

std::string folder() {
  // Of no use, and not to be trusted, in programs that run with more rights than their caller.
  if (const char* path = ::secure_getenv("TELAMON_CACHE_DIR"); path != nullptr && *path != '\0')
    return std::strcmp(path, "none") == 0 ? "" : detail::environment_path(path);
  if (const char* caches = ::secure_getenv("XDG_CACHE_HOME"); caches != nullptr && *caches == '/')
    return std::string(caches) + "/telamon";
  if (const char* home = ::secure_getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/telamon";
  return "";
}

std::optional<Pages> load(const Key& key) {
  const Descriptor folder = open_folder(false);
  const std::string name = name_of(key);
  if (folder) {
    std::optional<Pages> bytes;
    const Found found = find_file(folder, name, key, bytes);
    if (found == Found::whole) {
      count(live.hits);
      log("hit " + name);
      return bytes;
    }
    if (found == Found::damaged) {
      const bool gone = remove(folder, name) || errno == ENOENT;
      fail(name + " is damaged or not ours: " + (gone ? "removed" : "left there"));
    }
  }
  count(live.misses);
  log("miss " + name);
  return std::nullopt;
}

void reject(const Key& key, std::string_view why) {
  count(live.hits, -1);
  count(live.misses);
  fail(name_of(key) + " cannot be used: " + std::string(why));
  if (const Descriptor folder = open_folder(false)) remove(folder, name_of(key));
}

void store(const Key& key, std::string_view bytes) {
  const Descriptor folder = open_folder(true);
  const std::int64_t most = bound();
  const auto size = static_cast<std::int64_t>(sizeof(Header) + bytes.size());
  if (!folder || size > most / 4) return;
  if (!detail::file_may_have(static_cast<std::uint64_t>(size)))
    return fail(with_error("cannot write " + name_of(key), EFBIG));

  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key = key;
  header.size = bytes.size();
  header.checksum = checksum(header, bytes);
  const std::string_view head(reinterpret_cast<const char*>(&header), sizeof header);
  const std::string name = name_of(key);
  const std::int64_t room = in_blocks(size);
  const bool unseen = live.written.fetch_add(room) + room <= most / kUnseen;
  if (unseen && !has_luck(key, room, most)) {
    if (!write_file(folder, name, head, bytes)) return;
  } else {
    const LookLock lock(folder);
    if (!lock) return log("not stored, others are making room: " + name);
    trim(folder, room);
    if (!write_file(folder, name, head, bytes)) return;
  }
  count(live.stores);
  log("stored " + name + ", " + detail::counted(size, "byte"));
}

void trim() {
  if (const Descriptor folder = open_folder(false)) trim(folder, 0);
}

std::string refusal() { return opened_folder(false).refused; }

Cleared clear() {
  Cleared cleared;
  const Opened opened = opened_folder(false);
  cleared.failure = opened.refused;
  if (opened.folder) {
    for_each_file(opened.folder, [&](std::string_view name, const struct stat&) {
      if (remove(opened.folder, std::string(name))) {
        cleared.removed += name.ends_with(kSuffix);
        return;
      }
      const int error = errno;
      if (error != ENOENT && cleared.failure.empty())  // another process removes them, too
        cleared.failure = with_error("cannot remove " + folder() + "/" + std::string(name), error);
    });
  }
  if (!cleared.failure.empty()) fail(cleared.failure);
  return cleared;
}

}  // namespace disk_cache
}  // namespace runtime

namespace disk_cache = runtime::disk_cache;

DiskCacheCounters disk_cache_counters() {
  const disk_cache::Live& c = disk_cache::live;
  return {c.hits, c.misses, c.stores, c.evictions, c.errors};
}

DiskCacheContents disk_cache_contents() {
  DiskCacheContents contents;
  contents.folder = disk_cache::folder();
  contents.bound = disk_cache::bound();
  if (const disk_cache::Descriptor opened = disk_cache::open_folder(false)) {
    disk_cache::for_each_file(opened, [&](std::string_view name, const struct stat& s) {
      contents.files += name.ends_with(disk_cache::kSuffix);
      contents.bytes += disk_cache::occupied(s);
    });
  }
  return contents;
}

std::int64_t clear_disk_cache() { return disk_cache::clear().removed; }

}  // namespace v1
}  // namespace telamon
