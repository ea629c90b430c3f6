// What a callable's parameters are, and the conversion of a call's arguments to them. Transforms
// work on the converted arguments, so the callee's types decide what is traced:
//
//   Array loss(const Model& m, Array rate, int steps);
//   tl::jit(loss)(model, 0.1, 3);    // 0.1 becomes a traced weak scalar, 3 stays static
//
// Functions, function pointers, lambdas without `auto` parameters and function objects with one
// call operator can be read. A class that wraps a callable says what it takes by a member alias
// `signature`; all transforms do, so they compose. Of generic lambdas nothing is known: top-level
// numbers become traced weak Arrays, and tl::static_(v) keeps one static.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "telamon/array.hpp"
#include "telamon/detail/tree_walk.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// The function type behind a pointer to a call operator.
template <class T>
struct CallOperator;
template <class C, class R, class... P>
struct CallOperator<R (C::*)(P...)> {
  using type = R(P...);
};
template <class C, class R, class... P>
struct CallOperator<R (C::*)(P...) const> {
  using type = R(P...);
};
template <class C, class R, class... P>
struct CallOperator<R (C::*)(P...) noexcept> {
  using type = R(P...);
};
template <class C, class R, class... P>
struct CallOperator<R (C::*)(P...) const noexcept> {
  using type = R(P...);
};
template <class C, class R, class... P>
struct CallOperator<R (C::*)(P...)&> {
  using type = R(P...);
};
template <class C, class R, class... P>
struct CallOperator<R (C::*)(P...) const&> {
  using type = R(P...);
};

template <class F>
struct SignatureOf {
  using type = void;
};
template <class F>
  requires requires { typename F::signature; }
struct SignatureOf<F> {
  using type = typename F::signature;
};
template <class F>
  requires(
      !requires { typename F::signature; } && requires { &F::operator(); })
struct SignatureOf<F> : CallOperator<decltype(&F::operator())> {};
template <class R, class... P>
struct SignatureOf<R(P...)> {
  using type = R(P...);
};
template <class R, class... P>
struct SignatureOf<R(P...) noexcept> {
  using type = R(P...);
};
template <class F>
struct SignatureOf<F*> : SignatureOf<F> {};
template <class F>
struct SignatureOf<std::reference_wrapper<F>> : SignatureOf<std::remove_cv_t<F>> {};

}  // namespace detail

/// R(Params...) as F declares it, or void when it cannot be read (generic or overloaded).
template <class F>
using signature_of = typename detail::SignatureOf<std::remove_cvref_t<F>>::type;

