# SPDX-License-Identifier: Apache-2.0
"""Commands with options that netpipe-worker knows: their names, defaults and help are written there only."""

from __future__ import annotations

import click

from netpipe.failure import Failure

_ARGUMENTS = f"{__name__}.arguments"
_PROBLEM = f"{__name__}.problem"


class WorkerCommand(click.Command):
    """A command whose options are read from the worker when they are needed: not for `netpipe --help`. An option of its
    own takes the place of the worker's.
    """

    def worker_options(self) -> list[click.Option]:
        """Raises Failure where the worker cannot be asked."""
        raise NotImplementedError

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        known = super().get_params(ctx)
        key = f"{__name__}.{id(self)}"  # `meta` is shared with the contexts of other commands
        if key not in ctx.meta:
            taken = {option for parameter in known for option in parameter.opts}
            try:
                ctx.meta[key] = [
                    option for option in self.worker_options() if not taken.intersection(option.opts)
                ]
            except Failure as failure:
                if not (ctx.resilient_parsing or _asks_for_help(ctx)):
                    raise
                ctx.meta[_PROBLEM] = failure.sentence
                ctx.meta[key] = []
        front = [one for one in known if isinstance(one, click.Argument) or "--pattern" in one.opts]
        return [*front, *ctx.meta[key], *(one for one in known if one not in front)]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if problem := ctx.meta.get(_PROBLEM):
            formatter.write_paragraph()
            formatter.write_text(f"More options come from netpipe-worker, which cannot be asked: {problem}.")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


def _asks_for_help(ctx: click.Context) -> bool:
    return not set(ctx.help_option_names).isdisjoint(ctx.meta.get(_ARGUMENTS, ()))
