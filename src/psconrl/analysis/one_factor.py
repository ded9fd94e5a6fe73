"""From the authors' settings to ours, one change at a time: what each does to the numbers."""

from __future__ import annotations

from typing import Any

from psconrl.analysis.comparison import NAMES
from psconrl.analysis.ends import code_of, ends, told
from psconrl.analysis.groups import Group, Groups
from psconrl.experiments.comparisons import Step, steps
from psconrl.experiments.gridworlds import PAPER, settings_of, shown

Document = dict[str, Any]


def document(groups: Groups) -> Document | None:
    """The numbers of every step on every environment; None unless the runs are there."""
    paths, used = [], []
    for agent in dict.fromkeys(agent for setting in PAPER for agent in shown(setting.env)):
        for setting in PAPER:
            if agent not in shown(setting.env):
                continue
            rows, found = _stored(groups, setting.env, agent)
            if not found:
                continue
            used += found
            taken = [
                {"text": step.text, **ends(group, setting.window)} for step, group in zip(rows, found, strict=True)
            ]
            paths.append({"env": setting.env, "agent": agent, "steps": taken})
    return {"code": code_of(used), "paths": paths} if paths else None


def _stored(groups: Groups, env: str, agent: str) -> tuple[list[Step], list[Group]]:
    """The steps of an agent in an environment and their runs: at the paper's scale, else quick; none unless all are."""
    for quick in (False, True):
        setting = next(setting for setting in settings_of(quick) if setting.env == env)
        rows = [step for step in steps(setting, agent) if step.of == "path"]
        if all(step.cell.id in groups for step in rows):
            return rows, [groups[step.cell.id] for step in rows]
    return [], []


def markdown(found: Document) -> str:
    """A table for each agent and environment."""
    lines: list[str] = []
    agent = ""
    for path in found["paths"]:
        if path["agent"] != agent:
            agent = path["agent"]
            lines += [f"## {agent}", ""]
        first = path["steps"][0]
        lines += [
            f"### {NAMES[path['env']]}, T = {first['horizon']:,}",
            "",
            "| change | as plotted | signed | [V]+ | L | states | runs |",
            "|---|---|---|---|---|---|---|",
        ]
        for k, step in enumerate(path["steps"]):
            text = step["text"] if k else f"*{step['text']}*"
            ours = " (= ours)" if k == len(path["steps"]) - 1 else ""
            plotted = f"{told(step.get('plotted_regret'))} \\| {told(step.get('plotted_violation'))}"
            signed = f"{told(step['regret'])} \\| {told(step['violation'])}"
            numbers = [told(step["positive_violation"]), told(step["lagrangian"]), str(step["states"])]
            lines.append(f"| {text}{ours} | {plotted} | {signed} | {' | '.join(numbers)} | {step['runs']} |")
        lines.append("")
    return "\n".join(lines)
