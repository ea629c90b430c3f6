// A folder for the disk cache, for the duration of a test.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "runtime/disk_cache.hpp"

namespace telamon::testing {

class CacheFolder {
 public:
  CacheFolder() {
    path_ =
        std::filesystem::temp_directory_path() / ("telamon_cache_" + std::to_string(::getpid()) +
                                                  "_" + std::to_string(std::random_device{}()));
    setenv("TELAMON_CACHE_DIR", path_.c_str(), 1);
  }
  ~CacheFolder() {
    setenv("TELAMON_CACHE_DIR", "none", 1);
    unsetenv("TELAMON_CACHE_SIZE");
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Everything in the folder.
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    if (!std::filesystem::exists(path_)) return all;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) all.push_back(entry);
    return all;
  }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::filesystem::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  std::filesystem::path path_;
};

/// What a piece of code changes in the counters of the disk cache.
class CacheChanges {
 public:
  DiskCacheCounters operator()() const {
    const DiskCacheCounters now = disk_cache_counters();
    return {now.hits - before_.hits, now.misses - before_.misses, now.stores - before_.stores,
            now.evictions - before_.evictions, now.errors - before_.errors};
  }

 private:
  DiskCacheCounters before_ = disk_cache_counters();
};

}  // namespace telamon::testing
