// B06: convolutions come with the primitives for them.
#include "harness.hpp"

namespace bench {
namespace {

const NotYet cnn_step("B06.cnn_step", "ms", "convolutions");
const NotYet conv3x3("B06.conv3x3_fwd", "ms", "convolutions");

}  // namespace
}  // namespace bench
