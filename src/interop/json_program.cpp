// Programs in files: the public face of the reader.
#include "interop/json_program.hpp"

#include "core/counted.hpp"
#include "interop/program_reader.hpp"
#include "telamon/detail/out_of_memory.hpp"

namespace telamon {
inline namespace v1 {
namespace interop {
namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "'" : ", '") + n + "'";
  return text;
}

std::vector<std::string> input_paths(const Json& file) {
  std::vector<std::string> paths;
  if (!file.contains("input_paths")) return paths;
  for (const Json& path : list_member(file, "input_paths")) {
    if (!path.is_string())
      throw ParseError("'input_paths' must be a list of texts, found " + found_text(path) +
                       " in it");
    paths.push_back(path.get<std::string>());
  }
  return paths;
}

}  // namespace

MissingPrimitiveError::MissingPrimitiveError(std::vector<std::string> names,
                                             const std::string& file)
    : NotImplementedError("the program " + (file.empty() ? "" : "in '" + file + "' ") +
                          "uses primitives that do not exist here: " + listed(names)),
      names_(std::move(names)) {}

ClosedJaxpr program_from_json(const Json& closed) {
  try {
    return ProgramReader().read(closed);
  } catch (const Json::exception& e) { throw ParseError("damaged program: " + plain_message(e)); }
}

Program load_jaxpr(const std::string& path, SourceLocation where) {
  return detail::in_call("load_jaxpr", where, [&] {
    const Json file = parse_json_file(path);
    try {
      check_format(file, {kProgramFormat, kCaseFormat});
      const Json& program = file.contains("program") ? file.at("program") : file;
      return Program(text_member(file, "name", path), program_from_json(program),
                     input_paths(file));
    } catch (const MissingPrimitiveError& e) {
      throw MissingPrimitiveError(e.names(), path);
    } catch (const NotImplementedError& e) {
      throw NotImplementedError("'" + path + "': " + e.message());
    } catch (const ValueError& e) {
      throw ParseError("'" + path + "': " + e.message());
    } catch (const TypeError& e) { throw ParseError("'" + path + "': " + e.message()); }
  });
}

std::vector<Aval> Program::in_avals() const {
  const auto all = program_.jaxpr.in_avals();
  return {all.begin() + program_.num_consts(), all.end()};
}

Arrays Program::operator()(std::span<const Array> inputs, SourceLocation where) const {
  const detail::CallSite site(where);
  const std::vector<Aval> expected = in_avals();
  if (inputs.size() != expected.size()) {
    throw TypeError("the program '" + name_ + "' takes " +
                    detail::counted(expected.size(), "array") + ", got " +
                    std::to_string(inputs.size()));
  }
  Arrays args = program_.consts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].aval().same_type(expected[i])) {
      throw TypeError("the program '" + name_ + "' takes " + expected[i].to_string() +
                      " as input " + std::to_string(i) + ", got " + inputs[i].aval().to_string());
    }
    args.push_back(inputs[i]);
  }
  return eval_jaxpr(program_.jaxpr, args);
}

}  // namespace interop
}  // namespace v1
}  // namespace telamon
