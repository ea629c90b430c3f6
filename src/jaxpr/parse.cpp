// Reads the text of a jaxpr; print.cpp documents the grammar. Names may be any words.
#include "jaxpr/parse.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "core/concrete.hpp"
#include "core/counted.hpp"
#include "core/kept_names.hpp"
#include "core/trace.hpp"
#include "jaxpr/lexer.hpp"
#include "jaxpr/literal.hpp"
#include "jaxpr/print.hpp"
#include "jaxpr/typecheck.hpp"
#include "telamon/detail/out_of_memory.hpp"
#include "telamon/detail/text.hpp"
#include "telamon/primitive.hpp"

namespace telamon {
inline namespace v1 {
namespace detail {
namespace {

constexpr int kMaxDepth = 100;  // of nested jaxprs: the parser is recursive

bool parse_size(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

// The lines of a file, for tokens in the order of the text.
class Lines {
 public:
  /// `file` is null for a text that is no file's.
  Lines(std::string_view text, const char* file) : text_(text), file_(file) {}
  SourceLocation of(const Token& token) {
    if (file_ == nullptr) return {};
    const std::string_view passed = text_.substr(begin_, token.begin - begin_);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    begin_ = token.begin;
    return {file_, line_, nullptr};
  }

 private:
  std::string_view text_;
  const char* file_;
  std::size_t begin_ = 0;
  int line_ = 1;
};

class Parser {
 public:
  /// The text of a file; null: of no file, whose equations have no lines.
  Parser(std::string_view text, std::string source, const char* file = nullptr, bool typed = true)
      : lexer_(text, std::move(source)), lines_(text, file), typed_(typed) {}

  Jaxpr parse() {
    Jaxpr jaxpr = parse_jaxpr(0);
    if (lexer_.peek().kind != Token::Kind::end) lexer_.fail_expected("the end of the text");
    return jaxpr;
  }

 private:
  // The variables of one jaxpr; inner jaxprs do not see those around them.
  struct Scope {
    std::map<std::string, Var, std::less<>> vars;
    std::vector<Aval> avals;
  };

  Jaxpr parse_jaxpr(int depth) {
    if (depth > kMaxDepth) lexer_.fail(lexer_.peek(), "jaxprs are nested too deeply");
    Scope scope;
    lexer_.expect("{");
    lexer_.expect("lambda");
    parse_list(".", [&] { parse_binder(scope); });
    const int num_inputs = static_cast<int>(scope.avals.size());
    lexer_.expect("let");
    std::vector<Eqn> eqns;
    while (!lexer_.peek().is("in")) eqns.push_back(parse_eqn(scope, depth));
    lexer_.expect("in");
    lexer_.expect("(");
    Atoms outs;
    parse_list(")", [&] { outs.push_back(parse_atom(scope)); });
    lexer_.expect("}");
    return Jaxpr(num_inputs, std::move(scope.avals), std::move(eqns), std::move(outs));
  }

  // Any number of elements with commas between them, up to `end`.
  template <class Element>
  void parse_list(const char* end, const Element& element) {
    if (lexer_.accept(end)) return;
    do element();
    while (lexer_.accept(","));
    if (!lexer_.accept(end)) lexer_.fail_expected("',' or '" + std::string(end) + "'");
  }

  Var parse_binder(Scope& scope) {
    const Token name = take_word("a variable");
    lexer_.expect(":");
    return bind(scope, name, parse_aval());
  }

  Var bind(Scope& scope, const Token& name, Aval aval) {
    const Var v = static_cast<Var>(scope.avals.size());
    if (!scope.vars.emplace(name.text, v).second) {
      lexer_.fail(name, "variable '" + std::string(name.text) + "' is bound twice");
    }
    scope.avals.push_back(std::move(aval));
    return v;
  }

  Eqn parse_eqn(Scope& scope, int depth) {
    // The results are visible only to later equations, so they are bound at the end.
    std::vector<std::pair<Token, Aval>> binders;
    const Token begin = lexer_.peek();
    const SourceLocation where = lines_.of(begin);
    Token name = take_primitive_name();
    if (lexer_.peek().is(":")) {
      while (true) {
        lexer_.expect(":");
        binders.emplace_back(name, parse_aval());
        if (lexer_.accept("=")) break;
        name = take_word("'=' or another variable");
      }
      name = take_primitive_name();
    }
    Eqn eqn{find_primitive(name), {}, {}, {}, parse_effect(name), where};
    const ParamsText params = parse_params();
    while (starts_atom(lexer_.peek())) eqn.inputs.push_back(parse_atom(scope));
    std::vector<Jaxpr> nested;
    while (lexer_.peek().is("{")) nested.push_back(parse_jaxpr(depth + 1));
    eqn.params = make_params(name, *eqn.primitive, params, nested);
    if (typed_) check_types(scope, begin, eqn, binders);
    for (auto& [var, aval] : binders) eqn.outputs.push_back(bind(scope, var, std::move(aval)));
    return eqn;
  }

  // What typecheck_jaxpr checks too, whose errors would not know the names that the file gives.
  void check_types(const Scope& scope, const Token& begin, const Eqn& eqn,
                   const std::vector<std::pair<Token, Aval>>& binders) const {
    std::vector<Aval> operands, results;
    for (const Atom& in : eqn.inputs) {
      operands.push_back(in.is_var() ? scope.avals[static_cast<std::size_t>(in.var())]
                                     : in.literal().aval());
    }
    for (const auto& [name, aval] : binders) results.push_back(aval);
    const EqnSite site(eqn.where);
    try {
      check_results(*eqn.primitive, abstract_eval(*eqn.primitive, eqn.params, operands), results,
                    eqn.effect, [&](std::size_t i) { return std::string(binders[i].first.text); });
    } catch (const TypeError& error) {
      throw TypeError(lexer_.place_of(begin) + ": " + error.message() + "\nin the equation\n  " +
                      first_lines(lexer_.text_from(begin), kMaxLines));
    }
  }

  Token take_primitive_name() {
    if (lexer_.peek().kind == Token::Kind::string) return lexer_.take();
    return take_word("an equation or 'in'");
  }

  std::string unquote(const Token& string) {
    try {
      return TextReader(string.text).read_string();
    } catch (const ParseError& error) { lexer_.fail(string, error.message()); }
  }

  const PrimitiveBase* find_primitive(const Token& name) {
    const std::string word =
        name.kind == Token::Kind::string ? unquote(name) : std::string(name.text);
    const PrimitiveBase* primitive = PrimitiveBase::find(word);
    if (!primitive) lexer_.fail(name, "unknown primitive '" + word + "'");
    return primitive;
  }

  // Whether the next token stands right behind this one.
  bool follows(const Token& token) const {
    return lexer_.peek().begin == token.begin + token.text.size();
  }

  Effect parse_effect(const Token& name) {
    if (!follows(name) || !lexer_.accept("{")) return Effect::none;
    const Token word = take_word("'ordered' or 'unordered'");
    Effect effect = Effect::ordered;
    if (word.text == "unordered") effect = Effect::unordered;
    else if (word.text != "ordered")
      lexer_.fail(word,
                  "expected 'ordered' or 'unordered', found '" + std::string(word.text) + "'");
    lexer_.expect("}");
    return effect;
  }

  ParamsText parse_params() {
    ParamsText params;
    if (lexer_.peek().starts_line || !lexer_.accept("[")) return params;
    while (!lexer_.accept("]")) {
      const Token name = take_word("a parameter or ']'");
      if (!lexer_.peek().is("=")) lexer_.fail_expected("'='");
      lexer_.take();
      params.fields.emplace_back(name.text, lexer_.take_value());
    }
    return params;
  }

  // Jaxprs stand after the operands, in the order of the members that hold them. Members that are
  // one jaxpr or the only sequence of jaxprs are not even named among the parameters.
  Params make_params(const Token& name, const PrimitiveBase& primitive, ParamsText text,
                     const std::vector<Jaxpr>& nested) {
    const auto& parse = primitive.rules().parse_params;
    if (!parse)
      lexer_.fail(name, "the parameters of '" + std::string(primitive.name()) + "' cannot be read");
    text.read_jaxpr = [](std::string_view word, Jaxpr&) {
      if (word != kNestedJaxpr)
        throw ParseError("expected the word 'jaxpr', found '" + std::string(word) + "'");
    };
    try {
      Params params = parse(text);
      const std::size_t found = params.jaxprs().size();
      if (nested.size() > found) params = with_sequence(parse, text, params, nested.size() - found);
      const std::size_t count = params.jaxprs().size();
      if (count != nested.size()) {
        throw ParseError("'" + std::string(primitive.name()) + "' takes " +
                         counted(count, "jaxpr") + ", found " + std::to_string(nested.size()));
      }
      return nested.empty() ? params : params.with_jaxprs(nested);
    } catch (const ParseError& error) { lexer_.fail(name, error.message()); }
  }

  // Finds the member that is a sequence of jaxprs, by trying those that were not given.
  static Params with_sequence(const std::function<Params(const ParamsText&)>& parse,
                              const ParamsText& text, const Params& params, std::size_t size) {
    std::string sequence = "(";
    for (std::size_t i = 0; i < size; ++i) sequence += std::string(kNestedJaxpr) + ",";
    sequence += ")";
    for (const auto& [name, value] : params.fields()) {
      const auto given = [&name = name](const ParamText& field) { return field.first == name; };
      if (value != "()" || std::any_of(text.fields.begin(), text.fields.end(), given)) continue;
      ParamsText trial = text;
      trial.fields.emplace_back(name, sequence);
      try {
        Params found = parse(trial);
        if (found.jaxprs().size() == params.jaxprs().size() + size) return found;
      } catch (const ParseError&) {  // not a sequence of jaxprs
      }
    }
    return params;
  }

  Aval parse_aval() {
    const bool weak = lexer_.accept("~");
    const DType dtype = parse_dtype();
    Shape shape;
    lexer_.expect("[");
    parse_list("]", [&] {
      const Token size = lexer_.peek();
      std::int64_t value = 0;
      if (!parse_size(size.text, value)) lexer_.fail_expected("a size");
      lexer_.take();
      shape.push_back(value);
    });
    return {std::move(shape), dtype, weak};
  }

  DType parse_dtype() {
    const auto dtype = dtype_from_name(lexer_.peek().text);
    if (!dtype) lexer_.fail_expected("a dtype");
    lexer_.take();
    return *dtype;
  }

  // Operands end with their line, or before the word `in`.
  static bool starts_atom(const Token& token) {
    if (token.starts_line || token.is("in")) return false;
    return token.kind == Token::Kind::word || token.kind == Token::Kind::number || token.is("(");
  }

  static bool is_literal_word(const Token& token) {
    return token.is("nan") || token.is("inf") || token.is("True") || token.is("False");
  }

  Atom parse_atom(Scope& scope) {
    const Token token = lexer_.peek();
    if (token.kind == Token::Kind::number || token.is("(") || is_literal_word(token))
      return parse_literal();
    const Token name = take_word("a variable or a literal");
    const auto found = scope.vars.find(name.text);
    if (found == scope.vars.end())
      lexer_.fail(name, "variable '" + std::string(name.text) + "' is unbound");
    return Atom::var(found->second);
  }

  NumberText parse_number() {
    const Token token = lexer_.take();
    NumberText number{token.text, {}};
    if (token.text.ends_with("nan") && follows(token) && lexer_.accept("(")) {
      lexer_.expect("0");  // 0x7ff8... is read as the number 0 and a word
      number.nan_bits = take_word("the bits of a nan").text;
      lexer_.expect(")");
    }
    return number;
  }

  LiteralText parse_literal_text() {
    if (!lexer_.accept("(")) return {parse_number(), {}, false};
    LiteralText literal{parse_number(), {}, true};
    literal.im = parse_number();
    if (literal.im.digits.ends_with('j')) {  // "+infj" is one token
      literal.im.digits.remove_suffix(1);
    } else {
      lexer_.expect("j");
    }
    lexer_.expect(")");
    return literal;
  }

  Atom parse_literal() {
    const Token at = lexer_.peek();
    const LiteralText text = parse_literal_text();
    DType dtype = undecorated_dtype(text);
    bool weak = false;
    if (lexer_.accept(":")) {
      weak = lexer_.accept("~");
      dtype = parse_dtype();
    }
    Array value = make_uninitialized({{}, dtype, weak});
    if (!read_literal(text, value)) {
      lexer_.fail(at, "'" + std::string(at.text) + "' is not a literal of dtype " +
                          std::string(short_name(dtype)));
    }
    return Atom::literal(std::move(value));
  }

  Token take_word(const char* what) {
    if (lexer_.peek().kind != Token::Kind::word) lexer_.fail_expected(what);
    return lexer_.take();
  }

  Lexer lexer_;
  Lines lines_;
  bool typed_;
};

}  // namespace

Jaxpr parse_jaxpr_of_file(std::string_view text, const std::string& path) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // by which some editors say UTF-8
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return naming_lack_of_memory(
      "parse_jaxpr", [&] { return Parser(text, "'" + path + "'", kept_name(path)).parse(); });
}

Jaxpr parse_untyped_jaxpr(std::string_view text) {
  return Parser(text, "jaxpr text", nullptr, false).parse();
}

}  // namespace detail

Jaxpr parse_jaxpr(std::string_view text, SourceLocation where) {
  return detail::in_call("parse_jaxpr", where,
                         [&] { return detail::Parser(text, "jaxpr text").parse(); });
}

}  // namespace v1
}  // namespace telamon
