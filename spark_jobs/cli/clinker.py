"""The `clinker` command: its arguments, and the module that does the work of each subcommand.

Start-up matters: each command imports its modules when it runs. `main` may be called any number of times in a
process; it writes to the current `sys.stdout` and `sys.stderr` and takes the working directory as it is. A wrong
command line is exit 1, since 2 means dead letters.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from spark_jobs import __version__
from spark_jobs.cli import process_exit, standard_streams
from spark_jobs.cli.command_line import Parser, WrongCommandLine
from spark_jobs.cli.warm import client
from spark_jobs.contract import ExitCode
from spark_jobs.execute import interrupts, without_pandas

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_jobs.plan.options import PlanOptions, RunOptions
    from spark_jobs.stores.location import FilePath

_LEVELS = ("error", "warn", "info", "debug", "trace")
_PLANS = ("text", "json", "dot", "mermaid", "svg", "html")
_DIAGNOSTICS = ("full", "concise", "json", "sarif")
#: File names have 255 bytes almost everywhere; the id gets a prefix or a suffix.
_LONGEST_ID_BYTES = 200


def run() -> NoReturn:
    """Entry point of the console script `clinker`."""
    end_with(sys.argv[1:])


def end_with(argv: Sequence[str]) -> NoReturn:
    """Run one command as the last thing that the process does: its exit code is the process's, whatever comes."""
    standard_streams.ensure()
    process_exit.run(lambda: _served(argv))


def _served(argv: Sequence[str]) -> int:
    """Let a warm driver run a command, or run it here."""
    status = client.run(argv)
    return main(argv, to_the_end=True) if status is None else status


def main(argv: Sequence[str], *, to_the_end: bool = False) -> int:
    """Run one command; returns the exit code of `contract.ExitCode`. `to_the_end`: the process ends with it."""
    standard_streams.prepare()
    return int(standard_streams.completed("clinker", lambda: _main(argv, to_the_end), ExitCode.IO))


def run_options(argv: Sequence[str]) -> RunOptions:
    """Parse the arguments of `clinker run` into its options without running anything, for builders of command lines.

    Raises:
        WrongCommandLine: when `main` would refuse it.
    """
    parser = _parser()
    try:
        return _run_options(parser.parse_args(_with_format(["run", *argv])))
    except SystemExit:
        raise WrongCommandLine(parser, "--help and --version do nothing else") from None


def _main(argv: Sequence[str], to_the_end: bool) -> int:
    try:
        arguments = _parser().parse_args(_with_format(list(argv)))
    except WrongCommandLine as error:
        sys.stderr.write(error.shown)
        return ExitCode.CONFIG
    except SystemExit:
        return ExitCode.SUCCESS
    try:
        arguments.to_the_end = to_the_end
        if to_the_end and arguments.command in _WITHOUT_PANDAS:
            without_pandas.hide_pandas()
        with interrupts.raise_on_signal(to_the_end=to_the_end):
            return _COMMANDS[arguments.command](arguments)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return ExitCode.INTERRUPTED


def _with_format(argv: list[str]) -> list[str]:
    """`--explain` right before the pipeline's path means the text form: the value is optional."""
    if "--explain" in argv:
        after = argv.index("--explain") + 1
        if after < len(argv) and argv[after].endswith((".yaml", ".yml")):
            return [*argv[:after], "text", *argv[after:]]
    return argv


# ---- from arguments to options: commands get typed values, and never the namespace of argparse


def _planning(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "base_dir": arguments.base_dir,
        "allow_absolute_paths": arguments.allow_absolute_paths or bool(os.environ.get("CLINKER_ALLOW_ABSOLUTE_PATHS")),
        "rules_path": arguments.rules_path,
        "channel": arguments.channel,
        "environment": arguments.env or os.environ.get("CLINKER_ENV") or None,
        "given": dict(arguments.var),
    }


def _plan_options(arguments: argparse.Namespace) -> PlanOptions:
    """The options of a command that plans a pipeline."""
    from spark_jobs.plan.options import PlanOptions

    return PlanOptions(**_planning(arguments))


