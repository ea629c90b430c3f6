// Located: functions that take a callable and any number of arguments, and know the caller's line.
#pragma once

#include <utility>

#include "telamon/source_location.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The callable object f(callable, arguments...), which `Transform::call(where, callable,
/// arguments...)` computes. A location is a default argument, and these cannot follow a parameter
/// pack: hence an overload for each number of arguments. Calls with more than eight arguments work,
/// but do not know their line.
template <class Transform>
struct Located {
  using Where = SourceLocation;

  template <class F>
  auto operator()(F f, Where where = Where::current()) const {
    return Transform::call(where, std::move(f));
  }
  template <class F, class A>
  auto operator()(F f, const A& a, Where where = Where::current()) const {
    return Transform::call(where, std::move(f), a);
  }
  template <class F, class A, class B>
  auto operator()(F f, const A& a, const B& b, Where where = Where::current()) const {
    return Transform::call(where, std::move(f), a, b);
  }
  template <class F, class A, class B, class C>
  auto operator()(F f, const A& a, const B& b, const C& c, Where where = Where::current()) const {
    return Transform::call(where, std::move(f), a, b, c);
  }
  template <class F, class A, class B, class C, class D>
  auto operator()(F f, const A& a, const B& b, const C& c, const D& d,
                  Where where = Where::current()) const {
    return Transform::call(where, std::move(f), a, b, c, d);
  }
  template <class F, class A, class B, class C, class D, class E>
  auto operator()(F f, const A& a, const B& b, const C& c, const D& d, const E& e,
                  Where where = Where::current()) const {
    return Transform::call(where, std::move(f), a, b, c, d, e);
  }
  template <class F, class A, class B, class C, class D, class E, class G>
  auto operator()(F f, const A& a, const B& b, const C& c, const D& d, const E& e, const G& g,
                  Where where = Where::current()) const {
    return Transform::call(where, std::move(f), a, b, c, d, e, g);
  }
  template <class F, class A, class B, class C, class D, class E, class G, class H>
  auto operator()(F f, const A& a, const B& b, const C& c, const D& d, const E& e, const G& g,
                  const H& h, Where where = Where::current()) const {
    return Transform::call(where, std::move(f), a, b, c, d, e, g, h);
  }
  template <class F, class A, class B, class C, class D, class E, class G, class H, class I>
  auto operator()(F f, const A& a, const B& b, const C& c, const D& d, const E& e, const G& g,
                  const H& h, const I& i, Where where = Where::current()) const {
    return Transform::call(where, std::move(f), a, b, c, d, e, g, h, i);
  }
  template <class F, class A, class B, class C, class D, class E, class G, class H, class I,
            class... More>
    requires(sizeof...(More) > 0)
  auto operator()(F f, const A& a, const B& b, const C& c, const D& d, const E& e, const G& g,
                  const H& h, const I& i, const More&... more) const {
    return Transform::call(Where(), std::move(f), a, b, c, d, e, g, h, i, more...);
  }
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
