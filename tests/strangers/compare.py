"""Runs applications of other people with and without the layer, compares what they put out, and makes a table of it.

An application is a command whose standard output is its result, the same on each run. That is not assumed: the
reference is run three times, and an application that differs from itself is refused, unless it is known to leave order open
itself: such a one is shown, not judged. Then each arm is run once and must put out the same text. The control is the
policy `none` in reversed order, which must differ, unless it is known why it can't; the table says both.

Started by tests/applications, which installs what this needs.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from catalogue import applications

HERE = pathlib.Path(__file__).resolve().parent
PREFIX = "ZINC_BARRIER_"
# Policies that keep every needed order, in the table's order; the ones that the layer at hand does not know are left out.
CORRECT = ["stock", "every", "alias-only", "narrow", "reorder"]
CONTROL = ("none", "reverse")
FEWEST_DISPATCHES = 50
REFERENCES = 3
LIMIT_S = 300


class Failed(Exception):
    """An application could not be run; the text says why."""


def environment(options, application, scratch, arm):
    """The variables of a run: the common ones, the application's, the layer's."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}
    for name in ("VK_INSTANCE_LAYERS", "VK_LAYER_PATH", "VK_ADD_LAYER_PATH"):
        variables.pop(name, None)
    variables |= {"VK_DRIVER_FILES": str(options.driver), "VK_ICD_FILENAMES": str(options.driver)}
    for name, value in application.environment.items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value.replace("{scratch}", str(scratch))
    if arm:
        policy, shuffle = arm
        manifest = {"file_format_version": "1.2.0", "layer": {
            "name": "zinc_barrier", "type": "GLOBAL", "library_path": str(options.layer), "api_version": "1.3.0",
            "implementation_version": "1", "description": "under test"}}
        (scratch / "zinc_barrier.json").write_text(json.dumps(manifest))
        variables |= {"VK_LAYER_PATH": str(scratch), "VK_INSTANCE_LAYERS": "zinc_barrier"}
        variables |= {PREFIX + "POLICY": policy, PREFIX + "SHUFFLE": shuffle,
                      PREFIX + "REPORT": str(scratch / "report-%d.json")}
    return variables


def run(options, application, arm):
    """One run: (the result as text, the layer's report or None). Raises Failed."""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="applications-"))
    try:
        application.lay_out(scratch)
        command = [part.replace("{scratch}", str(scratch)) for part in application.command]
        where = "without the layer" if not arm else f"under {arm[0]}, shuffle {arm[1]}"
        try:
            ended = subprocess.run(command, env=environment(options, application, scratch, arm), cwd=scratch, text=True,
                                   stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, errors="replace")
        except OSError as error:
            raise Failed(f"{application.name} cannot be started: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{application.name} {where} was still running after {LIMIT_S} s") from error
        if ended.returncode != 0:
            last = "\n".join(ended.stderr.splitlines()[-12:])
            raise Failed(f"{application.name} {where} ended with {ended.returncode}:\n{last}")
        result = "\n".join(line for line in ended.stdout.splitlines() if application.keep(line))
        if not arm:
            return result, None
        # An application may make several devices; the one that worked counts.
        reports = [json.loads(path.read_text()) for path in scratch.glob("report-*.json")]
        if not reports:
            raise Failed(f"{application.name} {where}: the layer wrote no report, so it was not loaded")
        return result, max(reports, key=lambda report: (report["totals"]["dispatches"], report["totals"]["barriers_asked"]))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def judge(options, application):
    """All arms of one application, as an object for the table. Raises Failed where it can't be run at all."""
    reference, _ = run(options, application, None)
    steady = all(run(options, application, None)[0] == reference for _ in range(REFERENCES - 1))
    if not reference or not (steady or application.racy):
        raise Failed(f"{application.name} does not put out the same result on each run without the layer")
    arms, faults = [], []
    for policy in options.policies:
        for shuffle in ("off", "reverse"):
            result, report = run(options, application, (policy, shuffle))
            same = result == reference
            arms.append({"policy": policy, "shuffle": shuffle, "same": same, "totals": report["totals"],
                         "device": report["device"], "unknown_because": report.get("unknown_because", {})})
            if report["layer_failed"]:
                faults.append(f"{application.name} under {policy}, shuffle {shuffle}: the layer says that it failed")
            # Where an application itself leaves order open, its result is no reference: that it runs is all there is to see.
            if not same and not application.racy:
                faults.append(f"{application.name} under {policy}, shuffle {shuffle}: another result than without the layer")
    if application.racy and all(arm["same"] for arm in arms):
        faults.append(f"{application.name} is said to lack barriers ({application.racy}), and no order shows it")
    result, report = run(options, application, CONTROL)
    arms.append({"policy": CONTROL[0], "shuffle": CONTROL[1], "same": result == reference, "totals": report["totals"],
                 "device": report["device"]})
    # Its own missing barriers make the other one differ without a control.
    if result == reference and not application.blind:
        faults.append(f"{application.name}: the control does not differ, so nothing is shown")
    totals = arms[0]["totals"]
    if totals["dispatches"] < FEWEST_DISPATCHES and not application.draws:
        faults.append(f"{application.name} issues {totals['dispatches']} dispatches, fewer than {FEWEST_DISPATCHES}")
    if totals["barriers_asked"] == 0:
        faults.append(f"{application.name} asks for no barriers")
    return {"name": application.name, "version": application.version, "result": reference, "arms": arms,
            "racy": application.racy, "steady": steady, "why": application.why, "blind": application.blind, "faults": faults,
            "control_differs": not arms[-1]["same"]}