def _run_options(arguments: argparse.Namespace) -> RunOptions:
    """The options of `clinker run`."""
    from spark_jobs.plan.options import RunOptions

    preview = arguments.dry_run_n
    return RunOptions(
        **_planning(arguments),
        memory_limit_bytes=arguments.memory_limit,
        threads=arguments.threads,
        error_threshold=arguments.error_threshold or None,
        batch_id=arguments.batch_id,
        execution_id=arguments.execution_id,
        once=tuple(arguments.once) if arguments.once else None,
        is_retry=arguments.retry,
        work_dir=arguments.work_dir,
        explain=arguments.explain,
        dry_run=arguments.dry_run or preview is not None,
        preview=preview,
        dry_run_output=arguments.dry_run_output,
        force=arguments.force,
        since=tuple(arguments.since),
        until=tuple(arguments.until),
        quiet=arguments.quiet,
        log_level=arguments.log_level,
        log_format=arguments.log_format,
        metrics_spool_dir=arguments.metrics_spool_dir,
        report=arguments.report,
        remote=arguments.remote or _endpoint(arguments.master),
        master=arguments.master,
        diagnostics=arguments.diagnostics,
        spark_conf=dict(arguments.conf),
    )


def _endpoint(master: str | None) -> str | None:
    """The endpoint that Spark's own variable names, where the command line names neither one nor a master.

    An address with a token in it is out of everybody's sight there; arguments are shown by `ps`.
    """
    named = os.environ.get("SPARK_REMOTE", "")
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    return named if named.startswith("sc://") and not master and not is_submitted else None


