"""A directive that puts a page of `strided.explore` into a page of the documentation.

    ```{explorer} f32[3,5]{1,0:T(2,2)}
    ```

The option `to` names another layout, which is shown beside the first.
"""

from __future__ import annotations

from html import escape
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives

import strided


class Explorer(Directive):
    """The page of one shape, in a frame: it needs nothing but itself."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {"to": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        page = strided.explore(self.arguments[0], to=self.options.get("to"))
        frame = (
            f'<iframe class="explorer" title="{escape(page.title)}" loading="lazy" '
            f'srcdoc="{escape(page.html, quote=True)}"></iframe>'
        )
        return [nodes.raw("", frame, format="html")]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("explorer", Explorer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
