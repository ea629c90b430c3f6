// Programs on file with their inputs, and the transformations named on the command line.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "case.hpp"
#include "commands.hpp"

namespace telamon_tool {

/// A function of flat arrays.
using Function = std::function<Arrays(const Arrays&)>;

struct ProgramFile {
  telamon::interop::Program program;
  std::optional<Arrays> inputs;  ///< those of a case; a bare program has none
};

/// Calls f for the program in a file (.json, or .jaxpr: its text), or for the cases that are chosen in a file of
/// cases, and returns what it returns: the exit code. Of all cases, those that throw are skipped, and that is
/// said; if none is left, or one is damaged, the code is not 0. ValueError where the transforms are wrong.
int for_each_program(const ProgramChoice& choice, const std::function<int(const ProgramFile&)>& f);

/// The arrays of a comma-separated list of .npy files, as inputs of the transformed program: each vmap
/// among the transforms takes a leading axis, which counts its examples. TypeError where one does not fit.
Arrays load_inputs(const std::string& npy_list, const telamon::interop::Program& program,
                   const std::string& transforms);

/// The inputs of the case, or ones (booleans true) for a bare program. Each vmap among the transforms
/// adds a leading axis of `batch` equal examples. ValueError where a batch is given, and no vmap.
Arrays example_inputs(const ProgramFile& file, const std::string& transforms,
                      std::optional<std::int64_t> batch);

/// "f32[] ([0]['b']), f32[3] ([0]['w'])"
std::string inputs_text(const telamon::interop::Program& program);

/// "jit,vmap,grad" is jit(vmap(grad(f))). grad differentiates the sum of the first result with respect
/// to all floating-point inputs; vmap maps axis 0 of all; jvp and vjp push and pull ones. Each jit has the name of
/// what it compiles, "vmap(grad(loss))". The program is to outlive the function.
Function apply_transforms(const telamon::interop::Program& program, const std::string& transforms);

/// --donate 0,-1 of a program with so many inputs, after `num_consts` constants; empty where nothing is donated.
/// ValueError where a number is none of an input.
std::vector<bool> donated_inputs(const std::vector<int>& donate, std::size_t num_inputs,
                                 std::size_t num_consts);

/// What the program is called together with its transforms: "jit(vmap(grad(loss)))".
std::string display_name(const std::string& program, const std::string& transforms);

}  // namespace telamon_tool
