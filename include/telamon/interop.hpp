// Programs and arrays from elsewhere: functions written in JAX, NumPy files.
#pragma once

#include <string>
#include <vector>

#include "telamon/array.hpp"
#include "telamon/jaxpr.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {

/// A program read from a file. It traces like any C++ function, so every transformation applies:
///   auto loss = tl::interop::load_jaxpr("loss.json");
///   auto g = tl::grad([&](const std::vector<Array>& x) { return loss(x)[0]; })(inputs);
class TELAMON_API Program {
 public:
  Program(std::string name, ClosedJaxpr program, std::vector<std::string> input_paths = {})
      : name_(std::move(name)),
        program_(std::move(program)),
        input_paths_(std::move(input_paths)) {}

  /// Applies the program to flat inputs. TypeError when their number, shapes or dtypes are wrong.
  Arrays operator()(std::span<const Array> inputs,
                    SourceLocation where = SourceLocation::current()) const;
  Arrays operator()(const Arrays& inputs, SourceLocation where = SourceLocation::current()) const {
    return (*this)(std::span<const Array>(inputs), where);
  }

  const std::string& name() const { return name_; }
  const ClosedJaxpr& jaxpr() const { return program_; }
  /// The avals of the inputs (constants excluded).
  std::vector<Aval> in_avals() const;
  /// The names of the flat inputs in the source's notation, where known: "[0]['w']".
  const std::vector<std::string>& input_paths() const { return input_paths_; }

 private:
  std::string name_;
  ClosedJaxpr program_;
  std::vector<std::string> input_paths_;
};

/// A program uses primitives that this library lacks; all of them are named.
class TELAMON_API MissingPrimitiveError : public NotImplementedError {
 public:
  explicit MissingPrimitiveError(std::vector<std::string> names, const std::string& file = {});
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

/// Reads a JAX function written by tools/jax_export.py. ParseError on damaged files (with the place),
/// MissingPrimitiveError on unknown primitives, ValueError when the file cannot be opened.
TELAMON_API Program load_jaxpr(const std::string& path,
                               SourceLocation where = SourceLocation::current());

/// NumPy's .npy files, of any dtype that exists here. Column-major ("Fortran order") data is read too:
/// the array has the same elements at the same indices. Files are written in row-major order.
/// ParseError on damaged files, ValueError when a file cannot be opened or written, with the reason.
TELAMON_API Array load_npy(const std::string& path,
                           SourceLocation where = SourceLocation::current());
TELAMON_API void save_npy(const std::string& path, const Array& x,
                          SourceLocation where = SourceLocation::current());

}  // namespace interop
}  // namespace v1
}  // namespace telamon
