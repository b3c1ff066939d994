"""Style sheets, scripts and a sample table, at addresses with a hash of their contents."""

import hashlib
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

router = APIRouter(include_in_schema=False)

#: Headers of a file that never changes at its address.
FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_FOLDER: Final = Path(__file__).parent / "static"
#: Table with which a new user can try the service.
SAMPLE: Final = Path(__file__).parents[1] / "operations" / "data" / "patients.csv"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FILES: Final = {
    file.name: file.read_bytes()
    for file in (*sorted(_FOLDER.iterdir()), SAMPLE)
    if file.suffix in _TYPES
}
#: One hash for all files, so that a script finds the scripts that it imports beside it.
VERSION: Final = hashlib.sha256(b"\0".join(_FILES.values())).hexdigest()[:16]


def address(name: str) -> str:
    """Return the address of an asset."""
    if name not in _FILES:
        raise KeyError(f"there is no asset '{name}'")
    return f"/assets/{VERSION}/{name}"


def _add_asset(name: str) -> None:
    media_type = _TYPES[Path(name).suffix]

    async def asset(request: Request) -> Response:
        del request
        return Response(_FILES[name], media_type=media_type, headers=FOREVER)

    router.get(address(name), name=f"asset {name}")(asset)


for _name in _FILES:
    _add_asset(_name)
