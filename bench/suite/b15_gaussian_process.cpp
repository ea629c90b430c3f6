// B15: a Gaussian process by Cholesky factors: rows that wait for the factorisations.
#include "harness.hpp"

namespace bench {
namespace {

constexpr const char* kWhy = "factorisations and triangular solves do not exist yet";
const NotYet nlml("B15.gp_nlml", "ms", kWhy);
const NotYet nlml_grad("B15.gp_nlml_grad", "ms", kWhy);
const NotYet nlml_grad_2048("B15.gp_nlml_grad_2048", "ms", kWhy);
const NotYet cholesky("B15.cholesky_512", "ms", kWhy);

}  // namespace
}  // namespace bench