def forced(totals):
    """What forced emissions, largest first."""
    words = {"raw": "RAW", "war": "WAR", "waw": "WAW", "prefix": "prefix", "flush": "flush points"}
    parts = sorted(((n, words.get(kind, kind)) for kind, n in totals["hazards"].items() if n), reverse=True)
    if totals["barriers_passed_through"]:
        parts.insert(0, (totals["barriers_passed_through"], "passed through"))
    return ", ".join(f"{n} {what}" for n, what in parts) or "none"


def table(judged, missing, policies):
    """The Markdown table and the notes under it."""
    emitted = " | ".join(f"`{policy}`" for policy in policies + ["none"])
    lines = [f"| application | version | dispatches | asked | {emitted} | alias-only's forced by | same output | control differs |",
             "|" + " --- |" * (7 + len(policies) + 1)]
    notes = []
    for item in judged:
        by_policy = {arm["policy"]: arm["totals"] for arm in item["arms"] if arm["shuffle"] == "off"}
        by_policy["none"] = item["arms"][-1]["totals"]
        counts = " | ".join(str(by_policy[policy]["barriers_emitted"]) for policy in policies + ["none"])
        correct = item["arms"][:-1]
        alike = sum(arm["same"] for arm in correct)
        same = f"all {alike} arms" if alike == len(correct) else f"{alike} of {len(correct)} arms"
        control = "yes" if item["control_differs"] else "**no**"
        stock = by_policy["stock"]
        lines.append(f"| {item['name']} | {item['version']} | {stock['dispatches']} | {stock['barriers_asked']} | {counts} "
                     f"| {forced(by_policy.get('alias-only', stock))} | {same} | {control} |")
        if item["why"]:
            notes.append(f"- {item['name']}: {item['why']}.")
        unknown = max((arm["unknown_because"] for arm in correct), key=lambda reasons: sum(reasons.values()))
        if unknown:
            reasons = "; ".join(f"{reason} ({times})" for reason, times in sorted(unknown.items(), key=lambda one: -one[1]))
            notes.append(f"- {item['name']}, not known what they touch: {reasons}.")
        if item["blind"]:
            notes.append(f"- {item['name']}, control: {item['blind']}.")
        if item["racy"]:
            steady = "the same" if item["steady"] else "not the same"
            notes.append(f"- {item['name']}: {item['racy']}, so it fails no gate and proves nothing. Its {REFERENCES} runs without the "
                         f"layer were {steady}.")
    notes += [f"- not-run: {name}: {why}" for name, why in missing.items()]
    return "\n".join(lines + ["", *notes, ""])


def parse(arguments):
    """The command line, checked."""
    parser = argparse.ArgumentParser(prog="tests/applications", description=__doc__.split("\n")[0])
    parser.add_argument("--layer", type=pathlib.Path, required=True, help="libzinc_barrier.so")
    parser.add_argument("--driver", type=pathlib.Path, required=True, help="the manifest of the system's lavapipe")
    parser.add_argument("--oracles", type=pathlib.Path, help="the folder that tests/oracles filled")
    parser.add_argument("--debian", type=pathlib.Path, help="the folder of Debian's packages that --fetch unpacked")
    parser.add_argument("--node", type=pathlib.Path, help="the folder of Node's packages that --fetch installed")
    parser.add_argument("--model", type=pathlib.Path, default=HERE.parent.parent / "engine/model/embedded-q8_0.gguf")
    parser.add_argument("--policies", help="the policies that this layer knows, separated by commas")
    parser.add_argument("--only", action="append", help="this application (may be repeated)")
    parser.add_argument("--out", type=pathlib.Path, help="a folder for applications.md and applications.json")
    options = parser.parse_args(arguments)
    known = (options.policies or "stock,every,alias-only").split(",")
    options.policies = [policy for policy in CORRECT if policy in known]
    return options


def main():
    """Exit status: 0 all alike, 1 an arm differed or an application could not be run, 2 usage, 3 nothing to run."""
    options = parse(sys.argv[1:])
    missing, judged, faults = {}, [], []
    found = applications(options, missing)
    if options.only:
        unknown = set(options.only) - {item.name for item in found} - set(missing)
        if unknown:
            names = ", ".join([item.name for item in found] + list(missing))
            print(f"applications: error: no application '{unknown.pop()}'; there are: {names}", file=sys.stderr)
            return 2
        found = [item for item in found if item.name in options.only]
        missing = {name: why for name, why in missing.items() if name in options.only}
    for application in found:
        print(f"applications: {application.name} {application.version}", file=sys.stderr, flush=True)
        try:
            judged.append(judge(options, application))
            faults += judged[-1]["faults"]
        except Failed as error:
            faults.append(str(error))
    if not judged and not faults:
        for name, why in missing.items():
            print(f"not-run: {name}: {why}", file=sys.stderr)
        return 3
    text = table(judged, missing, options.policies)
    if judged:
        devices = sorted({f"{arm['device']['name']}, {arm['device']['driver_version']}" for item in judged for arm in item["arms"]})
        text += "\nDevices (CPU devices: no statement on speed): " + "; ".join(devices) + ".\n"
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "applications.md").write_text(text)
        (options.out / "applications.json").write_text(json.dumps({"applications": judged, "missing": missing}, indent=1) + "\n")
    for fault in faults:
        print(f"applications: FAILED: {fault}", file=sys.stderr)
    return 1 if faults else 0


sys.exit(main())
