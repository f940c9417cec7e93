"""Read a Python file of settings without running it.

OpenSeq2Seq's settings are a Python program. It is only parsed here: names assigned before,
literals, tables, arithmetic, `+` of strings and lists, `os.path.join` and `dict`. Anything else
makes a value unreadable, and so does every statement that could change it.
"""

import ast
import operator
import warnings
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from unisono.errors import DataError
from unisono.importers.openseq2seq.printed_config import Parameters, Symbol, Unreadable, merged
from unisono.small_files import TOML_BYTES, read_bytes, reason

LARGEST_EXPONENT = 64
LARGEST_NUMBER = 1e30
MOST_ITEMS = 10_000

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def read_source(path: Path) -> Parameters:
    """Return the parameters that the file at `path` assigns, where parsing reveals them."""
    tree = _parse(path)
    names: dict[str, object] = {}
    try:
        for statement in tree.body:
            _take(statement, names)
    except RecursionError as error:
        raise DataError(f"{path} is nested too deeply", where=str(path)) from error
    base = names.get("base_params")
    if not isinstance(base, dict):
        why = f" ({base.why})" if isinstance(base, Unreadable) else ""
        raise DataError(
            f"{path} is not a settings file of OpenSeq2Seq: it assigns no dictionary to "
            f"`base_params`{why}",
            where=str(path),
            fix="name a file such as example_configs/text2text/en-de/transformer-base.py",
        )
    sets = [_over(base, names.get(name)) for name in ("train_params", "eval_params")]
    return Parameters(sets[0], sets[1], _over(base, names.get("infer_params")))


def _over(base: dict[str, object], more: object) -> dict[str, object]:
    if isinstance(more, Unreadable):
        return merged(base, {"train_params": more})
    return merged(base, more) if isinstance(more, dict) else dict(base)


def _parse(path: Path) -> ast.Module:
    try:
        text = read_bytes(path, TOML_BYTES).decode("utf-8")
        with warnings.catch_warnings():  # about code that is not ours
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {reason(error)}", where=str(path)) from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(
            f"{path} is not a file in Python 3: {error}",
            where=str(path),
            fix="name the file that run.py was given as --config_file",
        ) from error


def _take(statement: ast.stmt, names: dict[str, object]) -> None:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            name = (alias.asname or alias.name).partition(".")[0]
            names[name] = Symbol(alias.name if alias.asname else name)
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        _assign(statement.targets[0], _value(statement.value, names), names)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        _assign(statement.target, _value(statement.value, names), names)
    elif _is_update(statement):
        _update(statement, names)
    elif not _is_harmless(statement):
        _spoil(statement, names)


def _is_harmless(statement: ast.stmt) -> bool:
    """Return whether it is a bare string, `print(...)` or `pass`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        return isinstance(function, ast.Name) and function.id == "print"
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass)


def _assign(target: ast.expr, value: object, names: dict[str, object]) -> None:
    if isinstance(target, ast.Name):
        names[target.id] = value
    elif isinstance(target, ast.Subscript) and (place := _place(target, names)):
        place[0][place[1]] = value
    else:
        _spoil(target, names)


def _place(
    target: ast.Subscript, names: dict[str, object]
) -> tuple[dict[str, object], str] | None:
    table, key = _value(target.value, names), _value(target.slice, names)
    return (table, key) if isinstance(table, dict) and isinstance(key, str) else None


def _is_update(statement: ast.stmt) -> bool:
    """Return whether it is `table.update({...})`."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    call = statement.value
    named = isinstance(call.func, ast.Attribute) and call.func.attr == "update"
    return named and len(call.args) == 1 and not call.keywords


def _update(statement: ast.stmt, names: dict[str, object]) -> None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if isinstance(call.func, ast.Attribute):
            table, more = _value(call.func.value, names), _value(call.args[0], names)
            if isinstance(table, dict) and isinstance(more, dict):
                table.update(more)
                return
    _spoil(statement, names)


