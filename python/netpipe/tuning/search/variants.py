# SPDX-License-Identifier: Apache-2.0
"""A variant as a start and changes to it: `tcp:sndbuf=8k` with {"quickack": "yes"} is `tcp:sndbuf=8k,quickack=yes`.

A change is an option of the module, or an environment variable of the library, which goes into the module's option for
that, `env`. Variables are told from options by their case: options are lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# the option of a module that takes NAME=VALUE;NAME=VALUE, with | for a comma and ! for a semicolon
VARIABLES = "env"


@dataclass(frozen=True)
class Changes:
    """What differs from the start, by name. None of them: the start itself."""

    items: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Changes:
        return cls(tuple(sorted(settings.items())))

    def merged(self, other: Changes) -> Changes:
        return Changes.of({**dict(self.items), **dict(other.items)})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.items)

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.items) or "the start"


START = Changes()


def is_variable(name: str) -> bool:
    """Is it an environment variable of the library, and no option of the module?"""
    return name[:1].isupper()


@dataclass(frozen=True)
class Start:
    """The variant that is tuned."""

    text: str  # as the user gave it
    module: str
    settings: Mapping[str, str]

    @classmethod
    def of(cls, text: str) -> Start:
        module, _, rest = text.partition(":")
        return cls(text, module, dict(one.partition("=")[::2] for one in rest.split(",") if one))

    def variant(self, changes: Changes) -> str:
        """The text of the variant with these changes; that of the start has none."""
        if not changes.items:
            return self.text
        options = {name: value for name, value in changes.items if not is_variable(name)}
        variables = {name: value for name, value in changes.items if is_variable(name)}
        settings = {**self.settings, **options}
        if variables:
            there = dict(one.partition("=")[::2] for one in settings.get(VARIABLES, "").split(";") if one)
            both = {
                **there,
                **{name: value.replace(",", "|").replace(";", "!") for name, value in variables.items()},
            }
            settings[VARIABLES] = ";".join(f"{name}={value}" for name, value in both.items())
        return f"{self.module}:{','.join(f'{name}={value}' for name, value in settings.items())}"
