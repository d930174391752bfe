"""Translates laws from their Python into the page's JavaScript, so that no formula is written twice.

A law is plain arithmetic on numbers, lists of numbers and mappings of them: assignments, conditions, loops over range,
lists made of lists, the functions of math and other laws. Whatever else stands in one is refused with its line, rather
than translated into something that may mean another thing there.
"""

import ast
import inspect
import json
import math
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "===",
    ast.NotEq: "!==",
    ast.Is: "===",
    ast.IsNot: "!==",
    ast.And: "&&",
    ast.Or: "||",
}
FUNCTIONS = {"max": "Math.max", "min": "Math.min", "abs": "Math.abs"}
MATH = ("ceil", "floor", "sqrt", "exp", "log", "log2")
SUM = "const sum = (values) => values.reduce((whole, one) => whole + one, 0);"
NOT_IN_JS = {"case", "const", "default", "delete", "enum", "export", "function", "let", "new", "super", "switch"}
NOT_IN_JS |= {"this", "typeof", "var", "void"}
"""Names that Python allows and JavaScript does not."""
LARGEST = 2**53
"""Above it JavaScript cannot tell whole numbers apart."""


class NotTranslated(ValueError):
    """A law holds something that means nothing, or another thing, in the page's language."""

    def __init__(self, node: ast.AST, module: str) -> None:
        super().__init__(
            f"{module}, line {getattr(node, 'lineno', '?')}: {ast.unparse(node)!r} cannot be translated for the page. "
            "Write it as plain arithmetic; reports/laws_in_js.py lists what is known"
        )


def translate(*laws: ModuleType | Callable[..., Any]) -> str:
    """Whole modules of laws, and single ones, as one script; each may call those before it."""
    return translate_source(*((law.__name__, inspect.getsource(law)) for law in laws))


def translate_source(*sources: tuple[str, str]) -> str:
    """The same from their names and texts.

    >>> print(translate_source(("laws", "def area(width, height):\\n    return width * height")))
    const LAWS = (() => {
    const sum = (values) => values.reduce((whole, one) => whole + one, 0);
    function area(width, height) {
      return (width * height);
    }
    return { area };
    })();
    """
    known: dict[str, list[str]] = {}
    lines = []
    for name, text in sources:
        tree = ast.parse(text)
        functions = [part for part in tree.body if isinstance(part, ast.FunctionDef)]
        known |= {part.name: [one.arg for one in part.args.args] for part in functions}
        lines += [line for part in tree.body for line in _Law(name, known).top(part)]
    return "\n".join(["const LAWS = (() => {", SUM, *lines, f"return {{ {', '.join(known)} }};", "})();"])


