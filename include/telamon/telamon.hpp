// Telamon: ordinary C++ functions over arrays, traced once and interpreted in many ways.
//
//   #include <telamon/telamon.hpp>
//   namespace tl = telamon;
//   using tl::Array;
//
//   Array f(const Array& x) { return tl::sin(x) * 2.0 - x; }
//   auto df = tl::jit(tl::grad(f));
//   std::cout << df(3.0) << '\n' << tl::make_jaxpr(tl::grad(f))(3.0) << '\n';
#pragma once

#include "telamon/array.hpp"
#include "telamon/check.hpp"
#include "telamon/checkify.hpp"
#include "telamon/checkpoint.hpp"
#include "telamon/control_flow.hpp"
#include "telamon/custom.hpp"
#include "telamon/debug.hpp"
#include "telamon/disk_cache.hpp"
#include "telamon/emitter.hpp"
#include "telamon/error.hpp"
#include "telamon/families.hpp"
#include "telamon/grad.hpp"
#include "telamon/history.hpp"
#include "telamon/indexing.hpp"
#include "telamon/interop.hpp"
#include "telamon/jacobian.hpp"
#include "telamon/jaxpr.hpp"
#include "telamon/jit.hpp"
#include "telamon/jvp.hpp"
#include "telamon/lax.hpp"
#include "telamon/make_jaxpr.hpp"
#include "telamon/memory.hpp"
#include "telamon/nn.hpp"
#include "telamon/numpy.hpp"
#include "telamon/ode.hpp"
#include "telamon/optim.hpp"
#include "telamon/primitive.hpp"
#include "telamon/primitives.hpp"
#include "telamon/profile.hpp"
#include "telamon/random.hpp"
#include "telamon/root.hpp"
#include "telamon/solvers.hpp"
#include "telamon/special.hpp"
#include "telamon/threads.hpp"
#include "telamon/tree.hpp"
#include "telamon/vmap.hpp"
