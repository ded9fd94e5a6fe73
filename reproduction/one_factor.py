"""From the authors' settings to ours, one change at a time: what each does to the numbers."""

from __future__ import annotations

from psconrl.analysis import Groups, format_mean_ci
from reproduction import Document
from reproduction.comparison import NAMES
from reproduction.comparisons import Step, steps
from reproduction.final_values import code_of, final_values
from reproduction.gridworlds import PAPER, algorithms, settings_of
from reproduction.published import READ


def document(groups: Groups) -> Document | None:
    """The numbers of every step on every environment, and of single changes beside them; None without runs."""
    paths, used = [], []
    for agent in dict.fromkeys(agent for setting in PAPER for agent in algorithms(setting.env)):
        for setting in PAPER:
            found = _stored(groups, setting.env, agent) if agent in algorithms(setting.env) else []
            if not found:
                continue
            used += [groups[step.cell.id] for step in found]
            taken = [
                {
                    "text": step.text,
                    "of": step.of,
                    **final_values(groups[step.cell.id], setting.window, READ[setting.env]),
                }
                for step in found
            ]
            paths.append({"env": setting.env, "agent": agent, "steps": taken})
    return {"code": code_of(used), "paths": paths} if paths else None


def _stored(groups: Groups, env: str, agent: str) -> list[Step]:
    """The steps of an agent in an environment: at the paper's scale, else quick; none unless the whole path is there.

    What else was tried is there if its runs are.
    """
    for quick in (False, True):
        setting = next(setting for setting in settings_of(quick) if setting.env == env)
        found = [step for step in steps(setting, agent) if step.of == "path" or step.cell.id in groups]
        if all(step.cell.id in groups for step in found):
            return found
    return []


def markdown(found: Document) -> str:
    """A table for each agent and environment: the path, then single changes of the authors' settings."""
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
        last = sum(step["of"] == "path" for step in path["steps"]) - 1
        for k, step in enumerate(path["steps"]):
            text = step["text"] if 0 < k <= last else f"*{step['text']}*" if k == 0 else f"*beside:* {step['text']}"
            ours = " (= ours)" if k == last else ""
            plotted = (
                f"{format_mean_ci(step.get('plotted_regret'))} \\| {format_mean_ci(step.get('plotted_violation'))}"
            )
            signed = f"{format_mean_ci(step['regret'])} \\| {format_mean_ci(step['violation'])}"
            numbers = [
                format_mean_ci(step["positive_violation"]),
                format_mean_ci(step["lagrangian"]),
                str(step["states"]),
            ]
            lines.append(f"| {text}{ours} | {plotted} | {signed} | {' | '.join(numbers)} | {step['runs']} |")
        lines.append("")
    return "\n".join(lines)