class _Law:
    """Translates one thing of a module: a function or a constant."""

    def __init__(self, module: str, known: dict[str, list[str]]) -> None:
        self.module, self.known = module, known
        self.names: set[str] = set()

    def top(self, node: ast.stmt) -> Iterable[str]:
        """Lines of what stands in the module itself; imports, sentences and types have none."""
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                return []
            case ast.ClassDef(bases=[ast.Name(id="TypedDict")]):
                return []
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.known[name] = []
                return [f"const {name} = {self.value(value)};"]
            case ast.FunctionDef():
                return self.function(node)
        raise NotTranslated(node, self.module)

    def function(self, node: ast.FunctionDef) -> Iterable[str]:
        given = node.args
        if given.vararg or given.kwarg or given.kwonlyargs or given.defaults or node.decorator_list:
            raise NotTranslated(node, self.module)
        arguments = [self.name(arg.arg, node) for arg in given.args]
        assigned = dict.fromkeys(
            part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        )
        self.names = {*arguments, *(self.name(name, node) for name in assigned)}
        body = self.block(node.body)
        own = [name for name in assigned if name not in arguments]
        return [
            f"function {self.name(node.name, node)}({', '.join(arguments)}) {{",
            *([f"  let {', '.join(own)};"] if own else []),
            *body,
            "}",
        ]

    def name(self, word: str, node: ast.AST) -> str:
        if word in NOT_IN_JS:
            raise NotTranslated(node, self.module)
        return word

    def block(self, nodes: Sequence[ast.stmt]) -> list[str]:
        return [f"  {line}" for node in nodes for line in self.statement(node)]

    def statement(self, node: ast.stmt) -> Iterable[str]:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                return []
            case ast.Return(value=ast.expr() as value):
                return [f"return {self.value(value)};"]
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return [f"{name} = {self.value(value)};"]
            case ast.If():
                rest = ["} else {", *self.block(node.orelse)] if node.orelse else []
                return [f"if ({self.truth(node.test)}) {{", *self.block(node.body), *rest, "}"]
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[end]), orelse=[]):
                head = f"for ({name} = 0; {name} < {self.value(end)}; {name}++) {{"
                return [head, *self.block(node.body), "}"]
        raise NotTranslated(node, self.module)

    def value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=None):
                return "null"
            case ast.Constant(value=bool() | int() | float() as number) if abs(number) <= LARGEST:
                return json.dumps(number)
            case ast.Name(id=name) if name in self.names or name in self.known:
                return name
            case ast.Attribute(value=ast.Name(id="math"), attr="inf"):
                return "Infinity"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return f"({self.value(left)} {OPERATORS[type(op)]} {self.value(right)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(-{self.value(operand)})"
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return self.truth(node)
            case ast.Compare():
                return self.comparison(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"({self.truth(test)} ? {self.value(body)} : {self.value(orelse)})"
            case ast.Call():
                return self.call(node)
        return self.collection(node)

    def truth(self, node: ast.expr) -> str:
        """Comparisons and what joins them: other things count as true there that do not here, an empty list first."""
        match node:
            case ast.Compare():
                return self.comparison(node)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(!{self.truth(operand)})"
            case ast.BoolOp(op=op, values=values):
                return f"({f' {OPERATORS[type(op)]} '.join(map(self.truth, values))})"
        raise NotTranslated(node, self.module)

    def comparison(self, node: ast.Compare) -> str:
        """Each pair on its own: 1 < x < 3 means another thing there."""
        sides = [node.left, *node.comparators]
        pairs = list(zip(sides, node.ops, node.comparators, strict=False))
        return f"({' && '.join(self.pair(node, *pair) for pair in pairs)})"

    def pair(self, node: ast.Compare, one: ast.expr, op: ast.cmpop, other: ast.expr) -> str:
        """Numbers are compared by value; `is` asks for None alone, and lists would be compared by their place."""
        is_none = isinstance(other, ast.Constant) and other.value is None
        if type(op) not in OPERATORS or isinstance(op, ast.Is | ast.IsNot) != is_none:
            raise NotTranslated(node, self.module)
        if isinstance(one, ast.List) or isinstance(other, ast.List):
            raise NotTranslated(node, self.module)
        return f"{self.value(one)} {OPERATORS[type(op)]} {self.value(other)}"

    def call(self, node: ast.Call) -> str:
        if node.keywords or any(isinstance(one, ast.Starred) for one in node.args):
            raise NotTranslated(node, self.module)
        given = [self.value(one) for one in node.args]
        match node.func, len(given):
            case ast.Name(id="len"), 1:
                return f"{given[0]}.length"
            case ast.Name(id="sum"), 1:
                return f"sum({given[0]})"
            case ast.Name(id=name), number if name in FUNCTIONS and (number > 1 or name == "abs"):
                return f"{FUNCTIONS[name]}({', '.join(given)})"
            case ast.Attribute(value=ast.Name(id="math"), attr=name), 1 if name in MATH:
                assert hasattr(math, name)
                return f"Math.{name}({given[0]})"
            case ast.Name(id=name), number if name in self.known and len(self.known[name]) == number:
                return f"{name}({', '.join(given)})"
        raise NotTranslated(node, self.module)

    def collection(self, node: ast.expr) -> str:
        match node:
            case ast.List(elts=parts):
                return f"[{', '.join(map(self.part, parts))}]"
            case ast.Dict(keys=keys, values=values):
                return f"{{{', '.join(self.entry(key, value) for key, value in zip(keys, values, strict=True))}}}"
            case ast.Subscript(value=of, slice=ast.Constant(value=str() as key)):
                return f"{self.value(of)}[{json.dumps(key)}]"
            case ast.Subscript(value=of, slice=ast.Name() | ast.BinOp() | ast.Call() | ast.Constant(value=int()) as at):
                return f"{self.value(of)}[{self.value(at)}]"
            case ast.ListComp(
                elt=each, generators=[ast.comprehension(target=ast.Name(id=name), iter=ast.Name() as of, ifs=[])]
            ):
                return f"{self.value(of)}.map(({name}) => {self.value(each)})"
        raise NotTranslated(node, self.module)

    def part(self, node: ast.expr) -> str:
        return f"...{self.value(node.value)}" if isinstance(node, ast.Starred) else self.value(node)

    def entry(self, key: ast.expr | None, value: ast.expr) -> str:
        if key is None:
            return f"...{self.value(value)}"
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            raise NotTranslated(value, self.module)
        return f"{json.dumps(key.value)}: {self.value(value)}"
