"""Programs where every user may run them."""
import atexit
import os
import shutil
import tempfile


def copy_programs():
    """Root runs servers as another user, who may have no access to this directory, for example
    below /root."""
    built = os.path.dirname(os.path.abspath(os.environ.get("REST_LIT", "build/rest-lit")))
    above = [built[:i] for i in range(1, len(built) + 1) if built[i:i + 1] in ("/", "")]
    if os.geteuid() or all(os.stat(d).st_mode & 1 for d in above) or not os.path.exists(f"{built}/rest-lit"):
        return
    copies = tempfile.mkdtemp(prefix="rest-lit-programs.")
    atexit.register(shutil.rmtree, copies, ignore_errors=True)
    os.chmod(copies, 0o755)
    for program in ("rest-lit", "pai-runtime"):
        shutil.copy2(f"{built}/{program}", copies)
    os.environ["REST_LIT"] = f"{copies}/rest-lit"
