// Loading programs and composing transformations by name.
#include "program_file.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <new>
#include <optional>
#include <sstream>

#include "core/counted.hpp"
#include "interop/json_fields.hpp"
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

// Once, and not for each case.
void check_transforms(const ProgramChoice& choice) {
  const std::vector<std::string> known = {"jit", "vmap", "grad", "jvp", "vjp"},
                                 names = split(choice.transform);
  for (const std::string& name : names) {
    if (name.empty())
      throw tl::ValueError("--transform '" + choice.transform +
                           "' has a comma with nothing beside it");
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw tl::ValueError("unknown transform '" + name + "': use jit, vmap, grad, jvp, vjp");
  }
  if (choice.batch && std::find(names.begin(), names.end(), "vmap") == names.end())
    throw tl::ValueError(
        "--batch is for vmap, which is not among the transforms: --transform vmap");
}

// What comes out of a pipe is gone when it is read again.
void refuse_text_of_jaxpr(const std::string& path) {
  std::string brace, word;
  if (!std::filesystem::is_regular_file(path)) return;
  std::ifstream(path) >> std::setw(1) >> brace >> std::setw(6) >> word;
  if (brace + word == "{lambda")
    throw tl::ValueError("'" + path +
                         "' holds the text of a jaxpr, which is read from a file whose "
                         "name ends in .jaxpr");
}

ProgramFile load_json(const std::string& path, const std::string& name) {
  tl::interop::Program program = tl::interop::load_jaxpr(path);
  if (!name.empty() && program.name() != name)
    throw tl::ValueError("the program in '" + path + "' is '" + program.name() + "', not '" + name +
                         "'");
  return {std::move(program), std::nullopt};
}

ProgramFile load_text(const std::string& path, const std::string& name) {
  if (!name.empty())
    throw tl::ValueError("'" + path + "' is the text of one program: there is no case '" + name +
                         "' in it; leave out --case");
  tl::interop::check_is_file(path);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  tl::Jaxpr jaxpr = tl::detail::parse_jaxpr_of_file(text.str(), path);
  return {tl::interop::Program(std::filesystem::path(path).stem().string(), {std::move(jaxpr), {}}),
          std::nullopt};
}

ProgramFile load_case(const Case& test) {
  const Json& program = test.json.at("program");
  // Nothing is wrong with a program of dtypes that nothing is computed with here.
  const auto refuse = [&](const tl::Error& e) -> ProgramFile {
    if (missing_dtype(program)) throw tl::NotImplementedError(e.message());
    throw tl::ParseError(e.message());
  };
  try {
    return {tl::interop::Program(test.name, tl::interop::program_from_json(program)),
            arrays_from(test.json.at("inputs"))};
  } catch (const tl::ParseError& e) { return refuse(e); } catch (const tl::TypeError& e) {
    return refuse(e);
  }
}

ProgramFile load_case_of(const std::string& path, std::size_t line, const Case& test) {
  const std::string where =
      "'" + path + "', line " + std::to_string(line) + ", case '" + test.name + "': ";
  try {
    return load_case(test);
  } catch (const tl::NotImplementedError& e) {
    throw tl::NotImplementedError(where + e.message());
  } catch (const tl::ParseError& e) { throw tl::ParseError(where + e.message()); }
}

// Beside what a command prints, which may be lines of JSON, and in its order where both are seen.
void remark(const std::string& text) {
  std::cout.flush();
  std::fflush(stdout);
  std::cerr << text << '\n';
}

/// The cases of a file, one after the other.
class Cases {
 public:
  Cases(const ProgramChoice& choice, const std::function<int(const ProgramFile&)>& f)
      : path_(choice.file), choice_(choice), f_(f) {}

  int run() {
    for_each_line(path_, [&](const std::string& line, std::size_t number) {
      if (choice_.all) try_line(line, number);
      else if (choice_.name.empty()) {
        if (count_++ == 0) chosen_ = load_case_of(path_, number, parse_case(line, path_, number));
      } else if (!chosen_ && line.find("\"" + choice_.name + "\"") != std::string::npos) {
        const Case test = parse_case(line, path_, number);
        if (test.name == choice_.name) chosen_ = load_case_of(path_, number, test);
      }
    });
    if (choice_.all && count_ > 0) return code_of_all();
    if (!chosen_) {
      throw tl::ValueError(choice_.name.empty()
                               ? "there is no case in '" + path_ + "'"
                               : "there is no case '" + choice_.name + "' in '" + path_ + "'");
    }
    if (count_ > 1)
      remark("(the first of " + std::to_string(count_) +
             " cases; --case NAME or --all for others)");
    return f_(*chosen_);
  }

 private:
  void try_line(const std::string& line, std::size_t number) {
    ++count_;
    std::string name = path_ + ":" + std::to_string(number);
    const auto skip = [&](const std::string& why) {
      ++skipped_;
      remark(name + ": skipped, " + why);
    };
    try {
      const Case test = parse_case(line, path_, number);
      name = test.name;
      code_ = std::max(code_, f_(load_case(test)));
    } catch (const tl::InternalError&) { throw; } catch (const tl::ParseError& e) {
      damaged_ = true;
      skip(e.message());
    } catch (const tl::Error& e) { skip(e.message()); } catch (const Json::exception& e) {
      damaged_ = true;
      skip("damaged: " + tl::interop::plain_message(e));
    } catch (const std::bad_alloc&) { skip("there is not enough memory for it"); }
  }

  int code_of_all() const {
    if (skipped_ > 0)
      remark("skipped " + std::to_string(skipped_) + " of " + tl::detail::counted(count_, "case"));
    return code_ == 0 && (damaged_ || skipped_ == count_) ? kWrongUse : code_;
  }

  const std::string& path_;
  const ProgramChoice& choice_;
  const std::function<int(const ProgramFile&)>& f_;
  std::optional<ProgramFile> chosen_;
  std::size_t count_ = 0, skipped_ = 0;
  bool damaged_ = false;
  int code_ = 0;
};

}  // namespace

int for_each_program(const ProgramChoice& choice, const std::function<int(const ProgramFile&)>& f) {
  check_transforms(choice);
  const std::string& path = choice.file;
  if (path.ends_with(".jaxpr")) return f(load_text(path, choice.name));
  refuse_text_of_jaxpr(path);
  if (path.ends_with(".json")) return f(load_json(path, choice.name));
  return Cases(choice, f).run();
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

// "grad(loss)"
std::string named(const std::string& transform, const std::string& of) {
  return transform + "(" + of + ")";
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

Arrays example_inputs(const ProgramFile& file, const std::string& transforms,
                      std::optional<std::int64_t> batch) {
  tl::Shape batches;
  for (int i = 0; i < number_of_vmaps(transforms); ++i)
    batches.push_back(batch.value_or(kDefaultBatch));
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

Function apply_transforms(const tl::interop::Program& program, const std::string& transforms) {
  Function f = [&program](const Arrays& x) { return program(x); };
  std::string name = program.name();
  const std::vector<std::string> names = split(transforms);
  for (auto it = names.rbegin(); it != names.rend(); ++it) {
    if (*it == "jit") f = tl::jit(f, {.name = name});
    else if (*it == "vmap") f = tl::vmap(f);
    else if (*it == "grad") f = grad_of(f);
    else if (*it == "jvp") f = jvp_of(f);
    else f = vjp_of(f);
    name = named(*it, name);
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
  for (auto it = names.rbegin(); it != names.rend(); ++it) name = named(*it, name);
  return name;
}

}  // namespace telamon_tool
