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