def _spoil(node: ast.AST, names: dict[str, object]) -> None:
    """Forget every value that a statement we do not interpret might have changed.

    Those are the names it assigns, and every table or list it mentions, under all their other
    names and in all other tables.
    """
    unreadable = Unreadable(f"line {getattr(node, 'lineno', 0)} may change it at run time")
    inside = list(ast.walk(node))
    mentioned = [part for part in inside if isinstance(part, ast.Name)]
    stored = {part.id for part in mentioned if not isinstance(part.ctx, ast.Load)}
    stored |= {n.name for n in inside if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    values = [names.get(part.id) for part in mentioned]
    touched = {id(value) for value in values if isinstance(value, dict | list)}
    for name in stored:
        names[name] = unreadable
    _forget(names, touched, unreadable)


def _forget(table: dict[str, object], touched: set[int], unreadable: Unreadable) -> None:
    for name, value in table.items():
        if id(value) in touched:
            table[name] = unreadable
        elif isinstance(value, dict):
            _forget(value, touched, unreadable)


def _value(node: ast.expr, names: dict[str, object]) -> object:
    reader = _READERS.get(type(node))
    found = reader(node, names) if reader else None
    if found is None and not isinstance(node, ast.Constant):
        return Unreadable(f"known only when line {node.lineno} runs: {_shown(node)}")
    return found


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:60] + "…"


def _constant(node: ast.expr, _: dict[str, object]) -> object:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str | int | float | bool | None) else None


def _name(node: ast.expr, names: dict[str, object]) -> object:
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _attribute(node: ast.expr, names: dict[str, object]) -> object:
    if not isinstance(node, ast.Attribute):
        return None
    owner = _value(node.value, names)
    return Symbol(f"{owner.name}.{node.attr}") if isinstance(owner, Symbol) else None


def _entry(node: ast.expr, names: dict[str, object]) -> object:
    place = _place(node, names) if isinstance(node, ast.Subscript) else None
    return place[0].get(place[1]) if place else None


def _table(node: ast.expr, names: dict[str, object]) -> object:
    if not isinstance(node, ast.Dict):
        return None
    table: dict[str, object] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        value = _value(item, names)
        if key is None:
            if not isinstance(value, dict):
                return None
            table.update(value)
            continue
        name = _value(key, names)
        if not isinstance(name, str):
            return None
        table[name] = value
    return table


def _items(node: ast.expr, names: dict[str, object]) -> object:
    if not isinstance(node, ast.List | ast.Tuple) or len(node.elts) > MOST_ITEMS:
        return None
    items = [_value(item, names) for item in node.elts]
    return None if any(isinstance(item, Unreadable) for item in items) else items


def _sign(node: ast.expr, names: dict[str, object]) -> object:
    if not isinstance(node, ast.UnaryOp):
        return None
    value = _value(node.operand, names)
    if isinstance(node.op, ast.Not) and isinstance(value, bool):
        return not value
    if not _is_number(value):
        return None
    return -value if isinstance(node.op, ast.USub) else None  # type: ignore[operator]


def _sum(node: ast.expr, names: dict[str, object]) -> object:
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _value(node.left, names), _value(node.right, names)
    if isinstance(node.op, ast.Add):
        if isinstance(left, str) and isinstance(right, str):
            return left + right if len(left) + len(right) <= MOST_ITEMS else None
        if isinstance(left, list) and isinstance(right, list):
            return left + right if len(left) + len(right) <= MOST_ITEMS else None
    if _is_number(left) and _is_number(right):
        return _computed(node.op, left, right)  # type: ignore[arg-type]
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _computed(sign: ast.operator, left: float, right: float) -> float | None:
    if max(abs(left), abs(right)) > LARGEST_NUMBER:
        return None
    try:
        if isinstance(sign, ast.Pow):
            power = left**right if abs(right) <= LARGEST_EXPONENT else None
            return power if isinstance(power, int | float) else None
        return _ARITHMETIC[type(sign)](left, right)
    except (KeyError, ArithmeticError):
        return None


def _call(node: ast.expr, names: dict[str, object]) -> object:
    if not isinstance(node, ast.Call):
        return None
    function, given = _shown(node.func), [_value(item, names) for item in node.args]
    if function == "os.path.join" and not node.keywords:
        parts = [part for part in given if isinstance(part, str)]
        return str(PurePosixPath(*parts)) if parts and len(parts) == len(given) else None
    if function != "dict" or "dict" in names or len(given) > 1:
        return None
    tables = [table for table in given if isinstance(table, dict)]
    if len(tables) != len(given):
        return None
    more = [(word.arg, _value(word.value, names)) for word in node.keywords]
    if any(name is None for name, _ in more):
        return None
    return {**(tables[0] if tables else {}), **{str(name): value for name, value in more}}


_READERS: dict[type[ast.expr], Callable[[ast.expr, dict[str, object]], object]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _entry,
    ast.Dict: _table,
    ast.List: _items,
    ast.Tuple: _items,
    ast.UnaryOp: _sign,
    ast.BinOp: _sum,
    ast.Call: _call,
}
