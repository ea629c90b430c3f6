// The program of docs/compiler.md, and what each pass makes of it: a layer of a network with a softmax.
// scripts/update_compiler_doc.sh copies what this prints into the document.
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

}  // namespace

int main() {
  const Layer layer{tl::zeros({16, 10}), tl::zeros({10})};
  const auto lowered = tl::jit(classify, {.name = "classify"}).lower(layer, tl::zeros({64, 16}));
  std::cout << "== traced\n" << lowered.jaxpr().jaxpr << "\n";
  const auto compiled = lowered.compile();
  for (const char* pass : {"lower", "simplify", "cse", "dce", "plan"})
    std::cout << "== " << pass << "\n" << compiled.text(pass) << "\n";
  std::cout << "== cost\n" << compiled.cost_analysis();
  std::cout << "== memory\n" << compiled.memory_analysis();
}
