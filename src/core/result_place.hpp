// Where an evaluation rule leaves its result when a compiled program calls it: in the program's memory.
#pragma once

#include <optional>

#include "core/concrete.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {

/// Memory for what an evaluation rule returns: as long as this lives, the first array of the type that make_result
/// makes on this thread lies there. Nobody may hold it any longer.
class ResultPlace {
 public:
  ResultPlace(const ShapedArray& aval, void* data);
  ~ResultPlace();
  ResultPlace(const ResultPlace&) = delete;
  ResultPlace& operator=(const ResultPlace&) = delete;
  /// Copies there what the rule returned, unless it lies there.
  void receive(const Array& result);

 private:
  friend Array make_result(const ShapedArray& aval);
  const ShapedArray& aval_;
  void* data_;
  std::optional<LentArray> lent_;
  ResultPlace* outer_;
};
/// As make_uninitialized, for the array that an evaluation rule is to return.
Array make_result(const ShapedArray& aval);

}  // namespace detail
}  // namespace v1
}  // namespace telamon
