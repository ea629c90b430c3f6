// The program of the hand-written side; HAND_NAME says which build it is. Denormal numbers are flushed
// in none of them but the fast one, where the compiler's own start-up code does it.
#include "hand.hpp"

int main(int argc, char** argv) {
  return bench::run(argc, argv, HAND_NAME, [] {});
}