def _run(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import pipeline

    return pipeline.run(arguments.pipeline, _run_options(arguments), to_the_end=arguments.to_the_end)


def _validate(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import validate

    return validate.main(
        arguments.pipeline,
        _plan_options(arguments),
        diagnostics=arguments.diagnostics,
        look_for_inputs=not arguments.no_inputs,
    )


def _explain(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import explain

    return explain.main(
        arguments.pipeline,
        _plan_options(arguments),
        diagnostics=arguments.diagnostics,
        code=arguments.code,
        field=arguments.field,
        form=arguments.format or "text",
    )


def _metrics(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import metrics

    return metrics.main(
        arguments.spool_dir,
        arguments.output_file,
        delete=arguments.delete_after_collect,
        dry_run=arguments.dry_run,
    )


def _schema(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import schema

    return schema.main(of_cases=arguments.cases, output=arguments.output)


def _init(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import init

    return init.main(arguments.folder, arguments.files, force=arguments.force)


def _guess(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli.guess import command

    return command.main(arguments.files, as_text=arguments.text)


def _lineage(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import lineage

    return lineage.main(
        arguments.pipeline,
        _plan_options(arguments),
        diagnostics=arguments.diagnostics,
        as_json=arguments.format == "json",
    )


def _dlq(arguments: argparse.Namespace) -> int:
    from spark_jobs.execute.dlq.work_list import EntryFilter

    wanted = EntryFilter(frozenset(arguments.id or ()), arguments.stage, arguments.field, arguments.category)
    if arguments.action == "show":
        from spark_jobs.cli.dlq import show

        return show.main(arguments.file, wanted, samples=arguments.samples, as_json=arguments.json)
    if arguments.action == "discard":
        from spark_jobs.cli.dlq import discard

        return discard.main(arguments.file, wanted, reason=arguments.reason, all_entries=arguments.all)
    from spark_jobs.cli.dlq import replay
    from spark_jobs.plan.options import RunOptions

    options = RunOptions(
        **_planning(arguments),
        force=arguments.force,
        quiet=True,
        dry_run=arguments.dry_run,
        diagnostics=arguments.diagnostics,
        master=arguments.master,
        spark_conf=dict(arguments.conf),
    )
    return replay.main(arguments.pipeline, arguments.file, wanted, options, into=arguments.into)


def _test(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli.cases import command

    paths = tuple(arguments.paths)
    if arguments.record:
        return command.record(paths, arguments.record, rows=arguments.rows, dead_letters=arguments.dead_letters)
    return command.main(command.Options(paths, arguments.only, arguments.update, arguments.coverage, arguments.junit))


def _help(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import topics

    return topics.main(arguments.topic, _parser())


def _completion(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import completion

    return completion.main(arguments.shell, _parser())


def _preview(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import observation, preview

    return preview.main(
        arguments.pipeline,
        _plan_options(arguments),
        observation.Observed(tuple(arguments.nodes), arguments.records),
        most=arguments.n,
        diagnostics=arguments.diagnostics,
        as_json=arguments.format == "json",
        quiet=arguments.quiet,
    )


def _profile(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import observation, profile

    return profile.main(
        arguments.pipeline,
        _plan_options(arguments),
        observation.Observed(tuple(arguments.nodes), arguments.records),
        diagnostics=arguments.diagnostics,
        form=arguments.format,
        quiet=arguments.quiet,
    )


def _diff(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import diff

    return diff.main(
        arguments.old,
        arguments.pipeline,
        _plan_options(arguments),
        diagnostics=arguments.diagnostics,
        as_json=arguments.format == "json",
        fails=arguments.exit_code,
    )


def _diff_data(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import diff_data, observation

    return diff_data.main(
        arguments.old,
        arguments.pipeline,
        _plan_options(arguments),
        observation.Observed(tuple(arguments.node), arguments.records),
        diff_data.Rules(tuple(arguments.key), tuple(arguments.ignore), arguments.tolerance),
        most=arguments.n,
        diagnostics=arguments.diagnostics,
        as_json=arguments.format == "json",
        fails=arguments.exit_code,
    )


def _lsp(arguments: argparse.Namespace) -> int:
    try:
        from spark_jobs.cli.lsp import server
    except ImportError:
        sys.stderr.write("clinker lsp needs pygls: pip install 'clinker-spark[lsp]'\n")
        return ExitCode.CONFIG
    return server.main(_plan_options(arguments))


def _serve(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli.warm import command

    if arguments.stop:
        return command.stop()
    return command.start(arguments.idle_minutes) if arguments.start else command.status()


def _doctor(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import doctor

    return doctor.main(
        arguments.base_dir,
        spark_master=arguments.master,
        runs=arguments.run,
        as_json=arguments.format == "json",
    )


def _recover(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import recover

    return recover.main(arguments.folders, arguments.base_dir or Path())


def _bookmark(arguments: argparse.Namespace) -> int:
    from spark_jobs.cli import bookmark

    if arguments.action == "show":
        return bookmark.show(arguments.pipeline, _plan_options(arguments), arguments.diagnostics)
    return bookmark.reset(arguments.pipeline, _plan_options(arguments), arguments.diagnostics, tuple(arguments.source))


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "validate": _validate,
    "explain": _explain,
    "metrics": _metrics,
    "schema": _schema,
    "init": _init,
    "guess": _guess,
    "lineage": _lineage,
    "dlq": _dlq,
    "test": _test,
    "preview": _preview,
    "profile": _profile,
    "diff": _diff,
    "lsp": _lsp,
    "diff-data": _diff_data,
    "serve": _serve,
    "completion": _completion,
    "help": _help,
    "doctor": _doctor,
    "recover": _recover,
    "bookmark": _bookmark,
}


#: These commands work on data in this process alone, and none of them uses pandas.
_WITHOUT_PANDAS = frozenset({"guess", "test", "preview", "profile", "diff-data"})


class _Version(argparse.Action):
    """Prints the version."""

    def __init__(self, option_strings: Sequence[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        sys.stdout.write(f"clinker {__version__}\n")
        parser.exit()


@cache
def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="clinker", description="Run, check and explain Clinker pipelines on Spark.", allow_abbrev=False
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_validate(commands)
    _add_explain(commands)
    _add_metrics(commands)
    _add_schema(commands)
    _add_init(commands)
    _add_guess(commands)
    _add_lineage(commands)
    _add_doctor(commands)
    _add_recover(commands)
    _add_bookmark(commands)
    _add_dlq(commands)
    _add_test(commands)
    _add_preview(commands)
    _add_profile(commands)
    _add_diff(commands)
    _add_lsp(commands)
    _add_diff_data(commands)
    _add_serve(commands)
    completion = _command(commands, "completion", "print a completion script for a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    topic = _command(commands, "help", "explain a command, a diagnostic's code, or a function of CXL")
    topic.add_argument("topic", nargs="*", metavar="TOPIC", help="such as `dlq replay`, `E200` or `round_to`")
    return parser


def _command(commands: Any, name: str, summary: str) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + ".", allow_abbrev=False
    )
    return added


def _whole(minimum: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.lstrip("-").isdigit() or int(text) < minimum:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {minimum}, found '{text}'")
        return int(text)

    return read


def _place(text: str) -> FilePath:
    """A local file or folder, or one of a store."""
    from spark_jobs.stores import location

    try:
        return location.located(text)
    except location.BadLocation as error:
        raise argparse.ArgumentTypeError(f"{error.message}: {error.remedy}") from None


def _local(text: str) -> Path:
    """A local file or folder."""
    place = _place(text)
    if not isinstance(place, Path):
        raise argparse.ArgumentTypeError(f"expected a local path, found {place}: name a local one, and copy it then")
    return place


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"expected names with commas between them, found '{text}'")
    return names


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, found '{text}'")
    return amount


def _memory(text: str) -> int:
    """Parse a size as `memory.limit` of a pipeline is written."""
    from pydantic_core import PydanticCustomError

    from spark_jobs.nodes import model
    from spark_jobs.plan.reading import scalars

    try:
        return model.memory_bytes(scalars.resolve(text.strip()))
    except PydanticCustomError as error:
        raise argparse.ArgumentTypeError(error.message()) from None


def _execution_id(text: str) -> str:
    """The id is part of the names of the draft's folders, the result record and the metrics file."""
    is_name = Path(text).name == text and text not in ("", "..") and text.isprintable()
    if not is_name or len(text.encode("utf-8", "surrogateescape")) > _LONGEST_ID_BYTES:
        message = f"expected a name of at most {_LONGEST_ID_BYTES} bytes without `/`, found '{text}'"
        raise argparse.ArgumentTypeError(message + ", which cannot name a file")
    return text


def _letters_file(text: str) -> str:
    from spark_jobs.stores import location

    if not location.is_readable(text):
        shown = location.without_credentials(text)
        raise argparse.ArgumentTypeError(f"{shown} is in a store that is not read from: copy it first")
    return text


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, found '{text}'")
    return key, value


def _add_planning(command: argparse.ArgumentParser) -> None:
    """The options of every command that plans a pipeline."""
    command.add_argument(
        "--base-dir", type=_place, metavar="DIR", help="base of relative paths; default: the pipeline's folder"
    )
    command.add_argument("--rules-path", type=_place, metavar="DIR", help="folder of CXL modules; default: rules/")
    command.add_argument("--allow-absolute-paths", action="store_true", help="permit absolute paths in the pipeline")
    command.add_argument("--channel", metavar="FILE", help="overlay a channel, by its file or name")
    command.add_argument(
        "--var",
        type=_pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set $vars.NAME; can be repeated",
    )
    command.add_argument("--env", metavar="NAME", help="the active environment; default: CLINKER_ENV")
    command.add_argument(
        "--diagnostics", choices=_DIAGNOSTICS, default="full", help="how problems are shown (default: full)"
    )


def _add_run(commands: Any) -> None:
    command = _command(commands, "run", "run a pipeline")
    command.add_argument("pipeline", type=_place, metavar="PIPELINE", help="the pipeline file")
    _add_planning(command)
    command.add_argument(
        "--memory-limit", type=_memory, metavar="SIZE", help="memory for data, such as 512M; overrides the pipeline"
    )
    command.add_argument("--threads", type=_whole(1), metavar="N", help="cores to use; default: all")
    command.add_argument(
        "--error-threshold", type=_whole(0), default=0, metavar="N", help="fail if more records are dead; 0: no limit"
    )
    command.add_argument("--batch-id", metavar="ID", help="$pipeline.batch_id; default: a new UUID")
    command.add_argument(
        "--execution-id", type=_execution_id, metavar="ID", help="the run's identity; default: a new UUID"
    )
    command.add_argument(
        "--once",
        nargs=2,
        metavar=("WHO", "WHAT"),
        help="for schedulers that retry: publish a record of this run under this name, for --retry",
    )
    command.add_argument(
        "--retry",
        action="store_true",
        help="with --once: this is a further attempt. When an earlier one with the same names has published all files, "
        "and they are unchanged, do nothing and end as it did",
    )
    command.add_argument(
        "--work-dir",
        type=_place,
        metavar="DIR",
        help="folder for staged files and result.json, or the URI of a store's folder for result.json alone",
    )
    command.add_argument("--explain", nargs="?", const="text", choices=_PLANS, help="print the plan instead of running")
    command.add_argument("--dry-run", action="store_true", help="check everything that needs no data, then stop")
    command.add_argument(
        "-n", "--dry-run-n", type=_whole(0), metavar="N", help="preview: N records per source; implies --dry-run"
    )
    command.add_argument(
        "--dry-run-output", type=_local, metavar="FILE", help="write the preview to this file; default: stdout"
    )
    command.add_argument("--force", action="store_true", help="replace existing outputs")
    _add_bound(command, "--since", "read incremental sources again from this time or value on")
    _add_bound(command, "--until", "read incremental sources up to this time or value, which is left out")
    command.add_argument("--quiet", action="store_true", help="show no progress and no summary")
    command.add_argument("--log-level", choices=_LEVELS, default="info", help="how much is logged (default: info)")
    command.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="format of log lines (default: text)"
    )
    command.add_argument("--metrics-spool-dir", metavar="DIR", help="folder for the run's metrics file")
    command.add_argument("--report", type=_local, metavar="FILE", help="write a page about the run, as HTML")
    command.add_argument(
        "--remote", metavar="URL", help="a Spark Connect endpoint: sc://host:port; default: SPARK_REMOTE"
    )
    command.add_argument("--master", metavar="URL", help="a Spark master; default: local, all cores")
    command.add_argument("--conf", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="a Spark setting")


def _add_bound(command: argparse.ArgumentParser, option: str, summary: str) -> None:
    command.add_argument(
        option, action="append", default=[], metavar="[SOURCE=]VALUE", help=f"{summary}; can be repeated"
    )


def _add_validate(commands: Any) -> None:
    command = _command(commands, "validate", "check pipelines without reading data")
    command.add_argument("pipeline", type=_place, nargs="+", metavar="PIPELINE", help="pipeline files")
    _add_planning(command)
    command.add_argument("--no-inputs", action="store_true", help="do not check whether input files exist")


def _add_explain(commands: Any) -> None:
    command = _command(commands, "explain", "explain a diagnostic's code, a field of a pipeline, or its plan")
    command.add_argument(
        "pipeline", type=_place, nargs="?", metavar="CODE|PIPELINE", help="a diagnostic's code, or the pipeline file"
    )
    _add_planning(command)
    command.add_argument("--code", metavar="CODE", help="print the page of a diagnostic's code")
    command.add_argument(
        "--field", metavar="NODE.FIELD", help="show where the value of a parameter or column comes from"
    )
    command.add_argument("--format", choices=_PLANS, help="print the plan, as text or as a picture")


def _add_metrics(commands: Any) -> None:
    command = _command(commands, "metrics", "work with metrics files")
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    collect = _command(actions, "collect", "sweep a spool folder into an NDJSON archive")
    collect.add_argument("--spool-dir", required=True, metavar="DIR", help="the folder to sweep: a path or URI")
    collect.add_argument("--output-file", type=_local, required=True, metavar="FILE", help="the archive to append to")
    collect.add_argument("--delete-after-collect", action="store_true", help="remove what has been archived")
    collect.add_argument("--dry-run", action="store_true", help="show what would be collected")


def _add_schema(commands: Any) -> None:
    command = _command(commands, "schema", "print the JSON Schema of pipeline files, for editors")
    command.add_argument("--cases", action="store_true", help="print the schema of test cases (*.test.yaml) instead")
    command.add_argument("--output", type=_local, metavar="FILE", help="write it to a file")


def _add_init(commands: Any) -> None:
    command = _command(commands, "init", "make a folder with a small working pipeline and its data")
    command.add_argument("folder", type=_local, metavar="FOLDER", help="the folder to create")
    command.add_argument("--force", action="store_true", help="write into an existing folder")
    command.add_argument(
        "--from",
        dest="files",
        type=_local,
        nargs="+",
        default=[],
        metavar="FILE",
        help="a pipeline that reads these files, as `clinker guess` understands them",
    )


def _add_guess(commands: Any) -> None:
    command = _command(commands, "guess", "print the source that reads a file, and note what does not fit")
    command.add_argument(
        "files", type=_place, nargs="+", metavar="FILE", help="CSV, JSON, XML, Excel or fixed-width files"
    )
    command.add_argument("--text", action="store_true", help="declare every column as `string`")


def _add_recover(commands: Any) -> None:
    command = _command(commands, "recover", "complete or remove what dead runs left in folders")
    command.add_argument("folders", nargs="+", metavar="FOLDER", help="a folder with outputs, or its s3:// URI")
    command.add_argument(
        "--base-dir",
        type=_local,
        metavar="DIR",
        help="a pipeline's folder, for its clinker.toml; default: the current folder",
    )


def _add_bookmark(commands: Any) -> None:
    command = _command(commands, "bookmark", "show or reset what runs of a pipeline have read of incremental sources")
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, summary in (
        ("show", "show where the bookmark is, and what has been read"),
        ("reset", "forget what has been read: the next run reads everything"),
    ):
        action = _command(actions, name, summary)
        action.add_argument("pipeline", type=_place, metavar="PIPELINE", help="the pipeline file")
        _add_planning(action)
        if name == "reset":
            action.add_argument(
                "--source", action="append", default=[], metavar="NAME", help="only this source; can be repeated"
            )


def _add_doctor(commands: Any) -> None:
    command = _command(commands, "doctor", "check what runs need: Java, packages, memory, folders, a cluster")
    command.add_argument(
        "--base-dir",
        type=_local,
        metavar="DIR",
        help="a pipeline's folder, for its clinker.toml; default: the current folder",
    )
    command.add_argument("--master", metavar="URL", help="also check this Spark master")
    command.add_argument("--run", action="store_true", help="also run a pipeline of five records")
    command.add_argument("--format", choices=("text", "json"), default="text", help="output format (default: text)")


def _add_lineage(commands: Any) -> None:
    command = _command(commands, "lineage", "show which source columns each output column comes from")
    command.add_argument("pipeline", type=_place, metavar="PIPELINE", help="the pipeline file")
    _add_planning(command)
    command.add_argument("--format", choices=("text", "json"), default="text", help="output format (default: text)")


def _add_test(commands: Any) -> None:
    command = _command(commands, "test", "run the cases of pipelines, without Spark")
    command.add_argument(
        "paths",
        type=_place,
        nargs="*",
        metavar="PATH",
        help="case files, or folders with *.test.yaml; default: the current folder",
    )
    command.add_argument("-k", dest="only", metavar="TEXT", help="only cases with this text in their names")
    command.add_argument("--update", action="store_true", help="write the actual results into the cases that fail")
    command.add_argument("--coverage", action="store_true", help="show which nodes and branches no case reaches")
    command.add_argument("--junit", type=_local, metavar="FILE", help="write results for a build server, as JUnit XML")
    command.add_argument(
        "--record", metavar="NAME", help="make a case from a pipeline's first records, or from dead letters"
    )
    command.add_argument("--rows", type=_whole(1), default=5, metavar="N", help="with --record: records of each source")
    command.add_argument(
        "--dead-letters", type=_place, metavar="FILE", help="with --record: use the records of this file"
    )


def _add_preview(commands: Any) -> None:
    command = _command(commands, "preview", "show the records at nodes of a pipeline, without Spark; writes nothing")
    command.add_argument("pipeline", type=_place, metavar="PIPELINE", help="the pipeline file")
    command.add_argument(
        "nodes", nargs="*", metavar="NODE", help="a node, or a branch of a route (ROUTE.BRANCH); default: all outputs"
    )
    _add_planning(command)
    command.add_argument("-n", type=_whole(0), default=10, metavar="N", help="records to show (default: 10)")
    command.add_argument(
        "--records", type=_whole(1), default=1000, metavar="N", help="records to read of each source (default: 1000)"
    )
    command.add_argument("--format", choices=("table", "json"), default="table", help="how they are shown")
    command.add_argument("--quiet", action="store_true", help="print only the records, not where they come from")


def _add_profile(commands: Any) -> None:
    command = _command(commands, "profile", "summarize the columns of a file, or of nodes of a pipeline")
    command.add_argument(
        "pipeline", type=_place, metavar="FILE", help="a pipeline, or a file of data, whose source is guessed"
    )
    command.add_argument(
        "nodes", nargs="*", metavar="NODE", help="a node of the pipeline, or a branch of a route; default: all outputs"
    )
    _add_planning(command)
    command.add_argument(
        "--records",
        type=_whole(1),
        default=100_000,
        metavar="N",
        help="records to read of each source (default: 100000)",
    )
    command.add_argument("--format", choices=("text", "json", "html"), default="text", help="how it is shown")
    command.add_argument("--quiet", action="store_true", help="print only the figures, not where they come from")


def _add_lsp(commands: Any) -> None:
    command = _command(commands, "lsp", "serve an editor by the Language Server Protocol, on standard input and output")
    _add_planning(command)


def _add_diff(commands: Any) -> None:
    command = _command(commands, "diff", "show what differs between two versions of a pipeline, without running them")
    command.add_argument("old", type=_place, metavar="OLD", help="the old version")
    command.add_argument("pipeline", type=_place, metavar="NEW", help="the new version")
    _add_planning(command)
    command.add_argument("--format", choices=("text", "json"), default="text", help="how the result is shown")
    command.add_argument("--exit-code", action="store_true", help="end with exit code 1 where something differs")


def _add_diff_data(commands: Any) -> None:
    command = _command(
        commands, "diff-data", "compare the records of two files, two folders, or two pipelines' outputs"
    )
    command.add_argument("old", type=_place, metavar="OLD", help="the old file, folder or pipeline")
    command.add_argument("pipeline", type=_place, metavar="NEW", help="the new one, of the same kind")
    _add_planning(command)
    command.add_argument(
        "--key",
        type=_names,
        default=(),
        metavar="COLUMNS",
        help="the columns that match records, with commas between them; default: a column that looks like a key",
    )
    command.add_argument("--ignore", type=_names, default=(), metavar="COLUMNS", help="columns that are not compared")
    command.add_argument(
        "--tolerance", type=_amount, default=0.0, metavar="X", help="by how much numbers may differ (default: 0)"
    )
    command.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NODE",
        help="a node of pipelines to compare; default: all outputs",
    )
    command.add_argument(
        "--records",
        type=_whole(1),
        default=1_000_000_000,
        metavar="N",
        help="records to read of each file or source (default: all)",
    )
    command.add_argument(
        "-n", type=_whole(0), default=3, metavar="N", help="examples to show of each difference (default: 3)"
    )
    command.add_argument("--format", choices=("text", "json"), default="text", help="how the result is shown")
    command.add_argument("--exit-code", action="store_true", help="end with exit code 1 where something differs")


def _add_serve(commands: Any) -> None:
    command = _command(commands, "serve", "list, start or stop drivers that stay warm between runs")
    what = command.add_mutually_exclusive_group()
    what.add_argument("--status", action="store_true", help="list your drivers (default)")
    what.add_argument("--start", action="store_true", help="start a driver for this environment, unless one is running")
    what.add_argument(
        "--stop", action="store_true", help="stop all drivers; each one finishes its current command first"
    )
    command.add_argument(
        "--idle-minutes", type=_minutes, default=client.IDLE_MINUTES, metavar="N",
        help=f"with --start: end after this time without work (default: {client.IDLE_MINUTES:g})",
    )  # fmt: skip


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= client.MOST_IDLE_MINUTES:
        message = f"expected minutes above 0, {client.MOST_IDLE_MINUTES:g} at most, found '{text}'"
        raise argparse.ArgumentTypeError(message)
    return minutes


def _add_dlq(commands: Any) -> None:
    command = _command(commands, "dlq", "show, replay or discard the dead letters of a run")
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = _command(actions, "show", "show dead letters by reason, with samples")
    _add_letters(show)
    show.add_argument(
        "--samples", type=_whole(0), default=3, metavar="N", help="records to show for each reason (default: 3)"
    )
    show.add_argument("--json", action="store_true", help="print JSON")
    replay = _command(actions, "replay", "run mended records, and only them, through their pipeline")
    replay.add_argument("pipeline", type=_place, metavar="PIPELINE", help="the pipeline file")
    _add_letters(replay)
    _add_planning(replay)
    replay.add_argument(
        "--into",
        type=_local,
        metavar="DIR",
        help="write outputs of the replayed records alone into this folder; default: append to the outputs",
    )
    replay.add_argument("--force", action="store_true", help="with --into: replace files that exist")
    replay.add_argument("--dry-run", action="store_true", help="run everything, but write nothing")
    replay.add_argument(
        "--master", metavar="URL", help="a Spark master; default: few records run in this process, many on local Spark"
    )
    replay.add_argument("--conf", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="a Spark setting")
    discard = _command(actions, "discard", "give dead letters up, with a reason that the ledger keeps")
    _add_letters(discard)
    discard.add_argument("--reason", required=True, metavar="TEXT", help="why these records will not be corrected")
    discard.add_argument("--all", action="store_true", help="discard all remaining entries")


def _add_letters(command: argparse.ArgumentParser) -> None:
    """A dead-letter file, and which of its entries are meant: all, unless something is said."""
    command.add_argument("file", type=_letters_file, metavar="FILE", help="the dead-letter file: a path or URI")
    command.add_argument("--id", action="append", metavar="ID", help="only this entry; can be repeated")
    command.add_argument("--stage", metavar="STAGE", help="only entries of this stage")
    command.add_argument("--field", metavar="FIELD", help="only entries of this field")
    command.add_argument("--category", metavar="CATEGORY", help="only entries of this category")
