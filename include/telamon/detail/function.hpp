// Function: a callable of any type behind one signature. Every use of a transformation makes some, so
// what counts is how little code each costs the compiler: two functions, where std::function takes
// twenty. Copies share the callable.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "telamon/config.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// ValueError: there is nothing to call.
[[noreturn]] TELAMON_API void null_function_error();

/// Whether a function pointer is null, or a std::function empty (a moved-from one is).
template <class F>
bool is_null_function(const F& f) {
  if constexpr (std::is_pointer_v<F> || requires { f.target_type(); }) return !f;
  else return false;
}

template <class Signature>
class Function;

template <class R, class... A>
class Function<R(A...)> {
 public:
  Function() = default;
  Function(std::nullptr_t) {}
  template <class F>
    requires(!std::same_as<F, Function> && std::is_invocable_r_v<R, F&, A...>)
  Function(F f) {
    if (is_null_function(f)) return;
    held_ = new Holds<F>(std::move(f));
  }
  Function(const Function& other) : held_(other.held_) {
    if (held_) held_->uses.fetch_add(1, std::memory_order_relaxed);
  }
  Function(Function&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Function& operator=(Function other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~Function() {
    if (held_ && held_->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) held_->destroy(held_);
  }

  R operator()(A... a) const { return held_->call(held_, std::forward<A>(a)...); }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  struct Held {
    R (*call)(Held*, A...);
    void (*destroy)(Held*);
    std::atomic<int> uses{1};
  };
  template <class F>
  struct Holds : Held {
    explicit Holds(F g) : Held{&call_it, &destroy_it}, f(std::move(g)) {}
    static R call_it(Held* h, A... a) { return static_cast<Holds*>(h)->f(std::forward<A>(a)...); }
    static void destroy_it(Held* h) { delete static_cast<Holds*>(h); }
    F f;
  };
  Held* held_ = nullptr;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
