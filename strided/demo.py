"""``strided demo``: a small tiled buffer, from scrambled bytes to the right numbers, on one screen.

The buffer is a 5 by 131 table of cosines, as in position embeddings, in a TPU's layout. Its padding holds remains of an
earlier buffer.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from strided.arrays.layout_array import LayoutArray
from strided.inspect.explain import explain
from strided.layout.sizes import sizes
from strided.pictures.picture import picture

SHAPE = "bf16[5,131]{1,0:T(8,128)(2,1)}"

# zlib, then base85.
_BUFFER = (
    "c-"
    "rmN`)?Fw6b9gd0=9y%+;3Wtauq5!L4lp~vIQ(qut1?ep;)=Jl$JtE@7>)QQB1@r7o$XDFoi@2YKR8W$j&+IN@9c{VnPHX8jLj|kst|1iC}y&{1@#Hlap"
    "t%v)^~#GvBTc9}l7u7j-IPmXI;_QDUE5(0a_W2)0{)^{w2>Y^9C2eY1|}D(rGMqfL594sxs(b>`t!-"
    "GFh(LJa%mf?NrD*x!6=fu&o6U6#1TQEa0z#NO0qt+ydE+qxlBmS78-QHUst5-YLVdZWzpB~72!x#-"
    "1jF0_{=%2k^!W=rjyrdv;BsgG*uhC#TZYjN+JM_L2kmOM1zjtFkJWArtxut#mVJ!hYUJu5=3m13^la<Az;I}p^`VR=!<VFJpyvX8H&8X*hAw~Nx%Zilb"
    "RXBx+38-WTt$SxXftA%ZvO_HQmq99y=bMkLu2G-g(Y%(9e1e=kIZ0x`X;!A1pxLwt#MeMZhus-"
    "nkiH(-VUAE}~_3W%W+-}KXnU6*=VZ<>**I}zYjAiz`WVwB`7+q{5^6gu<$>y{38e44*+Sevwl}6!8QXWD-TfzOdpcAiavJ4(FFbosqh?Z-"
    "U4X_!u#&RTPRcN#&SY)|@W9!V(4Ype}7>0!?K@Fd(k~${fb8a5@AIC<t;2G}h393J;@T-"
    "*JEh#}?S%tDhJ|^iryr(m9Qzv356PjTIxbJk%?N6z*OPuuQ;@dl%T9Z`UOetaN3$4tZXqQg)vOU4~ny#;Cu3isb&}{dRE@Gx9<R`r=|LAaZH^Cq)#3<X"
    "s{2LJFo0ZG_mRd84*von=M!C(yHXFy8W}wN=aHVFhdcyT>Z{XWzCj5oQt*f=zXuf+nOs|OZ+iIoO!~{Gm<h7VHonw{u6qB96Ne#D=*4NVbR6=j)I{i-"
    "Tf)jeieM5IjrJk2;?T*XAcuWp*aVWeF$J}k`FD+OhK6XnSN2LK@NjcM60S969L?(vfwv5GbnTm)2o!kZJtOeMsYw#n_O7H(W+|J3=v8yK3SPW5i>$BS!"
    "uX|^zl=tp+{-"
    "o72m1_L16=>Cs7{xcF<kWJWpFA9t*_{7048&uYjz_QrA#6ft)bef&XSu%*C5k;#gJ)$uhRI@>I|YA*`{04#XE`0bE+crJlAe#&l#fuvgX4H~oQ}~^x`l"
    "3{8|iwwmad_<(^YgOT~3$M8|V_cm@c9V=>j^R&ZBebIW*{5^mKX(olTFWv*=8EFx`*tMQ6}m=(`e%+!V+8O_JUZ(waI?e@TBzzfZqQ@26j)chE(2gdRi"
    "pq_4T5$Vu06cDhL~(``+y4TmDL6OJ=5V820Y>f<03X$u^uhbFzz+M0rfBCFJKs_9+yKKdYij6O-"
    "H=x^xDbQ}E#eTPo7q?ci>sh$>!^fSj9OlQ(r^jJEZo=i`tXVReO(7ALTolh6gg>(^JOqb9b=u*0zuAr;v?Q{)YOV`tlbQ9e|N9h<Hr#;%EecGpe+Q09l"
    "*P04NI%<2ZllhC<V%H_1N8OH0+F#9(^?Ek3S7+&Q?Z~A4Rqy`)L)<#j=%^jFz19B!**#BD"
)


def sample() -> bytes:
    """The raw buffer of `SHAPE`, 4096 bytes.

    >>> len(sample())
    4096
    """
    return zlib.decompress(base64.b85decode(_BUFFER))


def expected() -> npt.NDArray[Any]:
    """The values that the buffer holds: row k is ``cos(column * 100 ** (-k / 5))``, rounded to bfloat16."""
    rows, columns = np.arange(5)[:, None], np.arange(131)
    return np.cos(columns * 100.0 ** (-rows / 5)).astype(ml_dtypes.bfloat16)


def run() -> str:
    """The demo as text of at most 24 lines and 80 columns.

    >>> print(run().splitlines()[-1])
    Converted to {0,1} and back: 4096 -> 1310 -> 4096 bytes, the same values.
    """
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    buffer = sample()
    a = LayoutArray(buffer, SHAPE)
    padding = sizes(SHAPE).padding_share
    yield f"{len(buffer)} bytes, as a TPU holds {SHAPE}: {padding:.0%} of it is padding."
    yield "Read in the order of memory they look scrambled: two rows take turns,"
    yield "and the end of row 1 is followed by rows 2 and 3."
    values = np.frombuffer(buffer, ml_dtypes.bfloat16)
    yield f"  slots 0 to 7     {_row(values[:8])}"
    yield f"  slots 252 to 259 {_row(values[252:260])}"
    yield "The layout says where each element lies (rows 0 to 4, columns 0 to 130):"
    yield from ("  " + line for line in picture(SHAPE, width=64, max_rows=7).splitlines())
    place = explain(SHAPE, (3, 129))
    sums = " + ".join(f"{p.value}*{p.stride}" for p in place.parts if p.value)
    yield f"a[3, 129] = {a[3, 129]}: slot {place.offset} = {sums}, {place.place}"
    yield "Read by its layout:"
    yield f"  a[0, :8]         {_row(a[0, :8].to_numpy())}"
    yield f"  a[3, 125:]       {_row(a[3, 125:].to_numpy())}"
    right = a.to_numpy() == expected()
    yield f"{np.count_nonzero(right)} of {right.size} elements equal the cosines that NumPy computes."
    other = a.to_layout("{0,1}")
    back = other.to_layout(a.layout)
    same = "the same values" if np.array_equal(back.to_numpy(), expected()) else "NOT the same values"
    steps = " -> ".join(str(x.buffer.size) for x in (a, other, back))
    yield f"Converted to {other.layout} and back: {steps} bytes, {same}."


def _row(values: npt.NDArray[Any]) -> str:
    return " ".join(f"{float(v):6.3f}" for v in values)
