"""The Lua of our scripts as Python functions: parsed once, compiled, run against any `redis.call`.

So the simulation runs the scripts that production runs, not a second telling of them. It knows the part of Lua 5.1 that
the scripts use and refuses the rest; test_memory_valkey.py compares it, script by script, with a real server. Strings
are bytes, nil is None, a table is `Table`. A local has a name of its own per declaration, so blocks may shadow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

Script = Callable[["Table", "Table", Callable[..., Any], Callable[..., Any]], Any]

_TOKEN = re.compile(
    r"(?P<skip>\s+|--[^\n]*|\A#![^\n]*)"
    r"|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<string>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<sign>\.\.|==|~=|<=|>=|[-+*/%#<>=(){}\[\];:,.])"
)
_KEYWORDS = frozenset(("and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local"))
_KEYWORDS |= frozenset(("nil", "not", "or", "repeat", "return", "then", "true", "until", "while"))
_BINARY = {"or": 1, "and": 2, "..": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6} | dict.fromkeys(
    ("<", ">", "<=", ">=", "==", "~="), 3
)


class Table:
    """A Lua table: a list from 1 on, and named fields beside it."""

    __slots__ = ("items", "named")

    def __init__(self, items: list[Any] | None = None) -> None:
        self.items: list[Any] = items if items is not None else []
        self.named: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int:
            return self.items[key - 1] if 0 < key <= len(self.items) else None
        if type(key) is float:
            return self[int(key)]
        return self.named.get(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is float:
            key = int(key)
        if type(key) is not int:
            self.named[key] = value
        elif key == len(self.items) + 1:
            self.items.append(value)
        else:
            assert 0 < key <= len(self.items), "a list with holes"
            self.items[key - 1] = value


class Scope(NamedTuple):
    """Names of one block. `level` is the function it belongs to."""

    names: dict[str, tuple[str, int]]
    level: int


class Code(NamedTuple):
    """An expression in Python. `is_bool`, `is_number`: its value is certainly that; `is_many`: it is a tuple."""

    text: str
    is_bool: bool = False
    is_number: bool = False
    is_many: bool = False

    @property
    def one(self) -> str:
        return f"{self.text}[0]" if self.is_many else self.text

    @property
    def condition(self) -> str:
        return self.text if self.is_bool else f"truth({self.one})"

    @property
    def number(self) -> str:
        return self.text if self.is_number else f"number({self.one})"


class Parser:
    """Recursive descent; writes lines of Python as it goes."""

    def __init__(self, source: str) -> None:
        self._tokens = list(_tokens(source))
        self._at = 0
        self._lines: list[str] = []
        self._depth = 1
        self._scopes = [Scope({}, 0)]
        self._serial = 0
        self._outer: list[set[str]] = [set()]  # per function: names of enclosing functions that it assigns

    def module(self) -> str:
        for name in ("KEYS", "ARGV", "redis"):
            self._scopes[0].names[name] = (name, 0)
        self._block()
        assert self._peek() == "", f"unexpected {self._peek()}"
        return "def script(KEYS, ARGV, call, pcall):\n" + "\n".join(self._lines or ["    pass"])

    # --- tokens -------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _take(self, token: str) -> bool:
        if self._peek() == token:
            self._at += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        assert self._take(token), f"{token} is expected, not {self._peek()}"

    # --- names --------------------------------------------------------------------------------------

    def _declare(self, name: str) -> str:
        self._serial += 1
        unique = f"{name}_{self._serial}"
        self._scopes[-1].names[name] = (unique, self._scopes[-1].level)
        return unique

    def _resolve(self, name: str, *, is_assigned: bool = False) -> str:
        for scope in reversed(self._scopes):
            if name in scope.names:
                unique, level = scope.names[name]
                if is_assigned and level < self._scopes[-1].level:
                    self._outer[-1].add(unique)
                return unique
        assert name in GLOBALS, f"{name} is not known"
        return name

    def _emit(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    # --- statements ---------------------------------------------------------------------------------

    def _block(self) -> None:
        self._scopes.append(Scope({}, self._scopes[-1].level))
        start = len(self._lines)
        while self._peek() not in ("", "end", "else", "elseif", "until"):
            self._statement()
            self._take(";")
        if len(self._lines) == start:
            self._emit("pass")
        self._scopes.pop()

    def _indented(self) -> None:
        self._depth += 1
        self._block()
        self._depth -= 1

    def _statement(self) -> None:
        token = self._next()
        statement = getattr(self, f"_on_{token}", None) if token in _KEYWORDS else None
        if statement is not None:
            statement()
        else:
            self._at -= 1
            self._assignment_or_call()

    def _on_local(self) -> None:
        if self._take("function"):
            self._function(self._declare(self._next()))
            return
        names = [self._next()]
        while self._take(","):
            names.append(self._next())
        values = self._list() if self._take("=") else []
        targets = [self._declare(name) for name in names]  # after the values: `local x = x` means the outer one
        self._assign(targets, values)

    def _assign(self, targets: list[str], values: list[Code]) -> None:
        if values and values[-1].is_many and len(targets) > len(values):
            wanted = len(targets) - len(values) + 1
            fixed = "".join(f"{value.one}, " for value in values[:-1])
            self._emit(f"{', '.join(targets)} = {fixed}*adjust({values[-1].text}, {wanted}),")
            return
        texts = [value.one for value in values] + ["None"] * (len(targets) - len(values))
        self._emit(f"{', '.join(targets)} = {', '.join(texts[: len(targets)])}")

    def _function(self, name: str) -> None:
        self._expect("(")
        self._scopes.append(Scope({}, self._scopes[-1].level + 1))
        self._outer.append(set())
        parameters = []
        while not self._take(")"):
            parameters.append(self._declare(self._next()))
            self._take(",")
        self._emit(f"def {name}({', '.join(f'{one}=None' for one in parameters)}):")
        at = len(self._lines)
        self._indented()
        self._expect("end")
        if outer := self._outer.pop():
            self._lines.insert(at, "    " * (self._depth + 1) + f"nonlocal {', '.join(sorted(outer))}")
        self._scopes.pop()

    def _on_if(self) -> None:
        self._emit(f"if {self._expression().condition}:")
        self._expect("then")
        self._indented()
        while self._take("elseif"):
            self._emit(f"elif {self._expression().condition}:")
            self._expect("then")
            self._indented()
        if self._take("else"):
            self._emit("else:")
            self._indented()
        self._expect("end")

    def _on_while(self) -> None:
        self._emit(f"while {self._expression().condition}:")
        self._expect("do")
        self._indented()
        self._expect("end")

    def _on_repeat(self) -> None:
        """The condition sees the locals of the block."""
        self._emit("while True:")
        self._depth += 1
        self._scopes.append(Scope({}, self._scopes[-1].level))
        while self._peek() != "until":
            self._statement()
        self._expect("until")
        self._emit(f"if {self._expression().condition}: break")
        self._scopes.pop()
        self._depth -= 1

    def _on_for(self) -> None:
        names = [self._next()]
        while self._take(","):
            names.append(self._next())
        self._scopes.append(Scope({}, self._scopes[-1].level))
        if self._take("="):
            parts = ", ".join(part.number for part in self._list())
            walked = f"steps({parts})"
        else:
            self._expect("in")
            walked = self._expression().text
        targets = [self._declare(name) for name in names]
        comma = "," if walked.startswith("string_gmatch") else ""  # it gives tuples
        self._emit(f"for {', '.join(targets)}{comma} in {walked}:")
        self._expect("do")
        self._indented()
        self._expect("end")
        self._scopes.pop()

    def _on_break(self) -> None:
        self._emit("break")

    def _on_return(self) -> None:
        is_bare = self._peek() in ("", "end", "else", "elseif", "until")
        self._emit("return" if is_bare else f"return {self._expression().one}")

    def _assignment_or_call(self) -> None:
        targets = [self._suffixed(is_target=True)]
        if self._peek() not in ("=", ","):
            self._emit(targets[0].text)
            return
        while self._take(","):
            targets.append(self._suffixed(is_target=True))
        self._expect("=")
        self._assign([target.text for target in targets], self._list())

    # --- expressions --------------------------------------------------------------------------------

    def _list(self) -> list[Code]:
        values = [self._expression()]
        while self._take(","):
            values.append(self._expression())
        return values

    def _expression(self, above: int = 0) -> Code:
        left = self._unary()
        while (power := _BINARY.get(self._peek(), 0)) > above:
            sign = self._next()
            right = self._expression(power - 1 if sign == ".." else power)  # concatenation goes from the right
            left = self._binary(sign, left, right)
        return left

    def _binary(self, sign: str, left: Code, right: Code) -> Code:
        if sign in ("and", "or"):
            return self._choice(sign, left, right)
        if sign == "..":
            return Code(f"(text({left.one}) + text({right.one}))")
        if sign in ("==", "~="):
            return Code(f"({'' if sign == '==' else 'not '}same({left.one}, {right.one}))", is_bool=True)
        if sign in ("<", ">", "<=", ">="):
            return Code(f"({left.one} {sign} {right.one})", is_bool=True)
        return Code(f"({left.number} {sign} {right.number})", is_number=True)

    def _choice(self, sign: str, left: Code, right: Code) -> Code:
        if left.is_bool and right.is_bool:
            return Code(f"({left.text} {sign} {right.text})", is_bool=True)
        self._serial += 1
        held = f"held_{self._serial}"
        first, other = (right.one, held) if sign == "and" else (held, right.one)
        return Code(f"({first} if truth({held} := {left.one}) else {other})")

    def _unary(self) -> Code:
        if self._take("not"):
            return Code(f"(not {self._expression(6).condition})", is_bool=True)
        if self._take("-"):
            return Code(f"(-{self._expression(6).number})", is_number=True)
        if self._take("#"):
            return Code(f"length({self._expression(6).one})", is_number=True)
        return self._suffixed()

    def _suffixed(self, *, is_target: bool = False) -> Code:
        code = self._primary(is_target)
        while True:
            if self._take("["):
                code = Code(f"{code.one}[{self._expression().one}]")
                self._expect("]")
            elif self._take("."):
                code = self._field(code)
            elif self._take("("):
                code = self._call(code)
            else:
                return code

    def _field(self, code: Code) -> Code:
        name = self._next()
        whole = f"{code.text}.{name}"
        if whole in GLOBALS:
            return Code(whole.replace(".", "_"))
        if code.text == "redis":
            return Code(name)  # call, pcall
        return Code(f"{code.one}[{name.encode()!r}]")

    def _call(self, function: Code) -> Code:
        arguments = []
        while not self._take(")"):
            value = self._expression()
            arguments.append(f"*{value.text}" if value.is_many and self._peek() == ")" else value.one)
            self._take(",")
        return Code(
            f"{function.text}({', '.join(arguments)})",
            is_number=function.text.startswith("math_"),
            is_many=function.text in ("unpack", "string_match"),
        )

    def _primary(self, is_target: bool) -> Code:
        token = self._next()
        if token == "(":
            code = self._expression()
            self._expect(")")
            return Code(f"({code.one})", is_bool=code.is_bool, is_number=code.is_number)
        if token == "{":
            return self._table()
        if token in ("nil", "true", "false"):
            return Code({"nil": "None", "true": "True", "false": "False"}[token], is_bool=token != "nil")
        if token[0] in "'\"":
            return Code(repr(_unescaped(token)))
        if token[0].isdigit():
            return Code(token, is_number=True)
        is_assigned = is_target and self._peek() in ("=", ",")
        return Code(self._resolve(token, is_assigned=is_assigned))

    def _table(self) -> Code:
        items = []
        while not self._take("}"):
            items.append(self._expression().one)
            self._take(",")
        return Code(f"Table([{', '.join(items)}])")


def _tokens(source: str) -> Iterator[str]:
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        assert match is not None, f"cannot read {source[at : at + 20]!r}"
        at = match.end()
        if match.lastgroup != "skip":
            yield match.group()


def _unescaped(token: str) -> bytes:
    assert "\\" not in token, "an escape in a string"
    return token[1:-1].encode()


# --- what the compiled text calls -----------------------------------------------------------------


def truth(value: Any) -> bool:
    return value is not None and value is not False


def same(one: Any, other: Any) -> bool:
    """A number is never equal to a string or to a truth value."""
    return one is other or (type(one) is not bool and type(other) is not bool and bool(one == other))


def tonumber(value: Any = None) -> int | float | None:
    if type(value) is bytes:
        try:
            return int(value)
        except ValueError:
            pass
        try:
            found = float(value)
        except ValueError:
            return None
        return int(found) if found.is_integer() else found
    return value if type(value) in (int, float) else None


def number(value: Any) -> int | float:
    """An operand: a string that looks like a number is one."""
    found = tonumber(value)
    assert found is not None, f"arithmetic on {value!r}"
    return found


def text(value: Any) -> bytes:
    assert type(value) in (bytes, int, float), f"concatenation of {value!r}"
    return value if type(value) is bytes else b"%.14g" % value


def length(value: Any) -> int:
    return len(value.items) if type(value) is Table else len(value)


def steps(first: Any, last: Any, step: Any = 1) -> range:
    return range(int(first), math.floor(last) + 1, int(step))


def ipairs(table: Table) -> Iterator[tuple[int, Any]]:
    return enumerate(table.items, start=1)


def unpack(table: Table, first: int = 1, last: int | None = None) -> tuple[Any, ...]:
    return tuple(table.items[int(first) - 1 : last if last is None else int(last)])


def adjust(values: tuple[Any, ...], wanted: int) -> tuple[Any, ...]:
    return values[:wanted] + (None,) * (wanted - len(values))


@cache
def _pattern(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern.replace(b"%", b"\\"), re.DOTALL)


def string_match(subject: bytes, pattern: bytes) -> tuple[Any, ...]:
    found = _pattern(pattern).search(subject)
    return (None,) if found is None else found.groups() or (found.group(),)


def string_gmatch(subject: bytes, pattern: bytes) -> Iterator[tuple[Any, ...]]:
    return (found.groups() or (found.group(),) for found in _pattern(pattern).finditer(subject))


def string_format(form: bytes, *values: Any) -> bytes:
    kinds = re.findall(rb"%[.\d]*([dsf])", form)
    cast = {b"d": lambda value: int(number(value)), b"s": text, b"f": number}
    return form % tuple(cast[kind](value) for kind, value in zip(kinds, values, strict=True))


def string_sub(subject: bytes, first: int, last: int = -1) -> bytes:
    start = first - 1 if first > 0 else max(len(subject) + first, 0)
    return subject[start : last if last >= 0 else len(subject) + last + 1]


def table_concat(table: Table, between: bytes) -> bytes:
    return between.join(text(item) for item in table.items)


def string_byte(subject: bytes, at: int) -> int:
    return subject[int(at) - 1]


GLOBALS: dict[str, Any] = {
    "tonumber": tonumber,
    "ipairs": ipairs,
    "unpack": unpack,
    "string.match": string_match,
    "string.gmatch": string_gmatch,
    "string.format": string_format,
    "string.sub": string_sub,
    "string.byte": string_byte,
    "table.concat": table_concat,
    "math.abs": abs,
    "math.floor": math.floor,
    "math.ceil": math.ceil,
    "math.max": max,
    "math.min": min,
    "string": None,
    "math": None,
    "table": None,
}
_NAMES = {name.replace(".", "_"): value for name, value in GLOBALS.items()} | {
    one.__name__: one for one in (Table, truth, same, number, text, length, steps, adjust)
}


@cache
def compiled(source: str) -> Script:
    """The script as a function of KEYS, ARGV, redis.call and redis.pcall."""
    space = dict(_NAMES)
    exec(compile(Parser(source).module(), "<lua>", "exec"), space)
    script: Script = space["script"]
    return script
