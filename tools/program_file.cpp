// Loading programs and composing transformations by name.
#include "program_file.hpp"

#include <sstream>

#include "text_lines.hpp"

namespace telamon_tool {
namespace {

namespace tl = telamon;

bool differentiable(const Array& x) { return tl::is_inexact(x.dtype()); }

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

Array ones_like(const tl::Aval& aval) {
  const Array one = tl::lax::convert_element_type(Array(1), aval.dtype);
  return tl::lax::broadcast_in_dim(one, aval.shape, {});
}

Function grad_of(Function f) {
  return [f](const Arrays& x) {
    Arrays moved;
    for (const Array& a : x) {
      if (differentiable(a)) moved.push_back(a);
    }
    return tl::grad([&](const Arrays& part) {
      Arrays all = x;
      std::size_t next = 0;
      for (Array& a : all) {
        if (differentiable(a)) a = part[next++];
      }
      const Array y = f(all).at(0);
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
    return found;
  }
  for_each_line(path, [&](const std::string& line) {
    if (!all && !found.empty()) return;
    if (!name.empty() && line.find("\"" + name + "\"") == std::string::npos) return;
    const Case test = parse_case(line);
    if (!name.empty() && test.name != name) return;
    found.push_back(
        {tl::interop::Program(test.name, tl::interop::program_from_json(test.json.at("program"))),
         arrays_from(test.json.at("inputs"))});
  });
  if (found.empty())
    throw std::runtime_error("no case" + (name.empty() ? "" : " '" + name + "'") + " in '" + path +
                             "'");
  return found;
}

Arrays choose_inputs(const ProgramFile& file, const std::string& npy_list) {
  if (!npy_list.empty()) {
    Arrays inputs;
    for (const std::string& path : split(npy_list)) inputs.push_back(tl::interop::load_npy(path));
    return inputs;
  }
  if (file.inputs) return *file.inputs;
  Arrays inputs;
  for (const tl::Aval& aval : file.program.in_avals()) inputs.push_back(ones_like(aval));
  return inputs;
}

Function apply_transforms(Function f, const std::string& transforms) {
  const std::vector<std::string> names = split(transforms);
  for (auto it = names.rbegin(); it != names.rend(); ++it) {
    if (*it == "jit") f = tl::jit(f);
    else if (*it == "vmap") f = tl::vmap(f);
    else if (*it == "grad") f = grad_of(f);
    else if (*it == "jvp") f = jvp_of(f);
    else if (*it == "vjp") f = vjp_of(f);
    else throw std::runtime_error("unknown transform '" + *it + "': use jit, vmap, grad, jvp, vjp");
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