namespace detail {

/// What a transform holds for a parameter of type P while it works: a value, which tracing replaces
/// leaf by leaf. An Operand counts as the Array in it.
template <class P>
struct BoundParameter {
  static_assert(
      !std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>,
      "a transformed function cannot take a parameter by non-const reference: it is called "
      "with traced copies. Take it by value or const&, and return the new value");
  using bare = std::remove_cvref_t<P>;
  using type = std::conditional_t<
      std::is_same_v<bare, Operand>, Array,
      std::conditional_t<std::is_same_v<bare, std::string_view>, std::string, bare>>;
};

/// The same for an argument of type A of a callable whose parameters are not known.
template <class A>
struct BoundArgument {
  using type = std::decay_t<A>;
};
template <class A>
  requires(std::is_arithmetic_v<A> || std::is_same_v<A, Operand>)
struct BoundArgument<A> {
  using type = Array;
};
template <class T>
struct BoundArgument<Static<T>> {
  using type = T;
};
template <class A>
  requires(std::is_convertible_v<A, std::string_view> && !std::is_same_v<A, std::string>)
struct BoundArgument<A> {
  using type = std::string;
};

/// The types of the bound arguments: of a signature's parameters, else of the arguments.
template <class Signature, class... A>
struct Bound {
  static_assert(kUnsupported<Signature>,
                "wrong number of arguments for the transformed function (default arguments are not "
                "visible through a function's type: pass all)");
  using types = std::tuple<typename BoundArgument<std::remove_cvref_t<A>>::type...>;
};
template <class R, class... P, class... A>
  requires(sizeof...(P) == sizeof...(A))
struct Bound<R(P...), A...> {
  using types = std::tuple<typename BoundParameter<P>::type...>;
};
template <class... A>
struct Bound<void, A...> {
  using types = std::tuple<typename BoundArgument<std::remove_cvref_t<A>>::type...>;
};

template <class D, class A>
D bind_one(const A& a) {
  static_assert(
      node_type<D>().valid,
      "a parameter of a transformed function is not a pytree: use Array, a static value, a "
      "container of these, or an aggregate struct");
  if constexpr (std::is_same_v<A, Operand> && std::is_same_v<D, Array>) {
    return a.array;
  } else if constexpr (is_static_wrapper<D> && !std::is_same_v<D, A>) {
    return D{a};
  } else {
    static_assert(std::is_convertible_v<const A&, D>,
                  "an argument does not convert to the parameter's type: traced values are "
                  "tl::Array (or structs and containers of it), numbers are static");
    return static_cast<D>(a);
  }
}

template <class Signature, class... A>
using bound_types = typename Bound<Signature, A...>::types;

/// A bound argument, not copied where it is a struct or container of the parameter's type already.
template <class D, class A>
using BoundReference = std::conditional_t<std::is_same_v<D, A> && std::is_class_v<D>, const D&, D>;
template <class D, class A>
BoundReference<D, A> bind_reference(const A& a) {
  if constexpr (std::is_same_v<D, A>) return a;
  else return bind_one<D>(a);
}

}  // namespace detail

/// The types of the bound arguments of F when called with A...: a std::tuple of values.
template <class F, class... A>
using bound_arguments = detail::bound_types<signature_of<F>, std::remove_cvref_t<A>...>;

/// The arguments, converted to the types of F's parameters.
template <class F, class... A>
bound_arguments<F, A...> bind_args(const A&... args) {
  return [&]<class... D>(std::type_identity<std::tuple<D...>>) {
    return std::tuple<D...>(detail::bind_one<D>(args)...);
  }(std::type_identity<bound_arguments<F, A...>>{});
}

/// The same, but Arrays, structs and containers that need no conversion are referred to, not
/// copied: for hot paths, while the arguments live.
template <class F, class... A>
auto bind_references(const A&... args) {
  return [&]<class... D>(std::type_identity<std::tuple<D...>>) {
    return std::tuple<detail::BoundReference<D, A>...>(detail::bind_reference<D>(args)...);
  }(std::type_identity<bound_arguments<F, A...>>{});
}

/// The type that F returns for arguments A..., without references.
template <class F, class... A>
using result_of = std::remove_cvref_t<decltype(std::apply(
    std::declval<F&>(), std::declval<bound_arguments<F, A...>>()))>;

namespace detail {

template <class R, class Signature>
struct ReplaceResult {
  using type = void;
};
template <class R, class Old, class... P>
struct ReplaceResult<R, Old(P...)> {
  using type = R(P...);
};

}  // namespace detail

/// The signature R(Params...) for a transform that changes the result of F; void when unreadable.
template <class R, class Signature>
using with_result = typename detail::ReplaceResult<R, Signature>::type;

namespace detail {

/// Explains at compile time why argument N of a derivative cannot be differentiated.
template <std::size_t N, class BoundArguments>
consteval void check_differentiable() {
  static_assert(N < std::tuple_size_v<BoundArguments>,
                "there is no argument of this number to differentiate");
  if constexpr (N < std::tuple_size_v<BoundArguments>) {
    using T = std::tuple_element_t<N, BoundArguments>;
    static_assert(
        !std::is_arithmetic_v<T>,
        "cannot differentiate with respect to a number (double, float, int): it is static. "
        "Declare the parameter as tl::Array; numbers that are passed for it convert");
    static_assert(std::is_arithmetic_v<T> || holds_array<T>(),
                  "cannot differentiate with respect to an argument that holds no tl::Array");
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace telamon
