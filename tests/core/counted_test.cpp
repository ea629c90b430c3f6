// Numbers of things in messages.
#include "core/counted.hpp"

#include <gtest/gtest.h>

namespace telamon {
namespace {

TEST(Counted, IsSingularForOneAlone) {
  EXPECT_EQ(detail::counted(0, "argument"), "0 arguments");
  EXPECT_EQ(detail::counted(std::size_t{1}, "argument"), "1 argument");
  EXPECT_EQ(detail::counted(2, "argument"), "2 arguments");
  EXPECT_EQ(detail::counted(1, "leaf", "leaves"), "1 leaf");
  EXPECT_EQ(detail::counted(3, "leaf", "leaves"), "3 leaves");
}

}  // namespace
}  // namespace telamon
