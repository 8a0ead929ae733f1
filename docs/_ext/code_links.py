"""Code in running text becomes a link to what it names: `sd.open(...)`, `LayoutArray`, `np.asarray`.

Only whole names are linked, with a call behind them or without. What has no page here or in an inventory stays code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.domains.python import ObjectEntry
from sphinx.transforms.post_transforms import SphinxPostTransform

_NAME = re.compile(r"([A-Za-z_][\w.]*)(\(.*\))?$", re.DOTALL)
_SHORT = {"sd": "strided", "np": "numpy", "xr": "xarray", "pd": "pandas", "da": "dask.array"}
_ROOTS = {"strided", "numpy", "xarray", "pandas", "dask", "jax", "torch"}
_UNLINKED = (nodes.reference, nodes.title, pending_xref)


class TypeLinks(SphinxPostTransform):
    """Takes words in types for what they are: `shape` and `dtype` are no attribute that happens to be called so."""

    default_priority = 5  # before references are resolved

    def run(self, **kwargs: Any) -> None:
        for link in self.document.findall(pending_xref):
            if link.get("reftype") == "class" and link["reftarget"].islower() and "." not in link["reftarget"]:
                for context in ("refspecific", "py:class", "py:module"):
                    link.attributes.pop(context, None)


class CodeLinks(SphinxPostTransform):
    """Wraps code in a reference; one that leads nowhere is code again."""

    default_priority = 6

    def run(self, **kwargs: Any) -> None:
        documented = self.env.domains["py"].data["objects"]
        for code in list(self.document.findall(nodes.literal)):
            target = target_of(code.astext(), documented)
            if target is None or _is_within(code, _UNLINKED):
                continue
            link = pending_xref("", refdomain="py", reftype="obj", reftarget=target, refdoc=self.env.docname)
            code.replace_self(link)
            link += code


def target_of(code: str, documented: Mapping[str, ObjectEntry]) -> str | None:
    """The full name of what code names, or None: a name from a library, or one of ours that begins with a class."""
    found = _NAME.match(code)
    if found is None or code == "None":
        return None
    first, dot, rest = found[1].partition(".")
    first = _SHORT.get(first, first)
    if dot and first in _ROOTS:
        return f"{first}.{rest}"
    if found[2] or len(first) == 1 or not first[0].isupper():
        return None
    ours = [name for name in documented if name.endswith(f".{found[1]}")]
    pages = {documented[name].docname for name in ours}
    return ours[0] if len(pages) == 1 else None if ours else found[1]


def _is_within(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def setup(app: Any) -> dict[str, bool]:
    app.add_post_transform(TypeLinks)
    app.add_post_transform(CodeLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
