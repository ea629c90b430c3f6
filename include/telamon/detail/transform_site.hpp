// TransformSite: the line of a transformation, for errors that arise outside any operation.
#pragma once

#include "telamon/config.hpp"
#include "telamon/source_location.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// While in scope, errors without a CallSite show `where`, the innermost that is known: what grad and
/// vmap say about arguments and results, and what the user's function throws itself. `name` ("grad")
/// is among the transformations under way until the transformation pushes its own MainTrace, and
/// again when that has ended. `name` must outlive the site; null: only a place.
///
/// A CallSite would hide the operations within the user's function, since there the outermost wins.
class TELAMON_API TransformSite {
 public:
  TransformSite(const char* name, SourceLocation where);
  ~TransformSite();
  TransformSite(const TransformSite&) = delete;
  TransformSite& operator=(const TransformSite&) = delete;

  const char* name() const { return name_; }
  SourceLocation where() const { return where_; }
  /// The number of main traces at the start.
  int depth() const { return depth_; }
  const TransformSite* previous() const { return previous_; }

 private:
  const char* name_;
  SourceLocation where_;
  int depth_;
  const TransformSite* previous_;
};

}  // namespace detail
}  // namespace v1
}  // namespace telamon
