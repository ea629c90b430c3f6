// What profiles call the steps of a program.
#include "compiler/emit/emit.hpp"
#include "core/counted.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

// "f32[64,10] <- f32[64,20], f32[20,10]"
std::string operands_text(const Plan& plan, const Step& s) {
  const auto list = [&](const std::vector<int>& values) {
    std::string text;
    for (const int v : values) {
      text += (text.empty() ? "" : ", ") +
              plan.values[static_cast<std::size_t>(v)].aval.strong().to_string();
    }
    return text;
  };
  const std::string reads = list(s.reads);
  return list(s.writes) + (reads.empty() ? "" : " <- " + reads);
}

class LabelList {
 public:
  LabelList(const Plan& plan, std::string program) : plan_(plan), program_(std::move(program)) {}
  std::vector<runtime::ProfileLabelPtr> all;

  void add(const std::vector<Step>& steps) {
    for (const Step& s : steps) {
      add(s);
      for (const auto& body : s.bodies) add(body);
    }
  }

 private:
  void add(const Step& s) {
    switch (s.kind) {
      case Step::Kind::kernel: return label("kernel", s.kernel.name, operands_text(plan_, s));
      case Step::Kind::host:
        return label(s.kernel.name == "dot_general" ? "matmul" : "call", s.name,
                     operands_text(plan_, s));
      case Step::Kind::copy: return label("memory", "copy", operands_text(plan_, s));
      case Step::Kind::fill: return label("memory", "fill", operands_text(plan_, s));
      case Step::Kind::loop:
        return label("loop", "loop", s.trips < 0 ? "" : detail::counted(s.trips, "trip"));
      case Step::Kind::branch: return label("loop", "branch", "");
      case Step::Kind::repeat: return label("loop", "while", "");
      case Step::Kind::tiles:
        return label("loop", "tiles",
                     "of " + std::to_string(s.grain) + (s.by_columns ? " columns" : " rows"));
    }
  }
  void label(const char* category, const std::string& name, const std::string& detail) {
    all.push_back(runtime::profile_label(category, program_ + ": " + name, detail));
  }

  const Plan& plan_;
  const std::string program_;
};

}  // namespace

std::vector<runtime::ProfileLabelPtr> step_labels(const Plan& plan, const std::string& program) {
  LabelList labels(plan, program);
  labels.add(plan.steps);
  return std::move(labels.all);
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
