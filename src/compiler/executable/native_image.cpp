// Images as bytes and back.
#include "compiler/executable/native_image.hpp"

#include <algorithm>
#include <cstring>

#include "compiler/executable/stored_bytes.hpp"
#include "core/counted.hpp"
#include "telamon/detail/text.hpp"
#include "telamon/error.hpp"

namespace telamon {
inline namespace v1 {
namespace compiler {
namespace {

std::size_t width(ImageFixup::Kind kind) { return kind == ImageFixup::Kind::call ? 4 : 8; }

bool is_sound(const NativeImage& image) {
  const std::size_t size = image.code.size();
  const auto inside = [&](const ImageFixup& f) {
    const bool known = f.kind <= ImageFixup::Kind::call;
    const bool named = f.kind == ImageFixup::Kind::base || f.symbol < image.symbols.size();
    return known && named && f.at <= size && width(f.kind) <= size - f.at;
  };
  return image.entry >= 0 && static_cast<std::size_t>(image.entry) < size &&
         std::all_of(image.fixups.begin(), image.fixups.end(), inside);
}

template <class Number>
void add_at(char* place, Number n) {
  Number old;
  std::memcpy(&old, place, sizeof old);
  n += old;
  std::memcpy(place, &n, sizeof n);
}

void fix(char* begin, const ImageFixup& fixup, const std::vector<std::uintptr_t>& functions) {
  char* const place = begin + fixup.at;
  const auto here = reinterpret_cast<std::uintptr_t>(place);
  switch (fixup.kind) {
    case ImageFixup::Kind::base: add_at(place, reinterpret_cast<std::uintptr_t>(begin)); break;
    case ImageFixup::Kind::function:
      std::memcpy(place, &functions[fixup.symbol], sizeof(std::uintptr_t));
      break;
    case ImageFixup::Kind::call: {
      const auto distance = static_cast<std::int64_t>(functions[fixup.symbol] - (here + 4));
      const auto near = static_cast<std::int32_t>(distance);
      if (near == distance) std::memcpy(place, &near, sizeof near);
      break;
    }
  }
}

}  // namespace

std::string to_bytes(const NativeImage& image) {
  ByteWriter out;
  out.number(image.entry);
  out.list(image.symbols, [&](std::string_view s) { out.text(s); });
  out.list(image.functions, [&](const ImageFunction& f) {
    out.text(f.name);
    out.number(f.at);
    out.number(f.bytes);
  });
  out.text({reinterpret_cast<const char*>(image.fixups.data()),
            image.fixups.size() * sizeof(ImageFixup)});
  out.text(image.frames);
  return with_tail(image.code, out.take());
}

NativeImage image_of(std::string_view bytes) {
  const auto [code, tail] = split_tail(bytes);
  ByteReader in(tail);
  NativeImage image;
  image.code = code;
  image.entry = in.number();
  in.list(image.symbols, [&] { return in.text(); });
  in.list(image.functions, [&] {
    ImageFunction f;
    f.name = in.text();
    f.at = in.number();
    f.bytes = in.number();
    return f;
  });
  const std::string_view fixups = in.text();
  image.fixups.resize(fixups.size() / sizeof(ImageFixup));
  if (!fixups.empty()) std::memcpy(image.fixups.data(), fixups.data(), fixups.size());
  image.frames = in.text();
  if (!in.at_end() || fixups.size() % sizeof(ImageFixup) != 0 || !is_sound(image))
    throw InternalError("cannot read generated code: it is cut short, or damaged");
  return image;
}

void apply_fixups(char* begin, const NativeImage& image,
                  const std::vector<std::uintptr_t>& functions) {
  for (const ImageFixup& fixup : image.fixups) fix(begin, fixup, functions);
}

std::vector<std::string> names_of_functions(const NativeImage& image, std::string_view program) {
  std::string entry = "telamon:" + detail::one_line(program);
  // A blank would end the name for those who read words.
  std::replace(entry.begin(), entry.end(), ' ', '_');
  std::vector<std::string> names;
  names.reserve(image.functions.size());
  for (const ImageFunction& f : image.functions)
    names.push_back(f.at == image.entry ? entry : entry + ':' + std::string(f.name));
  return names;
}

std::string image_text(const NativeImage& image) {
  std::string text = "image of " + detail::counted(image.code.size(), "byte") + "\n";
  for (const ImageFunction& f : image.functions) {
    text.append("  ").append(f.name).append(f.at == image.entry ? ", the entry: " : ": ");
    text += detail::counted(f.bytes, "byte") + " at " + std::to_string(f.at) + '\n';
  }
  for (const std::string_view symbol : image.symbols)
    text.append("  calls ").append(symbol).append("\n");
  return text;
}

}  // namespace compiler
}  // namespace v1
}  // namespace telamon
