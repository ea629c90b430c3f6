// Loading programs and composing transformations by name.
#include "program_file.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "interop/json_program.hpp"
#include "jaxpr/parse.hpp"
#include "text_lines.hpp"

namespace telamon_tool {
namespace {

namespace tl = telamon;

bool differentiable(const Array& x) { return tl::is_inexact(x.dtype()); }

// Parts between commas, without blanks around them.
std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream in(list);
  for (std::string part; std::getline(in, part, ',');) {
    const auto begin = part.find_first_not_of(' '), end = part.find_last_not_of(' ');
    parts.push_back(begin == std::string::npos ? "" : part.substr(begin, end - begin + 1));
  }
  if (list.ends_with(',')) parts.emplace_back();
  return parts;
}

Array ones_like(const tl::Aval& aval) { return tl::lax::full(aval.shape, aval.dtype, 1); }

Function grad_of(Function f) {
  return [f](const Arrays& x) {
    Arrays moved;
    for (const Array& a : x) {
      if (differentiable(a)) moved.push_back(a);
    }
    if (moved.empty()) throw tl::TypeError("grad: no input is of a floating-point dtype");
    return tl::grad([&](const Arrays& part) {
      Arrays all = x;
      std::size_t next = 0;
      for (Array& a : all) {
        if (differentiable(a)) a = part[next++];
      }
      const Arrays results = f(all);
      if (results.empty()) throw tl::TypeError("grad: the program has no result");
      const Array& y = results[0];
      tl::Shape axes;
      for (int i = 0; i < y.ndim(); ++i) axes.push_back(i);
      return tl::lax::reduce_sum(y, axes);
    })(moved);
  };
}

Function jvp_of(Function f) {
  return [f](const Arrays& x) {
    Arrays dx;
    for (const Array& a : x) dx.push_back(differentiable(a) ? ones_like(a.aval()) : Array());
    Arrays dy;
    for (const Array& t : tl::jvp(f, std::tuple{x}, std::tuple{dx}).second) {
      if (differentiable(t)) dy.push_back(t);
    }
    return dy;
  };
}

Function vjp_of(Function f) {
  return [f](const Arrays& x) {
    auto [y, pull] = tl::vjp(f, x);
    Arrays cts;
    for (const Array& a : y) cts.push_back(differentiable(a) ? ones_like(a.aval()) : Array());
    Arrays dx;
    const auto pulled = pull(cts);
    for (const Array& t : std::get<0>(pulled)) {
      if (differentiable(t)) dx.push_back(t);
    }
    return dx;
  };
}

}  // namespace

std::vector<ProgramFile> load_programs(const std::string& path, const std::string& name, bool all) {
  std::vector<ProgramFile> found;
  if (path.ends_with(".json")) {
    found.push_back({tl::interop::load_jaxpr(path), std::nullopt});
    if (!name.empty() && found[0].program.name() != name)
      throw tl::ValueError("the program in '" + path + "' is '" + found[0].program.name() +
                           "', not '" + name + "'");
    return found;
  }
  if (path.ends_with(".jaxpr")) {
    if (!name.empty())
      throw tl::ValueError("'" + path + "' is the text of one program: there is no case '" + name +
                           "' in it; leave out --case");
    tl::interop::check_is_file(path);
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    tl::Jaxpr jaxpr = tl::detail::parse_jaxpr_of_file(text.str(), path);
    found.push_back(
        {tl::interop::Program(std::filesystem::path(path).stem().string(), {std::move(jaxpr), {}}),
         std::nullopt});
    return found;
  }
  for_each_line(path, [&](const std::string& line, std::size_t number) {
    if (!all && !found.empty()) return;
    if (!name.empty() && line.find("\"" + name + "\"") == std::string::npos) return;
    const Case test = parse_case(line, path, number);
    if (!name.empty() && test.name != name) return;
    const std::string where =
        "'" + path + "', line " + std::to_string(number) + ", case '" + test.name + "': ";
    try {
      found.push_back(
          {tl::interop::Program(test.name, tl::interop::program_from_json(test.json.at("program"))),
           arrays_from(test.json.at("inputs"))});
    } catch (const tl::interop::MissingPrimitiveError& e) {
      throw tl::interop::MissingPrimitiveError(e.names(), path);
    } catch (const tl::ParseError& e) {
      throw tl::ParseError(where + e.message());
    } catch (const tl::TypeError& e) { throw tl::ParseError(where + e.message()); }
  });
  if (found.empty()) {
    throw tl::ValueError(name.empty() ? "there is no case in '" + path + "'"
                                      : "there is no case '" + name + "' in '" + path + "'");
  }
  return found;
}

namespace {

// x for each example of each vmap, along new leading axes.
Array repeated(const Array& x, const tl::Shape& batches) {
  tl::Shape shape = batches, dimensions;
  for (int i = 0; i < x.ndim(); ++i) {
    shape.push_back(x.shape(i));
    dimensions.push_back(batches.ndim() + i);
  }
  return tl::lax::broadcast_in_dim(x, shape, dimensions);
}

}  // namespace

Arrays load_inputs(const std::string& npy_list) {
  Arrays inputs;
  for (const std::string& path : split(npy_list)) {
    if (path.empty())
      throw tl::ValueError("--input '" + npy_list + "' has a comma with nothing beside it");
    inputs.push_back(tl::interop::load_npy(path));
  }
  return inputs;
}

Arrays example_inputs(const ProgramFile& file, const std::string& transforms, std::int64_t batch) {
  tl::Shape batches;
  for (const std::string& name : split(transforms)) {
    if (name == "vmap") batches.push_back(batch);
  }
  Arrays inputs;
  if (file.inputs) inputs = *file.inputs;
  else
    for (const tl::Aval& aval : file.program.in_avals()) inputs.push_back(ones_like(aval));
  if (!batches.empty())
    for (Array& x : inputs) x = repeated(x, batches);
  return inputs;
}

std::string inputs_text(const tl::interop::Program& program) {
  std::string text;
  const auto avals = program.in_avals();
  for (std::size_t i = 0; i < avals.size(); ++i) {
    text += (i == 0 ? "" : ", ") + avals[i].to_string();
    if (i < program.input_paths().size()) text += " (" + program.input_paths()[i] + ")";
  }
  return text;
}

Function apply_transforms(Function f, const std::string& transforms) {
  const std::vector<std::string> names = split(transforms);
  for (auto it = names.rbegin(); it != names.rend(); ++it) {
    if (*it == "jit") f = tl::jit(f);
    else if (*it == "vmap") f = tl::vmap(f);
    else if (*it == "grad") f = grad_of(f);
    else if (*it == "jvp") f = jvp_of(f);
    else if (*it == "vjp") f = vjp_of(f);
    else if (it->empty())
      throw tl::ValueError("--transform '" + transforms + "' has a comma with nothing beside it");
    else throw tl::ValueError("unknown transform '" + *it + "': use jit, vmap, grad, jvp, vjp");
  }
  return f;
}

std::string display_name(const std::string& program, const std::string& transforms) {
  std::string name = program;
  const std::vector<std::string> names = split(transforms);
  for (auto it = names.rbegin(); it != names.rend(); ++it) name = *it + "(" + name + ")";
  return name;
}

}  // namespace telamon_tool
