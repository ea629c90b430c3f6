// The program of docs/compiler.md, and what each pass makes of it: a layer of a network with a softmax.
// scripts/update_compiler_doc.sh copies what this prints into the document.
#include <cstdlib>
#include <iostream>
#include <telamon/telamon.hpp>

namespace tl = telamon;
using tl::Array;

namespace {

struct Layer {
  Array w, b;
};

// Probabilities of 10 classes for each of 64 inputs. The second minus sign is for the simplifier.
Array classify(const Layer& layer, const Array& x) {
  const Array scores = tl::tanh(tl::matmul(x, layer.w) + layer.b);
  return tl::softmax(-(-scores), -1);
}

auto lower() {
  const Layer layer{tl::zeros({16, 10}), tl::zeros({10})};
  return tl::jit(classify, {.name = "classify"}).lower(layer, tl::zeros({64, 16}));
}

// The function of a module whose name begins so, from "define" to the closing brace.
std::string function_of(const std::string& ir, const std::string& name) {
  const std::size_t begin = ir.rfind("define", ir.find("@" + name));
  return ir.substr(begin, ir.find("\n}", begin) + 2 - begin);
}

}  // namespace

int main() {
  setenv("TELAMON_ISA", "generic", 1);  // the same vectors on every machine
  const auto lowered = lower();
  std::cout << "== traced\n" << lowered.jaxpr().jaxpr << "\n";
  const auto compiled = lowered.compile();
  for (const char* pass : {"lower", "simplify", "cse", "dce", "plan"})
    std::cout << "== " << pass << "\n" << compiled.text(pass) << "\n";
  setenv("TELAMON_DISABLE", "inline_kernels", 1);
  std::cout << "== ir\n" << function_of(lower().compile().text("ir"), "div_") << "\n";
  std::cout << "== cost\n" << compiled.cost_analysis();
  std::cout << "== memory\n" << compiled.memory_analysis();
}
