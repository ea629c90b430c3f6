// Spans of time, recorded while a Profile lives (telamon/profile.hpp).
//
// Spans of one kind share a label, which counts them. Each thread keeps the spans that are open, so
// that a span knows how much of its time went to those within it. Off, a span is one relaxed load.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace runtime {

/// How many Profiles live.
TELAMON_API extern std::atomic<int> live_profiles;
inline bool profiling() { return live_profiles.load(std::memory_order_relaxed) > 0; }

/// A kind of span.
struct ProfileLabel;
using ProfileLabelPtr = std::shared_ptr<ProfileLabel>;
/// The label of that kind; made at first.
TELAMON_API ProfileLabelPtr profile_label(std::string_view category, std::string_view name,
                                          std::string_view detail = {});

/// Opens a span on this thread. Spans that there is no memory to record are left out.
TELAMON_API void begin_span(const ProfileLabelPtr& label) noexcept;
/// Closes the innermost open span of this label, with what was left open inside; none, none.
TELAMON_API void end_span(const ProfileLabelPtr& label) noexcept;
/// The label of a thread's part of a loop that this thread begins within its innermost open span; null where
/// there is no memory for one.
ProfileLabelPtr part_of_loop() noexcept;

/// A span while in scope. `name` is what the label is called, or a function that says so.
class ProfileSpan {
 public:
  template <class Name>
  ProfileSpan(const char* category, const Name& name) {
    if (!profiling()) [[likely]]
      return;
    if constexpr (std::is_invocable_v<const Name&>) open(profile_label(category, name()));
    else open(profile_label(category, name));
  }
  explicit ProfileSpan(const ProfileLabelPtr& label) {
    if (label && profiling()) open(label);
  }
  ~ProfileSpan() {
    if (label_) end_span(label_);
  }
  ProfileSpan(const ProfileSpan&) = delete;
  ProfileSpan& operator=(const ProfileSpan&) = delete;

 private:
  void open(ProfileLabelPtr label) {
    label_ = std::move(label);
    begin_span(label_);
  }
  ProfileLabelPtr label_;
};

}  // namespace runtime
}  // namespace v1
}  // namespace telamon
