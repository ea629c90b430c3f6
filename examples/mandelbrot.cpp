// The Mandelbrot set: a while loop for one point, mapped over a grid. In compiled code the points of a
// vector go through the loop together, and a point that has escaped waits for the others.
//
//   mandelbrot [FILE]      FILE: where the image goes, mandelbrot.pgm unless given
#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <telamon/telamon.hpp>

namespace tl = telamon;
using tl::Array;

constexpr int kMostSteps = 200;

// How many steps of z = z^2 + c stay within |z| <= 2.
Array steps_until_escape(const Array& re, const Array& im) {
  struct Orbit {
    Array x, y, steps;
  };
  const auto inside = [](const Orbit& z) {
    return (z.x * z.x + z.y * z.y <= 4.0) & (z.steps < kMostSteps);
  };
  const auto next = [&](const Orbit& z) {
    return Orbit{z.x * z.x - z.y * z.y + re, 2.0 * z.x * z.y + im, z.steps + 1};
  };
  const Array zero = tl::zeros_like(re);
  return tl::while_loop(inside, next, Orbit{zero, zero, tl::zeros({}, tl::i32)}).steps;
}

// The counts on a grid, one row for each imaginary part.
Array grid(int rows, int columns) {
  static const auto counts =
      tl::jit(tl::vmap(tl::vmap(steps_until_escape, {.in_axes = {0, tl::none}}),
                       {.in_axes = {tl::none, 0}}),
              {.name = "mandelbrot"});
  return counts(tl::linspace(-2.1, 0.7, columns, {.dtype = tl::f64}),
                tl::linspace(1.15, -1.15, rows, {.dtype = tl::f64}));
}

void draw(const Array& counts) {
  constexpr std::string_view kShades = " .,:;i1tfLCG08";  // the set itself: @
  const auto steps = counts.to_vector<int>();
  const auto columns = static_cast<std::size_t>(counts.shape(1));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto shade = std::min(static_cast<std::size_t>(steps[i]) / 2, kShades.size() - 1);
    std::cout << (steps[i] == kMostSteps ? '@' : kShades[shade])
              << ((i + 1) % columns == 0 ? "\n" : "");
  }
}

// A grey image in the PGM format: a line of text, then one byte for each pixel.
void save(const Array& counts, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << "P5 " << counts.shape(1) << " " << counts.shape(0) << " 255\n";
  for (const int steps : counts.to_vector<int>())
    file.put(static_cast<char>(steps == kMostSteps ? 0 : 255 - steps * 255 / kMostSteps));
}

int main(int argc, char** argv) {
  draw(grid(33, 90));
  const std::string path = argc > 1 ? argv[1] : "mandelbrot.pgm";
  const Array image = grid(480, 640);
  save(image, path);
  const Array area = tl::mean(image == kMostSteps) * (2.8 * 2.3);
  std::cout << "an image of 640 x 480 pixels is in " << path << "\n"
            << "the set covers an area of about " << tl::round(area, 2)
            << " (1.507 after more steps)\n";
}
