// The matmul primitive of oneDNN 2, which shares a batch among its threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "libraries.hpp"

namespace bench {

/// What is declared here stands in dnnl.h; descriptions are opaque, and have more room than they need. Nothing is given
/// back before the process ends.
class Matmul {
 public:
  using Sizes = std::array<std::int64_t, 12>;
  static constexpr int kF16 = 1, kBf16 = 2, kF32 = 3, kI32 = 4, kI8 = 5;
  /// Matrices of a batch, which must stay where they are.
  struct Operand {
    void* data;
    int type;
    Sizes sizes, strides;
  };
  /// Computes c = a b when called; null where the library is not here, or has no such product.
  static std::function<void()> prepared(const Operand& a, const Operand& b, const Operand& c) {
    const auto m = std::make_shared<Matmul>();
    if (!m->prepare(a, b, c)) return nullptr;
    using Execute = int (*)(void*, void*, int, const Argument*);
    using Wait = int (*)(void*);
    return [m, execute = symbol<Execute>(m->dnnl_, "dnnl_primitive_execute"),
            wait = symbol<Wait>(m->dnnl_, "dnnl_stream_wait")] {
      execute(m->primitive_, m->stream_, 3, m->arguments_.data());
      wait(m->stream_);
    };
  }

 private:
  using Handle = void*;
  struct Argument {
    int place;
    Handle memory;
  };
  struct Description {
    alignas(64) char bytes[16384];
  };
  static constexpr int kCpu = 1, kInOrder = 1, kSource = 1, kResult = 17, kWeights = 33;

  /// Calls the function of this name: whether it is there and succeeds.
  template <class... Args>
  bool call(const char* name, Args... args) const {
    const auto f = symbol<int (*)(Args...)>(dnnl_, name);
    return f != nullptr && f(args...) == 0;
  }
  bool memory(Argument& argument, Description& about, int place, const Operand& x) const {
    argument.place = place;
    return call("dnnl_memory_desc_init_by_strides", &about, 3, x.sizes.data(), x.type,
                x.strides.data()) &&
           call("dnnl_memory_create", &argument.memory, &about, engine_, x.data);
  }
  bool prepare(const Operand& a, const Operand& b, const Operand& c) {
    Description of_a, of_b, of_c, product;
    Handle description{};
    const Description* no_bias = nullptr;
    return call("dnnl_engine_create", &engine_, kCpu, std::size_t{0}) &&
           call("dnnl_stream_create", &stream_, engine_, kInOrder) &&
           memory(arguments_[0], of_a, kSource, a) && memory(arguments_[1], of_b, kWeights, b) &&
           memory(arguments_[2], of_c, kResult, c) &&
           call("dnnl_matmul_desc_init", &product, &of_a, &of_b, no_bias, &of_c) &&
           call("dnnl_primitive_desc_create", &description, &product, Handle(), engine_,
                Handle()) &&
           call("dnnl_primitive_create", &primitive_, description);
  }

  void* dnnl_ = library("libdnnl.so.2");
  Handle engine_{}, stream_{}, primitive_{};
  std::array<Argument, 3> arguments_{};
};

}  // namespace bench
