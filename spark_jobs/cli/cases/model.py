"""The model of case files."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Row = dict[str, Any]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Given(_Model):
    """The records of a source: rows of values, or a file or a text as the source's format has them."""

    rows: list[Row] | None = Field(default=None, description="The records, column by column.")
    file: str | None = Field(default=None, description="A file in the source's format, relative to the case file.")
    text: str | None = Field(default=None, description="The content of a file of the source, in its format.")


class Expected(_Model):
    """The records that are expected of an output or of a node."""

    rows: list[Row] = Field(description="The records, in order.")
    ordered: bool = Field(default=True, description="Whether the order of the records counts.")
    partial: bool = Field(default=False, description="Whether records may have more columns than the case lists.")


def _rows(value: Any) -> Any:
    """A list alone is the rows."""
    return {"rows": value} if isinstance(value, list) else value


Gives = Annotated[Given, BeforeValidator(_rows, json_schema_input_type=list[Row] | Given)]
Expects = Annotated[Expected, BeforeValidator(_rows, json_schema_input_type=list[Row] | Expected)]


class Case(_Model):
    """A test case: the records of its sources, and the expected results."""

    name: str = Field(description="What the case shows, as a sentence.")
    given: dict[str, Gives] = Field(
        default_factory=dict, description="The records of each source; a source that is not named has none."
    )
    expect: dict[str, Expects] = Field(
        default_factory=dict, description="The records of outputs, and of other nodes: `node`, or `route.branch`."
    )
    dead_letters: list[Row] = Field(
        default_factory=list,
        description="The records that fail, in order, by any of source, row, stage, field, value, category, detail "
        "(a part of it), and their columns.",
    )
    diagnostics: list[str] = Field(
        default_factory=list,
        description="The codes of errors and warnings that planning finds; errors all, warnings some.",
    )
    error: str | None = Field(default=None, description="Part of the message that ends the run, or its code.")
    vars: dict[str, Any] = Field(default_factory=dict, description="Values of the pipeline's variables (`$vars`).")
    channel: str | None = Field(default=None, description="A channel, by its name or its file.")
    env: str | None = Field(default=None, description="The active environment.")
    environment: dict[str, str] = Field(
        default_factory=dict, description="Environment variables, for `${NAME}` in the pipeline."
    )


class CaseFile(_Model):
    """A file of cases."""

    pipeline: str = Field(description="The pipeline, relative to this file.")
    cases: list[Case] = Field(min_length=1, description="The cases.")
