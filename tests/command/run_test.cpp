// `telamon run`: transformations in order, and the inputs that it takes.
#include "command/command.hpp"

namespace telamon {
namespace {

using namespace telamon_test;

TEST_F(Command, NamesWhatIsJittedAfterItsProgram) {
  const std::string program = file("product.jaxpr", kProduct);
  EXPECT_THAT(telamon_command("show --transform jit,vmap,jit " + program).text,
              AllOf(HasSubstr("jit [ name='vmap(jit(product))'"), HasSubstr("jit [ name=product")));
}

TEST_F(Command, RunComposesTransformationsInOrder) {
  const std::string cases = file("cases.jsonl", kCase.dump());
  EXPECT_THAT(telamon_command("run " + cases).text, StartsWith("f64[]\n1.43827661581260"));
  for (const char* order : {"grad", "jit,grad", "grad,jit", "jit,grad,jit", " jit , grad "}) {
    EXPECT_THAT(
        telamon_command("run " + cases + " --transform '" + order + "'").text,
        AllOf(StartsWith("f64[]\n2.63274768567111"), HasSubstr("\nf64[]\n0.47942553860420")))
        << order;
  }
  // Inputs of the case are repeated for vmap, unless arrays are given.
  for (const char* order : {"vmap,grad", "jit,vmap,grad", "vmap,jit,grad", "vmap,grad,jit"}) {
    EXPECT_THAT(telamon_command("run " + cases + " --batch 2 --transform " + order).text,
                HasSubstr("f64[2]\n[2.63274769 2.63274769]"))
        << order;
  }
  const std::string inputs =
      array("x.npy", Array({0.0, 0.5})) + "," + array("w.npy", Array({1.0, 3.0}));
  EXPECT_THAT(telamon_command("run " + cases + " --transform vmap,grad --input " + inputs).text,
              HasSubstr("f64[2]\n[1.         2.63274769]"));
  const std::string short_one =
      array("x.npy", Array({0.0, 0.5})) + "," + array("three.npy", Array({1.0, 2.0, 3.0}));
  EXPECT_THAT(telamon_command("run " + cases + " --transform vmap --input " + short_one).text,
              AllOf(HasSubstr("input 1, '"),
                    HasSubstr("three.npy', is f64[3], but vmap(wave) takes f64[N], and axis 0 of "
                              "input 0, '"),
                    HasSubstr("x.npy', counts 2 examples: give as many of each")));
  const std::string scalar = array("x.npy", Array({0.0, 0.5})) + "," + array("one.npy", Array(1.0));
  EXPECT_THAT(telamon_command("run " + cases + " --transform jit,vmap --input " + scalar).text,
              HasSubstr("one.npy', is f64[], but jit(vmap(wave)) takes f64[N]: each vmap adds a "
                        "leading axis, which counts the examples. Give as many of f64[] along it"));
  EXPECT_THAT(telamon_command("run " + cases + " --transform vmap,vmap --input " + inputs).text,
              HasSubstr("x.npy', is f64[2], but vmap(vmap(wave)) takes f64[N0,N1]: each vmap"));
  EXPECT_THAT(
      telamon_command("run " + cases + " --input " + inputs).text,
      AllOf(HasSubstr("x.npy', is f64[2], but wave takes f64[]"), Not(HasSubstr("leading axis"))));
  EXPECT_THAT(telamon_command("run " + cases + " --input " + array("x.npy", Array(1.0))).text,
              HasSubstr("--input has 1 file, but 'wave' takes 2 arrays, one file for each: f64[]"));
  EXPECT_THAT(telamon_command("run " + cases + " --transform jit,jvp").text,
              HasSubstr("3.112173224"));  // 3 cos 0.5 + sin 0.5
  EXPECT_THAT(telamon_command("run " + cases + " --transform vjp,jit").text,
              HasSubstr("f64[]\n0.47942553860420"));
  EXPECT_THAT(telamon_command("run " + cases + " --transform jit,gard").text,
              HasSubstr("unknown transform 'gard': use jit, vmap, grad, jvp, vjp"));
  const Answer comma = telamon_command("run " + cases + " --transform jit,");
  EXPECT_EQ(comma.code, 2);
  EXPECT_THAT(comma.text, HasSubstr("--transform 'jit,' has a comma with nothing beside it"));
  EXPECT_THAT(comma.text, Not(HasSubstr("program_file.cpp")));
}

TEST_F(Command, RunAsksForTheInputsThatAProgramHasNot) {
  const std::string program = file("wave.json", program_of(kCase).dump());
  const Answer refused = telamon_command("run " + program);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.text, HasSubstr("needs inputs, and its file has none"));
  EXPECT_THAT(refused.text, HasSubstr("f64[] ([0]), f64[] ([1])"));
  const std::string x = array("x.npy", Array(0.5)), w = array("w.npy", Array(3.0));
  EXPECT_THAT(telamon_command("run " + program + " --input " + x + "," + w).text,
              StartsWith("f64[]\n1.43827661581260"));
  EXPECT_THAT(telamon_command("run " + program + " --input " + x).text,
              HasSubstr("takes 2 arrays"));
  EXPECT_THAT(telamon_command("run " + program + " --input " + x + ",/no/such.npy").text,
              HasSubstr("cannot open '/no/such.npy'"));
  EXPECT_THAT(telamon_command("run " + program + " --input " + x + ",").text,
              HasSubstr("x.npy,' has a comma with nothing beside it"));
}

}  // namespace
}  // namespace telamon
