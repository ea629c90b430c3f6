// Functions with rules of their own.
//
// Without traced arguments such a function is called as it is. The rules are called when derivatives
// are taken, with known values where those are known, so `if` on values works in them; they must not
// use traced values but their arguments.
#pragma once

#include "telamon/closure_convert.hpp"
#include "telamon/custom_jvp.hpp"
#include "telamon/custom_linear_solve.hpp"
#include "telamon/custom_vjp.hpp"
#include "telamon/custom_vmap.hpp"
#include "telamon/linear_call.hpp"
