// Calls that bring rules of their own: what they carry, and what a rule may break on purpose, is
// checked in tests/control_flow.
#include "support.hpp"

namespace telamon_test {
namespace {

const std::vector<CheckedElsewhere> kCalls = {
    {"custom_jvp_call",
     "tests/control_flow/custom_jvp_test.cpp: its derivative is what a rule says"},
    {"custom_vjp_call", "tests/control_flow/custom_vjp_test.cpp: it has no forward mode"},
    {"custom_lin", "tests/control_flow/custom_vjp_test.cpp: nothing but its transpose is known"},
    {"custom_vmap_call",
     "tests/control_flow/custom_vmap_test.cpp: its batching is what a rule says"},
    {"linear_call", "tests/control_flow/custom_vmap_test.cpp: its transpose is what it is told"},
    {"custom_root", "tests/control_flow/custom_root_test.cpp: f and its solver change together"},
    {"checkpoint", "tests/control_flow/checkpoint_test.cpp: under every policy"},
    {"optimization_barrier",
     "tests/control_flow/checkpoint_test.cpp: the compiler passes memory on"},
    {"check", "tests/transforms/checkify_test.cpp: it has no results"},
    {"name", "tests/control_flow/checkpoint_test.cpp: an identity with a name"},
};

}  // namespace
}  // namespace telamon_test
