"""The table of the moves of tasks is complete: no other function writes what makes a state."""

from __future__ import annotations

import ast

from grain_testkit.hub_moves import HUB, table


def writes_state(node: ast.AST) -> bool:
    """Return True for what sets or removes a field of a task that makes its state, or its record.

    ``task.lease``, not ``gang.lease``; ``mission.tasks[...]``, not the scheduler's tasks.
    """
    if isinstance(node, ast.Attribute):
        whose = node.value
        owner = whose.id if isinstance(whose, ast.Name) else getattr(whose, "attr", "")
        if node.attr in ("lease", "scheduler_id"):
            return owner == "task"
        return node.attr in ("suspect", "awaits", "ending") or (owner, node.attr) == (
            "task",
            "course",
        )
    return isinstance(node, ast.Subscript) and is_records(node.value)


def is_records(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "tasks" and "mission" in ast.dump(node)


def changed(node: ast.AST) -> list[ast.expr]:
    """Return what a statement or a call sets or removes."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return [part for one in targets for part in getattr(one, "elts", [one])]
        case ast.Call(func=ast.Attribute(attr="pop", value=records)) if is_records(records):
            return [ast.Subscript(records, ast.Slice())]
    return []


def writers() -> set[str]:
    return {
        f"{part.name}.{function.name}"
        for path in HUB.rglob("*.py")
        for part in ast.walk(ast.parse(path.read_text()))
        if isinstance(part, ast.ClassDef)
        for function in part.body
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if any(writes_state(target) for target in changed(node))
    }


def test_the_functions_of_the_table_are_those_that_move_a_task() -> None:
    assert set(table()) == writers()
