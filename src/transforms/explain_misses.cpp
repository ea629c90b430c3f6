// Explanations of cache misses.
#include "transforms/explain_misses.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include "telamon/detail/text.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

Difference difference(const std::string& name, const Aval& now, const Aval& then) {
  std::string kinds;
  int count = 0;
  const auto add = [&](bool differ, const char* kind) {
    if (differ) kinds += (count++ == 0 ? "" : ", ") + std::string(kind);
  };
  const bool same_rank = now.shape.size() == then.shape.size();
  add(!same_rank, "rank");
  add(same_rank && !(now.shape == then.shape), "shape");
  add(now.dtype != then.dtype, "dtype");
  add(now.weak_type != then.weak_type, "weak type");
  return {name + " is " + now.to_string() + ", was " + then.to_string() + " (" + kinds + ")",
          count};
}

// Of a long text, what stands where it begins to differ from the other.
std::string shortened(const std::string& text, const std::string& other) {
  constexpr std::size_t kMost = 120, kBefore = 40;
  const auto differ = static_cast<std::size_t>(
      std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first - text.begin());
  const std::size_t begin = text.size() <= kMost || differ <= kBefore ? 0 : differ - kBefore;
  std::string shown = text.substr(begin, kMost);
  if (begin > 0) shown.insert(0, "...");
  if (text.size() - begin > kMost) shown += "...";
  return detail::one_line(shown);
}

}  // namespace

std::vector<Difference> differences(const Signature& now, const Signature& then,
                                    const std::vector<std::string>& names,
                                    const std::vector<std::string>& statics_now,
                                    const std::vector<std::string>& statics_then) {
  std::vector<Difference> lines;
  if (now.avals.size() == then.avals.size()) {
    for (std::size_t i = 0; i < now.avals.size(); ++i) {
      if (!(now.avals[i] == then.avals[i]))
        lines.push_back(difference(names[i], now.avals[i], then.avals[i]));
    }
  } else if (now.key == then.key || statics_then.empty()) {
    lines.push_back({std::to_string(now.avals.size()) + " arrays, were " +
                     std::to_string(then.avals.size()) + " (structure)"});
  }
  if (now.key != then.key) {
    if (statics_now.size() == statics_then.size() && !statics_then.empty()) {
      for (std::size_t i = 0; i < statics_now.size(); ++i) {
        if (statics_now[i] == statics_then[i]) continue;
        lines.push_back({"args[" + std::to_string(i) + "] is " +
                         shortened(statics_now[i], statics_then[i]) + ", was " +
                         shortened(statics_then[i], statics_now[i]) +
                         " (static value or structure)"});
      }
    } else {
      lines.push_back({"a static value or the structure of an argument is another one"});
    }
  }
  if (now.default_float != then.default_float || now.default_int != then.default_int)
    lines.push_back({"the default dtypes are other ones (global setting)"});
  return lines;
}

std::string text_of(const std::vector<Difference>& differences) {
  constexpr std::size_t kMost = 8;
  const std::size_t shown = std::min(kMost, differences.size());
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += "\n  " + differences[i].text;
  if (shown < differences.size())
    text += "\n  and " + std::to_string(differences.size() - shown) + " more";
  return text;
}

JittedThere jitted_there(const void* function, const std::string& name, SourceLocation where,
                         std::uint64_t object) {
  using Place = std::tuple<std::string, std::string, int>;
  struct Jitted {
    const void* function;
    std::uint64_t first_object;
  };
  static auto* const mutex = new std::mutex;
  static auto* const seen = new std::map<Place, std::vector<Jitted>>;
  const std::lock_guard lock(*mutex);
  auto& functions = (*seen)[Place(name, where.file == nullptr ? "" : where.file, where.line)];
  const auto known = std::find_if(functions.begin(), functions.end(),
                                  [&](const Jitted& j) { return j.function == function; });
  const auto number = static_cast<std::size_t>(known - functions.begin()) + 1;
  if (known != functions.end()) return {number, known->first_object != object};
  functions.push_back({function, object});
  return {number, false};
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
