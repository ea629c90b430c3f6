// expect: at most 32 members
#include "telamon/reflect.hpp"

struct Large {
  int m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20,
      m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32;
};

static_assert(telamon::field_count<Large>() == 33);
