"""`clinker completion`: scripts that complete commands and options in a shell, made from the parser itself."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from spark_jobs.contract import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

_BASH = """\
_clinker() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" words=""
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="{commands}" ;;
    esac
    [ "$COMP_CWORD" -eq 1 ] && words="{commands}"
    if [[ "$cur" == -* || "$COMP_CWORD" -eq 1 ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
    else
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}}
complete -o filenames -F _clinker clinker
"""


def main(shell: str, parser: argparse.ArgumentParser) -> int:
    """Print the script for a shell."""
    if shell == "fish":
        sys.stdout.write("".join(f"{line}\n" for line in _fish(parser)))
        return ExitCode.SUCCESS
    options = dict(_options(parser))
    cases = "\n".join(f'        {name}) words="{" ".join(words)}" ;;' for name, words in options.items())
    script = _BASH.format(cases=cases, commands=" ".join([*options, "--help", "--version"]))
    if shell == "zsh":
        script = "autoload -U +X bashcompinit && bashcompinit\n" + script
    sys.stdout.write(script)
    return ExitCode.SUCCESS


def _options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """Each command with its options and the commands below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                below = dict(_options(command))
                words = [text for one in command._actions for text in one.option_strings]
                inner = [word for words_below in below.values() for word in words_below]
                yield name, [*below, *dict.fromkeys([*words, *inner])]


def _fish(parser: argparse.ArgumentParser) -> Iterator[str]:
    """A line for each command, and for each option of each command; files are completed where an argument is one."""
    yield "complete -c clinker -n __fish_use_subcommand -f"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, command in action.choices.items():
                yield f"complete -c clinker -n __fish_use_subcommand -f -a {name} -d {_quoted(helps.get(name, ''))}"
                yield from _fish_options(name, command)


def _fish_options(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    seen = f"-n '__fish_seen_subcommand_from {name}'"
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below, inner in action.choices.items():
                yield f"complete -c clinker {seen} -f -a {below}"
                yield from _fish_options(f"{below}", inner)
            continue
        flags = [f"-l {text[2:]}" if text.startswith("--") else f"-s {text[1:]}" for text in action.option_strings]
        choices = f" -x -a {_quoted(' '.join(map(str, action.choices)))}" if action.choices else ""
        if flags:
            help_text = "" if action.help is argparse.SUPPRESS else action.help or ""
            yield f"complete -c clinker {seen} {' '.join(flags)}{choices} -d {_quoted(help_text)}"
        elif choices:
            yield f"complete -c clinker {seen}{choices}"


def _quoted(text: str) -> str:
    """A text in single quotes, as fish reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
