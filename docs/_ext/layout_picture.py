"""A directive that draws a layout with the package itself while the page is built.

    ```{layout-picture} f32[3,5]{1,0:T(2,2)}
    ```

Options: `rows`, `columns` (cells at most) and `memory` (slots of the buffer shown below; 0 for none). The directive
`notebook` shows the shape as a notebook does.
"""

from __future__ import annotations

import html
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives

from strided import parse_shape
from strided.inspect import svg


class LayoutPicture(Directive):
    """The picture of one shape under its text, as SVG inside the page, so that it takes the page's colours."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {
        "rows": directives.nonnegative_int,
        "columns": directives.nonnegative_int,
        "memory": directives.nonnegative_int,
    }

    def run(self) -> list[nodes.Node]:
        text = self.arguments[0]
        picture = svg(
            text,
            max_rows=self.options.get("rows", 12),
            max_columns=self.options.get("columns", 16),
            memory=self.options.get("memory", 32),
        )
        caption = f"<figcaption><code>{html.escape(text)}</code></figcaption>"
        return [nodes.raw("", f'<figure class="layout-picture">{caption}{picture}</figure>', format="html")]


class NotebookValue(Directive):
    """A shape as a notebook shows it, unfolded."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        card = (parse_shape(self.arguments[0])._repr_html_() or "").replace("<details>", "<details open>")
        return [nodes.raw("", f'<div class="notebook">{card}</div>', format="html")]


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("layout-picture", LayoutPicture)
    app.add_directive("notebook", NotebookValue)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
