// Loading programs and composing transformations by name.
#include "program_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/counted.hpp"
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

int number_of_vmaps(const std::string& transforms) {
  const auto names = split(transforms);
  return static_cast<int>(std::count(names.begin(), names.end(), "vmap"));
}

// Whether x has so many axes in front of the shape of one example.
bool is_batch_of(const Array& x, const tl::Aval& aval, int axes) {
  if (x.dtype() != aval.dtype || x.ndim() != axes + aval.ndim()) return false;
  for (int d = 0; d < aval.ndim(); ++d) {
    if (x.shape(axes + d) != aval.shape[static_cast<std::size_t>(d)]) return false;
  }
  return true;
}

// "f64[N,3]", "f64[N0,N1,3]"
std::string batch_text(const tl::Aval& aval, int axes) {
  std::string text(tl::short_name(aval.dtype));
  text += '[';
  for (int d = 0; d < axes; ++d)
    text += std::string(d == 0 ? "N" : ",N") + (axes == 1 ? "" : std::to_string(d));
  for (int d = 0; d < aval.ndim(); ++d)
    text += (axes + d == 0 ? "" : ",") + std::to_string(aval.shape[static_cast<std::size_t>(d)]);
  return text + ']';
}

}  // namespace

Arrays load_inputs(const std::string& npy_list, const tl::interop::Program& program,
                   const std::string& transforms) {
  const std::vector<std::string> paths = split(npy_list);
  Arrays inputs;
  for (const std::string& path : paths) {
    if (path.empty())
      throw tl::ValueError("--input '" + npy_list + "' has a comma with nothing beside it");
    inputs.push_back(tl::interop::load_npy(path));
  }
  const std::string name = display_name(program.name(), transforms);
  const std::vector<tl::Aval> avals = program.in_avals();
  if (inputs.size() != avals.size()) {
    throw tl::TypeError("--input has " + tl::detail::counted(inputs.size(), "file") + ", but '" +
                        program.name() + "' takes " + tl::detail::counted(avals.size(), "array") +
                        ", one file for each: " + inputs_text(program));
  }
  const int vmaps = number_of_vmaps(transforms);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string given = "input " + std::to_string(i) + ", '" + paths[i] + "', is " +
                              inputs[i].aval().to_string() + ", but " + name + " takes " +
                              batch_text(avals[i], vmaps);
    if (!is_batch_of(inputs[i], avals[i], vmaps)) {
      throw tl::TypeError(given + (vmaps == 0 ? ""
                                              : ": each vmap adds a leading axis, which counts the "
                                                "examples. Give as many of " +
                                                    avals[i].to_string() + " along it"));
    }
    for (int d = 0; d < vmaps; ++d) {
      if (inputs[i].shape(d) == inputs[0].shape(d)) continue;
      throw tl::TypeError(given + ", and axis " + std::to_string(d) + " of input 0, '" + paths[0] +
                          "', counts " + tl::detail::counted(inputs[0].shape(d), "example") +
                          ": give as many of each");
    }
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

std::vector<bool> donated_inputs(const std::vector<int>& donate, std::size_t num_inputs,
                                 std::size_t num_consts) {
  if (donate.empty()) return {};
  const auto n = static_cast<int>(num_inputs);
  std::vector<bool> donated(num_consts + num_inputs, false);
  for (const int i : donate) {
    if (i < -n || i >= n)
      throw tl::ValueError("--donate has input number " + std::to_string(i) +
                           ", but the program has " + tl::detail::counted(n, "input"));
    donated[num_consts + static_cast<std::size_t>(i < 0 ? i + n : i)] = true;
  }
  return donated;
}

std::string display_name(const std::string& program, const std::string& transforms) {
  std::string name = program;
  const std::vector<std::string> names = split(transforms);
  for (auto it = names.rbegin(); it != names.rend(); ++it) name = *it + "(" + name + ")";
  return name;
}

}  // namespace telamon_tool
